//! Faults between driver and API server that an operation survives.

use crate::support::{CONFIG, Keep, World, deployment, package};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use vnfm_core::ports::{Convergence, ErrorKind, InfraDriver as _};
use vnfm_sim::faults::{Fault, Faults, Rule, When};
use vnfm_sim::kubernetes::{Cluster, ClusterSpec, Clusters};
use vnfm_sim::ledger::Ledger;

pub(crate) async fn cluster() -> Option<(Kubeconfig, Keep)> {
    Some(start(Faults::new()).await)
}

async fn start(faults: Arc<Faults>) -> (Kubeconfig, Keep) {
    let clusters = Clusters::new(Ledger::new(), faults);
    let spec = ClusterSpec {
        name: "one".to_owned(),
        address: [127, 0, 0, 1].into(),
        port: 0,
    };
    let cluster = clusters.start(spec).await.expect("a cluster");
    cluster.make_standalone("node-1", [127, 0, 0, 1].into());
    let file = Kubeconfig::from_yaml(&cluster.kubeconfig()).expect("its kubeconfig is one");
    (file, Arc::new(clusters))
}

/// A world on a cluster that the test controls.
pub(crate) async fn faulty_cluster() -> (World, Arc<Cluster>, Arc<Faults>) {
    let faults = Faults::new();
    let (file, keep) = start(faults.clone()).await;
    let clusters = Arc::clone(&keep)
        .downcast::<Clusters>()
        .expect("they are clusters");
    let cluster = clusters.get("one").expect("it was started");
    (World::on(file, keep).await, cluster, faults)
}

async fn faulty() -> (World, Arc<Faults>) {
    let faults = Faults::new();
    let (file, keep) = start(faults.clone()).await;
    (World::on(file, keep).await, faults)
}

#[tokio::test]
async fn broken_watches_are_restarted() {
    let (world, faults) = faulty().await;
    faults.add(Rule::new("kubernetes.watch", Fault::Status { status: 500 }).nth(1, 2));
    faults.add(Rule::new("kubernetes.list", Fault::Drop { drop: When::Before }).on("deployments"));
    let what = package(&[(1, CONFIG), (2, &deployment(2, ""))], "", json!({}));
    let created = world.instantiate(&what, 30).await.unwrap();
    assert_eq!(created.inventory.vnfc_resource_info.len(), 2);
    faults.add(Rule::new("kubernetes.watch", Fault::Status { status: 410 }).nth(1, 2));
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn objects_that_are_ready_at_once_are_not_watched() {
    let (world, faults) = faulty().await;
    faults.add(Rule::new("kubernetes.watch", Fault::Status { status: 403 }).nth(1, 1000));
    let what = package(&[(1, CONFIG)], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    faults.clear();
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

/// Forwards connections to the API server of a cluster, and counts them; returns the counter.
async fn count_connections(file: &mut Kubeconfig) -> Arc<AtomicUsize> {
    let cluster = file.clusters[0].cluster.as_mut().unwrap();
    let server = cluster.server.take().unwrap();
    let address = server.trim_start_matches("https://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    cluster.server = Some(format!("https://{}", listener.local_addr().unwrap()));
    let counter = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&counter);
    tokio::spawn(async move {
        while let Ok((mut ours, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut theirs = TcpStream::connect(&address).await.unwrap();
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut ours, &mut theirs).await },
            );
        }
    });
    counter
}

#[tokio::test]
async fn the_steps_of_an_operation_share_a_connection() {
    let (mut file, keep) = start(Faults::new()).await;
    let connections = count_connections(&mut file).await;
    let world = World::on(file, keep).await;
    let before = connections.load(Ordering::Relaxed); // those of the test itself
    let what = package(&[(1, CONFIG)], "", json!({}));
    world.instantiate(&what, 20).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed) - before, 1);
}

