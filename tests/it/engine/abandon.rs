//! What abandon takes and what it leaves, whom it fences off; hooks that are left out; the audit; and a
//! cancel that another process hears.

use super::fakes::*;
use super::faults::{begin, ready};
use super::setup::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use vnfm_core::ports::StoreError;
use vnfm_core::query::Query;
use vnfm_core::{Engine, Limits, Override, SkipHooks, Why};
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp};
use vnfm_types::{CancelMode, HealVnfRequest, LcmOperationType, TerminateVnfRequest};

fn because(reason: &str) -> Override {
    Override::new("ann", reason)
}

fn without(hooks: &[&str], reason: &str) -> SkipHooks {
    let hooks = hooks.iter().map(|hook| (*hook).to_owned()).collect();
    SkipHooks {
        hooks,
        act: because(reason),
    }
}

/// What the audit says: who did what to what, and why.
async fn audit(engine: &Engine) -> Vec<[String; 4]> {
    let entries = engine.audit(TENANT, 0, 100).await.unwrap();
    let numbers: Vec<_> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>());
    entries
        .into_iter()
        .map(|entry| [entry.who, entry.what, entry.target, entry.reason])
        .collect()
}

async fn instantiated(engine: &Engine, on_vim: &str) -> String {
    let id = instance(engine).await;
    let op = engine.instantiate(TENANT, &id, on(on_vim)).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, Completed);
    id
}

#[tokio::test]
async fn forced_abandon_fences_off_the_process_that_runs_the_operation() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    *world.hang_in.lock().unwrap() = Some("instantiate_end");
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    let abandoning = async {
        world.hung.notified().await;
        let refusal = engine
            .abandon(TENANT, &id, false, because("gone"))
            .await
            .unwrap_err();
        assert_eq!(
            (refusal.why, refusal.blocked_by.as_slice()),
            (Why::Conflict, &[op.clone()][..])
        );
        assert!(refusal.next().contains("--force"), "{refusal}");
        let refusal = engine
            .abandon(TENANT, &id, true, because(" "))
            .await
            .unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert_eq!(engine.driven(), 1);
        engine
            .abandon(TENANT, &id, true, because("the cloud burnt down"))
            .await
            .unwrap();
    };
    let (driven, ()) = tokio::join!(engine.drive(&op), abandoning);
    driven.unwrap();
    assert_eq!(engine.driven(), 0);
    let found = engine.store().instance(TENANT, &id).await;
    assert!(
        matches!(found, Err(StoreError::NotFound { .. })),
        "{found:?}"
    );
    let record = engine.store().op(TENANT, &op).await.unwrap().op;
    assert_eq!(record.operation_state, Failed);
    let error = record.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("op.abandoned"));
    assert!(
        error.detail.contains("ann") && error.detail.contains("burnt down"),
        "{error:?}"
    );
    let journal = engine.store().journal(&op).await.unwrap();
    assert!(
        journal.iter().all(|row| row.step != "register_vims"),
        "{journal:?}"
    );
    let notified = engine.store().outbox(0, 100).await.unwrap();
    let notified: Vec<_> = notified
        .iter()
        .map(|row| row.body["operationState"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(
        notified,
        ["", "STARTING", "PROCESSING", "FAILED_TEMP", "FAILED", ""]
    );
    let action = ["ann", "vnf abandon --force", &id, "the cloud burnt down"].map(str::to_owned);
    assert_eq!(audit(&engine).await, [action]);
}

#[tokio::test]
async fn resources_of_an_abandoned_instance_are_orphans_even_if_their_vim_is_unregistered() {
    let (world, engine, id) = ready(LcmOperationType::Terminate).await;
    engine
        .abandon(TENANT, &id, false, because("gone"))
        .await
        .unwrap();
    assert!(engine.vim(TENANT, &format!("cluster-{id}")).await.is_err());
    let (orphans, not_asked) = engine.orphans(TENANT).await.unwrap();
    assert_eq!(
        (orphans.len(), not_asked.len()),
        (1, 0),
        "{orphans:?} {not_asked:?}"
    );
    assert_eq!(orphans[0].vnf_instance_id.as_ref(), Some(&id));
    assert!(orphans[0].abandoned_at.is_some());
    engine
        .delete_vim(TENANT, "cloud", Some(because("gone")))
        .await
        .unwrap();
    let (orphans, not_asked) = engine.orphans(TENANT).await.unwrap();
    assert_eq!(
        (orphans.len(), not_asked.len()),
        (0, 1),
        "{orphans:?} {not_asked:?}"
    );
    let (vim, why) = &not_asked[0];
    assert_eq!(vim, "cloud");
    assert!(
        why.contains(CLOUD) && why.contains(&id) && why.contains("gone"),
        "{why}"
    );
    world.resources.lock().unwrap().clear();
    engine
        .remove_tombstone(TENANT, &id, because("deleted by hand"))
        .await
        .unwrap();
    assert_eq!(engine.orphans(TENANT).await.unwrap(), (vec![], vec![]));
    let again = engine
        .remove_tombstone(TENANT, &id, because("twice"))
        .await
        .unwrap_err();
    assert_eq!(again.why, Why::NotFound);
    let actions: Vec<_> = audit(&engine)
        .await
        .into_iter()
        .map(|[_, action, ..]| action)
        .collect();
    assert_eq!(
        actions,
        ["vnf abandon", "vim delete --force", "orphans --forget"]
    );
}

#[tokio::test]
async fn abandon_names_the_instances_on_its_cluster_and_they_keep_their_vim() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let a = instantiated(&engine, "cloud").await;
    let cluster = engine
        .vim(TENANT, &format!("cluster-{a}"))
        .await
        .unwrap()
        .id;
    let b = instantiated(&engine, &cluster).await;
    let refusal = engine
        .abandon(TENANT, &a, false, because("gone"))
        .await
        .unwrap_err();
    assert_eq!(refusal.why, Why::Conflict);
    assert!(refusal.blocked_by[0].contains(&b), "{refusal}");
    assert!(engine.store().instance(TENANT, &a).await.is_ok() && audit(&engine).await.is_empty());
    engine
        .abandon(TENANT, &a, true, because("gone"))
        .await
        .unwrap();
    assert_eq!(
        engine.vim(TENANT, &cluster).await.unwrap().registered_by,
        None
    );
    let op = engine
        .terminate(TENANT, &b, TerminateVnfRequest::default())
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    engine.delete_vim(TENANT, &cluster, None).await.unwrap();
}

