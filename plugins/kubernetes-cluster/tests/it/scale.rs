//! Scaling: workers join in parallel, and leave when the pods of VNF-B run elsewhere; the other nodes are not touched.

use crate::engine_side::Kill;
use crate::lab::{Lab, PASSWORD};
use crate::workload::b;
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::ErrorKind;
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

/// More calls than either hook makes.
const CALLS: usize = 120;
const TWO: [&str; 3] = ["m1", "w1", "w2"];
const FOUR: [&str; 5] = ["m1", "w1", "w2", "w3", "w4"];

#[tokio::test(flavor = "multi_thread")]
async fn new_workers_join_and_others_are_not_touched() {
    let (lab, _) = Lab::with_vnf_b().await;
    let uid = lab.cluster().uid();
    lab.boot_added().await;
    let before = lab.books.calls().len();
    let start = lab.scale("scale_start", json!({}), (2, 4)).await.unwrap();
    assert_eq!(start.message.as_deref(), Some("no node leaves the cluster"));
    assert_eq!(lab.books.calls().len(), before, "nothing was touched");
    let end = lab.scale("scale_end", json!({}), (2, 4)).await.unwrap();
    assert_eq!(
        end.message.as_deref(),
        Some("`w3`, `w4` joined the cluster")
    );
    assert!(end.register_vims.is_empty(), "the VIM stays as it is");
    lab.assert_scaled(&FOUR);
    assert_eq!(lab.cluster().uid(), uid);
    let touched = lab.books.calls().into_iter().skip(before);
    let mut on_others = touched.filter(|call| {
        call.call.starts_with("host.") && ["w1: ", "w2: "].iter().any(|w| call.subject.contains(w))
    });
    assert!(on_others.next().is_none());
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"], "no pod has moved");
    assert!(!lab.texts().contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_a_hook_changes_nothing() {
    let lab = Lab::with_four_workers().await;
    lab.scale("scale_end", json!({}), (2, 4)).await.unwrap();
    lab.assert_scaled(&FOUR);
    assert_eq!(lab.count("w3", "kubeadm join"), 1);
    for _ in 0..2 {
        lab.scale("scale_start", json!({}), (4, 2)).await.unwrap();
    }
    assert_eq!(lab.count("w3", "kubeadm reset"), 1);
    lab.assert_scaled(&TWO);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_leave_when_their_pods_run_elsewhere() {
    let lab = Lab::with_four_workers().await;
    let start = lab.scale("scale_start", json!({}), (4, 2)).await.unwrap();
    assert_eq!(
        start.message.as_deref(),
        Some("`w3`, `w4` left the cluster")
    );
    assert_eq!(
        lab.nodes_of_b(),
        ["w1", "w2"],
        "the hook waits for the pods"
    );
    lab.assert_scaled(&TWO);
    for worker in ["w3", "w4"] {
        assert_eq!(
            lab.count(worker, "kubeadm reset"),
            1,
            "before its server goes"
        );
        lab.hosts.destroy(&format!("server-{worker}")).await;
    }
    lab.scale("scale_end", json!({}), (4, 2)).await.unwrap();
    lab.assert_scaled(&TWO);
    let labels = lab
        .cluster()
        .object("/api/v1/namespaces/kube-system/configmaps/vnfm-node-labels");
    assert_eq!(
        labels.unwrap()["data"],
        json!({}),
        "there are no successors"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_can_leave_and_come_back() {
    let lab = Lab::new().await;
    lab.install().await.unwrap();
    for (hook, size) in [("scale_start", (2, 0)), ("scale_end", (2, 0))] {
        let request = lab.scale_request(hook, &json!({}), size);
        lab.run(request, None).await.unwrap().unwrap();
    }
    lab.assert_scaled(&["m1"]);
    lab.scale("scale_to_level_end", json!({}), (0, 2))
        .await
        .unwrap();
    lab.assert_scaled(&TWO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disruption_budget_blocks_and_is_named() {
    let lab = Lab::with_four_workers().await;
    lab.create_budget();
    let soon = json!({ "drain_timeout_seconds": 1 });
    let error = lab.scale("scale_start", soon, (4, 2)).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("drain-blocked", ErrorKind::Unavailable),
        "{error}"
    );
    for word in ["default/web-", "web-stays", "on_drain_timeout: force"] {
        assert!(error.to_string().contains(word), "no `{word}` in {error}");
    }
    lab.assert_scaled(&FOUR);
    assert_eq!(lab.nodes_of_b(), ["w3", "w4"], "nothing was taken");
    let force = json!({ "drain_timeout_seconds": 0, "on_drain_timeout": "force" });
    lab.scale("scale_start", force, (4, 2)).await.unwrap();
    lab.assert_scaled(&TWO);
}

/// VNF-B's pods need a node that goes.
async fn with_pods_bound_to_w3() -> Lab {
    let lab = Lab::with_four_workers().await;
    let label = json!({ "metadata": { "labels": { "example.com/disk": "fast" } } });
    assert!(lab.cluster().merge("/api/v1/nodes/w3", &label));
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let selector = json!({ "example.com/disk": "fast" });
    let wants = json!({ "spec": { "template": { "spec": { "nodeSelector": selector } } } });
    assert!(lab.cluster().merge(path, &wants));
    lab.wait_for_pods_of_b(2).await;
    lab
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_stay_if_pods_cannot_run_elsewhere() {
    let lab = with_pods_bound_to_w3().await;
    let soon = json!({ "drain_timeout_seconds": 1 });
    let error = lab.scale("scale_start", soon, (4, 2)).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("pods-pending", ErrorKind::Unavailable),
        "{error}"
    );
    assert!(error.to_string().contains("default/web-"), "{error}");
    lab.assert_scaled(&FOUR);
    lab.wait_for_pods_of_b(2).await;
    let force = json!({ "drain_timeout_seconds": 1, "on_drain_timeout": "force" });
    lab.scale("scale_start", force, (4, 2)).await.unwrap();
    lab.assert_scaled(&TWO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_without_a_shared_address_is_not_scaled() {
    let (lab, _) = Lab::with_vnf_b().await;
    let before = lab.books.calls().len();
    let mut out = lab.scale_request("scale_start", &json!({}), (2, 2));
    let mut scale = out.scale.take().unwrap();
    scale.vnfcs_to_add.insert("masterNode".into(), 1);
    out.scale = Some(scale);
    let mut into = lab.scale_request("scale_to_level_start", &json!({}), (2, 2));
    let mut scale = into.scale.take().unwrap();
    scale.vnfcs_to_remove = into.inventory.vnfc_resource_info.clone();
    into.scale = Some(scale);
    let mut three = lab.scale_request("scale_start", &json!({}), (2, 2));
    let mut scale = three.scale.take().unwrap();
    scale.vnfcs_to_add.insert("masterNode".into(), 2);
    three.scale = Some(scale);
    let reasons = [
        "even number",
        "a cluster needs one",
        "`control_plane_endpoint`",
    ];
    for (request, reason) in [out, into, three].into_iter().zip(reasons) {
        let error = lab.run(request, None).await.unwrap().unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            ("control-plane-scaling", ErrorKind::Refused)
        );
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(lab.books.calls().len(), before, "nothing was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_brings_workers_back_with_their_labels() {
    let lab = Lab::with_four_workers().await;
    let label = json!({ "metadata": { "labels": { "example.com/disk": "fast" } } });
    assert!(lab.cluster().merge("/api/v1/nodes/w3", &label));
    lab.scale("scale_start", json!({}), (4, 2)).await.unwrap();
    lab.assert_scaled(&TWO);
    for _ in 0..2 {
        lab.undo_scale("scale_start", (4, 2)).await.unwrap();
        lab.assert_scaled(&FOUR);
    }
    assert_eq!(
        lab.node("w3").unwrap()["metadata"]["labels"]["example.com/disk"],
        "fast"
    );
    assert_eq!(lab.count("w3", "kubeadm join"), 2, "at first, and back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_removes_workers_that_have_joined() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.boot_added().await;
    lab.undo_scale("scale_end", (2, 4)).await.unwrap();
    lab.assert_scaled(&TWO);
    lab.scale("scale_end", json!({}), (2, 4)).await.unwrap();
    for _ in 0..2 {
        lab.undo_scale("scale_end", (2, 4)).await.unwrap();
        lab.assert_scaled(&TWO);
    }
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_removed_servers_are_deleted_if_the_start_was_skipped() {
    let lab = Lab::with_four_workers().await;
    for worker in ["w3", "w4"] {
        lab.hosts.destroy(&format!("server-{worker}")).await;
    }
    lab.scale("scale_end", json!({}), (4, 2)).await.unwrap();
    lab.assert_scaled(&TWO);
    lab.wait_for_pods_of_b(2).await;
}

/// The host of `w3` loses power while it joins, and gets it back.
async fn cut_power_during_a_join(lab: &Lab) {
    let hang = |call: &str| Rule::new(call, Fault::Hang { hang: true });
    lab.faults.add(hang("host.exec").on("w3: kubeadm join"));
    // Never strikes, only counts: when the driver waits for the step, its start has returned.
    let waits = "w3: sudo -n -- sh -c 'sh /run/vnfm/vnfm-step wait join 20";
    lab.faults.add(hang("ssh.run").on(waits).nth(1, 0));
    let power = async {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        while lab.faults.rules().iter().any(|(_, seen)| *seen == 0) {
            pace.tick().await;
        }
        lab.hosts.power_off("server-w3");
        lab.hosts.power_on("server-w3").await.unwrap();
    };
    let scaling = lab.scale("scale_end", json!({}), (2, 4));
    let (result, ()) = futures::future::join(scaling, power).await;
    let error = result.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("join-lost", ErrorKind::Unavailable),
        "{error}"
    );
    assert!(error.to_string().contains("w3"), "{error}");
    assert!(lab.cluster().node_ready("w4"), "they join in parallel");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_lost_power_is_repeated() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.boot_added().await;
    cut_power_during_a_join(&lab).await;
    lab.scale("scale_end", json!({}), (2, 4)).await.unwrap();
    lab.assert_scaled(&FOUR);
    assert_eq!(["w3", "w4"].map(|w| lab.count(w, "kubeadm join")), [1, 1]);
    assert_eq!(["w3", "w4"].map(|w| lab.count(w, "kubeadm reset")), [1, 0]);
}

/// The kubelet has registered the node, which the cluster believes Ready for a while, but the join was not complete.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_joined_node_is_deleted_before_it_joins_again() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.boot_added().await;
    cut_power_during_a_join(&lab).await;
    lab.cluster().add_node("w3", &lab.address(4).to_string());
    lab.scale("scale_end", json!({}), (2, 4)).await.unwrap();
    lab.assert_scaled(&FOUR);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_joined_worker_can_be_removed() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.boot_added().await;
    cut_power_during_a_join(&lab).await;
    lab.undo_scale("scale_end", (2, 4)).await.unwrap();
    lab.assert_scaled(&TWO);
    assert_eq!(["w3", "w4"].map(|w| lab.count(w, "kubeadm reset")), [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_leads_to_the_same_end_state() {
    let befores = (1..CALLS).step_by(11).map(Kill::Before);
    let kills = befores.chain((6..CALLS).step_by(11).map(Kill::After));
    let killed = join_all_limited(8, kills.map(crash)).await;
    let reached = |n: usize| killed.iter().filter(|killed| killed[n]).count();
    assert!(reached(0) > 4 && reached(1) > 4, "{killed:?}");
    assert!(
        reached(0) < killed.len() && reached(1) < killed.len(),
        "more calls than {CALLS}"
    );
}

/// Kills the VNFM at one call of a scale-out and of a scale-in, and starts it again; returns whether each call was reached.
async fn crash(kill: Kill) -> [bool; 2] {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.boot_added().await;
    let mut reached = [false; 2];
    for (n, (hook, size)) in [("scale_end", (2, 4)), ("scale_start", (4, 2))]
        .into_iter()
        .enumerate()
    {
        let mut request = lab.scale_request(hook, &json!({}), size);
        request.dependents = vec![b()];
        let first = lab.run(request, Some(kill)).await;
        reached[n] = first.is_none();
        let result = match first {
            Some(result) => result,
            None => lab.scale(hook, json!({}), size).await,
        };
        result.unwrap_or_else(|e| panic!("`{hook}` after {kill:?}: {e}"));
        lab.assert_scaled(if n == 0 { &FOUR } else { &TWO });
        assert_eq!(lab.nodes_of_b().len(), 2, "killed at {kill:?}");
    }
    let joins = ["w1", "w3", "w4"].map(|worker| lab.count(worker, "kubeadm join"));
    assert_eq!(joins, [1, 1, 1], "killed at {kill:?}");
    reached
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_off_do_not_delay_a_scale_in() {
    let lab = Lab::with_four_workers().await;
    lab.hosts.power_off("server-w3");
    lab.scale("scale_start", json!({}), (4, 2)).await.unwrap();
    lab.assert_scaled(&TWO);
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"]);
    let undone = lab.undo_scale("scale_start", (4, 2)).await.unwrap();
    assert_eq!(
        undone.message.as_deref(),
        Some("`w4` joined the cluster again")
    );
    let messages: Value = json!(*lab.messages.lock().unwrap());
    assert!(
        messages
            .to_string()
            .contains("has left the cluster and does not respond")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_off_takes_pods_again_if_another_cannot_be_drained() {
    let lab = Lab::with_four_workers().await;
    lab.create_budget();
    lab.hosts.power_off("server-w3");
    let soon = json!({ "drain_timeout_seconds": 1 });
    let error = lab.scale("scale_start", soon, (4, 2)).await.unwrap_err();
    assert_eq!(error.name(), "drain-blocked", "{error}");
    lab.hosts.power_on("server-w3").await.unwrap();
    lab.wait_until_ready("w3").await;
    lab.wait_for_pods_of_b(2).await;
    lab.assert_scaled(&FOUR);
    let taints = lab.node("w3").unwrap()["spec"]["taints"].clone();
    assert!(!taints.to_string().contains("out-of-service"), "{taints}");
}

/// The VIM gives a new server any address of its network.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_whose_address_is_in_the_range_of_pods_does_not_join() {
    let (lab, _) = Lab::with_vnf_b().await;
    let mut request = lab.scale_request("scale_end", &json!({}), (2, 4));
    let mut vnfcs = json!(request.inventory.vnfc_resource_info);
    vnfcs[3]["vnfcCpInfo"][0]["cpProtocolInfo"][0]["ipOverEthernet"]["ipAddresses"][0]["addresses"] =
        json!(["10.244.3.3"]);
    request.inventory.vnfc_resource_info = serde_json::from_value(vnfcs).unwrap();
    let refused = lab.run(request, None).await.unwrap().unwrap_err();
    assert_eq!(refused.name(), "bad-parameters", "{refused}");
    for words in ["pod_cidr", "10.244.3.3"] {
        assert!(refused.to_string().contains(words), "{refused}");
    }
    lab.assert_scaled(&["m1", "w1", "w2"]);
}
