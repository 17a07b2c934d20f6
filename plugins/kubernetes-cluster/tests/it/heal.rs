//! Healing: workers are drained and replaced, hosts that are off cause no delay, and the control plane
//! is not lost by accident.

use crate::engine_side::Kill;
use crate::lab::{Lab, NEW, PASSWORD};
use crate::workload::{B, b};
use serde_json::json;
use vnfm_core::ports::ErrorKind;
use vnfm_plugin_sdk::join_all_limited;

/// More calls than either hook makes.
const CALLS: usize = 90;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_drained_and_its_successor_joins() {
    let (lab, first) = Lab::with_vnf_b().await;
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"]);
    let uid = lab.cluster().uid();
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    assert!(lab.node("w1").is_none(), "the node left the cluster");
    assert_eq!(
        lab.count("w1", "kubeadm reset"),
        1,
        "before its server goes"
    );
    lab.wait_for_pods_of_b(2).await;
    assert_eq!(lab.nodes_of_b(), ["w2", "w2"]);

    let end = lab.finish(&["w1"]).await;
    lab.healed(&end);
    lab.wait_for_pods_of_b(2).await;
    assert_eq!(lab.cluster().uid(), uid);
    assert_eq!(
        [
            lab.count("w1", "kubeadm join"),
            lab.count("w2", "kubeadm join")
        ],
        [2, 1]
    );
    assert_eq!(lab.count("w2", "kubeadm reset"), 0);
    let messages = lab.texts();
    let bearer = first.register_vims[0].access_info["bearer_token"]
        .as_str()
        .unwrap()
        .to_owned();
    for secret in [PASSWORD, &bearer] {
        assert!(!messages.contains(secret), "a secret can be read");
    }
    assert!(messages.contains("is lost with the node"), "{messages}");
}

/// A label that a user gave a worker, and that VNF-B selects.
const DISK: (&str, &str) = ("example.com/disk", "fast");
const NOTE: &str = "/api/v1/namespaces/kube-system/configmaps/vnfm-node-labels";

impl Lab {
    async fn with_a_label() -> Self {
        let (lab, _) = Self::with_vnf_b().await;
        let labels = json!({ DISK.0: DISK.1, "node-role.kubernetes.io/worker": "" });
        for node in ["w1", "w2"] {
            let path = format!("/api/v1/nodes/{node}");
            assert!(
                lab.cluster()
                    .merge(&path, &json!({ "metadata": { "labels": labels } }))
            );
        }
        lab
    }

