//! Logins to the VIM that hooks request: they live as long as the instance, and a repetition finds its own.

use super::fakes::*;
use super::setup::*;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vnfm_core::{Engine, Limits};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RolledBack};
use vnfm_types::{HealVnfRequest, TerminateVnfRequest};

/// Every hook requests the login `cloud`.
async fn requesting() -> (Arc<FakeWorld>, Engine, String) {
    let world = Arc::new(FakeWorld::default());
    *world.hook_service_call.lock().unwrap() = Some((
        "vim.credential",
        json!({"name": "cloud", "roles": ["member"]}),
    ));
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    (world, engine, id)
}

/// The secrets of the logins on the VIM, by instance and name.
fn logins(world: &FakeWorld) -> Vec<(String, String)> {
    let all = world.credentials.lock().unwrap();
    all.iter()
        .map(|(key, secret)| (key.clone(), secret.clone()))
        .collect()
}

#[tokio::test]
async fn a_login_is_the_same_in_every_operation_and_goes_with_the_instance() {
    let (world, engine, id) = requesting().await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    let first = logins(&world);
    let [(key, secret)] = first.as_slice() else {
        panic!("{first:?}")
    };
    assert_eq!(
        (key.as_str(), secret.len()),
        (format!("{id}/cloud").as_str(), 64)
    );
    let shown = engine.store().op(TENANT, &op).await.unwrap();
    assert!(!format!("{shown:?}").contains(secret.as_str()));

    let heal = engine.heal(TENANT, &id, HealVnfRequest::default());
    let op = heal.await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(logins(&world), first);

    let request = TerminateVnfRequest::default();
    let op = engine.terminate(TENANT, &id, request).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(
        state(&engine, &op).await,
        FailedTemp,
        "no hook gets a login that nothing would revoke"
    );
    *world.hook_service_call.lock().unwrap() = None;
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(logins(&world), []);
}

/// The login exists, and its creation is reported as failed, as when the response is lost: the retry uses the same secret.
#[tokio::test]
async fn an_attempt_that_lost_the_response_finds_its_login() {
    let (world, engine, id) = requesting().await;
    world.fail("credential", 1, &INJECTED);
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, FailedTemp);
    let created = logins(&world);
    assert_eq!(created.len(), 1);
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(logins(&world), created);
}

/// The process dies after the login exists and before its hook ends: the next process finds it.
#[tokio::test]
async fn a_death_after_the_creation_leaves_one_login() {
    let (world, store) = (Arc::new(FakeWorld::default()), store().await);
    *world.hook_service_call.lock().unwrap() = Some(("vim.credential", json!({"name": "cloud"})));
    *world.hang_in.lock().unwrap() = Some("credential");
    let limits = || Limits {
        lease: Duration::from_millis(50),
        ..Limits::default()
    };
    let dying = engine_with(store.clone(), &world, limits());
    let id = instance(&dying).await;
    let op = dying.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    tokio::select! {
        ended = dying.drive(&op) => panic!("it ended: {ended:?}"),
        () = world.hung.notified() => {}
    }
    drop(dying);
    let created = logins(&world);
    assert_eq!(created.len(), 1);
    *world.hang_in.lock().unwrap() = None;
    let next = engine_with(store, &world, limits());
    let begun = Instant::now();
    while state(&next, &op).await.is_driven() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it is not resumed"
        );
        next.resume_all().await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (state(&next, &op).await, logins(&world)),
        (Completed, created)
    );
}

#[tokio::test]
async fn a_rollback_revokes_what_its_operation_created_and_nothing_else() {
    let (world, engine, id) = requesting().await;
    world.fail("instantiate_end", 1, &INJECTED);
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(
        (state(&engine, &op).await, logins(&world).len()),
        (FailedTemp, 1)
    );
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    assert_eq!(logins(&world), []);
    let revoked = world
        .calls()
        .iter()
        .filter(|call| *call == "revoke")
        .count();
    assert!(
        revoked >= 1,
        "by the undo of the hook, not only by the release"
    );

    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    let before = logins(&world);
    *world.hook_service_call.lock().unwrap() = Some(("vim.credential", json!({"name": "other"})));
    world.fail("heal_start", 1, &INJECTED);
    let heal = engine.heal(TENANT, &id, HealVnfRequest::default());
    let op = heal.await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(
        (state(&engine, &op).await, logins(&world).len()),
        (FailedTemp, 2)
    );
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(
        (state(&engine, &op).await, logins(&world)),
        (RolledBack, before)
    );
}

#[tokio::test]
async fn a_malformed_request_is_refused_before_anything_is_created() {
    let (world, engine, id) = requesting().await;
    *world.hook_service_call.lock().unwrap() = Some(("vim.credential", json!({"name": "../x"})));
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    let problem = engine
        .store()
        .op(TENANT, &op)
        .await
        .unwrap()
        .op
        .error
        .clone()
        .unwrap();
    assert_eq!(problem.code.as_deref(), Some("hook.service"));
    assert_eq!(logins(&world), []);
}
