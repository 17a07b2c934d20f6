//! Events of pods from a cluster that fails, stalls, or sends rubbish.

use crate::faults::faulty_cluster;
use crate::pod_events::{begin, changed, events, lose_pod, read_until};
use crate::support::{RealClock, World, deployment, package};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::ListParams;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Clock, PortError, VimEvent};
use vnfm_sim::faults::{Fault, Faults, Rule, When};
use vnfm_sim::hostile::Hostility;

/// Sleeps a twentieth of the time, so that limits and pauses are short.
struct QuickClock;

impl Clock for QuickClock {
    fn now(&self) -> Timestamp {
        RealClock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        RealClock.sleep(duration / 20)
    }
}

/// An instance on a cluster that the test controls.
async fn instance() -> (World, Arc<Faults>) {
    let (world, _cluster, faults) = faulty_cluster().await;
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    world.instantiate(&what, 60).await.unwrap();
    (world, faults)
}

fn is_missed(event: &Result<VimEvent, PortError>) -> bool {
    matches!(event, Ok(VimEvent::Missed))
}

#[tokio::test]
async fn after_an_error_nothing_is_missed() {
    let (world, faults) = instance().await;
    let mut events = events(&world, &QuickClock);
    begin(&mut events).await;
    for fault in [
        Fault::Status { status: 500 },
        Fault::Drop { drop: When::Before },
        Fault::Hang { hang: true },
    ] {
        let text = format!("{fault:?}");
        faults.add(Rule::new("kubernetes.watch", fault).nth(1, 2));
        let read = read_until(&mut events, Result::is_err).await;
        lose_pod(&world).await;
        let ids = changed(&mut events, &world).await;
        assert_eq!(ids[0], world.owner.instance_id, "{text}");
        assert!(!read.iter().any(is_missed), "{text}: {read:?}");
        faults.clear();
    }
}

#[tokio::test]
async fn a_version_that_is_too_old_is_reported_as_missed_events() {
    let (world, faults) = instance().await;
    let mut events = events(&world, &QuickClock);
    begin(&mut events).await;
    faults.add(Rule::new("kubernetes.watch", Fault::Status { status: 410 }));
    read_until(&mut events, is_missed).await;
    lose_pod(&world).await;
    changed(&mut events, &world).await;
}

#[tokio::test]
async fn a_burst_of_ten_thousand_events_is_read_to_its_end() {
    let (world, cluster, _faults) = faulty_cluster().await;
    let what = package(&[(1, &deployment(1, ""))], "", json!({}));
    world.instantiate(&what, 60).await.unwrap();
    let mut events = events(&world, &QuickClock);
    begin(&mut events).await;
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let pod = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    let name = pod.metadata.name.unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/{name}", world.namespace());
    for number in 0..10_000 {
        let change = json!({"metadata": {"annotations": {"number": number.to_string()}}});
        assert!(cluster.merge(&path, &change));
    }
    lose_pod(&world).await;
    let is_read = |event: &_| matches!(event, Ok(VimEvent::Missed | VimEvent::Changed(_)));
    read_until(&mut events, is_read).await;
    let left = read_until(&mut events, |event| {
        matches!(event, Ok(VimEvent::Unchanged) | Err(_))
    });
    assert!(left.await.len() < 12_000);
}

#[tokio::test]
async fn rubbish_without_end_is_cut_off() {
    let (world, faults) = instance().await;
    let mut events = events(&world, &QuickClock);
    begin(&mut events).await;
    for hostile in [
        Hostility::Endless,
        Hostility::EndlessList,
        Hostility::Dripping,
        Hostility::Huge,
        Hostility::Deep,
        Hostility::Html,
    ] {
        let text = format!("{hostile:?}");
        faults.add(Rule::new("kubernetes.watch", Fault::Hostile { hostile }).nth(1, 1));
        let read = read_until(&mut events, Result::is_err).await;
        assert!(!read.iter().any(is_missed), "{text}: {read:?}");
        faults.clear();
        lose_pod(&world).await;
        changed(&mut events, &world).await;
    }
}

#[tokio::test]
async fn a_login_without_the_right_to_list_pods_is_reported() {
    let (world, faults) = instance().await;
    let mut events = events(&world, &QuickClock);
    faults.add(
        Rule::new("kubernetes.list", Fault::Status { status: 403 })
            .on("pods")
            .nth(1, 1000),
    );
    let read = read_until(&mut events, Result::is_err).await;
    let error = read.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.name(), "kubernetes.forbidden", "{error}");
    faults.clear();
    read_until(&mut events, is_missed).await;
}
