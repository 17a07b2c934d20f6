//! Healing: workers leave and come again, budgets are honoured, a machine that is off keeps nobody waiting, and the
//! control plane is not lost by accident.

use crate::lab::{Kill, Lab, NEW, PASSWORD};
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::{Effects, ErrorKind, HookDependent, PortError};
use vnfm_plugin_sdk::join_all_limited;

/// More calls than either hook makes.
const CALLS: usize = 90;
const B: &str = "vnf-b-id";

impl Lab {
    /// A lab with a cluster, and on it a Deployment of VNF-B with a pod on each worker.
    pub(crate) async fn with_b() -> (Self, Effects) {
        let lab = Self::new().await;
        let effects = lab.install().await.unwrap();
        let labels = json!({ "app": "web", "vnfm.dev/instance": B });
        let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default", "labels": labels },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": {
                "metadata": { "labels": labels }, "spec": {
                    "containers": [{ "name": "web", "image": "localhost/web:1" }],
                    "volumes": [{ "name": "scratch", "emptyDir": {} }] } } } });
        lab.apply(&deployment);
        lab.b_runs(2).await;
        (lab, effects)
    }

    fn apply(&self, document: &Value) {
        self.cluster().apply(&document.to_string()).unwrap();
    }

    /// A budget that keeps both pods of VNF-B.
    fn budget(&self) {
        self.apply(
            &json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "web-stays", "namespace": "default" },
            "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } } }),
        );
    }

    /// The nodes of VNF-B's pods that are Ready.
    pub(crate) fn nodes_of_b(&self) -> Vec<String> {
        let pods = self
            .cluster()
            .get_json("/api/v1/namespaces/default/pods")
            .unwrap();
        let ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["metadata"]["labels"]["app"] == "web"
                && conditions
                    .into_iter()
                    .any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let ready = pods["items"].as_array().unwrap().iter().filter(ready);
        let mut nodes: Vec<_> = ready
            .map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned())
            .collect();
        nodes.sort();
        nodes
    }

    async fn b_runs(&self, pods: usize) {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        let all = async {
            while self.nodes_of_b().len() < pods {
                pace.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all)
            .await
            .expect("the pods run");
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.cluster().get_json(&format!("/api/v1/nodes/{name}"))
    }

    /// Runs one of the hooks of a heal of these servers.
    pub(crate) async fn heal(
        &self,
        hook: &str,
        params: Value,
        names: &[&str],
    ) -> Result<Effects, PortError> {
        let mut request = self.heal_request(hook, &params, names);
        request.dependents = vec![b()];
        self.run(request, None).await.unwrap()
    }

    /// Runs the opposite of `heal_start`.
    async fn undo(&self, names: &[&str]) -> Result<Effects, PortError> {
        let mut request = self.heal_request("heal_start", &json!({}), names);
        request.undo = true;
        self.run(request, None).await.unwrap()
    }

    /// The other hook, its server replaced between them.
    async fn finish(&self, names: &[&str]) -> Effects {
        self.replace(names).await;
        self.heal("heal_end", json!({}), names).await.unwrap()
    }

    /// The cluster is whole, nothing happened that must not, and nobody else can join.
    pub(crate) fn healed(&self, end: &Effects) {
        self.whole(end);
        let secrets = self
            .cluster()
            .get_json("/api/v1/namespaces/kube-system/secrets")
            .unwrap();
        assert!(
            !secrets.to_string().contains("bootstrap-token-"),
            "a bootstrap token is left"
        );
    }

    /// The cluster is whole, and nothing happened that must not.
    fn whole(&self, end: &Effects) {
        for node in ["m1", "w1", "w2"] {
            assert!(self.cluster().node_ready(node), "{node} is not ready");
            assert!(
                self.node(node).unwrap()["spec"]["unschedulable"].is_null(),
                "{node}"
            );
        }
        assert!(end.register_vims.is_empty(), "the VIM stays as it is");
        assert!(
            self.books.violations().is_empty(),
            "{:?}",
            self.books.violations()
        );
    }
}