#[tokio::test]
async fn objects_whose_response_was_lost_are_adopted() {
    let (world, faults) = faulty().await;
    let lost = Fault::Drop { drop: When::After };
    faults.add(
        Rule::new("kubernetes.apply", lost)
            .on("configmaps")
            .nth(1, 1000),
    );
    let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
    let late = world.instantiate(&what, 2).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
    faults.clear();
    let before = world
        .config_maps(&world.namespace())
        .get("page")
        .await
        .unwrap();
    let created = world.instantiate(&what, 20).await.unwrap();
    let after = world
        .config_maps(&world.namespace())
        .get("page")
        .await
        .unwrap();
    assert_eq!(before.metadata.uid, after.metadata.uid);
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_delete_whose_response_is_lost_is_retried() {
    let (world, faults) = faulty().await;
    let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    faults.add(Rule::new("kubernetes.delete", Fault::Drop { drop: When::After }).on("deployments"));
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_missing_image_is_reported_during_the_wait_and_in_the_error() {
    let (world, _) = faulty().await;
    let web = deployment(1, "").replace("localhost/busybox:1", "localhost/no-such:1");
    let what = package(&[(1, &web)], "", json!({}));
    let prepared = world
        .driver
        .preview(&world.cx(20), &Convergence::create(&what))
        .await
        .unwrap();
    let cx = world.cx(3);
    let change = Convergence::create(&what);
    let (late, ()) = tokio::join!(
        world.driver.converge(&cx, &change, &prepared),
        world.seen.wait_for("ImagePull")
    );
    let late = late.unwrap_err();
    assert_eq!(
        (late.name(), late.kind()),
        ("kubernetes.not-ready", ErrorKind::Refused)
    );
    assert!(
        late.detail().contains("ImagePull") && late.detail().contains("pod `web-"),
        "{late}"
    );
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn no_message_contains_the_token() {
    let (world, _) = faulty().await;
    let planted = "hunter2hunter2";
    world.vim.update(|vim| {
        vim.access_info
            .insert("bearer_token".into(), planted.into());
    });
    let what = package(&[(1, CONFIG)], "", json!({}));
    let refused = world.driver.check(&world.vim).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.login-refused", ErrorKind::Refused)
    );
    let prepare = world
        .driver
        .preview(&world.cx(5), &Convergence::create(&what))
        .await
        .unwrap_err();
    let release = world
        .terminate_within(&what, Value::Null, 3)
        .await
        .unwrap_err();
    let message = format!(
        "{refused} {refused:?} {prepare:?} {release:?} {:?} {:?}",
        world.seen.waits, world.seen.logs
    );
    assert!(!message.contains(planted), "{message}");
}

#[tokio::test]
async fn a_login_that_may_not_use_the_subresource_scales_by_the_manifest() {
    let (world, faults) = faulty().await;
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    let created = world.instantiate(&what, 30).await.unwrap();
    let forbidden = Rule::new("kubernetes.patch", Fault::Status { status: 403 });
    faults.add(forbidden.on("deployments").nth(1, 1));
    let mut larger = what.clone();
    let deployment = Arc::make_mut(&mut larger.deployment);
    deployment.vdu_instances.insert("WebServer".into(), 3);
    let change = Convergence::update(&created, &larger);
    let cx = world.cx(30);
    let scaled = world.driver.converge(&cx, &change, &json!(null)).await;
    let scaled = scaled.unwrap();
    assert_eq!(scaled.inventory.vnfc_resource_info.len(), 3);
    let logs = world.seen.logs.lock().unwrap().clone();
    assert!(
        logs.iter()
            .any(|log| log.contains("is scaled by its manifest")),
        "{logs:?}"
    );
    world.terminate(&what, scaled.handle).await.unwrap();
    world.assert_nothing_left().await;
}

/// Pods that someone else has requested are not created yet when the number is restored: those of the record stay.
#[tokio::test]
async fn pods_that_are_still_to_be_created_go_before_those_of_the_record() {
    let (world, _) = faulty().await;
    let what = package(&[(1, &deployment(2, ""))], "", json!({}));
    let created = world.instantiate(&what, 30).await.unwrap();
    let namespace = world.namespace();
    let quotas = world.api("v1", "ResourceQuota", "resourcequotas", Some(&namespace));
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"},
        "spec": {"hard": {"pods": "2"}}});
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let deployments = world.api("apps/v1", "Deployment", "deployments", Some(&namespace));
    let theirs = Patch::Merge(json!({"spec": {"replicas": 6}}));
    let how = PatchParams::default();
    deployments.patch_scale("web", &how, &theirs).await.unwrap();
    let change = Convergence::update(&created, &what);
    let cx = world.cx(30);
    let desired = json!(null);
    let restored = world.driver.converge(&cx, &change, &desired);
    let allowed = async {
        let is_awaited = || {
            let waits = world.seen.waits.lock().unwrap();
            waits
                .iter()
                .any(|wait| wait.contains("to create its 6 pods"))
        };
        while !is_awaited() {
            tokio::task::yield_now().await;
        }
        let how = DeleteParams::default();
        quotas.delete("two", &how).await.unwrap();
    };
    let (restored, ()) = tokio::join!(restored, allowed);
    assert_eq!(restored.unwrap().inventory, created.inventory);
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

/// What every API server serves is read once: further operations need no discovery.
#[tokio::test]
async fn built_in_kinds_are_looked_up_once() {
    let (world, faults) = faulty().await;
    let what = package(&[(1, CONFIG), (2, &deployment(2, ""))], "", json!({}));
    let created = world.instantiate(&what, 30).await.unwrap();
    for group in ["api/v1", "apis/apps/v1"] {
        let refused = Rule::new("kubernetes.discovery", Fault::Status { status: 403 });
        faults.add(refused.on(group).nth(1, 99));
    }
    world.instantiate(&what, 30).await.unwrap();
    faults.clear();
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}
