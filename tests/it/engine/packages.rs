//! Changes of the VNF package, in memory: policies, what is carried over, hooks of both packages, grants, rollback.

use super::fakes::*;
use super::faults::run_to_end;
use super::scale::{Scalable, Task, out};
use super::setup::*;
use super::stopping_store::stop_at;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use vnfm_core::lcm::Begin;
use vnfm_core::ports::*;
use vnfm_core::query::{Query, VisibilityScope};
use vnfm_core::{Limits, Why};
use vnfm_descriptor::Package;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, RolledBack};
use vnfm_types::*;

/// The VNFD of `vnf-levels`, which the instances have at first.
const FIRST: &str = "5b0e6f0a-3c1d-4a57-9d0e-1f2a3b4c5d02";
/// Its successor, with other software for `web`; the policies below allow the change in both directions.
const SECOND: &str = "5b0e6f0a-3c1d-4a57-9d0e-1f2a3b4c5d03";
/// Changes of `vnf-levels` that lead to its successor.
const UPGRADE: [(&str, &str); 4] = [
    (FIRST, SECOND),
    (
        "software_version: {type: string, default: '1.0'}",
        "software_version: {type: string, default: '2.0'}",
    ),
    (
        "descriptor_version: {type: string, default: '1.0'}",
        "descriptor_version: {type: string, default: '1.1'}",
    ),
    (
        "        description: Answers clients\n        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 7}\n        sw_image_data:\n          name: nfv-image",
        "        description: Answers clients\n        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 7}\n        sw_image_data:\n          name: nfv-image-2",
    ),
];

fn upgrade_with(more: &[(&str, &str)]) -> Arc<Package> {
    let all: Vec<_> = UPGRADE.iter().chain(more).copied().collect();
    changed_scalable_package(&all)
}

/// A policy for a change, as text of a VNFD.
fn policy(from: &str, to: &str, mappings: &str) -> String {
    format!(
        "  policies:\n    - change:\n        type: tosca.policies.nfv.VnfPackageChange\n        properties:\n          \
         selector: [{{source_descriptor_id: {from}, destination_descriptor_id: {to}, source_flavour_id: simple}}]\n          \
         modification_qualifier: up\n          destination_flavour_id: simple\n{mappings}        targets: [VNF]\n"
    )
}

/// An instance of `vnf-levels`, and its successor as the package `p2`.
async fn with_successor(world: Arc<FakeWorld>, successor: Arc<Package>) -> Scalable {
    world
        .other_packages
        .lock()
        .unwrap()
        .insert(NEXT_PACKAGE.into(), successor.clone());
    let it = Scalable::at_level(world, "trial").await;
    let record = package_record(NEXT_PACKAGE, &successor.vnfd().descriptor_id);
    it.store
        .write(None, vec![Change::PutPackage(Box::new(record))])
        .await
        .unwrap();
    let own = package_record("p1", FIRST);
    let mut instance = it.record().await;
    let vnfd = scalable_package();
    let vnfd = vnfd.vnfd();
    instance.vnf.vnfd_id.clone_from(&vnfd.descriptor_id);
    instance.vnf.vnf_provider.clone_from(&vnfd.provider);
    instance.vnf.vnf_product_name.clone_from(&vnfd.product_name);
    instance
        .vnf
        .vnf_software_version
        .clone_from(&vnfd.software_version);
    instance
        .vnf
        .vnfd_version
        .clone_from(&vnfd.descriptor_version);
    let changes = vec![
        Change::PutPackage(Box::new(own)),
        Change::PutInstance(Box::new(instance)),
    ];
    it.store.write(None, changes).await.unwrap();
    it
}

fn to(vnfd_id: &str) -> Task {
    with(vnfd_id, json!({}))
}

fn with(vnfd_id: &str, more: Value) -> Task {
    let mut body = more;
    body["vnfdId"] = json!(vnfd_id);
    (LcmOperationType::ChangeVnfpkg, body)
}

impl Scalable {
    async fn record(&self) -> InstanceRecord {
        self.store.instance(TENANT, &self.id).await.unwrap()
    }

    async fn changed(&self, task: &Task) -> VnfLcmOpOcc {
        let op = self.run(task).await;
        let record = self.store.op(TENANT, &op).await.unwrap().op;
        assert_eq!(record.operation_state, Completed, "{:?}", record.error);
        record
    }

