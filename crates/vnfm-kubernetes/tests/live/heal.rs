//! Healing: exactly what is meant is replaced, what was taken away or changed comes back, twice is once.

use crate::support::{CONFIG, SERVICE, World, deployment, package, sample};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{Allocated, InfraDriver as _, Repair};

const BARE: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: one, image: 'localhost/busybox:1'}]}\n";

/// The whole of it, or the VNFCs at these places.
pub(crate) fn repair(made: &Allocated, which: &[usize]) -> Repair {
    let all = &made.inventory.vnfc_resource_info;
    Repair {
        handle: made.handle.clone(),
        inventory: made.inventory.clone(),
        vnfcs: which.iter().map(|place| all[*place].id.clone()).collect(),
        with_storage: false,
    }
}

pub(crate) fn ids(made: &Allocated) -> BTreeSet<String> {
    made.inventory
        .vnfc_resource_info
        .iter()
        .map(|vnfc| vnfc.id.clone())
        .collect()
}

#[tokio::test]
async fn exactly_the_pods_meant_are_replaced_and_twice_is_once() {
    let Some(world) = World::start().await else {
        return;
    };
    let brief = "      terminationGracePeriodSeconds: 1\n";
    let what = package(
        &[(1, CONFIG), (2, &deployment(3, brief)), (3, SERVICE)],
        "",
        json!({}),
    );
    let made = world.instantiate(&what, 60).await.unwrap();
    let repair = repair(&made, &[1]);
    let healed = world
        .driver
        .heal(&world.cx(60), &what, &repair)
        .await
        .unwrap();
    let (before, after) = (ids(&made), ids(&healed));
    assert_eq!(after.len(), 3);
    let gone: Vec<&String> = before.difference(&after).collect();
    assert_eq!(gone, [&repair.vnfcs[0]], "the others kept their UIDs");
    assert_eq!(healed.handle, made.handle);
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let there = pods.list(&ListParams::default()).await.unwrap();
    let there: BTreeSet<String> = there
        .items
        .into_iter()
        .filter_map(|p| p.metadata.uid)
        .collect();
    assert_eq!(there, after);
    // As after a crash: the record still names the pod that is gone.
    let again = world
        .driver
        .heal(&world.cx(60), &what, &repair)
        .await
        .unwrap();
    assert_eq!(again, healed);
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_somebody_deleted_or_edited_comes_back() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(
        &[(1, CONFIG), (2, &deployment(2, "")), (3, SERVICE)],
        "",
        json!({}),
    );
    let made = world.instantiate(&what, 60).await.unwrap();
    let namespace = world.namespace();
    let maps = world.config_maps(&namespace);
    maps.delete("page", &DeleteParams::default()).await.unwrap();
    let deployments = world.api("apps/v1", "Deployment", "deployments", Some(&namespace));
    let theirs = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": "localhost/other:1"}]}}}});
    deployments
        .patch(
            "web",
            &PatchParams::apply("somebody").force(),
            &Patch::Apply(&theirs),
        )
        .await
        .unwrap();
    let services = world.api("v1", "Service", "services", Some(&namespace));
    let unmarked = json!({"metadata": {"labels": {"vnfm.dev/instance": null}}, "spec": {"selector": {"app": "another"}}});
    world.change(&services, "web", unmarked).await;

    let healed = world
        .driver
        .heal(&world.cx(60), &what, &repair(&made, &[]))
        .await
        .unwrap();
    assert_eq!(maps.get("page").await.unwrap().data["data"]["x"], "1");
    let spec = deployments.get("web").await.unwrap().data["spec"].clone();
    assert_eq!(spec["replicas"], 2);
    assert_eq!(
        spec["template"]["spec"]["containers"][0]["image"],
        "localhost/busybox:1"
    );
    let service = services.get("web").await.unwrap();
    assert_eq!(service.data["spec"]["selector"], json!({"app": "web"}));
    assert!(
        service
            .metadata
            .labels
            .unwrap()
            .contains_key("vnfm.dev/instance")
    );
    assert_eq!(healed.inventory.vnfc_resource_info.len(), 2);
    assert_ne!(healed.handle, made.handle, "the map has another UID");
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_bare_pod_that_is_gone_or_has_failed_is_made_again() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, BARE)], "", json!({}));
    let made = world.instantiate(&what, 60).await.unwrap();
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let first = pods.get("one").await.unwrap().metadata.uid;
    pods.delete("one", &DeleteParams::default()).await.unwrap();
    world
        .driver
        .heal(&world.cx(60), &what, &repair(&made, &[]))
        .await
        .unwrap();
    let second = pods.get("one").await.unwrap().metadata.uid;
    assert_ne!(first, second);
    let failed = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    pods.patch_status("one", &PatchParams::default(), &Patch::Merge(&failed))
        .await
        .unwrap();
    let healed = world
        .driver
        .heal(&world.cx(60), &what, &repair(&made, &[]))
        .await
        .unwrap();
    let third = pods.get("one").await.unwrap();
    assert_ne!(second, third.metadata.uid);
    assert_eq!(third.data["status"]["phase"], "Running");
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_namespace_that_somebody_deletes_comes_back_with_everything() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
    let made = world.instantiate(&what, 60).await.unwrap();
    world.clean(&world.namespaces(), &world.namespace()).await;
    let healed = world
        .driver
        .heal(&world.cx(60), &what, &repair(&made, &[0]))
        .await
        .unwrap();
    assert!(ids(&healed).is_disjoint(&ids(&made)) && ids(&healed).len() == 1);
    assert!(
        world
            .config_maps(&world.namespace())
            .get_opt("page")
            .await
            .unwrap()
            .is_some()
    );
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_is_there_is_seen_in_whatever_state() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, CONFIG), (2, &deployment(2, ""))], "", json!({}));
    let observe = async |handle: &Value| {
        world
            .driver
            .observe(&world.cx(20), &what, handle)
            .await
            .unwrap()
    };
    assert_eq!(
        observe(&Value::Null).await.inventory,
        vnfm_core::ports::Inventory::default()
    );
    let made = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(observe(&made.handle).await, made);
    let lost = observe(&Value::Null).await;
    assert_eq!(
        (&lost.inventory, &lost.handle),
        (&made.inventory, &Value::Null)
    );
    // One that no node takes is there all the same.
    let deployments = world.api(
        "apps/v1",
        "Deployment",
        "deployments",
        Some(&world.namespace()),
    );
    let nowhere = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "template": {"spec": {"nodeSelector": {"no": "such"}}}}});
    world.change(&deployments, "web", nowhere).await;
    let mut seen = observe(&made.handle).await;
    while seen.inventory.vnfc_resource_info.len() <= 2 {
        tokio::task::yield_now().await;
        seen = observe(&made.handle).await;
    }
    assert!(ids(&made).is_subset(&ids(&seen)));
    world.terminate(&what, made.handle).await.unwrap();
    assert_eq!(
        observe(&Value::Null).await.inventory,
        vnfm_core::ports::Inventory::default()
    );
}

#[tokio::test]
async fn the_sample_shows_its_service_as_an_external_connection_point() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = sample();
    let made = world.instantiate(&what, 60).await.unwrap();
    let services = world.api("v1", "Service", "services", Some(&world.namespace()));
    let service = services.get("web").await.unwrap();
    let [shown] = made.inventory.ext_cp_info.as_slice() else {
        panic!("{:?}", made.inventory.ext_cp_info)
    };
    assert_eq!(shown.cpd_id, "webService");
    assert_eq!(Some(&shown.id), service.metadata.uid.as_ref());
    let ethernet = shown.cp_protocol_info[0].ip_over_ethernet.as_ref().unwrap();
    assert_eq!(
        json!(ethernet.ip_addresses[0].addresses[0]),
        service.data["spec"]["clusterIP"]
    );
    assert_eq!(shown.metadata["ports"][0]["port"], 80);
    let vnfc = &made.inventory.vnfc_resource_info[0];
    assert_eq!(
        shown.associated_vnfc_cp_id.as_ref(),
        Some(&vnfc.vnfc_cp_info[0].id)
    );
    world.terminate(&what, made.handle).await.unwrap();
    world.assert_nothing_left().await;
}
