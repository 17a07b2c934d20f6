//! Installation and healing follow the rules for hooks: trials of the test kit, on the lab's hosts.

use crate::lab::{Lab, PASSWORD};
use crate::shared_lab::{FIVE, THREE, last_byte};
use crate::software::wanted;
use crate::workload::b;
use kubernetes_cluster::KubernetesCluster;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use vnfm_core::ports::HookRequest;
use vnfm_plugin_sdk::Effects;
use vnfm_plugin_sdk::testkit::{TestHost, TestRequest, trial_each};

const PASSPHRASE: &str = "planted passphrase";

/// The labs that were created, to be inspected at the end.
type Labs = Arc<Mutex<Vec<Arc<Lab>>>>;

/// Creates a lab for each fault.
fn stage(labs: &Labs) -> (TestHost, TestRequest) {
    let lab = block_in_place(|| Handle::current().block_on(Lab::new()));
    let request = lab.request("instantiate_end", &lab.params());
    staged(labs, lab, &request)
}

fn staged(labs: &Labs, lab: Lab, request: &HookRequest) -> (TestHost, TestRequest) {
    let lab = Arc::new(lab);
    let host = lab.package.iter().fold(
        TestHost::with_world(lab.neighbours()),
        |host, (path, bytes)| host.file(path, bytes.clone()),
    );
    labs.lock().unwrap().push(lab);
    (host, TestRequest::recorded(json!(request)))
}

/// The end state to compare, in the lab whose cluster the effects name.
fn state(labs: &Labs, effects: &Effects) -> Value {
    let vim = &effects.register_vims[0];
    let is_it = |lab: &&Arc<Lab>| {
        vim.interface_info["endpoint"]
            .as_str()
            .unwrap()
            .contains(&lab.address(1).to_string())
    };
    let lab = labs.lock().unwrap().iter().find(is_it).cloned().unwrap();
    lab.check(&serde_json::from_value(json!(effects)).unwrap());
    let joins = ["w1", "w2"].map(|worker| lab.count(worker, "kubeadm join"));
    json!({"vim": vim.name, "inits": lab.count("m1", "kubeadm init"), "joins": joins})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_installation_passes_the_trial() {
    let labs = Labs::default();
    let (made, looked_at) = (labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || stage(&made))
        .compare_by(move |_, effects| state(&looked_at, effects))
        .secret(PASSWORD)
        .every_nth_call(4)
        .concurrency(4);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 30 && report.faults > 20, "{report:?}");
}

/// A cluster with VNF-B, whose `w1` is healed: before `heal_start`, or between the two hooks.
fn healing(labs: &Labs, hook: &str) -> (TestHost, TestRequest) {
    let lab = block_in_place(|| {
        Handle::current().block_on(async {
            let (lab, _) = Lab::with_vnf_b().await;
            if hook == "heal_end" {
                lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
                lab.replace(&["w1"]).await;
            }
            lab
        })
    });
    let mut request = lab.heal_request(hook, &json!({}), &["w1"]);
    request.dependents = vec![b()];
    staged(labs, lab, &request)
}