    /// Ids of the VNFCs of a VDU.
    async fn vnfcs_of(&self, vdu: &str) -> Vec<String> {
        let all = self.info().await.vnfc_resource_info.into_iter();
        all.filter(|vnfc| vnfc.vdu_id == vdu)
            .map(|vnfc| vnfc.id)
            .collect()
    }
}

#[tokio::test]
async fn a_package_is_changed_there_and_back_and_what_does_not_differ_stays() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    it.changed(&out("clients", 1)).await;
    let (web, worker) = (it.vnfcs_of("web").await, it.vnfcs_of("worker").await);
    let before = it.record().await;
    let op = it.changed(&to(SECOND)).await;
    let after = it.record().await;
    assert_eq!(
        (it.vnfcs_of("worker").await, it.vnfcs_of("web").await.len()),
        (worker.clone(), 3)
    );
    let new: BTreeSet<_> = it.vnfcs_of("web").await.into_iter().collect();
    assert!(web.iter().all(|id| !new.contains(id)), "{web:?} {new:?}");
    assert_eq!(
        (after.vnf.vnfd_id.as_str(), after.vnf_pkg_id.as_str()),
        (SECOND, NEXT_PACKAGE)
    );
    assert_eq!(
        (&*after.vnf.vnf_software_version, &*after.vnf.vnfd_version),
        ("2.0", "1.1")
    );
    let deployment = after.deployment.unwrap();
    assert_eq!(&*deployment.vnf_pkg_id, NEXT_PACKAGE);
    assert_eq!(
        deployment.scale_status(),
        before.deployment.unwrap().scale_status()
    );
    let modified = json!(op.modifications_triggered_by_vnf_pkg_change);
    assert_eq!(
        modified,
        json!({"vnfdId": SECOND, "vnfSoftwareVersion": "2.0", "vnfdVersion": "1.1"})
    );
    let outbox = it.store.outbox(0, 1000).await.unwrap();
    let last = outbox
        .iter()
        .rev()
        .find(|row| row.body["operationState"] == "COMPLETED")
        .unwrap();
    assert_eq!(last.body["modificationsTriggeredByVnfPkgChange"], modified);
    assert_eq!(last.body["affectedVnfcs"].as_array().unwrap().len(), 6);
    assert!(last.body.get("changedInfo").is_none());
    let earlier = outbox.iter().filter(|row| row.seq < last.seq);
    for row in earlier {
        assert!(
            row.body
                .get("modificationsTriggeredByVnfPkgChange")
                .is_none(),
            "{}",
            row.body
        );
    }
    it.changed(&to(FIRST)).await;
    let back = it.record().await;
    assert_eq!(
        (back.vnf.vnfd_id.as_str(), back.vnf_pkg_id.as_str()),
        (FIRST, "p1")
    );
    assert_eq!(it.vnfcs_of("worker").await, worker);
    it.changed(&out("clients", 1)).await;
    assert_eq!(it.vnfcs_of("web").await.len(), 5);
}

#[tokio::test]
async fn a_rollback_returns_to_the_old_package() {
    for (after_effect, call) in [(false, 3), (true, 3), (false, 4)] {
        let it = with_successor(Arc::default(), upgrade_with(&[])).await;
        let worker = it.vnfcs_of("worker").await;
        let before = it.record().await;
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        it.world.fail_call.store(call, SeqCst);
        let op = it.run(&to(SECOND)).await;
        assert_eq!(state(&it.engine, &op).await, FailedTemp);
        it.world.fail_call.store(0, SeqCst);
        it.engine.rollback(TENANT, &op).await.unwrap();
        it.engine.drive(&op).await.unwrap();
        assert_eq!(state(&it.engine, &op).await, RolledBack);
        let after = it.record().await;
        assert_eq!(
            (&after.vnf_pkg_id, &after.deployment),
            (&before.vnf_pkg_id, &before.deployment)
        );
        assert_eq!(after.vnf.vnfd_id, FIRST);
        assert_eq!(it.vnfcs_of("worker").await, worker);
        let occurrence = it.store.op(TENANT, &op).await.unwrap().op;
        assert_eq!(occurrence.modifications_triggered_by_vnf_pkg_change, None);
        // What runs is of the old package: another change to it finds nothing to replace.
        *it.world.fail_after_effect.lock().unwrap() = false;
        let running = it.vim.0.vnfcs();
        it.changed(&(LcmOperationType::Scale, out("load", 1).1))
            .await;
        assert!(running.iter().all(|id| it.vim.0.vnfcs().contains(id)));
    }
}

