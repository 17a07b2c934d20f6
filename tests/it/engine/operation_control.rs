//! Cancel, fail, deadlines, and what is refused without changing anything.

use super::fakes::*;
use super::setup::*;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::{Limits, Why};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, Processing, RolledBack};
use vnfm_types::{CancelMode, TerminateVnfRequest};

#[tokio::test]
async fn a_forceful_cancel_ends_a_step_that_hangs() {
    let world = Arc::new(FakeWorld::default());
    *world.hang_in.lock().unwrap() = Some("allocate");
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    let cancelling = async {
        while !world.calls().contains(&"allocate".to_owned()) {
            tokio::task::yield_now().await;
        }
        assert_eq!(state(&engine, &op).await, Processing);
        engine
            .cancel(TENANT, &op, CancelMode::Forceful)
            .await
            .unwrap();
    };
    let (driven, ()) = tokio::join!(engine.drive(&op), cancelling);
    driven.unwrap();
    let record = engine.store().op(TENANT, &op).await.unwrap();
    assert_eq!(record.op.operation_state, FailedTemp);
    assert!(
        record
            .op
            .error
            .unwrap()
            .detail
            .contains("cancelled forcefully")
    );
    assert!(!record.op.is_cancel_pending);
    *world.hang_in.lock().unwrap() = None;
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    assert_consistent(&engine, &world, "cancel").await;
}

#[tokio::test]
async fn a_step_without_response_fails_at_its_deadline() {
    let world = Arc::new(FakeWorld::default());
    *world.hang_in.lock().unwrap() = Some("allocate");
    let limits = Limits {
        step: Duration::from_millis(30),
        ..Limits::default()
    };
    let engine = engine_with(store().await, &world, limits);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    let error = engine
        .store()
        .op(TENANT, &op)
        .await
        .unwrap()
        .op
        .error
        .unwrap();
    assert_eq!(error.code.as_deref(), Some("op.deadline"));
    assert_eq!(error.retryable, Some(true));
    *world.hang_in.lock().unwrap() = None;
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
}

#[tokio::test]
async fn invalid_requests_are_refused_without_changes() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let before = engine.store().instance(TENANT, &id).await.unwrap();
    let mut unknown_flavour = on("cloud");
    unknown_flavour.flavour_id = "no-such".into();
    let mut no_vim = on("cloud");
    no_vim.vim_connection_info.clear();
    let mut other_type = on("cloud");
    if let Some(vim) = other_type.vim_connection_info.get_mut("vim1") {
        vim.vim_type = "ETSINFV.HELM.V_3".into();
    }
    for (request, expected) in [
        (unknown_flavour, "no-such"),
        (on("nobody-registered-this"), "nobody-registered-this"),
        (no_vim, "exactly one"),
        (other_type, "ETSINFV.HELM.V_3"),
    ] {
        let refusal = engine.instantiate(TENANT, &id, request).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    let refusal = engine
        .terminate(TENANT, &id, TerminateVnfRequest::default())
        .await
        .unwrap_err();
    assert_eq!(refusal.why, Why::Conflict);
    let refusal = engine.retry(TENANT, "no-such").await.unwrap_err();
    assert_eq!(refusal.why, Why::NotFound);
    assert_eq!(engine.store().instance(TENANT, &id).await.unwrap(), before);
    assert!(world.calls().is_empty());
}

#[tokio::test]
async fn operations_show_no_secrets() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let mut request = on("cloud");
    let params = serde_json::json!({"node": {"ssh_password": "planted-password"}, "n": 1});
    request.additional_params = params.as_object().unwrap().clone();
    let op = engine.instantiate(TENANT, &id, request).await.unwrap();
    engine.drive(&op).await.unwrap();
    let record = engine.store().op(TENANT, &op).await.unwrap();
    let instance = engine.store().instance(TENANT, &id).await.unwrap();
    let vims = engine.vims(TENANT).await.unwrap();
    let outbox = engine.store().outbox(0, 1000).await.unwrap();
    let visible = format!(
        "{} {} {} {outbox:?} {record:?} {instance:?}",
        serde_json::to_string(&record.op).unwrap(),
        serde_json::to_string(&instance.vnf).unwrap(),
        serde_json::to_string(&vims).unwrap(),
    );
    assert!(!visible.contains("planted"), "{visible}");
    assert!(visible.contains("[hidden]"));
    let sealed = serde_json::to_string(&*instance.deployment.unwrap()).unwrap();
    assert!(
        sealed.contains("planted-password"),
        "the request has to keep what it needs"
    );
}

#[tokio::test]
async fn an_instance_above_the_resource_limit_is_refused_with_the_setting() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    let plan = vnfm_core::ports::Budget {
        resources: 3,
        bytes: 1 << 20,
    };
    engine.set_limits(Limits {
        plan,
        ..Limits::default()
    });
    // An operation accepted before the limit was lowered fails before it creates anything.
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    let problem = engine
        .store()
        .op(TENANT, &op)
        .await
        .unwrap()
        .op
        .error
        .unwrap();
    assert_eq!(problem.code.as_deref(), Some("plan.too-large"));
    assert!(
        problem.detail.contains("`limits.resources` is 3"),
        "{}",
        problem.detail
    );
    assert!(
        !world.calls().contains(&"allocate".to_owned()),
        "{:?}",
        world.calls()
    );

    let refusal = engine
        .instantiate(TENANT, &id, on("cloud"))
        .await
        .unwrap_err();
    assert_eq!(
        (refusal.why, refusal.code.name),
        (vnfm_core::Why::Unprocessable, "plan.too-large")
    );
    assert!(
        refusal.detail.contains("`limits.resources` is 3"),
        "{refusal}"
    );
}
