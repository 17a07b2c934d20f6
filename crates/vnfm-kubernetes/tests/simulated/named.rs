//! Each problem is reported with its object and reason, and the same call succeeds once the cause is fixed. Problems that
//! a real API server can produce are tested against one.

use crate::faults::faulty_cluster;
use crate::heal::{Repair, ids, repair};
use crate::support::{CONFIG, World, deployment, package};
use serde_json::{Value, json};
use vnfm_core::ports::{Allocation, Convergence, ErrorKind, InfraDriver as _, PortError};
use vnfm_sim::faults::{Fault, Rule};

async fn allocate(world: &World, what: &Allocation, seconds: i64) -> Result<(), PortError> {
    let prepared = json!({"namespace": world.namespace()});
    world
        .driver
        .converge(&world.cx(seconds), &Convergence::create(what), &prepared)
        .await
        .map(drop)
}

/// Asserts that the instance can now be instantiated and terminated without leftovers.
async fn works_again(world: &World, what: &Allocation) {
    let created = world.instantiate(what, 20).await.unwrap();
    world.terminate(what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_expired_login_is_waited_for_or_reported() {
    let (world, cluster, faults) = faulty_cluster().await;
    let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
    faults.add(Rule::new("kubernetes.apply", Fault::Status { status: 401 }).on("configmaps"));
    let refused = allocate(&world, &what, 20).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.login-refused", ErrorKind::Refused)
    );
    assert_eq!(
        refused.resource(),
        Some(format!("ConfigMap `page` in namespace `{}`", world.namespace()).as_str())
    );
    assert!(
        refused.next().contains("vnfmctl vim update"),
        "{}",
        refused.next()
    );
    // During a wait it is reported, and a new credential lets the wait continue.
    faults.add(
        Rule::new("kubernetes.list", Fault::Status { status: 401 })
            .on("deployments")
            .nth(1, 2),
    );
    let cx = world.cx(20);
    let prepared = json!({"namespace": world.namespace()});
    let change = Convergence::create(&what);
    let (created, ()) = tokio::join!(
        world.driver.converge(&cx, &change, &prepared),
        world
            .seen
            .wait_for("refuses the login; `vnfmctl vim update cluster`")
    );
    created.unwrap();
    assert!(
        cluster
            .object(&format!(
                "/api/v1/namespaces/{}/configmaps/page",
                world.namespace()
            ))
            .is_some()
    );
    works_again(&world, &what).await;
}

#[tokio::test]
async fn a_missing_permission_is_reported_with_the_object() {
    let (world, _, faults) = faulty_cluster().await;
    let what = package(&[(1, CONFIG)], "", json!({}));
    faults.add(Rule::new("kubernetes.apply", Fault::Status { status: 403 }).on("configmaps"));
    let refused = allocate(&world, &what, 20).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.forbidden", ErrorKind::Refused)
    );
    assert!(
        refused.to_string().contains("ConfigMap `page`"),
        "{refused}"
    );
    works_again(&world, &what).await;
}

#[tokio::test]
async fn an_overloaded_api_server_is_tolerated_and_reported() {
    for status in [429, 503] {
        let (world, _, faults) = faulty_cluster().await;
        let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
        faults.add(
            Rule::new("kubernetes.apply", Fault::Status { status })
                .on("configmaps")
                .nth(1, 2),
        );
        let created = world.instantiate(&what, 20).await.unwrap();
        let waits = world.seen.waits.lock().unwrap().join("\n");
        assert!(
            waits.contains("VIM `cluster` to answer: the server"),
            "{waits}"
        );
        world.terminate(&what, created.handle).await.unwrap();
        // Permanently: the error at the deadline has the API server's message.
        faults.add(Rule::new("kubernetes.apply", Fault::Status { status }).nth(1, 1000));
        let late = world.instantiate(&what, 2).await.unwrap_err();
        assert_eq!(
            (late.name(), late.kind()),
            ("kubernetes.server-error", ErrorKind::Unavailable)
        );
        faults.clear();
        works_again(&world, &what).await;
    }
}

#[tokio::test]
async fn a_denying_webhook_is_reported_with_its_message() {
    let (world, cluster, _) = faulty_cluster().await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/policy";
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "policy", "annotations": {"denies": "no owner is named"}},
        "webhooks": [{"name": "policy.example.com", "rules": [{"resources": ["configmaps"]}]}]});
    cluster.apply(&webhook.to_string()).unwrap();
    let what = package(&[(1, CONFIG)], "", json!({}));
    let denied = world.instantiate(&what, 20).await.unwrap_err();
    assert_eq!(
        (denied.name(), denied.kind()),
        ("kubernetes.denied", ErrorKind::Refused)
    );
    for part in [
        "ConfigMap `page`",
        "policy.example.com",
        "no owner is named",
    ] {
        assert!(denied.to_string().contains(part), "no {part} in {denied}");
    }
    assert!(cluster.delete(path));
    works_again(&world, &what).await;
}