#[tokio::test]
async fn a_cluster_with_a_snapshot_on_it_outlives_its_instance_only_by_force() {
    let engine = engine(store().await, &Arc::new(FakeWorld::default()));
    let a = instantiated(&engine, "cloud").await;
    let cluster = engine.vim(TENANT, &format!("cluster-{a}")).await;
    let cluster = cluster.unwrap().id;
    let b = instantiated(&engine, &cluster).await;
    let stored = begin(&engine, LcmOperationType::CreateSnapshot, &b).await;
    engine.drive(&stored).await.unwrap().completed().unwrap();
    let request = TerminateVnfRequest::default();
    let ended = engine.terminate(TENANT, &b, request).await.unwrap();
    engine.drive(&ended).await.unwrap().completed().unwrap();
    engine.delete(TENANT, &b).await.unwrap();

    let refused = engine.abandon(TENANT, &a, false, because("gone")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.why, Why::Conflict);
    assert!(refused.blocked_by[0].contains(SNAPSHOT), "{refused}");
    assert!(engine.store().instance(TENANT, &a).await.is_ok());
    let forced = engine.abandon(TENANT, &a, true, because("gone")).await;
    forced.unwrap();
    let left = engine.vim(TENANT, &cluster).await.unwrap();
    assert_eq!(left.registered_by, None);
    let deleted = engine.delete_snapshot_info(TENANT, SNAPSHOT, &|_| true);
    deleted.await.unwrap();
    engine.delete_vim(TENANT, &cluster, None).await.unwrap();
}

async fn terminate_skipping(engine: &Engine, id: &str, hook: &str, reason: &str) {
    let request = TerminateVnfRequest::default();
    let op = engine
        .terminate_without(TENANT, id, request, without(&[hook], reason))
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, Completed);
}