    fn assert_label_restored(&self, node: &str) {
        let labels = self.node(node).unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels[DISK.0], DISK.1, "{labels:#}");
        assert!(
            labels["node-role.kubernetes.io/worker"].is_null(),
            "not ours: {labels:#}"
        );
        let note = self.cluster().object(NOTE).unwrap();
        assert_eq!(note["data"], json!({}), "the note goes when it was of use");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_gets_its_predecessors_labels() {
    let lab = Lab::with_a_label().await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let wants =
        json!({ "spec": { "template": { "spec": { "nodeSelector": { DISK.0: DISK.1 } } } } });
    assert!(lab.cluster().merge(path, &wants));
    lab.wait_for_pods_of_b(2).await;
    lab.heal("heal_start", json!({}), &["w1", "w2"])
        .await
        .unwrap();
    let end = lab.finish(&["w1", "w2"]).await;
    lab.healed(&end);
    lab.wait_for_pods_of_b(2).await;
    lab.assert_label_restored("w1");
    lab.assert_label_restored("w2");
    assert!(
        lab.texts()
            .contains("restored labels of `w1`: `example.com/disk`")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_back_worker_gets_its_labels_back() {
    let lab = Lab::with_a_label().await;
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    assert!(lab.node("w1").is_none());
    lab.undo(&["w1"]).await.unwrap();
    lab.assert_label_restored("w1");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_either_hook_changes_nothing() {
    let (lab, _) = Lab::with_vnf_b().await;
    for _ in 0..2 {
        lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    }
    assert_eq!(lab.count("w1", "kubeadm reset"), 1);
    let end = lab.finish(&["w1"]).await;
    lab.healed(&end);
    let again = lab.heal("heal_end", json!({}), &["w1"]).await.unwrap();
    lab.healed(&again);
    assert_eq!(lab.count("w1", "kubeadm join"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_rejoins_nodes_that_have_left() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    for _ in 0..2 {
        lab.undo(&["w1"]).await.unwrap();
        assert!(lab.cluster().node_ready("w1"));
    }
    assert_eq!(
        [
            lab.count("w1", "kubeadm join"),
            lab.count("w2", "kubeadm join")
        ],
        [2, 1]
    );

    let request = lab.heal_request("heal_start", &json!({}), &["w1"]);
    let kills = (1..CALLS).step_by(5).map(Kill::After);
    for kill in kills {
        if lab.run(request.clone(), Some(kill)).await.is_some() {
            break;
        }
        lab.undo(&["w1"])
            .await
            .unwrap_or_else(|e| panic!("after {kill:?}: {e}"));
        assert!(lab.cluster().node_ready("w1"), "after {kill:?}");
        assert!(
            lab.node("w1").unwrap()["spec"]["unschedulable"].is_null(),
            "after {kill:?}"
        );
    }
    assert!(lab.node("w1").is_none());
    lab.hosts.power_off("server-w1");
    lab.undo(&["w1"]).await.unwrap();
    let messages = lab.messages.lock().unwrap().join("\n");
    assert!(
        messages.contains("has left the cluster and does not respond"),
        "{messages}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_are_cordoned_before_any_is_drained() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.heal("heal_start", json!({}), &["w1", "w2"])
        .await
        .unwrap();
    assert_eq!(
        lab.nodes_of_b(),
        [""; 0],
        "no pod went from one to the other"
    );
    let end = lab.finish(&["w1", "w2"]).await;
    lab.healed(&end);
    assert_eq!(lab.nodes_of_b().len(), 2, "heal_end waits for the pods");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_leads_to_the_same_end_state() {
    let befores = (1..CALLS).step_by(9).map(Kill::Before);
    let kills = befores.chain((5..CALLS).step_by(9).map(Kill::After));
    let killed = join_all_limited(8, kills.map(crash)).await;
    let [starts, ends] = [0, 1].map(|half| {
        killed
            .iter()
            .filter(|killed| [killed.0, killed.1][half])
            .count()
    });
    assert!(
        starts > 4 && ends > 6,
        "the driver was killed {starts} and {ends} times only"
    );
    assert!(
        ends < killed.len() && starts < killed.len(),
        "more calls than {CALLS}"
    );
}

/// Kills the VNFM at one call of each hook and starts it again; returns whether the call was reached in each.
async fn crash(kill: Kill) -> (bool, bool) {
    let (lab, _) = Lab::with_vnf_b().await;
    let mut reached = [false; 2];
    let mut end = None;
    for (half, hook) in ["heal_start", "heal_end"].into_iter().enumerate() {
        if half == 1 {
            lab.replace(&["w1"]).await;
        }
        let mut request = lab.heal_request(hook, &json!({}), &["w1"]);
        request.dependents = vec![b()];
        let first = lab.run(request, Some(kill)).await;
        reached[half] = first.is_none();
        let result = match first {
            Some(result) => result,
            None => lab.heal(hook, json!({}), &["w1"]).await,
        };
        end = Some(result.unwrap_or_else(|e| panic!("`{hook}` after {kill:?}: {e}")));
    }
    lab.healed(&end.unwrap());
    assert_eq!(lab.nodes_of_b().len(), 2, "killed at {kill:?}");
    assert_eq!(
        [
            lab.count("w1", "kubeadm join"),
            lab.count("w2", "kubeadm join")
        ],
        [2, 1]
    );
    (reached[0], reached[1])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_off_does_not_delay_the_heal() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.hosts.power_off("server-w1");
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    assert!(lab.node("w1").is_none());
    lab.wait_for_pods_of_b(2).await;
    assert_eq!(lab.nodes_of_b(), ["w2", "w2"]);
    let end = lab.finish(&["w1"]).await;
    lab.healed(&end);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_plane_is_lost_only_on_request() {
    let (lab, _) = Lab::with_vnf_b().await;
    let before = lab.books.calls().len();
    let error = lab
        .heal("heal_start", json!({}), &["m1"])
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("cluster-loss", ErrorKind::Refused),
        "{error}"
    );
    for word in ["`vnf-b`", B, "accept_cluster_loss: true"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    let whole_vnf = lab
        .heal("heal_start", json!({}), &["m1", "w1", "w2"])
        .await
        .unwrap_err();
    assert!(whole_vnf.to_string().contains("`vnf-b`"), "{whole_vnf}");
    // Without dependents, the whole VNF may be healed, but not the control plane alone.
    let alone = lab.heal_request("heal_start", &json!({}), &["m1"]);
    let error = lab.run(alone, None).await.unwrap().unwrap_err();
    assert_eq!(error.name(), "cluster-loss");
    let all = lab.heal_request("heal_start", &json!({}), &["m1", "w1", "w2"]);
    lab.run(all, None).await.unwrap().unwrap();
    assert_eq!(lab.books.calls().len(), before, "nothing was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_control_plane_is_reinstalled_under_the_same_name() {
    for healed in [&["m1"][..], &["m1", "w1", "w2"]] {
        let (lab, first) = Lab::with_vnf_b().await;
        let uid = lab.cluster().uid();
        let accept = json!({ "accept_cluster_loss": true });
        lab.heal("heal_start", accept.clone(), healed)
            .await
            .unwrap();
        lab.replace(healed).await;
        // The pods of VNF-B are lost with the cluster, so the hook does not wait for them.
        let end = lab.heal("heal_end", accept, healed).await.unwrap();
        lab.check(&end);
        assert_ne!(lab.cluster().uid(), uid);
        let [old, new] = [&first, &end].map(|effects| &effects.register_vims[0]);
        assert_eq!(old.name, new.name);
        assert_ne!(
            old.interface_info["ssl_ca_cert"],
            new.interface_info["ssl_ca_cert"]
        );
        let resets = ["w1", "w2"].map(|worker| lab.count(worker, "kubeadm reset"));
        let expected = if healed.len() == 1 { [1, 1] } else { [0, 0] };
        assert_eq!(
            resets, expected,
            "a worker that stays leaves the lost cluster first"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_with_another_address_joins() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    lab.hosts.destroy("server-w1").await;
    lab.boot_at(9, "w1").await;
    let mut request = lab.heal_request("heal_end", &json!({}), &["w1"]);
    let (old, new) = (lab.address(2).to_string(), lab.address(9).to_string());
    let text = serde_json::to_string(&request.inventory)
        .unwrap()
        .replace(&old, &new);
    request.inventory = serde_json::from_str(&text).unwrap();
    let end = lab.run(request, None).await.unwrap().unwrap();
    lab.healed(&end);
    let node = lab.node("w1").unwrap();
    assert_eq!(node["status"]["addresses"][0]["address"], new);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_not_healed_need_not_work() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    lab.hosts.power_off("server-w2");
    let end = lab.finish(&["w1"]).await;
    assert!(end.register_vims.is_empty());
    assert!(lab.cluster().node_ready("w1") && !lab.cluster().node_ready("w2"));
    assert!(
        lab.hosts
            .console_log(&format!("server-w1{NEW}"))
            .contains("HOST KEY")
    );
}