#[tokio::test]
async fn a_late_image_and_a_temporary_crash_loop_are_waited_for() {
    for (image, parts) in [
        (
            "localhost/no-such:1",
            ["ErrImagePull", "not found", "pod `web-"],
        ),
        (
            "localhost/crash-loop:1",
            ["CrashLoopBackOff", "cannot open the page", "pod `web-"],
        ),
    ] {
        let (world, cluster, _) = faulty_cluster().await;
        let web = deployment(1, "").replace("localhost/busybox:1", image);
        let what = package(&[(1, &web)], "", json!({}));
        let late = world.instantiate(&what, 2).await.unwrap_err();
        assert_eq!(
            (late.name(), late.kind()),
            ("kubernetes.not-ready", ErrorKind::Refused)
        );
        for part in parts {
            assert!(late.detail().contains(part), "no {part} in {late}");
        }
        assert!(
            late.resource().unwrap().contains("Deployment `web`"),
            "{late:?}"
        );
        let seen = world
            .driver
            .observe(&world.cx(5), &what, &Value::Null)
            .await
            .unwrap();
        assert_eq!(
            seen.inventory.vnfc_resource_info.len(),
            1,
            "it is there, if not well"
        );
        cluster.fix_images();
        works_again(&world, &what).await;
    }
}

/// A VNF of one workload on a second node, whose machine has failed.
async fn on_a_dead_node(
    kind: &str,
) -> (
    World,
    std::sync::Arc<vnfm_sim::kubernetes::Cluster>,
    Allocation,
    Repair,
) {
    let (world, cluster, _) = faulty_cluster().await;
    cluster.add_node("node-2", "127.0.0.92");
    let brief = "      terminationGracePeriodSeconds: 1\n";
    let workload = deployment(2, brief).replace("kind: Deployment", &format!("kind: {kind}"));
    let what = package(&[(1, &workload)], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    let all = &created.inventory.vnfc_resource_info;
    let lost = all
        .iter()
        .position(|vnfc| vnfc.metadata["node"] == "node-2")
        .unwrap();
    assert!(cluster.cut_node("node-2", true));
    (world, cluster, what, repair(&created, &[lost]))
}

#[tokio::test]
async fn an_interchangeable_pod_on_a_dead_node_is_force_deleted() {
    let (world, _, what, repair) = on_a_dead_node("Deployment").await;
    let healed = world
        .driver
        .converge(&world.cx(30), &repair.change(&what), &Value::Null)
        .await
        .unwrap();
    assert!(!ids(&healed).contains(&repair.replace.vnfcs[0]) && ids(&healed).len() == 2);
    assert!(
        healed
            .inventory
            .vnfc_resource_info
            .iter()
            .all(|vnfc| vnfc.metadata["node"] == "node-1")
    );
    let logs = world.seen.logs.lock().unwrap().join("\n");
    assert!(
        logs.contains("force-deleting Pod") && logs.contains(": node `node-2` is not Ready"),
        "{logs}"
    );
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_pod_with_an_identity_is_kept_until_its_node_is_known_to_be_off() {
    let (world, cluster, what, repair) = on_a_dead_node("StatefulSet").await;
    let hangs = world
        .driver
        .converge(&world.cx(30), &repair.change(&what), &Value::Null)
        .await
        .unwrap_err();
    assert_eq!(
        (hangs.name(), hangs.kind()),
        ("kubernetes.pod-hangs", ErrorKind::Refused)
    );
    assert!(
        hangs.to_string().contains("node `node-2` is not Ready"),
        "{hangs}"
    );
    assert!(
        hangs.next().contains("kubectl taint node node-2"),
        "{}",
        hangs.next()
    );
    let taint = json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}});
    assert!(cluster.merge("/api/v1/nodes/node-2", &taint));
    let healed = world
        .driver
        .converge(&world.cx(30), &repair.change(&what), &Value::Null)
        .await
        .unwrap();
    assert!(!ids(&healed).contains(&repair.replace.vnfcs[0]) && ids(&healed).len() == 2);
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn claims_are_deleted_with_their_pods_on_request() {
    let (world, cluster, _) = faulty_cluster().await;
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    let web = deployment(
        1,
        "      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n",
    );
    let what = package(&[(1, claim), (2, &web)], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    let path = format!(
        "/api/v1/namespaces/{}/persistentvolumeclaims/data",
        world.namespace()
    );
    let claim = || cluster.object(&path).unwrap()["metadata"]["uid"].clone();
    let first = claim();
    let kept = world
        .driver
        .converge(
            &world.cx(20),
            &repair(&created, &[0]).change(&what),
            &Value::Null,
        )
        .await
        .unwrap();
    assert_eq!(claim(), first);
    let mut with_storage = repair(&kept, &[0]);
    with_storage.replace.with_storage = true;
    let healed = world
        .driver
        .converge(&world.cx(20), &with_storage.change(&what), &Value::Null)
        .await
        .unwrap();
    assert_ne!(claim(), first);
    assert!(ids(&healed).is_disjoint(&ids(&kept)));
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_heal_with_lost_responses_replaces_each_pod_once() {
    let (world, _, faults) = faulty_cluster().await;
    let what = package(&[(1, CONFIG), (2, &deployment(2, ""))], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    let repair = repair(&created, &[0]);
    let after = vnfm_sim::faults::When::After;
    faults.add(
        Rule::new("kubernetes.delete", Fault::Drop { drop: after })
            .on("pods")
            .nth(1, 1000),
    );
    let late = world
        .driver
        .converge(&world.cx(3), &repair.change(&what), &Value::Null)
        .await;
    faults.clear();
    let healed = world
        .driver
        .converge(&world.cx(20), &repair.change(&what), &Value::Null)
        .await
        .unwrap();
    let stayed: Vec<String> = ids(&created).intersection(&ids(&healed)).cloned().collect();
    assert_eq!(stayed, [created.inventory.vnfc_resource_info[1].id.clone()]);
    if let Ok(first) = late {
        assert_eq!(ids(&first), ids(&healed), "a successor was replaced");
    }
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}
