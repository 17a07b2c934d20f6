//! Changes to another flavour, and to other external links, in memory: refusals, hooks, grants, rollback, crashes.

use super::fakes::*;
use super::faults::{ready, run_to_end};
use super::scale::{Scalable, Task};
use super::setup::*;
use super::stopping_store::stop_at;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use vnfm_core::lcm::{Begin, Ends, change_flavour};
use vnfm_core::ports::*;
use vnfm_core::{Engine, EngineParts, Limits, Why};
use vnfm_descriptor::Package;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, RolledBack};
use vnfm_types::*;

/// The package `vnf-flavours` with all hooks, and a flavour `large`: as `simple`, with more memory.
fn package() -> Arc<Package> {
    static PACKAGE: LazyLock<Arc<Package>> = LazyLock::new(|| {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vnfd-samples/vnf-flavours");
        let folder = tempfile::tempdir().unwrap();
        copy(&sample, folder.path());
        let edit = |name: &str, to: &str, changes: &[(&str, &str)]| {
            let path = |name: &str| folder.path().join(format!("Definitions/{name}.yaml"));
            let mut text = std::fs::read_to_string(path(name)).unwrap();
            for (from, to) in changes {
                assert!(text.contains(from), "{from}");
                text = text.replace(from, to);
            }
            std::fs::write(path(to), text).unwrap();
        };
        let hook = |name: &str| format!("          {name}: {{implementation: fake}}\n");
        let operations = SCALABLE.iter().flat_map(|operation| operation.hooks());
        let hooks: String = operations
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(hook)
            .collect();
        let node = |id: &str| format!("        flavour_id: {id}\n\n");
        let hooked = |id: &str| {
            format!("        flavour_id: {id}\n      interfaces:\n        Vnflcm:\n{hooks}\n")
        };
        for id in ["simple", "redundant"] {
            edit(id, id, &[(&node(id), &hooked(id))]);
        }
        edit(
            "simple",
            "large",
            &[
                ("flavour_id: simple", "flavour_id: large"),
                ("512 MiB", "2 GiB"),
            ],
        );
        edit(
            "types",
            "types",
            &[("[simple, redundant]", "[simple, redundant, large]")],
        );
        let imports = (
            "  - redundant.yaml\n",
            "  - redundant.yaml\n  - large.yaml\n",
        );
        edit("vnf-flavours", "vnf-flavours", &[imports]);
        let limits = vnfm_descriptor::Limits::default();
        Arc::new(Package::open(folder.path(), &limits).unwrap_or_else(|why| panic!("{why}")))
    });
    PACKAGE.clone()
}

fn link(id: &str, network: &str, cpds: &[&str]) -> Value {
    let cps: Vec<_> = cpds
        .iter()
        .map(|cpd| json!({"cpdId": cpd, "cpConfig": {"any": {}}}))
        .collect();
    json!({"id": id, "resourceId": network, "extCps": cps})
}

/// An instance in this flavour, with its external CPs on the link `external`.
async fn in_flavour(world: Arc<FakeWorld>, flavour: &str) -> Scalable {
    let cpds: &[&str] = match flavour {
        "redundant" => &["frontService", "backService"],
        _ => &["frontService"],
    };
    let request = InstantiateVnfRequest {
        flavour_id: flavour.into(),
        ext_virtual_links: serde_json::from_value(json!([link("external", "net-1", cpds)]))
            .unwrap(),
        ..on("cloud")
    };
    Scalable::instantiated(world, package(), request).await
}

fn to(flavour: &str) -> Task {
    let links = match flavour {
        "redundant" => json!([link("external", "net-1", &["frontService", "backService"])]),
        _ => json!([]),
    };
    let body = json!({"newFlavourId": flavour, "extVirtualLinks": links});
    (LcmOperationType::ChangeFlavour, body)
}

fn connect(links: impl Into<Value>) -> Task {
    let links = links.into();
    (
        LcmOperationType::ChangeExtConn,
        json!({"extVirtualLinks": links}),
    )
}

