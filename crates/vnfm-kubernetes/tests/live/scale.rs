//! Another number of VNFCs: which pods come and go, and which stay.

use crate::heal::repair;
use crate::support::{CONFIG, World, deployment, package};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver as _, PortError, PowerChange, Recorded, ResourceChange,
    Stop,
};
use vnfm_types::VnfOperationalState;

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

fn stateful_set() -> String {
    deployment(1, "")
        .replace("kind: Deployment", "kind: StatefulSet")
        .replace("  replicas: 1\n", "  replicas: 1\n  serviceName: web\n")
}

/// The package's VDU with this number of VNFCs.
fn sized(what: &Allocation, count: u32) -> Allocation {
    let mut sized = what.clone();
    let deployment = Arc::make_mut(&mut sized.deployment);
    deployment.vdu_instances.insert("WebServer".into(), count);
    sized
}

async fn scale(
    world: &World,
    current: &Recorded,
    target: &Allocation,
    seconds: i64,
) -> Result<Recorded, PortError> {
    let change = Convergence::update(current, target);
    let cx = world.cx(seconds);
    world.driver.converge(&cx, &change, &Value::Null).await
}

/// Ids of the VNFCs, in the order of the inventory.
fn ids(recorded: &Recorded) -> Vec<String> {
    let all = recorded.inventory.vnfc_resource_info.iter();
    all.map(|vnfc| vnfc.id.clone()).collect()
}

fn names(recorded: &Recorded) -> Vec<String> {
    let all = recorded.inventory.vnfc_resource_info.iter();
    all.map(|vnfc| vnfc.compute_resource.resource_id.clone())
        .collect()
}

fn set(ids: &[String]) -> BTreeSet<&String> {
    ids.iter().collect()
}

