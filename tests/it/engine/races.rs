//! Many clients at once: of those that exclude each other exactly one is accepted.

use super::fakes::*;
use super::setup::*;
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use vnfm_core::ports::{Change, InstanceRecord};
use vnfm_core::{Engine, Why};
use vnfm_types::LcmOperationState::{Completed, FailedTemp};
use vnfm_types::{TerminateVnfRequest, VnfInfoModificationRequest};

async fn instantiated(engine: &Engine, on_vim: &str) -> String {
    let id = instance(engine).await;
    let op = engine.instantiate(TENANT, &id, on(on_vim)).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, Completed);
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_instantiates_and_terminates_is_accepted() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let all = join_all((0..16).map(|_| {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move { engine.instantiate(TENANT, &id, on("cloud")).await })
    }))
    .await;
    let op = only_accepted(all.into_iter().map(Result::unwrap));
    engine.drive(&op).await.unwrap();
    let all = join_all((0..16).map(|_| {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move {
            engine
                .terminate(TENANT, &id, TerminateVnfRequest::default())
                .await
        })
    }))
    .await;
    let op = only_accepted(all.into_iter().map(Result::unwrap));
    engine.drive(&op).await.unwrap();
    assert_consistent(&engine, &world, "16 clients").await;
}

/// The one that was accepted; all others are conflicts.
fn only_accepted(all: impl Iterator<Item = Result<String, vnfm_core::Refusal>>) -> String {
    let mut accepted = Vec::new();
    for outcome in all {
        match outcome {
            Ok(op) => accepted.push(op),
            Err(refusal) => assert_eq!(refusal.why, Why::Conflict, "{refusal}"),
        }
    }
    assert_eq!(accepted.len(), 1, "{accepted:?}");
    accepted.remove(0)
}

#[tokio::test]
async fn a_request_is_checked_again_if_the_record_changes_meanwhile() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instantiated(&engine, "cloud").await;
    let checks = AtomicUsize::new(0);
    let change_once = |record: &InstanceRecord| {
        if checks.fetch_add(1, SeqCst) == 0 {
            let mut record = record.clone();
            record.vnf.vnf_instance_description = Some("written meanwhile".into());
            let put = vec![Change::PutInstance(Box::new(record))];
            futures::executor::block_on(engine.store().write(None, put)).unwrap();
        }
        true
    };
    let request = VnfInfoModificationRequest {
        vnf_instance_name: Some(Some("renamed".into())),
        ..VnfInfoModificationRequest::default()
    };
    let op = engine.modify(TENANT, &id, request, &change_once).await;
    engine.drive(&op.unwrap()).await.unwrap();
    let vnf = engine.store().instance(TENANT, &id).await.unwrap().vnf;
    assert_eq!(vnf.vnf_instance_name.as_deref(), Some("renamed"));
    let kept = vnf.vnf_instance_description;
    assert_eq!(kept.as_deref(), Some("written meanwhile"));
    assert_eq!(checks.load(SeqCst), 2);
    assert_consistent(&engine, &world, "changed meanwhile").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_retry_and_rollback_have_one_winner() {
    for _ in 0..50 {
        let world = Arc::new(FakeWorld::default());
        let engine = engine(store().await, &world);
        let id = instance(&engine).await;
        world
            .fail_call
            .store(3, std::sync::atomic::Ordering::SeqCst);
        let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        engine.drive(&op).await.unwrap();
        assert_eq!(state(&engine, &op).await, FailedTemp);
        let (one, two) = (engine.clone(), engine.clone());
        let (op_one, op_two) = (op.clone(), op.clone());
        let retry = tokio::spawn(async move { one.retry(TENANT, &op_one).await });
        let rollback = tokio::spawn(async move { two.rollback(TENANT, &op_two).await });
        let won = [
            retry.await.unwrap().is_ok(),
            rollback.await.unwrap().is_ok(),
        ];
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
        engine.drive(&op).await.unwrap();
        assert_consistent(&engine, &world, "retry against rollback").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terminating_a_cluster_vnf_and_instantiating_on_it_exclude_each_other() {
    for round in 0..100 {
        let world = Arc::new(FakeWorld::default());
        let engine = engine(store().await, &world);
        let a = instantiated(&engine, "cloud").await;
        let cluster = engine
            .vim(TENANT, &format!("cluster-{a}"))
            .await
            .unwrap()
            .id;
        let b = instance(&engine).await;
        let (one, two) = (engine.clone(), engine.clone());
        let a_too = a.clone();
        let going = tokio::spawn(async move {
            one.terminate(TENANT, &a_too, TerminateVnfRequest::default())
                .await
        });
        let coming = tokio::spawn(async move { two.instantiate(TENANT, &b, on(&cluster)).await });
        let (going, coming) = (going.await.unwrap(), coming.await.unwrap());
        assert!(
            going.is_ok() != coming.is_ok(),
            "round {round}: {going:?} {coming:?}"
        );
        if let Err(refusal) = going {
            assert_eq!(refusal.why, Why::Conflict);
            assert_eq!(refusal.blocked_by.len(), 1, "{refusal}");
        }
        engine.resume_all().await.unwrap();
        assert_consistent(&engine, &world, "terminate against instantiate").await;
    }
}

#[tokio::test]
async fn terminate_names_the_instances_on_a_cluster_registered_by_hand() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let a = instantiated(&engine, "cloud").await;
    let by_hand = engine
        .register_vim_of(TENANT, &a, "by-hand".into())
        .await
        .unwrap();
    let b = instantiated(&engine, &by_hand.id).await;
    let refusal = engine
        .terminate(TENANT, &a, TerminateVnfRequest::default())
        .await
        .unwrap_err();
    assert_eq!(refusal.why, Why::Conflict);
    assert!(refusal.blocked_by[0].contains(&b), "{refusal}");
    let op = engine
        .terminate(TENANT, &b, TerminateVnfRequest::default())
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    let op = engine
        .terminate(TENANT, &a, TerminateVnfRequest::default())
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
}
