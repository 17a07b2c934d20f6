//! Scaling: what is granted and planned, what is refused, and the levels of an instantiation.

use super::fakes::*;
use super::scale::*;
use super::setup::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm::memory::MemoryVim;
use vnfm_core::lcm::{Begin, find};
use vnfm_core::ports::*;
use vnfm_core::{Engine, Why};
use vnfm_types::LcmOperationState::{Completed, RolledBack};
use vnfm_types::*;

#[tokio::test]
async fn the_grant_asks_for_what_comes_and_goes_and_may_choose_zones_of_new_vnfcs() {
    let it = Scalable::at_level(FakeWorld::with_nfvo(), "town").await;
    let going: Vec<_> = it.vnfcs().await.split_off(5);
    let op = it.begin(&to(2, 0)).await.unwrap();
    let mut zoned = Grant {
        id: "g".into(),
        vnf_instance_id: it.id.clone(),
        vnf_lcm_op_occ_id: op.clone(),
        zones: serde_json::from_value(json!([{"id": "z", "zoneId": "az-2"}])).unwrap(),
        ..Grant::default()
    };
    let info = |id: &str, zone: Option<&str>| GrantInfo {
        resource_definition_id: id.to_owned(),
        zone_id: zone.map(ToOwned::to_owned),
        ..GrantInfo::default()
    };
    let new = ["compute/web/3", "compute/web/4"];
    let ports = ["linkport/webService/3", "linkport/webService/4"];
    zoned.add_resources = new.iter().map(|id| info(id, Some("z"))).collect();
    let removed = going.iter().map(|id| info(&format!("compute/{id}"), None));
    zoned.remove_resources = removed.collect();
    zoned
        .add_resources
        .extend(ports.iter().map(|id| info(id, None)));
    let answer = Ok(GrantOutcome::Granted(Box::new(zoned)));
    it.world.grant_responses.lock().unwrap().push_back(answer);
    it.engine.drive(&op).await.unwrap();
    let record = it.store.op(TENANT, &op).await.unwrap();
    let requested = it.world.grant_requests.lock().unwrap()[0].clone();
    let added = requested.add_resources.iter().map(|one| one.id.as_str());
    assert_eq!(added.collect::<Vec<_>>(), [new, ports].concat());
    assert_eq!(
        record.op.operation_state, Completed,
        "{:?}",
        record.op.error
    );
    it.check_consistent().await;
    let deployment = it.store.instance(TENANT, &it.id).await.unwrap();
    let zones = deployment.deployment.unwrap().placement.zones.clone();
    assert_eq!(zones.keys().collect::<Vec<_>>(), new);
    it.completed(&to(0, 0)).await;
    let deployment = it.store.instance(TENANT, &it.id).await.unwrap();
    assert!(deployment.deployment.unwrap().placement.zones.is_empty());
}

#[tokio::test]
async fn a_grant_that_changes_what_stays_is_refused() {
    let it = Scalable::at_level(FakeWorld::with_nfvo(), "town").await;
    let op = it.run(&out("clients", 1)).await;
    assert_eq!(state(&it.engine, &op).await, Completed);
    let requested = it.world.grant_requests.lock().unwrap()[0].clone();
    it.completed(&down("clients", 1)).await;
    let op = it.begin(&out("clients", 1)).await.unwrap();
    let flavour = json!({"computeResourceFlavours": [{"vnfdVirtualComputeDescId": "web", "vimFlavourId": "huge"}]});
    let other = Grant {
        vnf_lcm_op_occ_id: op.clone(),
        vim_assets: Some(serde_json::from_value(flavour).unwrap()),
        ..granted(&requested)
    };
    let answer = Ok(GrantOutcome::Granted(Box::new(other)));
    it.world.grant_responses.lock().unwrap().push_back(answer);
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    let error = it.store.op(TENANT, &op).await.unwrap().op.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("grant.unusable"));
}