#[tokio::test]
async fn an_operation_that_is_failed_leaves_the_package_that_the_vnfcs_have() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    it.world.fail_call.store(4, SeqCst);
    let op = it.run(&to(SECOND)).await;
    it.engine.fail(TENANT, &op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Failed);
    let after = it.record().await;
    assert_eq!(
        (after.vnf.vnfd_id.as_str(), after.vnf_pkg_id.as_str()),
        (SECOND, NEXT_PACKAGE)
    );
    assert_eq!(it.vnfcs().await, it.vim.0.vnfcs());
    it.world.calls.lock().unwrap().clear();
    it.world.fail_call.store(3, SeqCst);
    let op = it.run(&to(FIRST)).await;
    it.engine.fail(TENANT, &op).await.unwrap();
    assert_eq!(it.record().await.vnf.vnfd_id, SECOND);
}

#[tokio::test]
async fn policies_exclude_and_allow_changes() {
    let other = "5b0e6f0a-3c1d-4a57-9d0e-1f2a3b4c5d09";
    let of_others = policy(other, SECOND, "");
    let excluded = upgrade_with(&[("  policies:\n", &of_others)]);
    let it = with_successor(Arc::default(), excluded).await;
    let before = it.record().await;
    let refusal = it.begin(&to(SECOND)).await.unwrap_err();
    assert_eq!(
        (refusal.why, refusal.code.name),
        (Why::Unprocessable, "request.package-change")
    );
    let allowed = format!("they allow: `{other}` (flavour `simple`) to `{SECOND}`");
    assert!(refusal.detail.contains(&allowed), "{refusal}");
    assert_eq!(it.record().await, before);
    let product = (
        "product_name: {type: string, default: Levels}",
        "product_name: {type: string, default: Others}",
    );
    let it = with_successor(Arc::default(), upgrade_with(&[product])).await;
    let refusal = it.begin(&to(SECOND)).await.unwrap_err();
    assert!(
        refusal
            .detail
            .contains("describes `Others` of `vnfm samples`, and the VNF is a `Levels`"),
        "{refusal}"
    );
    // A policy for exactly this change allows also another product.
    let own = policy(FIRST, SECOND, "");
    let it = with_successor(
        Arc::default(),
        upgrade_with(&[product, ("  policies:\n", &own)]),
    )
    .await;
    it.changed(&to(SECOND)).await;
    assert_eq!(it.record().await.vnf.vnf_product_name, "Others");
    assert!(it.world.calls().len() > 1);
}

#[tokio::test]
async fn what_is_not_possible_is_refused_with_what_would_be() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    let before = it.record().await;
    let rolling = |rolling: Value| {
        with(
            SECOND,
            json!({"additionalParams": {"vnfm_rolling": rolling}}),
        )
    };
    let elsewhere = json!({"vim1": {"vimId": "none", "vimType": OPENSTACK}});
    for (task, code, expected) in [
        (
            (LcmOperationType::ChangeVnfpkg, json!({})),
            "request.bad-parameters",
            "does not have the form",
        ),
        (
            to("unknown"),
            "request.no-package",
            "no onboarded and enabled VNF package has vnfdId `unknown`",
        ),
        (to(FIRST), "request.package-change", "already has the VNFD"),
        (
            rolling(json!({"parallel": 0})),
            "request.bad-parameters",
            "vnfm_rolling",
        ),
        (
            with(
                SECOND,
                json!({"additionalParams": {"lcm-operation-coordinate-old-vnf": "Scripts/a.py"}}),
            ),
            "request.bad-parameters",
            "lcm-operation-coordinate-old-vnf",
        ),
        (
            rolling(json!({"paralel": 2})),
            "request.bad-parameters",
            "unknown field `paralel`",
        ),
        (
            with(SECOND, json!({"vimConnectionInfo": elsewhere})),
            "request.unknown-vim",
            "`none` is not in the registry",
        ),
        (
            with(SECOND, json!({"extensions": {"speed": 2}})),
            "request.undeclared",
            "does not declare `speed`",
        ),
    ] {
        let refusal = it.begin(&task).await.unwrap_err();
        assert_eq!(
            (refusal.why, refusal.code.name),
            (Why::Unprocessable, code),
            "{refusal}"
        );
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    assert_eq!(it.record().await, before);
    assert!(it.world.calls().is_empty());
}