/// The lab of this test host, found by the addresses of its calls, which are unique to each lab.
fn lab_of(labs: &Labs, host: &TestHost) -> Arc<Lab> {
    let calls = host.calls();
    let labs = labs.lock().unwrap();
    let was_called = |lab: &&Arc<Lab>| {
        // The first three bytes are the lab's.
        let address = lab.address(1).to_string();
        let address = &address[..=address.rfind('.').unwrap()];
        calls
            .iter()
            .any(|(_, request)| request.to_string().contains(address))
    };
    // A host without calls belongs to the newest lab.
    labs.iter()
        .find(was_called)
        .or(labs.last())
        .cloned()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn heal_start_and_its_undo_pass_the_trial() {
    let labs = Labs::default();
    let (made, left, back) = (labs.clone(), labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || healing(&made, "heal_start"))
        .compare_by(move |host, _| {
            let lab = lab_of(&left, host);
            json!({"w1": lab.node("w1").is_some(), "w2": lab.cluster().node_ready("w2")})
        })
        .check_undo(move |host| {
            let lab = lab_of(&back, host);
            let cordoned = |node| lab.node(node).map(|node| node["spec"]["unschedulable"].clone());
            json!({"w1": cordoned("w1"), "w2": cordoned("w2"), "ready": lab.cluster().node_ready("w1")})
        })
        .secret(PASSWORD)
        .every_nth_call(12);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 12 && report.faults >= 10, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heal_end_passes_the_trial() {
    let labs = Labs::default();
    let (made, looked_at) = (labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || healing(&made, "heal_end"))
        .compare_by(move |host, effects| {
            let lab = lab_of(&looked_at, host);
            lab.healed(&serde_json::from_value(json!(effects)).unwrap());
            let joins = ["w1", "w2"].map(|worker| lab.count(worker, "kubeadm join"));
            json!({ "joins": joins })
        })
        .secret(PASSWORD)
        .every_nth_call(12);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 12 && report.faults >= 10, "{report:?}");
}

/// A cluster with VNF-B that is scaled: from two workers to four, or back.
fn scaling(labs: &Labs, hook: &str) -> (TestHost, TestRequest) {
    let (lab, size) = block_in_place(|| {
        Handle::current().block_on(async {
            if hook == "scale_start" {
                return (Lab::with_four_workers().await, (4, 2));
            }
            let (lab, _) = Lab::with_vnf_b().await;
            lab.boot_added().await;
            (lab, (2, 4))
        })
    });
    let mut request = lab.scale_request(hook, &json!({}), size);
    request.dependents = vec![b()];
    staged(labs, lab, &request)
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_start_and_its_undo_pass_the_trial() {
    let labs = Labs::default();
    let (made, left, back) = (labs.clone(), labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || scaling(&made, "scale_start"))
        .compare_by(move |host, _| {
            let lab = lab_of(&left, host);
            lab.assert_scaled(&["m1", "w1", "w2"]);
            json!({"nodes of VNF-B": lab.nodes_of_b()})
        })
        .check_undo(move |host| json!(lab_of(&back, host).usable_nodes()))
        .secret(PASSWORD)
        .every_nth_call(12);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 24 && report.faults >= 10, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_end_and_its_undo_pass_the_trial() {
    let labs = Labs::default();
    let (made, joined, back) = (labs.clone(), labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || scaling(&made, "scale_end"))
        .compare_by(move |host, _| {
            let lab = lab_of(&joined, host);
            lab.assert_scaled(&["m1", "w1", "w2", "w3", "w4"]);
            let joins = ["w1", "w3", "w4"].map(|worker| lab.count(worker, "kubeadm join"));
            json!({ "joins": joins })
        })
        .check_undo(move |host| json!(lab_of(&back, host).usable_nodes()))
        .secret(PASSWORD)
        .every_nth_call(12);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 24 && report.faults >= 10, "{report:?}");
}

/// A cluster with VNF-B, and a hook with these parameters on it.
fn acting(labs: &Labs, hook: &str, params: &Value) -> (TestHost, TestRequest) {
    let lab = block_in_place(|| Handle::current().block_on(Lab::with_archives()));
    let request = lab.hook_request(hook, params);
    staged(labs, lab, &request)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_passes_the_trial() {
    let labs = Labs::default();
    let (made, looked_at) = (labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || {
        acting(&made, "change_current_package_end", &json!({}))
    })
    .compare_by(move |host, effects| {
        let lab = lab_of(&looked_at, host);
        lab.assert_upgraded();
        json!({ "applied": lab.count("m1", "kubeadm upgrade apply"), "metadata": effects.metadata })
    })
    .secret(PASSWORD)
    .every_nth_call(24);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 24 && report.faults >= 5, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_passes_the_trial() {
    let labs = Labs::default();
    let (made, looked_at) = (labs.clone(), labs);
    let params = json!({ "cluster_action": "renew_certificates" });
    let trial = trial_each::<KubernetesCluster>(move || acting(&made, "operate_end", &params))
        .compare_by(move |host, effects| {
            let lab = lab_of(&looked_at, host);
            assert_eq!(lab.books.violations(), [""; 0]);
            json!(effects.metadata)
        })
        .secret(PASSWORD)
        .every_nth_call(8);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 16 && report.faults >= 5, "{report:?}");
}

/// The message of a check names the control-plane node if its certificates are not shown because it did not respond.
fn assert_certificates_are_shown(effects: &Effects) {
    if let Some(shown) = effects.metadata.get("certificateExpiry") {
        let message = effects.message.as_deref().unwrap_or_default();
        assert!(
            shown["m1"].is_object() || message.contains("`m1` did not respond"),
            "{shown}: {message}"
        );
    }
}

/// Runs the trial of a hook that needs no host of its own per fault to be told apart: its effects are compared, without
/// what differs from run to run.
async fn trial_of(
    setup: impl Fn(&Labs) -> (TestHost, TestRequest) + Send + Sync + 'static,
    nth_call: usize,
) -> vnfm_plugin_sdk::testkit::TrialReport {
    let labs = Labs::default();
    let (made, looked_at) = (labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || setup(&made))
        .compare_by(move |host, effects| {
            assert_eq!(lab_of(&looked_at, host).books.violations(), [""; 0]);
            let vims = effects.register_vims.iter().map(|vim| &vim.name);
            assert_certificates_are_shown(effects);
            let varies = ["etcdSnapshots", "etcdBackup", "clockOffsets", "certificateExpiry"];
            let metadata = effects.metadata.iter();
            let metadata = metadata.filter(|(key, _)| !varies.contains(&key.as_str()));
            let metadata: Vec<_> = metadata.collect();
            json!({ "vims": vims.collect::<Vec<_>>(), "gone": effects.unregister_vims, "metadata": metadata })
        })
        .secret(PASSWORD)
        .secret(PASSPHRASE)
        .every_nth_call(nth_call);
    trial.run_async().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_passes_the_trial() {
    let backup = json!({ "cluster_action": "backup", "etcd_passphrase": PASSPHRASE });
    let actions = [
        json!({ "cluster_action": "check" }),
        json!({ "cluster_action": "renew_login" }),
        json!({ "cluster_action": "apply_addons" }),
        json!({ "cluster_action": "rotate_ca" }),
        backup,
        json!({ "cluster_action": "upgrade", "kubernetes_version": "v1.37.0" }),
    ];
    for params in actions {
        let nth_call = match params["cluster_action"].as_str() {
            Some("upgrade" | "rotate_ca") => 40,
            _ => 8,
        };
        let what = params.clone();
        let report = trial_of(move |labs| acting(labs, "operate_end", &params), nth_call).await;
        assert!(report.calls > 3 && report.faults >= 2, "{what}: {report:?}");
    }
}

/// A cluster with agent 1.0 on its nodes, which are patched to 1.1.
fn patching(labs: &Labs) -> (TestHost, TestRequest) {
    let lab = block_in_place(|| Handle::current().block_on(Lab::with_agent()));
    let patch = json!({ "cluster_action": "patch_software" });
    let mut request = lab.patch_request(&wanted("1.1"), &patch);
    request.hook = "operate_end".to_owned();
    staged(labs, lab, &request)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_of_the_software_passes_the_trial() {
    let labs = Labs::default();
    let (made, looked_at) = (labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || patching(&made))
        .compare_by(move |host, _| {
            let lab = lab_of(&looked_at, host);
            assert_eq!(lab.books.violations(), [""; 0]);
            // The metadata leave out a host that did not respond at the end.
            json!({ "agents": lab.agents(), "nodes": lab.usable_nodes() })
        })
        .secret(PASSWORD)
        .every_nth_call(24);
    let report = trial.run_async().await.unwrap();
    assert!(report.calls > 24 && report.faults >= 5, "{report:?}");
}

/// A cluster of three control-plane nodes, one of which is healed: before `heal_start`, or between the two hooks.
fn healing_one_of_three(labs: &Labs, hook: &str) -> (TestHost, TestRequest) {
    let lab = block_in_place(|| {
        Handle::current().block_on(async {
            let (lab, _) = Lab::with_three().await;
            if hook == "heal_end" {
                lab.run_heal("heal_start", &["m3"]).await.unwrap();
                lab.replace_server("m3").await;
                lab.forget_checkpoints();
            }
            lab
        })
    });
    let request = lab.heal_three(hook, &["m3"]);
    staged(labs, lab, &request)
}

/// A cluster of three control-plane nodes that is scaled to five.
fn scaling_three(labs: &Labs, hook: &str) -> (TestHost, TestRequest) {
    let lab = block_in_place(|| {
        Handle::current().block_on(async {
            let (lab, _) = Lab::with_three().await;
            for name in ["m4", "m5"] {
                lab.boot((last_byte(name), name), name).await;
            }
            lab
        })
    });
    let request = lab.scale_control_planes(hook, (THREE, FIVE));
    staged(labs, lab, &request)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heal_and_a_scaling_of_three_control_planes_pass_the_trial() {
    for hook in ["heal_start", "heal_end"] {
        let report = trial_of(move |labs| healing_one_of_three(labs, hook), 40).await;
        assert!(
            report.calls > 16 && report.faults >= 3,
            "{hook}: {report:?}"
        );
    }
    let report = trial_of(|labs| scaling_three(labs, "scale_end"), 60).await;
    assert!(report.calls > 60 && report.faults >= 3, "{report:?}");
}

/// A cluster with a snapshot of etcd, which is restored.
fn restoring(labs: &Labs) -> (TestHost, TestRequest) {
    let (lab, snapshot) = block_in_place(|| {
        Handle::current().block_on(async {
            let (lab, _) = Lab::with_vnf_b().await;
            let params = json!({ "cluster_action": "backup", "etcd_passphrase": PASSPHRASE });
            let effects = lab.hook("operate_end", params).await.unwrap();
            lab.forget_checkpoints();
            let snapshots = effects.metadata["etcdSnapshots"]["m1"].as_object().unwrap();
            let name = snapshots.keys().next().unwrap().clone();
            (lab, name)
        })
    });
    let params = json!({ "cluster_action": "restore", "etcd_passphrase": PASSPHRASE, "etcd_snapshot": snapshot });
    let request = lab.hook_request("operate_end", &params);
    staged(labs, lab, &request)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_passes_the_trial() {
    let report = trial_of(restoring, 6).await;
    assert!(report.calls > 6 && report.faults >= 5, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hooks_that_only_check_pass_the_trial() {
    let upgrade = json!({ "cluster_action": "upgrade", "kubernetes_version": "v1.37.0" });
    let next = json!({ "kubernetes_version": "v1.37.0" });
    let hooks = [
        ("instantiate_start", json!({})),
        ("operate_start", upgrade),
        ("change_current_package_start", next),
        ("terminate_end", json!({})),
    ];
    for (hook, params) in hooks {
        let calls = trial_of(move |labs| acting(labs, hook, &params), 3)
            .await
            .calls;
        let least = usize::from(hook != "terminate_end");
        assert!(calls >= least, "{hook}: {calls}");
    }
}

/// The hooks of a scaling to a level are those of a scaling.
fn scaling_to_level(labs: &Labs, end: &str) -> (TestHost, TestRequest) {
    let (host, request) = scaling(labs, &format!("scale_{end}"));
    let mut json = request.json().clone();
    json["hook"] = json!(format!("scale_to_level_{end}"));
    (host, TestRequest::recorded(json))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scaling_to_a_level_passes_the_trial() {
    for end in ["start", "end"] {
        let report = trial_of(move |labs| scaling_to_level(labs, end), 24).await;
        assert!(report.calls > 24 && report.faults >= 5, "{end}: {report:?}");
    }
}
