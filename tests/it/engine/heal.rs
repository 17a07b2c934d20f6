//! What a heal refuses, says, keeps, and undoes.

use super::fakes::*;
use super::faults::ready;
use super::setup::*;
use futures::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::{Engine, Why};
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, RolledBack};
use vnfm_types::{
    AffectedVnfc, ChangeType, HealVnfRequest, LcmOperationType, TerminateVnfRequest, VnfLcmOpOcc,
};

async fn instantiated() -> (Arc<FakeWorld>, Engine, String) {
    ready(LcmOperationType::Heal).await
}

fn heal_request(vnfcs: &[&str]) -> HealVnfRequest {
    let vnfc_instance_id = vnfcs.iter().map(|id| (*id).to_owned()).collect();
    HealVnfRequest {
        vnfc_instance_id,
        ..HealVnfRequest::default()
    }
}

fn heal_with_params(params: &serde_json::Value) -> HealVnfRequest {
    let additional_params = params.as_object().unwrap().clone();
    HealVnfRequest {
        additional_params,
        ..HealVnfRequest::default()
    }
}

/// A heal whose `call` fails; it is FAILED_TEMP.
async fn stopped(engine: &Engine, world: &FakeWorld, id: &str, call: usize) -> String {
    let before = world.calls().len();
    world.fail_call.store(before + call, SeqCst);
    let op = engine
        .heal(TENANT, id, heal_request(&["c1"]))
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, FailedTemp);
    op
}

async fn operation(engine: &Engine, op: &str) -> VnfLcmOpOcc {
    engine.store().op(TENANT, op).await.unwrap().op
}

async fn vnfcs(engine: &Engine, id: &str) -> Vec<String> {
    let record = engine.store().instance(TENANT, id).await.unwrap();
    let info = record.vnf.instantiated_vnf_info.unwrap();
    info.vnfc_resource_info
        .into_iter()
        .map(|vnfc| vnfc.id)
        .collect()
}

/// Numbers of the calls that a heal makes: check, `heal_start`, heal, `heal_end`, check.
const HEAL_START: usize = 2;
const HEAL: usize = 3;
const HEAL_END: usize = 4;

#[tokio::test]
async fn invalid_heal_requests_are_refused_without_changes() {
    let (world, engine, id) = instantiated().await;
    let before = engine.store().instance(TENANT, &id).await.unwrap();
    for (request, expected) in [
        (heal_request(&["c1", "c9"]), "`c9` is not a VNFC"),
        (
            heal_with_params(&json!({"all": "yes"})),
            "additionalParams.all",
        ),
        (heal_with_params(&json!({"all": 1})), "additionalParams.all"),
    ] {
        let refusal = engine.heal(TENANT, &id, request).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    let bare = instance(&engine).await;
    let refusal = engine
        .heal(TENANT, &bare, heal_request(&[]))
        .await
        .unwrap_err();
    assert_eq!(refusal.why, Why::Conflict, "{refusal}");
    assert!(refusal.detail.contains("NOT_INSTANTIATED"), "{refusal}");
    assert_eq!(engine.store().instance(TENANT, &id).await.unwrap(), before);
    assert!(world.calls().is_empty());
}

#[tokio::test]
async fn heal_parameters_override_those_of_the_instantiation_and_secrets_stay_hidden() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let mut request = on("cloud");
    let first = json!({"node": {"user": "u", "ssh_password": "planted-old"}, "n": 1, "gone": true});
    request.additional_params = first.as_object().unwrap().clone();
    let op = engine.instantiate(TENANT, &id, request).await.unwrap();
    engine.drive(&op).await.unwrap();
    let overrides = json!({"node": {"ssh_password": "planted-new"}, "n": 2, "gone": null});
    let op = engine
        .heal(TENANT, &id, heal_with_params(&overrides))
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    let reported = world.hook_params.lock().unwrap().clone();
    let expected = json!({"node": {"user": "u", "ssh_password": "planted-new"}, "n": 2});
    for hook in ["heal_start", "heal_end"] {
        let (_, params) = reported.iter().find(|(name, _)| name == hook).unwrap();
        assert_eq!(params, &expected, "{hook}");
    }
    let record = engine.store().op(TENANT, &op).await.unwrap();
    let instance = engine.store().instance(TENANT, &id).await.unwrap();
    let visible = format!(
        "{} {} {record:?} {:?} {:?}",
        serde_json::to_string(&record.op).unwrap(),
        serde_json::to_string(&instance.vnf).unwrap(),
        engine.store().outbox(0, 1000).await.unwrap(),
        engine.log(TENANT, &op, 0).await.unwrap(),
    );
    assert!(
        !visible.contains("planted") && visible.contains("[hidden]"),
        "{visible}"
    );
    assert!(record.request.to_string().contains("planted-new"));
    // The next heal goes by the instantiation again.
    let stored = &instance.deployment.unwrap().additional_params;
    assert!(json!(stored).to_string().contains("planted-old"));
}

#[tokio::test]
async fn a_heal_reports_exactly_the_replaced_vnfcs() {
    let (_world, engine, id) = instantiated().await;
    let op = engine
        .heal(TENANT, &id, heal_request(&["c1"]))
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    let changes = operation(&engine, &op).await.resource_changes.unwrap();
    let heal_request = |vnfc: &AffectedVnfc| (vnfc.id.clone(), vnfc.change_type);
    let reported: Vec<_> = changes.affected_vnfcs.iter().map(heal_request).collect();
    assert_eq!(
        reported,
        [
            ("c1".into(), ChangeType::Removed),
            ("c1+".into(), ChangeType::Added)
        ]
    );
    assert!(changes.affected_virtual_storages.is_empty());
    assert_eq!(vnfcs(&engine, &id).await, ["c1+", "c2"]);
}