impl Scalable {
    /// VDUs of the recorded VNFCs, which are those on the VIM.
    async fn vdus(&self) -> Vec<String> {
        assert_eq!(self.vnfcs().await, self.vim.0.vnfcs());
        let info = self.info().await;
        let record = self.store.instance(TENANT, &self.id).await.unwrap();
        let deployment = record.deployment.unwrap();
        assert_eq!(record.active_op, None);
        assert_eq!(info.flavour_id, deployment.flavour_id.as_str());
        assert_eq!(info.scale_status, deployment.scale_status());
        let links = info
            .ext_virtual_link_info
            .iter()
            .map(|link| &link.current_vnf_ext_cp_data);
        let wanted = deployment
            .ext_virtual_links
            .iter()
            .map(|link| &link.ext_cps);
        assert!(links.eq(wanted));
        info.vnfc_resource_info
            .into_iter()
            .map(|vnfc| vnfc.vdu_id)
            .collect()
    }

    async fn done(&self, task: &Task) -> VnfLcmOpOcc {
        let op = self.run(task).await;
        let record = self.store.op(TENANT, &op).await.unwrap().op;
        assert_eq!(
            record.operation_state, Completed,
            "{task:?}: {:?}",
            record.error
        );
        record
    }

    async fn networks(&self) -> Vec<String> {
        let links = self.info().await.ext_virtual_link_info.into_iter();
        links.map(|link| link.resource_handle.resource_id).collect()
    }
}

#[tokio::test]
async fn a_flavour_is_changed_there_and_back() {
    let it = in_flavour(Arc::default(), "simple").await;
    let first = it.vnfcs().await;
    for (flavour, vdus) in [
        ("redundant", &["back", "back", "front", "front"][..]),
        ("simple", &["front"]),
        ("large", &["front"]),
        ("simple", &["front"]),
    ] {
        let before = it.vnfcs().await;
        let occurrence = it.done(&to(flavour)).await;
        assert_eq!(it.vdus().await, vdus, "{flavour}");
        assert_eq!(it.info().await.flavour_id, flavour);
        let changes = occurrence.resource_changes.unwrap().affected_vnfcs;
        let removed = changes
            .iter()
            .filter(|one| one.change_type == ChangeType::Removed);
        let removed: Vec<_> = removed.map(|one| one.id.clone()).collect();
        let after = it.vnfcs().await;
        let left: Vec<_> = before
            .into_iter()
            .filter(|id| !after.contains(id))
            .collect();
        assert_eq!(removed, left, "{flavour}");
    }
    assert_eq!(it.vnfcs().await.len(), first.len());
    let links = it
        .store
        .instance(TENANT, &it.id)
        .await
        .unwrap()
        .deployment
        .unwrap();
    let cps: Vec<_> = links.ext_virtual_links[0]
        .ext_cps
        .iter()
        .map(|data| &data.cpd_id)
        .collect();
    assert_eq!(cps, ["frontService"], "the CPs of the flavour it has");
}

#[tokio::test]
async fn a_resize_keeps_the_vnfcs_and_can_be_rolled_back() {
    let it = in_flavour(Arc::default(), "simple").await;
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    for after_effect in [false, true] {
        it.world.calls.lock().unwrap().clear();
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        it.world.fail_call.store(3, SeqCst);
        let op = it.run(&to("large")).await;
        assert_eq!(state(&it.engine, &op).await, FailedTemp);
        it.world.fail_call.store(0, SeqCst);
        it.engine.rollback(TENANT, &op).await.unwrap();
        it.engine.drive(&op).await.unwrap();
        assert_eq!(state(&it.engine, &op).await, RolledBack);
        let after = it.store.instance(TENANT, &it.id).await.unwrap();
        assert_eq!(
            (&after.vnf, &after.deployment),
            (&before.vnf, &before.deployment)
        );
    }
    *it.world.fail_after_effect.lock().unwrap() = false;
    let vnfcs = it.vnfcs().await;
    it.done(&to("large")).await;
    assert_eq!(it.vnfcs().await, vnfcs);
}