#[tokio::test]
async fn a_disabled_package_is_no_successor() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    let before = it.record().await;
    let mut disabled = package_record(NEXT_PACKAGE, SECOND);
    disabled.info.operational_state = PackageOperationalState::Disabled;
    it.store
        .write(None, vec![Change::PutPackage(Box::new(disabled))])
        .await
        .unwrap();
    let refusal = it.begin(&to(SECOND)).await.unwrap_err();
    assert_eq!(refusal.code.name, "request.no-package", "{refusal}");
    assert_eq!(it.record().await, before);
    assert!(it.world.calls().is_empty());
}

#[tokio::test]
async fn a_caller_changes_only_to_packages_in_its_scope() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    let scope = VisibilityScope {
        vendors: vec!["other vendor".to_owned()],
        ..VisibilityScope::default()
    };
    let (kind, body) = to(SECOND);
    let begin = Begin {
        scope: Some(&scope),
        ..Begin::new(it.engine.operation(kind).unwrap(), body)
    };
    let refusal = it.engine.begin(TENANT, &it.id, begin).await.unwrap_err();
    assert_eq!(refusal.code.name, "request.no-package", "{refusal}");
}

#[tokio::test]
async fn the_new_package_cannot_be_removed_while_an_operation_needs_it() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    let remove = |id: &str| Change::RemovePackage {
        tenant: TENANT.into(),
        id: id.into(),
    };
    let used = async || {
        let all = it
            .store
            .package_records(TENANT, &Query::default())
            .await
            .unwrap();
        let used = all
            .into_iter()
            .filter(|one| one.info.usage_state == PackageUsageState::InUse);
        used.map(|one| one.info.id).collect::<BTreeSet<_>>()
    };
    it.world.fail_call.store(3, SeqCst);
    let op = it.run(&to(SECOND)).await;
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert_eq!(
        used().await,
        ["p1".to_owned(), NEXT_PACKAGE.to_owned()].into()
    );
    for id in ["p1", NEXT_PACKAGE] {
        let refused = it.store.write(None, vec![remove(id)]).await.unwrap_err();
        assert!(
            refused.to_string().contains(&it.id) || format!("{refused:?}").contains(&it.id),
            "{refused:?}"
        );
    }
    it.world.fail_call.store(0, SeqCst);
    it.engine.retry(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(used().await, [NEXT_PACKAGE.to_owned()].into());
    it.store.write(None, vec![remove("p1")]).await.unwrap();
    assert!(
        it.store
            .write(None, vec![remove(NEXT_PACKAGE)])
            .await
            .is_err()
    );
    // A package that was removed in the meantime: nothing begins.
    let refusal = it.begin(&to(FIRST)).await.unwrap_err();
    assert_eq!(refusal.code.name, "request.no-package");
}

/// Records that a resource is in this zone.
async fn place(it: &Scalable, id: &str, zone: &str) {
    let mut placed = it.record().await;
    let deployment = Arc::make_mut(placed.deployment.as_mut().unwrap());
    let zones = &mut deployment.placement.zones;
    zones.insert(id.to_owned(), zone.to_owned());
    let changes = vec![Change::PutInstance(Box::new(placed))];
    it.store.write(None, changes).await.unwrap();
}