pub(crate) fn b() -> HookDependent {
    HookDependent {
        id: B.into(),
        vnf_instance_name: Some("vnf-b".into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gives_its_pods_away_and_its_successor_joins() {
    let (lab, first) = Lab::with_b().await;
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"]);
    let uid = lab.cluster().uid();
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    assert!(lab.node("w1").is_none(), "the node left the cluster");
    assert_eq!(
        lab.count("w1", "kubeadm reset"),
        1,
        "before its server goes"
    );
    lab.b_runs(2).await;
    assert_eq!(lab.nodes_of_b(), ["w2", "w2"]);

    let end = lab.finish(&["w1"]).await;
    lab.healed(&end);
    lab.b_runs(2).await;
    assert_eq!(lab.cluster().uid(), uid);
    assert_eq!(
        [
            lab.count("w1", "kubeadm join"),
            lab.count("w2", "kubeadm join")
        ],
        [2, 1]
    );
    assert_eq!(lab.count("w2", "kubeadm reset"), 0);
    let told = lab.texts();
    let bearer = first.register_vims[0].access_info["bearer_token"]
        .as_str()
        .unwrap()
        .to_owned();
    for secret in [PASSWORD, &bearer] {
        assert!(!told.contains(secret), "a secret can be read");
    }
    assert!(told.contains("in an emptyDir goes with the node"), "{told}");
}

/// What somebody gave a worker, and VNF-B asks for.
const DISK: (&str, &str) = ("example.com/disk", "fast");
const NOTE: &str = "/api/v1/namespaces/kube-system/configmaps/vnfm-node-labels";

impl Lab {
    async fn with_a_label() -> Self {
        let (lab, _) = Self::with_b().await;
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

    fn has_its_label(&self, node: &str) {
        let labels = self.node(node).unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels[DISK.0], DISK.1, "{labels:#}");
        assert!(
            labels["node-role.kubernetes.io/worker"].is_null(),
            "not ours: {labels:#}"
        );
        let note = self.cluster().get_json(NOTE).unwrap();
        assert_eq!(note["data"], json!({}), "the note goes when it was of use");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_gets_the_labels_that_somebody_gave_its_predecessor() {
    let lab = Lab::with_a_label().await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let wants =
        json!({ "spec": { "template": { "spec": { "nodeSelector": { DISK.0: DISK.1 } } } } });
    assert!(lab.cluster().merge(path, &wants));
    lab.b_runs(2).await;
    lab.heal("heal_start", json!({}), &["w1", "w2"])
        .await
        .unwrap();
    let end = lab.finish(&["w1", "w2"]).await;
    lab.healed(&end);
    lab.b_runs(2).await;
    lab.has_its_label("w1");
    lab.has_its_label("w2");
    assert!(
        lab.texts()
            .contains("`w1` gets its labels back: `example.com/disk`")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_comes_back_after_a_rollback_has_its_labels() {
    let lab = Lab::with_a_label().await;
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    assert!(lab.node("w1").is_none());
    lab.undo(&["w1"]).await.unwrap();
    lab.has_its_label("w1");
}

#[tokio::test(flavor = "multi_thread")]
async fn doing_either_half_again_changes_nothing() {
    let (lab, _) = Lab::with_b().await;
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
async fn a_rollback_brings_back_what_has_left() {
    let (lab, _) = Lab::with_b().await;
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
    let places = (1..CALLS).step_by(5).map(Kill::After);
    for kill in places {
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
    let told = lab.told.lock().unwrap().join("\n");
    assert!(
        told.contains("has left the cluster and does not answer"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_at_once_are_cordoned_before_one_is_drained() {
    let (lab, _) = Lab::with_b().await;
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
async fn a_crash_anywhere_leads_to_the_same_end() {
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

/// Kills the VNFM at one place in each hook and starts it again; whether it got there.
async fn crash(kill: Kill) -> (bool, bool) {
    let (lab, _) = Lab::with_b().await;
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
async fn a_worker_that_is_off_keeps_nobody_waiting() {
    let (lab, _) = Lab::with_b().await;
    lab.hosts.power_off("server-w1");
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    assert!(lab.node("w1").is_none());
    lab.b_runs(2).await;
    assert_eq!(lab.nodes_of_b(), ["w2", "w2"]);
    let end = lab.finish(&["w1"]).await;
    lab.healed(&end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_kubelet_is_emptied_before_its_pods_run_elsewhere() {
    let (lab, _) = Lab::with_b().await;
    assert!(lab.cluster().cut_node("w1", true));
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    let calls = lab.books.calls();
    let at = |call: &str, words: &str| {
        let is = |c: &&vnfm_sim::books::Call| c.call == call && c.subject.contains(words);
        calls
            .iter()
            .find(is)
            .unwrap_or_else(|| panic!("no {call} of {words}"))
            .n
    };
    let reset = at("host.exec", "w1: kubeadm reset");
    let tainted = calls
        .iter()
        .find(|c| c.call.contains("patch") && c.subject.contains("w1"));
    assert!(reset < tainted.unwrap().n, "{tainted:?}");
    let end = lab.finish(&["w1"]).await;
    lab.healed(&end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_keeps_a_node_from_being_drained_until_it_is_gone() {
    let (lab, _) = Lab::with_b().await;
    lab.budget();
    let soon = json!({ "drain_timeout_seconds": 1 });
    let error = lab
        .heal("heal_start", soon.clone(), &["w1"])
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("drain-blocked", ErrorKind::Unavailable),
        "{error}"
    );
    let shown = error.to_string();
    for word in [
        "default/web-",
        "web-stays",
        "needs 2 healthy pods",
        "on_drain_timeout: force",
    ] {
        assert!(shown.contains(word), "no `{word}` in {shown}");
    }
    assert!(
        lab.node("w1").unwrap()["spec"]["unschedulable"].is_null(),
        "it takes pods again"
    );
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"], "nothing was taken");
    assert_eq!(lab.count("w1", "kubeadm reset"), 0);

    assert!(
        lab.cluster()
            .delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web-stays")
    );
    lab.heal("heal_start", soon, &["w1"]).await.unwrap();
    assert!(lab.node("w1").is_none());
    lab.healed(&lab.finish(&["w1"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_cordon_stays() {
    let (lab, _) = Lab::with_b().await;
    lab.budget();
    assert!(lab.cluster().merge(
        "/api/v1/nodes/w1",
        &json!({ "spec": { "unschedulable": true } })
    ));
    let soon = json!({ "drain_timeout_seconds": 0 });
    lab.heal("heal_start", soon, &["w1"]).await.unwrap_err();
    assert_eq!(lab.node("w1").unwrap()["spec"]["unschedulable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_request_forces_is_deleted_and_named() {
    let (lab, _) = Lab::with_b().await;
    lab.budget();
    let force = json!({ "drain_timeout_seconds": 0, "on_drain_timeout": "force" });
    lab.heal("heal_start", force, &["w1"]).await.unwrap();
    let told = lab.told.lock().unwrap().join("\n");
    assert!(
        told.contains("deleting by force") && told.contains("default/web-"),
        "{told}"
    );
    lab.healed(&lab.finish(&["w1"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_nothing_makes_again_is_not_lost_unasked() {
    let (lab, _) = Lab::with_b().await;
    lab.apply(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "bare", "namespace": "default" },
        "spec": { "nodeName": "w1", "containers": [{ "name": "c", "image": "localhost/web:1" }] } }));
    let error = lab
        .heal("heal_start", json!({}), &["w1"])
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("bare-pods", ErrorKind::Refused),
        "{error}"
    );
    assert!(error.to_string().contains("`default/bare`"), "{error}");
    assert!(
        lab.cluster()
            .get_json("/api/v1/namespaces/default/pods/bare")
            .is_some()
    );
    lab.heal("heal_start", json!({ "delete_bare_pods": true }), &["w1"])
        .await
        .unwrap();
    assert!(
        lab.cluster()
            .get_json("/api/v1/namespaces/default/pods/bare")
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_plane_is_not_lost_unasked() {
    let (lab, _) = Lab::with_b().await;
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
    let whole = lab
        .heal("heal_start", json!({}), &["m1", "w1", "w2"])
        .await
        .unwrap_err();
    assert!(whole.to_string().contains("`vnf-b`"), "{whole}");
    // With nobody on it the whole VNF may be healed, and the control plane alone may not.
    let alone = lab.heal_request("heal_start", &json!({}), &["m1"]);
    let error = lab.run(alone, None).await.unwrap().unwrap_err();
    assert_eq!(error.name(), "cluster-loss");
    let all = lab.heal_request("heal_start", &json!({}), &["m1", "w1", "w2"]);
    lab.run(all, None).await.unwrap().unwrap();
    assert_eq!(lab.books.calls().len(), before, "nothing was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_control_plane_is_installed_anew_under_the_same_name() {
    for healed in [&["m1"][..], &["m1", "w1", "w2"]] {
        let (lab, first) = Lab::with_b().await;
        let uid = lab.cluster().uid();
        let accept = json!({ "accept_cluster_loss": true });
        lab.heal("heal_start", accept.clone(), healed)
            .await
            .unwrap();
        lab.replace(healed).await;
        // The pods of VNF-B are gone with the cluster: nobody waits for them.
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
async fn a_successor_at_another_address_joins_too() {
    let (lab, _) = Lab::with_b().await;
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
async fn a_worker_that_stays_need_not_work() {
    let (lab, _) = Lab::with_b().await;
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