#[tokio::test]
async fn a_failed_heal_leaves_the_record_matching_the_vim() {
    for (after_effect, expected) in [(false, "c1"), (true, "c1+")] {
        let (world, engine, id) = instantiated().await;
        *world.fail_after_effect.lock().unwrap() = after_effect;
        let op = stopped(&engine, &world, &id, HEAL).await;
        assert_eq!(
            vnfcs(&engine, &id).await,
            ["c1", "c2"],
            "not before it has ended"
        );
        engine.fail(TENANT, &op).await.unwrap();
        assert_eq!(state(&engine, &op).await, Failed);
        assert_eq!(vnfcs(&engine, &id).await, [expected, "c2"]);
        let observed = world.inventories.lock().unwrap()[&id]
            .vnfc_resource_info
            .clone();
        let record = engine.store().instance(TENANT, &id).await.unwrap().vnf;
        assert_eq!(
            record.instantiated_vnf_info.unwrap().vnfc_resource_info,
            observed
        );
        let changes = operation(&engine, &op).await.resource_changes.unwrap();
        assert_eq!(
            changes.affected_vnfcs.len(),
            if after_effect { 2 } else { 0 }
        );
    }
}

#[tokio::test]
async fn a_heal_can_be_rolled_back_until_the_repair_step() {
    let (world, engine, id) = instantiated().await;
    *world.fail_after_effect.lock().unwrap() = true;
    let op = stopped(&engine, &world, &id, HEAL_START).await;
    assert_eq!(world.drained.lock().unwrap().len(), 1);
    let ways = engine.progress(TENANT, &op).await.unwrap().ways_on;
    let back = ways.iter().find(|way| way.task == "rollback").unwrap();
    assert!(back.allowed && back.what == "undoes heal_start", "{back:?}");
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    assert_eq!(world.calls().last().unwrap(), "undo heal_start");
    assert!(world.drained.lock().unwrap().is_empty());
    assert_eq!(vnfcs(&engine, &id).await, ["c1", "c2"]);

    for call in [HEAL, HEAL_END] {
        let (world, engine, id) = instantiated().await;
        let op = stopped(&engine, &world, &id, call).await;
        let refusal = engine.rollback(TENANT, &op).await.unwrap_err();
        assert_eq!(refusal.why, Why::Conflict);
        assert!(refusal.detail.contains("`repair`"), "{refusal}");
        engine.retry(TENANT, &op).await.unwrap();
        engine.drive(&op).await.unwrap();
        assert_eq!(state(&engine, &op).await, Completed);
    }
}

#[tokio::test]
async fn a_hook_that_never_ran_is_rolled_back_without_its_plugin() {
    let (world, engine, id) = instantiated().await;
    let op = engine.heal(TENANT, &id, heal_request(&[])).await.unwrap();
    world.plugin_missing.store(true, SeqCst);
    engine.drive(&op).await.unwrap();
    assert_eq!(
        operation(&engine, &op).await.error.unwrap().step.as_deref(),
        Some("heal_start")
    );
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);

    world.plugin_missing.store(false, SeqCst);
    *world.fail_after_effect.lock().unwrap() = true;
    let op = stopped(&engine, &world, &id, HEAL_START).await;
    world.plugin_missing.store(true, SeqCst);
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(
        state(&engine, &op).await,
        FailedTemp,
        "what was done stays to be undone"
    );
    world.plugin_missing.store(false, SeqCst);
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    assert!(world.drained.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_heal_keeps_the_cluster_vim_id_and_updates_its_token() {
    let (_world, engine, id) = instantiated().await;
    let name = format!("cluster-{id}");
    let before = engine.store().vim(TENANT, &name).await.unwrap();
    assert_eq!(before.access_info["bearer_token"], "planted-token");
    let op = engine
        .heal(TENANT, &id, heal_request(&["c2"]))
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    let after = engine.store().vim(TENANT, &name).await.unwrap();
    assert_eq!(
        (&after.vim.id, after.version),
        (&before.vim.id, before.version + 1)
    );
    assert_eq!(
        after.access_info["bearer_token"],
        "planted-token-after-heal"
    );
    assert_eq!(after.vim.registered_by.as_ref(), Some(&id));
    let visible = engine
        .store()
        .instance(TENANT, &id)
        .await
        .unwrap()
        .vnf
        .vim_connection_info;
    assert_eq!(visible.len(), 2, "the cloud and the cluster: {visible:?}");
    assert_eq!(visible[&after.vim.id].vim_id.as_ref(), Some(&after.vim.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_heals_or_terminates_is_accepted() {
    for round in 0..20 {
        let (world, engine, id) = instantiated().await;
        let all = join_all((0..16).map(|number| {
            let (engine, id) = (engine.clone(), id.clone());
            tokio::spawn(async move {
                if round % 2 == 1 && number % 2 == 1 {
                    return engine
                        .terminate(TENANT, &id, TerminateVnfRequest::default())
                        .await;
                }
                engine.heal(TENANT, &id, heal_request(&[])).await
            })
        }))
        .await;
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        let accepted: Vec<_> = all
            .iter()
            .filter_map(|outcome| outcome.as_ref().ok())
            .collect();
        assert_eq!(accepted.len(), 1, "round {round}: {all:?}");
        for refusal in all.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(refusal.why, Why::Conflict, "{refusal}");
        }
        engine.drive(accepted[0]).await.unwrap();
        assert_eq!(state(&engine, accepted[0]).await, Completed);
        assert_consistent(&engine, &world, "heal against terminate").await;
    }
}
