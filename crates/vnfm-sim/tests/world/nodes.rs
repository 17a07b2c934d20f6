//! Nodes that are cordoned, lose their machine, are deleted; evictions and the budgets that refuse them.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_sim::World;

use crate::cluster::{client, refused, web, world};
use crate::support::until;

/// A cluster of two nodes and two web pods, one on each.
async fn two_nodes(world: &World) -> (Api<Pod>, Api<Node>) {
    let cluster = world.cluster().unwrap();
    cluster.add_node("second", "127.0.0.77");
    until("both nodes are ready", || async {
        cluster.node_ready("second").then_some(())
    })
    .await;
    let client = client(world).await;
    let mut web = web("web:1", 2);
    web["metadata"]["namespace"] = json!("default");
    cluster.apply(&web.to_string()).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    ready(&pods, 2).await;
    (pods, Api::all(client))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

fn node_of(pod: &Pod) -> &str {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

/// Waits until as many pods are Ready and none is on its way out; which.
async fn ready(pods: &Api<Pod>, wanted: usize) -> Vec<Pod> {
    until("the pods are ready", || async {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        let fine = |pod: &Pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
        (all.len() == wanted && all.iter().all(fine)).then_some(all)
    })
    .await
}

async fn taints(nodes: &Api<Node>, name: &str) -> BTreeSet<String> {
    let spec = nodes.get(name).await.unwrap().spec.unwrap_or_default();
    let taints = spec.taints.into_iter().flatten();
    taints
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}

fn budget(least: &Value) -> String {
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "minAvailable": least, "selector": { "matchLabels": { "app": "web" } } } })
    .to_string()
}

#[tokio::test]
async fn an_eviction_respects_the_disruption_budget() {
    let world = world().await;
    let (pods, _) = two_nodes(&world).await;
    let cluster = world.cluster().unwrap();
    cluster.apply(&budget(&json!("100%"))).unwrap();
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web";
    until("the budget is known", || async {
        let status = cluster.object(path)?["status"].clone();
        (status["desiredHealthy"] == 2 && status["disruptionsAllowed"] == 0).then_some(())
    })
    .await;
    let all = ready(&pods, 2).await;
    let name = all[0].name_any();
    let refusal = refused(
        pods.evict(&name, &EvictParams::default())
            .await
            .unwrap_err(),
    );
    assert_eq!((refusal.0, refusal.1.as_str()), (429, "TooManyRequests"));
    assert!(
        refusal
            .2
            .starts_with("Cannot evict pod as it would violate"),
        "{}",
        refusal.2
    );

    cluster.apply(&budget(&json!(1))).unwrap();
    // Written out: kube's own parameters misspell `deleteOptions`.
    let wrong = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name },
        "deleteOptions": { "preconditions": { "uid": "another" } } });
    let how = PostParams::default();
    let wrong = pods.create_subresource::<Value, Value>("eviction", &name, &how, &wrong);
    assert_eq!(refused(wrong.await.unwrap_err()).0, 409);
    pods.evict(&name, &EvictParams::default()).await.unwrap();
    let after = ready(&pods, 2).await;
    assert!(
        after.iter().all(|pod| pod.name_any() != name),
        "it was replaced"
    );
    assert!(
        after.iter().any(|pod| pod.uid() == all[1].uid()),
        "the other one stays"
    );
    assert_eq!(
        refused(
            pods.evict("none", &EvictParams::default())
                .await
                .unwrap_err()
        )
        .0,
        404
    );
    assert_eq!(cluster.evict("default", &after[0].name_any()), Ok(()));
    assert_eq!(world.ledger().violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_cordoned_node_keeps_its_pods_and_gets_no_new_ones() {
    let world = world().await;
    let (pods, nodes) = two_nodes(&world).await;
    nodes.cordon("second").await.unwrap();
    until("the taint is there", || async {
        taints(&nodes, "second")
            .await
            .contains("node.kubernetes.io/unschedulable:NoSchedule")
            .then_some(())
    })
    .await;
    let all = ready(&pods, 2).await;
    let moved = all.iter().find(|pod| node_of(pod) == "second").unwrap();
    pods.evict(&moved.name_any(), &EvictParams::default())
        .await
        .unwrap();
    let after = ready(&pods, 2).await;
    assert!(after.iter().all(|pod| node_of(pod) != "second"));
    // It joins again under its name: the cordon stays until somebody takes it back.
    world.cluster().unwrap().add_node("second", "127.0.0.78");
    assert!(!taints(&nodes, "second").await.is_empty());
    nodes.uncordon("second").await.unwrap();
    until("the taint is removed", || async {
        taints(&nodes, "second").await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_on_a_silent_node_terminates_once_the_node_is_out_of_service_or_deleted() {
    let world = world().await;
    let (pods, nodes) = two_nodes(&world).await;
    let cluster = world.cluster().unwrap();
    let lost = ready(&pods, 2)
        .await
        .into_iter()
        .find(|pod| node_of(pod) == "second")
        .unwrap();
    let name = lost.name_any();
    assert!(cluster.cut_node("second", true) && !cluster.cut_node("third", true));
    until("the node is silent and the pod lost", || async {
        let pod = pods.get(&name).await.unwrap();
        (!cluster.node_ready("second") && !is_ready(&pod)).then_some(())
    })
    .await;
    assert!(
        taints(&nodes, "second")
            .await
            .contains("node.kubernetes.io/unreachable:NoExecute")
    );
    pods.delete(&name, &DeleteParams::default()).await.unwrap();
    until("a replacement is ready", || async {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        (all.len() == 3 && all.iter().filter(|pod| is_ready(pod)).count() == 2).then_some(())
    })
    .await;
    let hanging = pods.get(&name).await.unwrap();
    assert!(hanging.metadata.deletion_timestamp.is_some());
    let taint = json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" }] } });
    nodes
        .patch("second", &PatchParams::default(), &Patch::Merge(&taint))
        .await
        .unwrap();
    ready(&pods, 2).await;
    assert!(pods.get_opt(&name).await.unwrap().is_none());

    // The node is deleted: what is still on it is collected.
    let alone = "/api/v1/namespaces/default/pods/alone";
    let body = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "alone", "namespace": "default" },
        "spec": { "nodeName": "second", "tolerations": [{ "operator": "Exists" }], "containers": [{ "name": "a", "image": "a" }] } });
    cluster.apply(&body.to_string()).unwrap();
    nodes
        .delete("second", &DeleteParams::default())
        .await
        .unwrap();
    until("the pod is collected", || async {
        cluster.object(alone).is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_reconnected_node_becomes_ready_again() {
    let world = world().await;
    let (pods, _) = two_nodes(&world).await;
    let cluster = world.cluster().unwrap();
    let before: BTreeSet<_> = ready(&pods, 2).await.iter().map(ResourceExt::uid).collect();
    cluster.set_served("127.0.0.77", false);
    until("the node is silent", || async {
        (!cluster.node_ready("second")).then_some(())
    })
    .await;
    cluster.set_served("127.0.0.77", true);
    let after: BTreeSet<_> = ready(&pods, 2).await.iter().map(ResourceExt::uid).collect();
    assert_eq!(before, after);
    assert!(cluster.node_ready("second") && cluster.serves("second"));
}
