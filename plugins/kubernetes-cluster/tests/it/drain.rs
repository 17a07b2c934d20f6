//! Draining a worker: budgets, cordons, bare pods and what the request forces.

use crate::lab::Lab;
use serde_json::json;
use vnfm_core::ports::ErrorKind;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_kubelet_is_reset_before_its_pods_run_elsewhere() {
    let (lab, _) = Lab::with_vnf_b().await;
    assert!(lab.cluster().cut_node("w1", true));
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    let calls = lab.books.calls();
    let at = |call: &str, words: &str| {
        let is = |c: &&vnfm_sim::ledger::Call| c.call == call && c.subject.contains(words);
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
async fn a_disruption_budget_blocks_a_drain() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.create_budget();
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
    let text = error.to_string();
    for word in [
        "default/web-",
        "web-stays",
        "needs 2 healthy pods",
        "on_drain_timeout: force",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
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
async fn a_users_cordon_is_kept() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.create_budget();
    assert!(lab.cluster().merge(
        "/api/v1/nodes/w1",
        &json!({ "spec": { "unschedulable": true } })
    ));
    let soon = json!({ "drain_timeout_seconds": 0 });
    lab.heal("heal_start", soon, &["w1"]).await.unwrap_err();
    assert_eq!(lab.node("w1").unwrap()["spec"]["unschedulable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_drain_deletes_and_names_pods() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.create_budget();
    let force = json!({ "drain_timeout_seconds": 0, "on_drain_timeout": "force" });
    lab.heal("heal_start", force, &["w1"]).await.unwrap();
    let messages = lab.messages.lock().unwrap().join("\n");
    assert!(
        messages.contains("force-deleting") && messages.contains("default/web-"),
        "{messages}"
    );
    lab.healed(&lab.finish(&["w1"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_pod_is_deleted_only_on_request() {
    let (lab, _) = Lab::with_vnf_b().await;
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
            .object("/api/v1/namespaces/default/pods/bare")
            .is_some()
    );
    lab.heal("heal_start", json!({ "delete_bare_pods": true }), &["w1"])
        .await
        .unwrap();
    assert!(
        lab.cluster()
            .object("/api/v1/namespaces/default/pods/bare")
            .is_none()
    );
}
