//! A control plane grows from three nodes to five and shrinks again, never to an even number.

use crate::engine_side::Kill;
use crate::lab::Lab;
use crate::shared_lab::{FIVE, THREE, last_byte};
use vnfm_core::ports::ErrorKind;
use vnfm_plugin_sdk::join_all_limited;

/// More calls than any of the hooks makes.
const CALLS: usize = 320;

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_scales_from_three_to_five_and_back() {
    let (lab, _) = Lab::with_three().await;
    for name in ["m4", "m5"] {
        lab.boot((last_byte(name), name), name).await;
    }
    lab.run_scale("scale_start", (THREE, FIVE)).await.unwrap();
    let end = lab.run_scale("scale_end", (THREE, FIVE)).await.unwrap();
    assert_eq!(
        end.message.as_deref(),
        Some("`m4`, `m5` joined the cluster")
    );
    lab.assert_control_planes(FIVE);
    assert_eq!(lab.members("m1"), *FIVE);
    for host in FIVE {
        let haproxy = lab.text(host, "/etc/haproxy/haproxy.cfg");
        assert!(
            haproxy.contains("server m5 "),
            "`{host}` forwards to it: {haproxy}"
        );
    }
    lab.run_scale("scale_start", (FIVE, THREE)).await.unwrap();
    for name in ["m4", "m5"] {
        assert_eq!(lab.count(name, "kubeadm reset"), 1);
        lab.hosts.destroy(&format!("server-{name}")).await;
    }
    lab.run_scale("scale_end", (FIVE, THREE)).await.unwrap();
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m3"), *THREE);
    let haproxy = lab.text("m1", "/etc/haproxy/haproxy.cfg");
    assert!(!haproxy.contains("server m5 "), "{haproxy}");
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"], "no pod has moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_of_a_scaling_leads_to_the_same_end_state() {
    let kills = (5..CALLS).step_by(34).map(Kill::Before);
    let kills = kills.chain((22..CALLS).step_by(34).map(Kill::After));
    let killed = join_all_limited(4, kills.map(crash_of_scaling)).await;
    let all: usize = killed.iter().sum();
    assert!(all > 8, "{killed:?}");
    assert!(killed.contains(&0), "more calls than {CALLS}");
}

/// Scales from three to five and back, killed at one call of each hook; how many of the hooks made that call.
async fn crash_of_scaling(kill: Kill) -> usize {
    let (lab, _) = Lab::with_three().await;
    for name in ["m4", "m5"] {
        lab.boot((last_byte(name), name), name).await;
    }
    let mut reached = 0;
    for sizes in [(THREE, FIVE), (FIVE, THREE)] {
        for hook in ["scale_start", "scale_end"] {
            let request = lab.scale_control_planes(hook, sizes);
            let first = lab.run(request, Some(kill)).await;
            reached += usize::from(first.is_none());
            let result = match first {
                Some(result) => result,
                None => lab.run_scale(hook, sizes).await,
            };
            result.unwrap_or_else(|error| panic!("`{hook}` after {kill:?}: {error}"));
            if (hook, sizes.1) == ("scale_start", THREE) {
                for name in ["m4", "m5"] {
                    lab.hosts.destroy(&format!("server-{name}")).await;
                }
            }
        }
        lab.forget_checkpoints();
        lab.assert_control_planes(sizes.1);
        assert_eq!(lab.members("m1"), *sizes.1, "after {kill:?}");
    }
    reached
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_never_has_an_even_number_of_nodes() {
    let (lab, _) = Lab::with_three().await;
    let before = lab.books.calls().len();
    for sizes in [(THREE, &FIVE[..4]), (THREE, &THREE[..2])] {
        let error = lab.run_scale("scale_start", sizes).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            ("control-plane-scaling", ErrorKind::Refused),
            "{error}"
        );
        assert!(error.to_string().contains("1, 3 or 5"), "{error}");
    }
    assert_eq!(lab.books.calls().len(), before, "nothing was touched");
}