#[tokio::test]
async fn vdus_and_aspects_that_policies_rename_keep_their_size() {
    let mapping = |kind: &str, from: &str, to: &str| {
        format!(
            "            - {{component_type: {kind}, source_id: {from}, destination_id: {to}}}\n"
        )
    };
    let mappings = format!(
        "          component_mappings:\n{}{}",
        mapping("vdu", "worker", "engine"),
        mapping("scaling_aspect", "load", "power")
    );
    let own = policy(FIRST, SECOND, &mappings);
    let renamed = [
        ("  policies:\n", own.as_str()),
        ("    worker:\n", "    engine:\n"),
        ("virtual_binding: worker", "virtual_binding: engine"),
        ("targets: [worker]", "targets: [engine]"),
        (
            "            load: {name: load",
            "            power: {name: load",
        ),
        ("aspect: load", "aspect: power"),
        ("load: {scale_level", "power: {scale_level"),
    ];
    let it = with_successor(Arc::default(), upgrade_with(&renamed)).await;
    it.changed(&out("load", 1)).await;
    assert_eq!(it.vnfcs_of("worker").await.len(), 4);
    place(&it, &compute_id("worker", 2), "edge").await;
    it.changed(&to(SECOND)).await;
    let placement = it.record().await.deployment.unwrap().placement.clone();
    assert_eq!(
        placement.zones,
        BTreeMap::from([(compute_id("engine", 2), "edge".to_owned())])
    );
    assert_eq!(
        (
            it.vnfcs_of("engine").await.len(),
            it.vnfcs_of("worker").await.len()
        ),
        (4, 0)
    );
    let status = json!(it.info().await.scale_status);
    assert_eq!(
        status,
        json!([{"aspectId": "clients", "scaleLevel": 0}, {"aspectId": "power", "scaleLevel": 1}])
    );
    assert_eq!(it.vnfcs().await, it.vim.0.vnfcs());
    // No policy describes the way back, and there is one for others.
    it.changed(&out("power", 1)).await;
    let refusal = it.begin(&to(FIRST)).await;
    assert!(
        refusal.is_ok(),
        "the policy of the way there tells what corresponds: {refusal:?}"
    );
    it.engine.drive(&refusal.unwrap()).await.unwrap();
    assert_eq!(
        (
            it.vnfcs_of("engine").await.len(),
            it.vnfcs_of("worker").await.len()
        ),
        (0, 8)
    );
}

#[tokio::test]
async fn a_size_that_the_new_package_does_not_have_is_refused() {
    let numbers = (
        "town: {number_of_instances: 3}, city: {number_of_instances: 7}",
        "town: {number_of_instances: 3}, city: {number_of_instances: 3}",
    );
    let smaller = (
        "max_scale_level: 3, step_deltas: [two]",
        "max_scale_level: 1, step_deltas: [two]",
    );
    let levels = (
        "city: {description: A city, scale_info: {clients: {scale_level: 3}",
        "city: {description: A city, scale_info: {clients: {scale_level: 1}",
    );
    let it = with_successor(Arc::default(), upgrade_with(&[smaller, levels, numbers])).await;
    it.changed(&out("clients", 2)).await;
    let refusal = it.begin(&to(SECOND)).await.unwrap_err();
    assert!(
        refusal.detail.contains(
            "`clients` is at level 2, and the new VNFD allows `clients` up to 1: scale in first"
        ),
        "{refusal}"
    );
}

#[tokio::test]
async fn hooks_of_both_packages_run_each_with_its_plugin_version() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    let web = it.vnfcs_of("web").await;
    it.world.called_versions.lock().unwrap().clear();
    *it.world.newest_version.lock().unwrap() = Some("2.0.0");
    let params = json!({"tuning": "fast", "vnfm_rolling": {"parallel": 2}});
    it.changed(&with(SECOND, json!({"additionalParams": params})))
        .await;
    assert_eq!(
        *it.world.called_versions.lock().unwrap(),
        ["1.0.0", "2.0.0"]
    );
    let calls = it.world.hook_packages.lock().unwrap().clone();
    let [(start, first), (end, last)] = &calls[..] else {
        panic!("{} hooks", calls.len())
    };
    assert_eq!(
        (start.as_str(), end.as_str()),
        ("change_current_package_start", "change_current_package_end")
    );
    assert_eq!((&*first.vnfd_id_before, &*first.vnfd_id), (FIRST, SECOND));
    assert_eq!(
        (
            &*first.vnf_software_version_before,
            &*first.vnf_software_version
        ),
        ("1.0", "2.0")
    );
    let ids =
        |vnfcs: &[VnfcResourceInfo]| vnfcs.iter().map(|vnfc| vnfc.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&first.vnfcs_to_change), web);
    assert!(first.vnfcs_added.is_empty() && first.vnfcs_to_remove.is_empty());
    assert_eq!(ids(&last.vnfcs_added), it.vnfcs_of("web").await);
    let params = it.world.hook_params.lock().unwrap().clone();
    let (_, seen) = params.last().unwrap();
    assert_eq!(
        (&seen["tuning"], seen.get("vnfm_rolling")),
        (&json!("fast"), None)
    );
    let record = it.record().await;
    let deployment = record.deployment.unwrap();
    assert_eq!(deployment.plugins["fake"], "fake@2.0.0");
    assert_eq!(
        deployment.additional_params,
        *json!({"tuning": "fast"}).as_object().unwrap()
    );
    assert_eq!(
        record.vnf.instantiated_vnf_info.unwrap().metadata["mgmtDrivers"]["fake"],
        "fake@2.0.0"
    );
    // The way back: the hook of the package that it has now, with the version that serves it; the other one is pinned for itself.
    it.world.called_versions.lock().unwrap().clear();
    *it.world.newest_version.lock().unwrap() = None;
    it.changed(&to(FIRST)).await;
    assert_eq!(
        *it.world.called_versions.lock().unwrap(),
        ["1.0.0", "1.0.0"],
        "2.0.0 is not installed any more"
    );
    let plugins = it.record().await.deployment.unwrap().plugins.clone();
    assert_eq!(plugins["fake"], "fake@1.0.0");
}