#[tokio::test]
async fn a_change_that_removes_vnfcs_can_be_rolled_back_until_it_begins() {
    let it = in_flavour(Arc::default(), "redundant").await;
    let before = it.vnfcs().await;
    it.world.fail_call.store(2, SeqCst);
    let op = it.run(&to("simple")).await;
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_eq!(it.vnfcs().await, before);
    it.world.calls.lock().unwrap().clear();
    it.world.fail_call.store(4, SeqCst);
    let op = it.run(&to("simple")).await;
    let refusal = it.engine.rollback(TENANT, &op).await.unwrap_err();
    assert!(refusal.detail.contains("step `replace`"), "{refusal}");
    it.engine.fail(TENANT, &op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Failed);
    assert_eq!(it.vdus().await, ["front"]);
}

#[tokio::test]
async fn what_is_not_possible_is_refused_with_what_would_be() {
    let it = in_flavour(Arc::default(), "simple").await;
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    let flavour = |body: Value| (LcmOperationType::ChangeFlavour, body);
    let managed = json!([{"id": "m", "vnfVirtualLinkDescId": "inside", "resourceId": "net"}]);
    let elsewhere = json!({"vim1": {"vimId": "none", "vimType": OPENSTACK}});
    for (task, expected) in [
        (flavour(json!({})), "does not have the form"),
        (
            flavour(json!({"newFlavourId": "huge"})),
            "`huge` is not in the VNFD",
        ),
        (
            flavour(json!({"newFlavourId": "huge"})),
            "which has: large, redundant, simple",
        ),
        (
            flavour(json!({"newFlavourId": "large", "instantiationLevelId": "top"})),
            "instantiationLevelId `top` is not in the flavour `large`",
        ),
        (
            flavour(json!({"newFlavourId": "large", "extManagedVirtualLinks": managed})),
            "`inside` is not an internal link of the flavour",
        ),
        (
            flavour(json!({"newFlavourId": "large", "vimConnectionInfo": elsewhere})),
            "`none` is not in the registry",
        ),
        (connect(json!([])), "extVirtualLinks names no link"),
        (
            connect(
                json!([{"id": "external", "resourceId": "n", "extCps": [{"cpdId": "backService", "cpConfig": {"any": null}}]}]),
            ),
            "`external` has no cpConfig `any` of `backService` to remove",
        ),
    ] {
        let refusal = it.begin(&task).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    assert_eq!(it.store.instance(TENANT, &it.id).await.unwrap(), before);
    assert!(it.world.calls().is_empty());
}

#[tokio::test]
async fn a_vnf_without_other_flavours_or_links_does_not_support_the_tasks() {
    let it = Scalable::new().await;
    let refusal = it.begin(&to("simple")).await.unwrap_err();
    assert_eq!(
        (refusal.why, refusal.code.name),
        (Why::NotFound, "request.not-supported")
    );
    assert!(
        refusal.detail.contains("its only flavour is `simple`"),
        "{refusal}"
    );
    let (world, engine, id) = ready(LcmOperationType::ChangeExtConn).await;
    world.powerless.store(true, SeqCst);
    let (kind, body) = connect(json!([link("external", "net-2", &["frontService"])]));
    let begin = Begin::new(engine.operation(kind).unwrap(), body);
    let refusal = engine.begin(TENANT, &id, begin).await.unwrap_err();
    assert_eq!(
        (refusal.why, refusal.code.name),
        (Why::NotFound, "request.not-supported")
    );
    assert!(
        refusal.detail.contains("task `change_ext_conn`"),
        "{refusal}"
    );
}

#[tokio::test]
async fn hooks_learn_which_vnfcs_go_and_which_came() {
    let it = in_flavour(Arc::default(), "simple").await;
    let first = it.vnfcs().await;
    it.done(&to("redundant")).await;
    let second = it.vnfcs().await;
    let hooks = it.world.hook_flavours.lock().unwrap().clone();
    let [(start, before), (end, after)] = &hooks[..] else {
        panic!("{} hooks", hooks.len())
    };
    assert_eq!(
        (start.as_str(), end.as_str()),
        ("change_flavour_start", "change_flavour_end")
    );
    assert_eq!(
        (&*before.flavour_id_before, &*before.flavour_id),
        ("simple", "redundant")
    );
    let ids =
        |vnfcs: &[VnfcResourceInfo]| vnfcs.iter().map(|vnfc| vnfc.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&before.vnfcs_to_remove), first);
    assert!(before.vnfcs_added.is_empty());
    let came: Vec<_> = second
        .iter()
        .filter(|id| !first.contains(id))
        .cloned()
        .collect();
    assert_eq!(ids(&after.vnfcs_added), came);
}

