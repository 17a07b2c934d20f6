//! Heal: replaces only the requested pods, restores deleted and edited objects, and is idempotent.

use crate::support::{CONFIG, SERVICE, World, deployment, package, sample};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, Recorded, Replacement};

const BARE: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: one, image: 'localhost/busybox:1'}]}\n";

/// A heal of an instance.
pub(crate) struct Repair {
    pub(crate) current: Recorded,
    pub(crate) replace: Replacement,
}

impl Repair {
    pub(crate) fn change<'a>(&'a self, what: &'a Allocation) -> Convergence<'a> {
        Convergence::update(&self.current, what).replacing(self.replace.clone())
    }
}

/// Heals the VNFCs with these indices, or the instance without any.
pub(crate) fn repair(created: &Recorded, which: &[usize]) -> Repair {
    let all = &created.inventory.vnfc_resource_info;
    Repair {
        current: created.clone(),
        replace: Replacement {
            vnfcs: which.iter().map(|place| all[*place].id.clone()).collect(),
            with_storage: false,
        },
    }
}

pub(crate) fn ids(created: &Recorded) -> BTreeSet<String> {
    created
        .inventory
        .vnfc_resource_info
        .iter()
        .map(|vnfc| vnfc.id.clone())
        .collect()
}

#[tokio::test]
async fn only_the_requested_pods_are_replaced_and_heal_is_idempotent() {
    let Some(world) = World::start().await else {
        return;
    };
    let brief = "      terminationGracePeriodSeconds: 1\n";
    let what = package(
        &[(1, CONFIG), (2, &deployment(3, brief)), (3, SERVICE)],
        "",
        json!({}),
    );
    let created = world.instantiate(&what, 60).await.unwrap();
    let repair = repair(&created, &[1]);
    let healed = world
        .driver
        .converge(&world.cx(60), &repair.change(&what), &Value::Null)
        .await
        .unwrap();
    let (before, after) = (ids(&created), ids(&healed));
    assert_eq!(after.len(), 3);
    let replaced: Vec<&String> = before.difference(&after).collect();
    assert_eq!(
        replaced,
        [&repair.replace.vnfcs[0]],
        "the others kept their UIDs"
    );
    assert_eq!(healed.handle, created.handle);
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let there = pods.list(&ListParams::default()).await.unwrap();
    let there: BTreeSet<String> = there
        .items
        .into_iter()
        .filter_map(|p| p.metadata.uid)
        .collect();
    assert_eq!(there, after);
    // As after a crash: the record still names the deleted pod.
    let again = world
        .driver
        .converge(&world.cx(60), &repair.change(&what), &Value::Null)
        .await
        .unwrap();
    assert_eq!(again, healed);
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn deleted_and_edited_objects_are_restored() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(
        &[(1, CONFIG), (2, &deployment(2, "")), (3, SERVICE)],
        "",
        json!({}),
    );
    let created = world.instantiate(&what, 60).await.unwrap();
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
        .converge(
            &world.cx(60),
            &repair(&created, &[]).change(&what),
            &Value::Null,
        )
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
    assert_ne!(healed.handle, created.handle, "the map has another UID");
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_missing_or_failed_bare_pod_is_recreated() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, BARE)], "", json!({}));
    let created = world.instantiate(&what, 60).await.unwrap();
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let first = pods.get("one").await.unwrap().metadata.uid;
    pods.delete("one", &DeleteParams::default()).await.unwrap();
    world
        .driver
        .converge(
            &world.cx(60),
            &repair(&created, &[]).change(&what),
            &Value::Null,
        )
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
        .converge(
            &world.cx(60),
            &repair(&created, &[]).change(&what),
            &Value::Null,
        )
        .await
        .unwrap();
    let third = pods.get("one").await.unwrap();
    assert_ne!(second, third.metadata.uid);
    assert_eq!(third.data["status"]["phase"], "Running");
    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_deleted_namespace_is_recreated_with_its_objects() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
    let created = world.instantiate(&what, 60).await.unwrap();
    world.clean(&world.namespaces(), &world.namespace()).await;
    let healed = world
        .driver
        .converge(
            &world.cx(60),
            &repair(&created, &[0]).change(&what),
            &Value::Null,
        )
        .await
        .unwrap();
    assert!(ids(&healed).is_disjoint(&ids(&created)) && ids(&healed).len() == 1);
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
async fn observe_lists_pods_in_any_state() {
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
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(observe(&created.handle).await, created);
    let lost = observe(&Value::Null).await;
    assert_eq!(
        (&lost.inventory, &lost.handle),
        (&created.inventory, &Value::Null)
    );
    // An unschedulable pod is listed too.
    let deployments = world.api(
        "apps/v1",
        "Deployment",
        "deployments",
        Some(&world.namespace()),
    );
    let nowhere = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "template": {"spec": {"nodeSelector": {"no": "such"}}}}});
    world.change(&deployments, "web", nowhere).await;
    let mut seen = observe(&created.handle).await;
    while seen.inventory.vnfc_resource_info.len() <= 2 {
        tokio::task::yield_now().await;
        seen = observe(&created.handle).await;
    }
    assert!(ids(&created).is_subset(&ids(&seen)));
    world.terminate(&what, created.handle).await.unwrap();
    assert_eq!(
        observe(&Value::Null).await.inventory,
        vnfm_core::ports::Inventory::default()
    );
}