#[tokio::test]
async fn the_name_that_was_probably_meant_is_named() {
    let it = Scalable::new().await;
    for (task, near) in [(out("client", 1), "clients"), (to_level("twon"), "town")] {
        let refusal = it.begin(&task).await.unwrap_err();
        assert_eq!(
            refusal.next(),
            format!("did you mean `{near}`?"),
            "{refusal}"
        );
    }
    let refusal = it.begin(&out("users", 1)).await.unwrap_err();
    assert!(refusal.next().contains("maxScaleLevels"), "{refusal}");
}

#[tokio::test]
async fn a_vdu_does_not_fall_below_its_profile() {
    let package = changed_scalable_package(&[
        (
            "{min_number_of_instances: 2,",
            "{min_number_of_instances: 3,",
        ),
        (
            "scale_info: {clients: {scale_level: 0}, load: {scale_level: 0}}",
            "scale_info: {clients: {scale_level: 0}, load: {scale_level: 1}}",
        ),
        (
            "{trial: {number_of_instances: 2}",
            "{trial: {number_of_instances: 4}",
        ),
    ]);
    let request = InstantiateVnfRequest {
        flavour_id: "simple".into(),
        ..on("cloud")
    };
    let it = Scalable::instantiated(Arc::default(), package, request).await;
    assert_eq!(it.size().await, (1, 4));
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    for task in [down("load", 1), to(0, 0)] {
        let refusal = it.begin(&task).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        let expected = "VDU `worker` would have 2 instances; its profile allows 3 to 8";
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    assert_eq!(it.store.instance(TENANT, &it.id).await.unwrap(), before);
}

/// A request to instantiate with these levels.
fn with_levels(levels: &Value) -> InstantiateVnfRequest {
    InstantiateVnfRequest {
        flavour_id: "simple".into(),
        target_scale_level_info: serde_json::from_value(levels.clone()).unwrap(),
        ..on("cloud")
    }
}

fn info(aspect: &str, level: u32) -> Value {
    json!({"aspectId": aspect, "scaleLevel": level})
}

#[tokio::test]
async fn an_instantiation_may_name_the_level_of_each_aspect() {
    for (levels, size, status) in [
        (
            json!([info("load", 2)]),
            (1, 8),
            json!({"clients": 0, "load": 2}),
        ),
        (
            json!([info("clients", 2), info("load", 1)]),
            (5, 4),
            json!({"clients": 2, "load": 1}),
        ),
    ] {
        let it = Scalable::instantiated(
            FakeWorld::with_nfvo(),
            scalable_package(),
            with_levels(&levels),
        )
        .await;
        assert_eq!(it.size().await, size, "{levels}");
        assert_eq!(it.scale_status().await, status);
        it.check_consistent().await;
        it.completed(&to_level("trial")).await;
        assert_eq!(it.size().await, (1, 2));
    }
}

#[tokio::test]
async fn levels_of_an_instantiation_that_are_not_possible_are_refused() {
    let vim = CountedVim(MemoryVim::default(), Arc::default());
    let both = InstantiateVnfRequest {
        instantiation_level_id: Some("town".into()),
        ..with_levels(&json!([info("load", 1)]))
    };
    let unsupported = changed_scalable_package(&[(
        "{target_scale_levels_supported: true}",
        "{target_scale_levels_supported: false}",
    )]);
    for (package, request, expected) in [
        (
            scalable_package(),
            both,
            "must not have both instantiationLevelId and targetScaleLevelInfo",
        ),
        (
            scalable_package(),
            with_levels(&json!([info("load", 3)])),
            "the highest level of scaling aspect `load` is 2, not 3",
        ),
        (
            scalable_package(),
            with_levels(&json!([info("users", 1)])),
            "no scaling aspect `users`",
        ),
        (
            scalable_package(),
            with_levels(&json!([info("load", 1), info("load", 1)])),
            "targetScaleLevelInfo names aspect `load` twice",
        ),
        (
            unsupported,
            with_levels(&json!([info("load", 1)])),
            "does not support levels in an instantiation",
        ),
    ] {
        let parts = scalable_parts(store().await, &vim.1, vim.clone(), package);
        let engine = Engine::new(parts);
        let id = instance(&engine).await;
        let refusal = engine.instantiate(TENANT, &id, request).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    assert!(vim.1.calls().is_empty());
}

#[tokio::test]
async fn a_plan_omits_the_steps_that_a_scaling_skips() {
    let it = Scalable::at_level(Arc::default(), "town").await;
    for (task, expected) in [
        (out("clients", 1), vec![("add", true, false)]),
        (down("load", 1), vec![("remove", false, true)]),
        (
            to(2, 0),
            vec![("add", true, false), ("remove", false, true)],
        ),
        (to(1, 1), vec![]),
    ] {
        let is_reversible = expected.iter().all(|(_, _, irreversible)| !irreversible);
        let (kind, body) = task;
        let begin = Begin::new(find(SCALABLE, kind).unwrap(), body);
        let plan = it.engine.plan(TENANT, &it.id, begin).await.unwrap();
        let works = plan
            .steps
            .iter()
            .filter(|step| matches!(step.name, "add" | "remove"));
        let works = works.map(|step| (step.name, step.undone, step.irreversible));
        assert_eq!(works.collect::<Vec<_>>(), expected);
        let mut steps = plan.steps.iter();
        let vims = steps.find(|step| step.name == "register_vims").unwrap();
        assert_eq!(
            vims.undone, is_reversible,
            "a skipped step rules out nothing"
        );
    }
}

/// A package that was replaced behind the instance's back.
#[tokio::test]
async fn a_flavour_that_the_vnfd_no_longer_has_is_named() {
    let it = Scalable::new().await;
    let renamed = changed_scalable_package(&[
        ("valid_values: [simple]", "valid_values: [other]"),
        ("default: simple}", "default: other}"),
        ("flavour_id: simple", "flavour_id: other"),
    ]);
    let parts = scalable_parts(it.store.clone(), &it.world, it.vim.clone(), renamed);
    let engine = Engine::new(parts);
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    for task in [out("clients", 1), to_level("town")] {
        let refusal = begin_on(&engine, &it.id, &task).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        let expected = "has no flavour `simple`, with which the instance was created";
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    assert_eq!(it.store.instance(TENANT, &it.id).await.unwrap(), before);
}

#[tokio::test]
async fn a_rollback_unregisters_the_vims_that_the_hooks_registered() {
    let it = Scalable::new().await;
    let names = async || {
        let vims = it.engine.vims(TENANT).await.unwrap();
        vims.into_iter().map(|vim| vim.name).collect::<Vec<_>>()
    };
    let before = names().await;
    it.world.vims_of_scale_end.store(2, SeqCst);
    // The first of the two is registered; the second cannot be reached.
    it.world.fail_call.store(END + 2, SeqCst);
    let op = it.run(&out("clients", 1)).await;
    let error = it.store.op(TENANT, &op).await.unwrap().op.error.unwrap();
    assert_eq!(error.step.as_deref(), Some("register_vims"), "{error:?}");
    assert_eq!(names().await.len(), before.len() + 1);
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_eq!(names().await, before);
    it.check_consistent().await;
}

#[tokio::test]
async fn an_aspect_may_scale_several_vdus() {
    let package = changed_scalable_package(&[
        (
            "deltas: {two: {number_of_instances: 2}}\n        targets: [web]",
            "deltas: {two: {number_of_instances: 2}}\n        targets: [web, worker]",
        ),
        ("max_number_of_instances: 8", "max_number_of_instances: 14"),
        (
            "{trial: {number_of_instances: 2}, town: {number_of_instances: 4}, city: {number_of_instances: 8}}",
            "{trial: {number_of_instances: 2}, town: {number_of_instances: 6}, city: {number_of_instances: 14}}",
        ),
    ]);
    let request = InstantiateVnfRequest {
        flavour_id: "simple".into(),
        ..on("cloud")
    };
    let it = Scalable::instantiated(Arc::default(), package, request).await;
    for (task, size) in [
        (out("clients", 2), (5, 6)),
        (out("load", 1), (5, 8)),
        (down("clients", 1), (3, 6)),
        (to_level("city"), (7, 14)),
    ] {
        it.completed(&task).await;
        assert_eq!(it.size().await, size, "{task:?}");
    }
}