#[tokio::test]
async fn the_parameters_of_a_change_stay_with_the_instance_and_mark_its_deployment() {
    let it = in_flavour(Arc::default(), "simple").await;
    let (kind, mut body) = to("simple");
    body["additionalParams"] = json!({"tuning": "fast"});
    let op = it.done(&(kind, body)).await;
    let deployment = it
        .store
        .instance(TENANT, &it.id)
        .await
        .unwrap()
        .deployment
        .unwrap();
    assert_eq!(deployment.additional_params["tuning"], "fast");
    assert_eq!(deployment.params_changed_by, op.id);
}

#[tokio::test]
async fn the_grant_asks_for_what_comes_goes_and_is_resized() {
    let it = in_flavour(FakeWorld::with_nfvo(), "simple").await;
    let first = it.vnfcs().await;
    it.done(&to("large")).await;
    it.done(&to("redundant")).await;
    let requests = it.world.grant_requests.lock().unwrap().clone();
    let ids = |all: &[ResourceDefinition]| all.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let compute = format!("compute/{}", first[0]);
    assert_eq!(requests[0].flavour_id.as_deref(), Some("large"));
    assert_eq!(
        ids(&requests[0].update_resources),
        std::slice::from_ref(&compute)
    );
    assert!(requests[0].add_resources.is_empty() && requests[0].remove_resources.is_empty());
    assert_eq!(ids(&requests[1].remove_resources), [compute]);
    let added = ids(&requests[1].add_resources);
    for id in [
        "compute/back/1",
        "compute/front/0",
        "vl/inside",
        "linkport/frontService/0",
    ] {
        assert!(added.iter().any(|one| one == id), "{id} in {added:?}");
    }
    assert!(!requests[1].placement_constraints.is_empty());
}

#[tokio::test]
async fn links_are_changed_there_and_back() {
    let it = in_flavour(Arc::default(), "redundant").await;
    let vnfcs = it.vnfcs().await;
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    for (links, networks, changed) in [
        (
            json!([link("external", "net-2", &[])]),
            &["net-2"][..],
            vec!["external"],
        ),
        (
            json!([link("other", "net-3", &["backService"])]),
            &["net-2", "net-3"],
            vec!["external", "other"],
        ),
        (
            json!([link("external", "net-1", &["backService"])]),
            &["net-1"],
            vec!["external", "other"],
        ),
    ] {
        let occurrence = it.done(&connect(links)).await;
        assert_eq!(it.networks().await, networks);
        assert_eq!(it.vnfcs().await, vnfcs);
        let ids = occurrence
            .changed_ext_connectivity
            .iter()
            .map(|link| link.id.as_str());
        assert_eq!(ids.collect::<Vec<_>>(), changed);
    }
    let after = it.store.instance(TENANT, &it.id).await.unwrap();
    assert_eq!(
        after.vnf.instantiated_vnf_info,
        before.vnf.instantiated_vnf_info
    );
    let hooks = it.world.hook_links.lock().unwrap().clone();
    let (name, first) = &hooks[0];
    assert_eq!(name, "change_external_connectivity_start");
    assert_eq!(first.ext_virtual_links_before[0]["resourceId"], "net-1");
    assert_eq!(first.ext_virtual_links[0]["resourceId"], "net-2");
    assert_eq!(first.changed_cpds, ["backService", "frontService"]);
    assert_eq!(hooks[2].1.changed_cpds, ["backService"]);
}