#[tokio::test]
async fn the_service_of_the_sample_is_an_external_connection_point() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = sample();
    let created = world.instantiate(&what, 60).await.unwrap();
    let services = world.api("v1", "Service", "services", Some(&world.namespace()));
    let service = services.get("web").await.unwrap();
    let [shown] = created.inventory.ext_cp_info.as_slice() else {
        panic!("{:?}", created.inventory.ext_cp_info)
    };
    assert_eq!(shown.cpd_id, "webService");
    assert_eq!(Some(&shown.id), service.metadata.uid.as_ref());
    let ethernet = shown.cp_protocol_info[0].ip_over_ethernet.as_ref().unwrap();
    assert_eq!(
        json!(ethernet.ip_addresses[0].addresses[0]),
        service.data["spec"]["clusterIP"]
    );
    assert_eq!(shown.metadata["ports"][0]["port"], 80);
    let vnfc = &created.inventory.vnfc_resource_info[0];
    assert_eq!(
        shown.associated_vnfc_cp_id.as_ref(),
        Some(&vnfc.vnfc_cp_info[0].id)
    );
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_the_target_has_no_more_is_deleted_and_comes_back_with_the_former_target() {
    let Some(world) = World::start().await else {
        return;
    };
    let brief = "      terminationGracePeriodSeconds: 1\n";
    let web = deployment(1, brief);
    let before = package(&[(1, CONFIG), (2, &web), (3, SERVICE)], "", json!({}));
    let target = package(&[(1, &web)], "", json!({}));
    let created = world.instantiate(&before, 60).await.unwrap();
    let services = world.api("v1", "Service", "services", Some(&world.namespace()));
    let configs = world.config_maps(&world.namespace());
    let converge = async |current: &Recorded, what: &Allocation| {
        let change = Convergence::update(current, what);
        let (cx, none) = (world.cx(60), Value::Null);
        world.driver.converge(&cx, &change, &none).await.unwrap()
    };
    for _ in 0..2 {
        let changed = converge(&created, &target).await;
        assert_eq!(ids(&changed), ids(&created), "the pod stays");
        assert_eq!(changed.handle["objects"].as_array().unwrap().len(), 1);
        assert!(services.get_opt("web").await.unwrap().is_none());
        assert!(configs.get_opt("page").await.unwrap().is_none());
    }
    let changed = converge(&created, &target).await;
    let reversed = converge(&changed, &before).await;
    assert_eq!(ids(&reversed), ids(&created));
    assert!(services.get_opt("web").await.unwrap().is_some());
    assert!(configs.get_opt("page").await.unwrap().is_some());
    world.terminate(&before, reversed.handle).await.unwrap();
    world.assert_nothing_left().await;
}