#[tokio::test]
async fn skipped_hooks_do_not_run_and_are_reported() {
    let (world, engine, id) = ready(LcmOperationType::Heal).await;
    for (skip, code) in [
        (without(&["terminate_start"], "x"), "request.unknown-hook"),
        (without(&["heal_start"], ""), "request.no-reason"),
    ] {
        let heal = engine
            .heal_without(TENANT, &id, HealVnfRequest::default(), skip)
            .await;
        assert_eq!(heal.unwrap_err().code.name, code);
    }
    assert!(audit(&engine).await.is_empty());
    world.plugin_missing.store(true, SeqCst);
    let refusal = engine
        .heal(TENANT, &id, HealVnfRequest::default())
        .await
        .unwrap_err();
    assert_eq!(refusal.code.name, "request.no-mgmt-driver");
    let skip = without(&["heal_start", "heal_end"], "no plugin");
    let op = engine
        .heal_without(TENANT, &id, HealVnfRequest::default(), skip)
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    let record = engine.store().op(TENANT, &op).await.unwrap().op;
    assert_eq!(record.operation_state, Completed, "{record:?}");
    assert_eq!(
        record.warnings,
        [
            "hook `heal_start` was skipped",
            "hook `heal_end` was skipped"
        ]
    );
    let visible = serde_json::to_string(&record.operation_params).unwrap();
    assert!(
        !visible.contains("heal_start"),
        "the standard's request stays the standard's: {visible}"
    );
    world.plugin_missing.store(false, SeqCst);
    terminate_skipping(&engine, &id, "terminate_end", "no license server").await;
    let calls = world.calls();
    let hooks: Vec<_> = calls.iter().filter(|call| call.contains('_')).collect();
    assert_eq!(hooks, ["terminate_start"]);
    let audited = audit(&engine).await;
    let audited = audited.into_iter().map(|[_, action, _, why]| [action, why]);
    let heal = "vnf heal --skip-hook heal_start --skip-hook heal_end";
    let terminate = "vnf terminate --skip-hook terminate_end";
    assert_eq!(
        audited.collect::<Vec<_>>(),
        [[heal, "no plugin"], [terminate, "no license server"]]
    );
    assert_consistent(&engine, &world, "without hooks").await;
}

#[tokio::test]
async fn a_cancel_in_one_process_reaches_the_process_that_runs_the_operation() {
    for call in ["allocate", "instantiate_end"] {
        let world = Arc::new(FakeWorld::default());
        *world.hang_in.lock().unwrap() = Some(call);
        let store = store().await;
        let lease = Limits {
            lease: Duration::from_millis(500),
            ..Limits::default()
        };
        let one = engine_with(store.clone(), &world, lease);
        let other = engine(store, &world);
        let id = instance(&one).await;
        let op = one.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        let cancelling = async {
            world.hung.notified().await;
            other
                .cancel_by(TENANT, &op, CancelMode::Forceful, because("hangs"))
                .await
                .unwrap();
        };
        let (driven, ()) = tokio::join!(one.drive(&op), cancelling);
        driven.unwrap();
        assert_eq!(state(&other, &op).await, FailedTemp, "{call}");
        other.fail_by(TENANT, &op, because("enough")).await.unwrap();
        assert_eq!(state(&one, &op).await, Failed);
        let actions: Vec<_> = audit(&one)
            .await
            .into_iter()
            .map(|[_, action, ..]| action)
            .collect();
        assert_eq!(actions, ["op cancel --forceful", "op fail"]);
    }
}

#[tokio::test]
async fn a_vim_named_in_a_request_is_recorded_by_id() {
    let (_world, engine, id) = ready(LcmOperationType::Terminate).await;
    let renamed = vnfm_core::VimChange {
        name: Some("cloud-2".into()),
        ..Default::default()
    };
    engine.update_vim(TENANT, "cloud", renamed).await.unwrap();
    let op = engine
        .terminate(TENANT, &id, TerminateVnfRequest::default())
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    let left = engine
        .store()
        .instances(TENANT, &Query::default())
        .await
        .unwrap();
    assert_eq!(left[0].vnf.id, id);
}
