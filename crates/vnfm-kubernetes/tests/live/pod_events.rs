//! What happens to pods outside of operations is reported, and the instance as observed then has it.

use crate::support::{CONFIG, RealClock, World, deployment, package};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use std::time::Duration;
use vnfm_core::ports::{Clock, InfraDriver as _, Observes as _, PortError, Recorded, VimEvent};

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) type Events<'a> = BoxStream<'a, Result<VimEvent, PortError>>;

/// The events of the world's VIM for its installation.
pub(crate) fn events<'a>(world: &'a World, clock: &'a dyn Clock) -> Events<'a> {
    let installation = &world.owner.installation_id;
    world.driver.events(&world.vim, installation, clock)
}

/// The events up to one that `is_last`, which is the last.
pub(crate) async fn read_until(
    events: &mut Events<'_>,
    is_last: impl Fn(&Result<VimEvent, PortError>) -> bool,
) -> Vec<Result<VimEvent, PortError>> {
    let mut read = Vec::new();
    let reading = async {
        while let Some(event) = events.next().await {
            let ends = is_last(&event);
            read.push(event);
            if ends {
                return;
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    assert!(ended.is_ok(), "not within {PATIENCE:?}, but {read:?}");
    read
}

/// Reads until the instance of the world has changed; the ids of all that have.
pub(crate) async fn changed(events: &mut Events<'_>, world: &World) -> Vec<String> {
    let own = VimEvent::Changed(world.owner.instance_id.clone());
    let read = read_until(events, |event| event.as_ref().is_ok_and(|it| *it == own)).await;
    let ids = read.into_iter().filter_map(|event| match event {
        Ok(VimEvent::Changed(id)) => Some(id),
        _ => None,
    });
    ids.collect()
}

/// Reads until a watch has begun that misses nothing.
pub(crate) async fn begin(events: &mut Events<'_>) {
    let read = read_until(events, |event| matches!(event, Ok(VimEvent::Unchanged))).await;
    assert!(
        matches!(read.first(), Some(Ok(VimEvent::Missed))),
        "{read:?}"
    );
}

/// Deletes a pod of the world's instance, as a drain does; its name.
pub(crate) async fn lose_pod(world: &World) -> String {
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let listed = pods.list(&ListParams::default()).await.unwrap();
    let name = listed.items[0].metadata.name.clone().unwrap();
    let now = DeleteParams::default().grace_period(0);
    pods.delete(&name, &now).await.unwrap();
    name
}

async fn observed(
    world: &World,
    what: &vnfm_core::ports::Allocation,
    created: &Recorded,
) -> Vec<String> {
    let cx = world.cx(20);
    let now = world.driver.observe(&cx, what, &created.handle).await;
    let vnfcs = now.unwrap().inventory.vnfc_resource_info;
    let names = vnfcs
        .into_iter()
        .map(|vnfc| vnfc.compute_resource.resource_id);
    names.collect()
}

#[tokio::test]
async fn a_lost_pod_and_a_manual_scale_are_reported() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, CONFIG), (2, &deployment(2, ""))], "", json!({}));
    let created = world.instantiate(&what, 60).await.unwrap();
    let mut events = events(&world, &RealClock);
    begin(&mut events).await;
    let lost = lose_pod(&world).await;
    changed(&mut events, &world).await;
    while observed(&world, &what, &created).await.contains(&lost) {
        changed(&mut events, &world).await;
    }
    let deployments = world.api(
        "apps/v1",
        "Deployment",
        "deployments",
        Some(&world.namespace()),
    );
    world
        .change(&deployments, "web", json!({"spec": {"replicas": 4}}))
        .await;
    while observed(&world, &what, &created).await.len() < 4 {
        changed(&mut events, &world).await;
    }
    drop(events);
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn pods_of_others_are_not_reported() {
    let (Some(world), Some(other)) = (World::start().await, World::start().await) else {
        return;
    };
    let own = world.neighbour();
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    let mut events = events(&own, &RealClock);
    begin(&mut events).await;
    let strange = other.instantiate(&what, 60).await.unwrap();
    let created = own.instantiate(&what, 60).await.unwrap();
    let ids = changed(&mut events, &own).await;
    assert!(ids.iter().all(|id| *id == own.owner.instance_id), "{ids:?}");
    drop(events);
    other.terminate(&what, strange.handle).await.unwrap();
    own.terminate(&what, created.handle).await.unwrap();
    own.assert_nothing_left().await;
}
