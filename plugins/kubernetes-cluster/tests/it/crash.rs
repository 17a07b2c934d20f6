//! Kills the VNFM at every call that the driver makes; after a restart, the end state is the same.

use crate::engine_side::Kill;
use crate::lab::Lab;
use std::time::Duration;
use vnfm_core::ports::ErrorKind;
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

/// More calls than the driver makes.
const CALLS: usize = 120;

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_leads_to_the_same_end_state() {
    let befores = (1..CALLS).step_by(4).map(Kill::Before);
    let kills = befores.chain((2..CALLS).step_by(4).map(Kill::After));
    let killed = join_all_limited(8, kills.map(crash)).await;
    let reached = killed.iter().filter(|killed| **killed).count();
    assert!(reached > 15, "the driver was killed {reached} times only");
    assert!(
        reached < killed.len(),
        "the driver makes more calls than {CALLS}"
    );
}

/// Kills the VNFM at one call and starts it again; returns whether that call was reached.
async fn crash(kill: Kill) -> bool {
    let lab = Lab::new().await;
    let request = lab.request("instantiate_end", &lab.params());
    if let Some(result) = lab.run(request, Some(kill)).await {
        lab.check(&result.unwrap());
        return false;
    }
    let effects = lab
        .install()
        .await
        .unwrap_or_else(|e| panic!("after {kill:?}: {e}"));
    lab.check(&effects);
    let inits = lab.count("m1", "kubeadm init");
    let joins = ["w1", "w2"].map(|worker| lab.count(worker, "kubeadm join"));
    assert_eq!((inits, joins), (1, [1, 1]), "killed at {kill:?}");
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_step_is_found_and_awaited() {
    for (host, step) in [("m1", "init"), ("w1", "join")] {
        let lab = Lab::new().await;
        let slow = Fault::Delay { delay_ms: 3000 };
        lab.faults
            .add(Rule::new("host.exec", slow).on(format!("{host}: kubeadm {step}")));
        let killed = async {
            let begun =
                format!("{host}: sudo -n -- sh -c 'sh /run/vnfm/vnfm-step start inst-1 {step}");
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            while !lab
                .books
                .calls_named("ssh.run")
                .iter()
                .any(|call| call.subject.starts_with(&begun))
            {
                pace.tick().await;
            }
        };
        let request = lab.request("instantiate_end", &lab.params());
        tokio::select! {
            _ = lab.run(request, None) => panic!("`{step}` was not slow"),
            () = killed => {}
        }
        assert_eq!(
            lab.count(host, &format!("kubeadm {step}")),
            0,
            "it still runs"
        );
        let effects = lab.install().await.unwrap();
        lab.check(&effects);
        assert_eq!(lab.count(host, &format!("kubeadm {step}")), 1);
        let messages = lab.messages.lock().unwrap().join("\n");
        assert!(
            messages.contains(&format!("`{step}` is still running on `{host}`")),
            "{messages}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_loses_power_while_joining_joins_on_retry() {
    let lab = Lab::new().await;
    lab.faults
        .add(Rule::new("host.exec", Fault::Hang { hang: true }).on("w1: kubeadm join"));
    // Never strikes, only counts: when the driver waits for the step, its start has returned.
    let waits = "w1: sudo -n -- sh -c 'sh /run/vnfm/vnfm-step wait join 20";
    lab.faults.add(
        Rule::new("ssh.run", Fault::Hang { hang: true })
            .on(waits)
            .nth(1, 0),
    );
    let power = async {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        while lab.faults.rules().iter().any(|(_, seen)| *seen == 0) {
            pace.tick().await;
        }
        lab.hosts.power_off("server-w1");
        lab.hosts.power_on("server-w1").await.unwrap();
    };
    let (result, ()) = futures::future::join(lab.install(), power).await;
    let error = result.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("join-lost", ErrorKind::Unavailable),
        "{error}"
    );
    assert!(error.to_string().contains("w1"), "{error}");
    assert!(lab.cluster().node_ready("w2"), "the other join is not lost");
    lab.check(&lab.install().await.unwrap());
    assert_eq!(
        [
            lab.count("w1", "kubeadm join"),
            lab.count("w2", "kubeadm join")
        ],
        [1, 1]
    );
}