#[tokio::test]
async fn the_grant_names_both_vnfds_and_asks_for_what_changes() {
    let it = with_successor(FakeWorld::with_nfvo(), upgrade_with(&[])).await;
    let web = it.vnfcs_of("web").await;
    it.changed(&to(SECOND)).await;
    let requests = it.world.grant_requests.lock().unwrap().clone();
    let request = requests.last().unwrap();
    assert_eq!(
        (&*request.vnfd_id, request.dst_vnfd_id.as_deref()),
        (FIRST, Some(SECOND))
    );
    let updated: Vec<_> = request
        .update_resources
        .iter()
        .map(|one| one.id.clone())
        .collect();
    assert_eq!(updated, [format!("compute/{}", web[0])]);
    assert!(
        request.add_resources.is_empty() && request.remove_resources.is_empty(),
        "{request:?}"
    );
    it.changed(&out("clients", 1)).await;
    let requests = it.world.grant_requests.lock().unwrap().clone();
    assert_eq!(
        (
            &*requests.last().unwrap().vnfd_id,
            &requests.last().unwrap().dst_vnfd_id
        ),
        (SECOND, &None)
    );
}

#[tokio::test]
async fn a_crash_at_any_write_leaves_an_operation_that_another_process_completes() {
    let mut cases = 0;
    for after_effect in [false, true] {
        for number in 1.. {
            let it = with_successor(Arc::default(), upgrade_with(&[])).await;
            let worker = it.vnfcs_of("worker").await;
            let op = it.begin(&to(SECOND)).await.unwrap();
            let stopping = stop_at(it.store.clone(), number, after_effect);
            let limits = Limits {
                lease: Duration::from_millis(50),
                ..Limits::default()
            };
            let first = scalable_engine(stopping.clone(), &it.world, it.vim.clone(), limits);
            tokio::select! {
                biased;
                () = stopping.interceptor().stopped() => {}
                ended = first.drive(&op) => { ended.unwrap(); break; }
            }
            drop(first);
            run_to_end(&it.engine, &op).await;
            assert_eq!(state(&it.engine, &op).await, Completed, "write {number}");
            let record = it.record().await;
            assert_eq!(
                (record.vnf.vnfd_id.as_str(), record.active_op),
                (SECOND, None)
            );
            assert_eq!(it.vnfcs_of("worker").await, worker);
            assert_eq!(it.vnfcs().await, it.vim.0.vnfcs(), "write {number}");
            cases += 1;
        }
    }
    assert!(cases >= 10, "only {cases} cases");
}

#[tokio::test]
async fn a_plan_says_which_vnfcs_are_replaced() {
    let it = with_successor(Arc::default(), upgrade_with(&[])).await;
    let before = it.record().await;
    let (kind, body) = to(SECOND);
    let begin = Begin::new(it.engine.operation(kind).unwrap(), body);
    let plan = it.engine.plan(TENANT, &it.id, begin).await.unwrap();
    assert_eq!(it.record().await, before);
    let planned = |action: ResourceAction| {
        let rows = plan.resources.iter().filter(|one| one.action == action);
        rows.filter_map(|one| one.vnfc.clone()).collect::<Vec<_>>()
    };
    assert_eq!(planned(ResourceAction::Replace), it.vnfcs_of("web").await);
    let worker = it.vnfcs_of("worker").await;
    assert_eq!(planned(ResourceAction::Keep), worker);
    it.changed(&to(SECOND)).await;
    assert_eq!(it.vnfcs_of("worker").await, worker);
}