async fn pods(world: &World) -> Vec<DynamicObject> {
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    pods.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn a_deployment_grows_and_loses_the_pods_that_were_announced() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
    let first = world.instantiate(&sized(&what, 2), 60).await.unwrap();
    assert_eq!(ids(&first).len(), 2);
    let larger = scale(&world, &first, &sized(&what, 5), 60).await.unwrap();
    assert_eq!(ids(&larger).len(), 5);
    assert!(
        set(&ids(&first)).is_subset(&set(&ids(&larger))),
        "they stay"
    );
    assert_eq!(larger.handle, first.handle, "no other object changed");
    let again = scale(&world, &first, &sized(&what, 5), 60).await.unwrap();
    assert_eq!(ids(&again), ids(&larger), "it is repeatable");
    // Hooks learn that the last ones go.
    let smaller = scale(&world, &larger, &sized(&what, 3), 60).await.unwrap();
    assert_eq!(ids(&smaller), ids(&larger)[..3]);
    let left = pods(&world).await;
    let left: BTreeSet<_> = left
        .into_iter()
        .filter_map(|pod| pod.metadata.uid)
        .collect();
    assert_eq!(left.iter().collect::<BTreeSet<_>>(), set(&ids(&smaller)));
    world.terminate(&what, smaller.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_rollback_removes_the_pods_that_the_record_does_not_name() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    let before = world.instantiate(&sized(&what, 2), 60).await.unwrap();
    scale(&world, &before, &sized(&what, 6), 60).await.unwrap();
    let after = scale(&world, &before, &sized(&what, 2), 60).await.unwrap();
    assert_eq!(after, before);
    world.terminate(&what, after.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_stateful_set_loses_the_pods_with_the_highest_index() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, &stateful_set())], "", json!({}));
    let first = world.instantiate(&sized(&what, 1), 60).await.unwrap();
    let larger = scale(&world, &first, &sized(&what, 12), 60).await.unwrap();
    let all: Vec<_> = (0..12).map(|index| format!("web-{index}")).collect();
    assert_eq!(names(&larger), all);
    let smaller = scale(&world, &larger, &sized(&what, 10), 60).await.unwrap();
    assert_eq!(names(&smaller), all[..10]);
    assert_eq!(ids(&smaller), ids(&larger)[..10]);
    world.terminate(&what, smaller.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_stale_mark_is_removed_before_pods_go() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    let created = world.instantiate(&sized(&what, 3), 60).await.unwrap();
    let api = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    // As an earlier scaling in that the cluster ignored would leave it.
    let mark = json!({"metadata": {"annotations": {COST: "-2147483647"}}});
    let first = &names(&created)[0];
    api.patch(first, &PatchParams::default(), &Patch::Merge(&mark))
        .await
        .unwrap();
    let smaller = scale(&world, &created, &sized(&what, 2), 60).await.unwrap();
    assert_eq!(ids(&smaller), ids(&created)[..2]);
    let pod = api.get(first).await.unwrap();
    let annotations = pod.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(COST), "{annotations:?}");
    world.terminate(&what, smaller.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_interrupted_shrink_still_waits_for_its_pods() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    let created = world.instantiate(&sized(&what, 3), 60).await.unwrap();
    let api = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let held = &names(&created)[2];
    let hold = |finalizers: Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let how = PatchParams::default();
    api.patch(held, &how, &hold(json!(["example.com/hold"])))
        .await
        .unwrap();
    for attempt in 1..=2 {
        let late = scale(&world, &created, &sized(&what, 2), 4).await;
        let late = late.expect_err("its pod still exists");
        assert!(
            late.detail().contains(held.as_str()),
            "attempt {attempt}: {late}"
        );
    }
    api.patch(held, &how, &hold(Value::Null)).await.unwrap();
    let smaller = scale(&world, &created, &sized(&what, 2), 60).await.unwrap();
    assert_eq!(ids(&smaller), ids(&created)[..2]);
    world.terminate(&what, smaller.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_edited_number_is_restored() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    let created = world.instantiate(&sized(&what, 2), 60).await.unwrap();
    let namespace = world.namespace();
    let deployments = world.api("apps/v1", "Deployment", "deployments", Some(&namespace));
    let theirs = json!({"spec": {"replicas": 4}});
    deployments
        .patch_scale("web", &PatchParams::default(), &Patch::Merge(&theirs))
        .await
        .unwrap();
    let target = sized(&what, 3);
    let scaled = scale(&world, &created, &target, 60).await.unwrap();
    assert_eq!(ids(&scaled).len(), 3);
    assert!(set(&ids(&created)).is_subset(&set(&ids(&scaled))));
    let spec = deployments.get("web").await.unwrap().data["spec"].clone();
    assert_eq!(spec["replicas"], 3);
    world.terminate(&what, scaled.handle).await.unwrap();
    world.assert_nothing_left().await;
}

const AUTOSCALER: &str = "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 10
";

#[tokio::test]
async fn what_an_autoscaler_chose_is_left_as_it_is() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, &deployment(1, "")), (2, AUTOSCALER)], "", json!({}));
    let created = world.instantiate(&sized(&what, 2), 60).await.unwrap();
    assert_eq!(ids(&created).len(), 2, "it is created in its size");
    let namespace = world.namespace();
    let deployments = world.api("apps/v1", "Deployment", "deployments", Some(&namespace));
    let autoscaled = json!({"spec": {"replicas": 4}});
    deployments
        .patch_scale("web", &PatchParams::default(), &Patch::Merge(&autoscaled))
        .await
        .unwrap();

    let larger = sized(&what, 3);
    let change = ResourceChange::Converge(&Convergence::update(&created, &larger));
    let plan = world.driver.plan(&world.cx(60), &change).await.unwrap();
    let notice = "HorizontalPodAutoscaler `web` in namespace";
    assert!(
        plan.unknown.iter().any(|one| one.contains(notice)),
        "{plan:?}"
    );
    let scaled = scale(&world, &created, &larger, 60).await.unwrap();
    assert_eq!(ids(&scaled).len(), 4, "the record has the actual number");
    assert!(set(&ids(&created)).is_subset(&set(&ids(&scaled))));
    let logs = world.seen.logs.lock().unwrap().clone();
    assert!(logs.iter().any(|one| one.contains(notice)), "{logs:?}");

    let smaller = scale(&world, &scaled, &sized(&what, 1), 60).await.unwrap();
    assert_eq!(ids(&smaller), ids(&scaled), "no pod goes");
    let what = sized(&what, 1);
    let repair = repair(&smaller, &[0]);
    let healed = world
        .driver
        .converge(&world.cx(60), &repair.change(&what), &Value::Null)
        .await
        .unwrap();
    assert_eq!(ids(&healed).len(), 4, "one pod is replaced");
    let spec = deployments.get("web").await.unwrap().data["spec"].clone();
    assert_eq!(spec["replicas"], 4);
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_start_gives_an_autoscaled_workload_its_size() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, &deployment(1, "")), (2, AUTOSCALER)], "", json!({}));
    let what = sized(&what, 2);
    let created = world.instantiate(&what, 60).await.unwrap();
    let mut stopped = what.clone();
    Arc::make_mut(&mut stopped.deployment).vnf_state = VnfOperationalState::Stopped;
    let off = operate(&world, &created, &stopped).await;
    assert_eq!(ids(&off), [""; 0]);
    let on = operate(&world, &off, &what).await;
    assert_eq!(ids(&on).len(), 2);
    world.terminate(&what, on.handle).await.unwrap();
    world.assert_nothing_left().await;
}

async fn operate(world: &World, current: &Recorded, target: &Allocation) -> Recorded {
    let change = PowerChange {
        current,
        target,
        stop: Stop::Forceful,
    };
    let power = world.driver.power().unwrap();
    power.operate(&world.cx(60), &change).await.unwrap()
}