#[tokio::test]
async fn a_change_of_links_can_be_rolled_back() {
    let it = in_flavour(Arc::default(), "simple").await;
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    it.world.fail_call.store(4, SeqCst);
    let op = it
        .run(&connect(json!([link("external", "net-2", &[])])))
        .await;
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    let after = it.store.instance(TENANT, &it.id).await.unwrap();
    assert_eq!(
        (after.vnf, after.deployment),
        (before.vnf, before.deployment)
    );
}

/// The changes that the generic cases cover, from flavour `simple`.
fn tasks() -> [Task; 3] {
    let links = json!([link("external", "net-2", &[])]);
    [to("redundant"), to("large"), connect(links)]
}

#[tokio::test]
async fn every_call_may_fail_once_and_a_retry_completes_the_change() {
    let mut cases = 0;
    for task in tasks() {
        for after_effect in [false, true] {
            for number in 2.. {
                let it = in_flavour(FakeWorld::with_nfvo(), "simple").await;
                *it.world.fail_after_effect.lock().unwrap() = after_effect;
                it.world.fail_call.store(number, SeqCst);
                let op = it.run(&task).await;
                if it.world.calls().len() < number {
                    break;
                }
                match state(&it.engine, &op).await {
                    RolledBack => drop(it.done(&task).await),
                    FailedTemp => {
                        it.engine.retry(TENANT, &op).await.unwrap();
                        it.engine.drive(&op).await.unwrap();
                        assert_eq!(state(&it.engine, &op).await, Completed, "{task:?} {number}");
                    }
                    other => panic!("{task:?} call {number}: {other}"),
                }
                it.vdus().await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 20, "only {cases} cases");
}

#[tokio::test]
async fn a_crash_at_any_store_write_of_a_change_is_resumed_by_the_next_process() {
    let mut cases = 0;
    for task in tasks() {
        for number in 1.. {
            let it = in_flavour(FakeWorld::with_nfvo(), "simple").await;
            let op = it.begin(&task).await.unwrap();
            let stopping = stop_at(it.store.clone(), number, false);
            let lease = Duration::from_millis(50);
            let parts = scalable_parts(stopping.clone(), &it.world, it.vim.clone(), package());
            let limits = Limits {
                lease,
                ..Limits::default()
            };
            let first = Engine::new(EngineParts { limits, ..parts });
            tokio::select! {
                biased;
                () = stopping.interceptor().stopped() => {}
                ended = first.drive(&op) => {
                    ended.unwrap();
                    break;
                }
            }
            run_to_end(&it.engine, &op).await;
            assert_eq!(
                state(&it.engine, &op).await,
                Completed,
                "{task:?} write {number}"
            );
            it.vdus().await;
            cases += 1;
        }
    }
    assert!(cases >= 15, "only {cases} cases");
}

#[test]
fn the_plan_of_a_change_depends_on_what_goes() {
    let names: Vec<_> = change_flavour::STEPS.iter().map(|step| step.name).collect();
    let both = ["adapt", "replace"].map(|name| names.iter().position(|one| *one == name).unwrap());
    let deployment = |flavour: &str| {
        let request = json!({"flavourId": flavour});
        let request = serde_json::from_value(request).unwrap();
        let what = Allocation::requested("p", package(), request).unwrap();
        what.deployment
    };
    for (from, to, expected) in [
        ("simple", "large", [true, false]),
        ("simple", "simple", [true, false]),
        ("simple", "redundant", [false, true]),
        ("redundant", "large", [false, true]),
    ] {
        let (before, target) = (deployment(from), deployment(to));
        let package = package();
        let needed = both.map(|at| {
            let step = &change_flavour::STEPS[at];
            let ends = Ends::between(Some(&before), Some(&target), Some(&package));
            step.is_needed(ends.as_ref())
        });
        assert_eq!(needed, expected, "{from} to {to}");
    }
}
