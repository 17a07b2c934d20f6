//! The rotation of the cluster's CA. The simulated hosts report as a violation whatever would lock a node out.

use crate::engine_side::Kill;
use crate::lab::Lab;
use crate::shared_lab::{THREE, WORKERS};
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, PortError};
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

const CA: &str = "/etc/kubernetes/pki/ca.crt";
/// More calls than a rotation on three hosts makes.
const CALLS: usize = 180;

fn params() -> Value {
    json!({ "cluster_action": "rotate_ca" })
}

impl Lab {
    async fn rotate(&self) -> Result<Effects, PortError> {
        self.hook("operate_end", params()).await
    }

    async fn undo_rotation(&self) -> Result<Effects, PortError> {
        let mut request = self.hook_request("operate_end", &params());
        request.undo = true;
        self.run(request, None).await.unwrap()
    }

    /// Checks that these hosts trust the cluster's CA alone, and that nothing of the rotation is left.
    fn assert_rotated(&self, hosts: &[&str], old: &str) {
        let new = self.cluster().ca_pem();
        assert_ne!(new, old);
        for host in hosts {
            assert_eq!(self.text(host, CA), new, "{host}");
            let files = self.hosts.files(&format!("server-{host}"));
            let left = files
                .iter()
                .find(|path| path.contains("vnfm-ca/") || path.ends_with("new-ca"));
            assert_eq!(left, None, "{host}");
        }
        assert_eq!(self.books.violations(), [""; 0]);
    }

    fn fail_once(&self, program: &str) {
        let stderr = "no space left on device\n".into();
        let rule = Rule::new("host.exec", Fault::Exit { exit: 1, stderr });
        self.faults.add(rule.on(program).nth(1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_ca_replaces_the_old_one_and_nobody_is_locked_out() {
    let (lab, first) = Lab::with_vnf_b().await;
    let old = lab.cluster().ca_pem();
    let token = first.register_vims[0].access_info["bearer_token"]
        .as_str()
        .unwrap();
    let effects = lab.rotate().await.unwrap();
    lab.assert_rotated(&["m1", "w1", "w2"], &old);
    let vim = &effects.register_vims[0];
    assert_eq!(vim.name, first.register_vims[0].name);
    assert_eq!(vim.interface_info["ssl_ca_cert"], lab.cluster().ca_pem());
    assert_ne!(
        vim.extra["ssl_ca_cert_hash"],
        first.register_vims[0].extra["ssl_ca_cert_hash"]
    );
    assert_eq!(vim.access_info["bearer_token"], token, "tokens stay");
    assert!(
        lab.is_trusted(&old, token).await,
        "who knows the old CA alone is not interrupted"
    );
    assert!(lab.is_trusted(&lab.cluster().ca_pem(), token).await);
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"], "VNF-B runs where it ran");
    for host in ["m1", "w1", "w2"] {
        assert_eq!(lab.count(host, "sh /run/vnfm/vnfm-ca kubelet"), 1, "{host}");
    }
    // A new node trusts the new CA, and the next rotation replaces it again.
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    lab.finish(&["w1"]).await;
    assert_eq!(lab.text("w1-new", CA), lab.cluster().ca_pem());
}

#[tokio::test(flavor = "multi_thread")]
async fn three_control_planes_get_the_same_ca() {
    let (lab, _) = Lab::with_three().await;
    let old = lab.cluster().ca_pem();
    let mut all = lab.shared_params();
    all["cluster_action"] = json!("rotate_ca");
    let request = lab.shared_request("operate_end", &all, &lab.vnfcs(THREE, &[]));
    lab.run(request, None).await.unwrap().unwrap();
    lab.assert_rotated(&[THREE, WORKERS].concat(), &old);
    for host in THREE {
        assert_eq!(lab.count(host, "sh /run/vnfm/vnfm-ca sign"), 1, "{host}");
    }
    assert_eq!(lab.count("m1", "sh /run/vnfm/vnfm-ca create"), 1);
    assert_eq!(lab.count("m2", "sh /run/vnfm/vnfm-ca import"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_goes_on_after_a_crash() {
    let before = (1..CALLS).step_by(15).map(Kill::Before);
    let kills = before.chain((8..CALLS).step_by(15).map(Kill::After));
    let killed = join_all_limited(6, kills.map(crash)).await;
    let reached = killed.iter().filter(|killed| **killed).count();
    assert!(
        reached > 4 && reached < killed.len(),
        "killed {reached} times"
    );
}

/// Kills the VNFM at one call and starts it again; returns whether that call was reached.
async fn crash(kill: Kill) -> bool {
    let (lab, _) = Lab::with_vnf_b().await;
    let old = lab.cluster().ca_pem();
    let ended = lab
        .run(lab.hook_request("operate_end", &params()), Some(kill))
        .await;
    match &ended {
        Some(result) => drop(result.as_ref().unwrap_or_else(|error| panic!("{error}"))),
        None => drop(
            lab.rotate()
                .await
                .unwrap_or_else(|error| panic!("{kill:?}: {error}")),
        ),
    }
    lab.assert_rotated(&["m1", "w1", "w2"], &old);
    ended.is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_possible_until_the_new_ca_signs() {
    let (lab, _) = Lab::with_vnf_b().await;
    let old = lab.cluster().ca_pem();
    lab.fail_once("w2: sh /run/vnfm/vnfm-ca trust");
    let error = lab.rotate().await.unwrap_err();
    assert_eq!(error.name(), "ca-trust-failed", "{error}");
    lab.undo_rotation().await.unwrap();
    for host in ["m1", "w1", "w2"] {
        assert_eq!(lab.text(host, CA), old, "{host}");
    }
    lab.forget_checkpoints();

    lab.fail_once("w1: sh /run/vnfm/vnfm-ca kubelet");
    lab.rotate().await.unwrap_err();
    let refused = lab.undo_rotation().await.unwrap_err();
    assert_eq!(refused.name(), "rotation-irreversible");
    lab.rotate().await.unwrap();
    lab.assert_rotated(&["m1", "w1", "w2"], &old);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_needs_every_node() {
    let (lab, _) = Lab::with_vnf_b().await;
    let old = lab.cluster().ca_pem();
    lab.hosts.destroy("server-w2").await;
    let error = lab.rotate().await.unwrap_err();
    assert_eq!(error.name(), "node-silent", "{error}");
    assert_eq!(lab.count("m1", "sh /run/vnfm/vnfm-ca"), 0);
    assert_eq!(
        (lab.cluster().ca_pem(), lab.text("m1", CA)),
        (old.clone(), old)
    );
}
