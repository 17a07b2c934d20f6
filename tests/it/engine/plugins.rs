//! Hooks and what happens to them from outside: the server dies in one, or stops in order; the plugin is replaced
//! by another one in the middle of an operation.

use super::fakes::*;
use super::setup::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use vnfm_core::ports::Store;
use vnfm_core::query::VisibilityScope;
use vnfm_core::{Engine, Limits};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, Processing};
use vnfm_types::{HealVnfRequest, ProblemDetails};

const HOOK: &str = "instantiate_end";

fn limits() -> Limits {
    Limits {
        lease: Duration::from_millis(50),
        ..Limits::default()
    }
}

/// How often the hook was called.
fn calls(world: &FakeWorld) -> usize {
    world.calls().iter().filter(|call| *call == HOOK).count()
}

/// Drives the operation until the hook hangs for the `number`th time.
async fn drive_into_hook(engine: &Engine, op: &str, world: &FakeWorld, number: usize) {
    let driving = async {
        let begun = Instant::now();
        while state(engine, op).await.is_driven() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "nobody can take it over"
            );
            engine.resume_all().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let called = async {
        while calls(world) < number {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = driving => panic!("it ended: {:?}", op_error(engine, op).await),
        () = called => {}
    }
}

pub(super) async fn op_error(engine: &Engine, op: &str) -> Option<ProblemDetails> {
    engine.store().op(TENANT, op).await.unwrap().op.error
}

/// An operation whose hook hangs, accepted and not yet driven.
async fn operation_with_hanging_hook() -> (Arc<FakeWorld>, Arc<dyn Store>, String) {
    let world = Arc::new(FakeWorld::default());
    *world.hang_in.lock().unwrap() = Some(HOOK);
    let store: Arc<dyn Store> = store().await;
    let engine = engine_with(store.clone(), &world, limits());
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    (world, store, op)
}

#[tokio::test]
async fn a_hook_that_killed_the_server_while_running_alone_is_not_restarted() {
    let (world, store, op) = operation_with_hanging_hook().await;
    for number in 1..=3 {
        drive_into_hook(
            &engine_with(store.clone(), &world, limits()),
            &op,
            &world,
            number,
        )
        .await;
    }
    let last = engine_with(store, &world, limits());
    let begun = Instant::now();
    while state(&last, &op).await.is_driven() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it is begun again"
        );
        last.resume_all().await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!((state(&last, &op).await, calls(&world)), (FailedTemp, 3));
    let problem = op_error(&last, &op).await.unwrap();
    assert_eq!(problem.code.as_deref(), Some("hook.server-died"));
    assert_eq!(
        (problem.step.as_deref(), problem.retryable),
        (Some(HOOK), Some(false))
    );
    assert!(
        problem.detail.contains("`fake@1.0.0`"),
        "{}",
        problem.detail
    );

    *world.hang_in.lock().unwrap() = None;
    last.retry(TENANT, &op).await.unwrap();
    last.drive(&op).await.unwrap();
    assert_eq!(
        (state(&last, &op).await, calls(&world)),
        (Completed, 4),
        "an operator's word counts"
    );
    assert_consistent(&last, &world, "died while it ran alone").await;
}

/// A process that lost its lease for a while resumes its own operation; this does not count as a crash.
#[tokio::test]
async fn losing_a_lease_does_not_count_as_a_crash() {
    let (world, store, op) = operation_with_hanging_hook().await;
    let engine = engine_with(store, &world, limits());
    for number in 1..=4 {
        drive_into_hook(&engine, &op, &world, number).await;
    }
    *world.hang_in.lock().unwrap() = None;
    let begun = Instant::now();
    while state(&engine, &op).await.is_driven() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it is not taken up again"
        );
        engine.resume_all().await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!((state(&engine, &op).await, calls(&world)), (Completed, 5));
}

#[tokio::test]
async fn a_clean_shutdown_blames_no_hook_and_releases_the_lease() {
    let (world, store, op) = operation_with_hanging_hook().await;
    for number in 1..=3 {
        let engine = engine_with(store.clone(), &world, Limits::default());
        let leaving = async {
            while calls(&world) < number {
                tokio::task::yield_now().await;
            }
            engine.leave();
        };
        let (driven, ()) = tokio::join!(engine.drive(&op), leaving);
        driven.unwrap();
        assert_eq!(state(&engine, &op).await, Processing);
    }
    *world.hang_in.lock().unwrap() = None;
    let last = engine(store, &world);
    last.drive(&op).await.unwrap();
    assert_eq!((state(&last, &op).await, calls(&world)), (Completed, 4));
    assert_consistent(&last, &world, "left in order").await;
}

#[tokio::test]
async fn an_operation_finishes_on_the_plugin_version_it_started_with() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let counting = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&counting).await.unwrap();
    let hook_call = world.calls().iter().position(|call| call == HOOK).unwrap() + 1;

    world.calls.lock().unwrap().clear();
    world.fail_call.store(hook_call, SeqCst);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, FailedTemp);

    *world.newest_version.lock().unwrap() = Some("2.0.0");
    world.first_plugin_missing.store(true, SeqCst);
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, FailedTemp);
    let problem = op_error(&engine, &op).await.unwrap();
    assert_eq!(problem.code.as_deref(), Some("plugin.replaced"));
    let both = ["`fake@1.0.0`", "`fake@2.0.0`"];
    assert!(
        both.iter().all(|word| problem.detail.contains(word)),
        "{}",
        problem.detail
    );

    *world.newest_version.lock().unwrap() = None;
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_consistent(&engine, &world, "replaced").await;
}

#[tokio::test]
async fn an_instance_stays_on_its_plugin_version_while_that_is_installed() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    let created = engine.store().instance(TENANT, &id).await.unwrap().vnf;
    let drivers = created.instantiated_vnf_info.unwrap().metadata["mgmtDrivers"].clone();
    assert_eq!(
        drivers,
        serde_json::json!({"mgmt-drivers-kubernetes": "fake@1.0.0"})
    );
    let served = engine
        .plugin_instances(TENANT, &VisibilityScope::default())
        .await
        .unwrap();
    assert_eq!(served["fake@1.0.0"][0].id, id);

    *world.newest_version.lock().unwrap() = Some("2.0.0");
    for (missing, version) in [(false, "1.0.0"), (true, "2.0.0")] {
        world.first_plugin_missing.store(missing, SeqCst);
        world.called_versions.lock().unwrap().clear();
        let op = engine
            .heal(TENANT, &id, HealVnfRequest::default())
            .await
            .unwrap();
        engine.drive(&op).await.unwrap();
        assert_eq!(state(&engine, &op).await, Completed);
        let called = world.called_versions.lock().unwrap().clone();
        assert!(
            !called.is_empty() && called.iter().all(|called| called == version),
            "{called:?}"
        );
        let log = format!("{:?}", engine.log(TENANT, &op, 0).await.unwrap());
        assert_eq!(
            log.contains("continuing with `fake@2.0.0`"),
            missing,
            "{log}"
        );
    }
}

#[tokio::test]
async fn a_broken_newest_plugin_version_does_not_affect_instances_of_older_versions() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();

    *world.newest_version.lock().unwrap() = Some("2.0.0");
    world.newest_plugin_broken.store(true, SeqCst);
    let other = instance(&engine).await;
    let refusal = engine
        .instantiate(TENANT, &other, on("cloud"))
        .await
        .unwrap_err();
    assert!(
        refusal.to_string().contains("the newest is broken"),
        "{refusal}"
    );

    world.called_versions.lock().unwrap().clear();
    let op = engine
        .heal(TENANT, &id, HealVnfRequest::default())
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(
        state(&engine, &op).await,
        Completed,
        "{:?}",
        op_error(&engine, &op).await
    );
    let called = world.called_versions.lock().unwrap().clone();
    assert!(
        !called.is_empty() && called.iter().all(|called| called == "1.0.0"),
        "{called:?}"
    );
}

#[tokio::test]
async fn wrong_plugin_declarations_and_service_requests_are_named() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    *world.change_declaration.lock().unwrap() = Some(|declaration| {
        let schema = Some(serde_json::json!({"type": 7}));
        declaration
            .hooks
            .values_mut()
            .for_each(|hook| hook.parameters.clone_from(&schema));
    });
    let refusal = engine
        .instantiate(TENANT, &id, on("cloud"))
        .await
        .unwrap_err();
    assert_eq!(refusal.code.name, "hook.schema");
    assert!(refusal.to_string().contains("cannot be used"), "{refusal}");
    *world.change_declaration.lock().unwrap() = None;

    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    *world.change_declaration.lock().unwrap() = Some(|declaration| declaration.hooks.clear());
    engine.drive(&op).await.unwrap();
    let problem = op_error(&engine, &op).await.unwrap();
    assert_eq!(problem.code.as_deref(), Some("hook.undeclared"));
    assert!(
        problem
            .detail
            .contains("`fake` 1.0.0 does not implement it"),
        "{}",
        problem.detail
    );
    *world.change_declaration.lock().unwrap() = None;

    for (service, request, code, word) in [
        ("telnet", serde_json::json!({}), "hook.service", "`telnet`"),
        (
            "artifact.read",
            serde_json::json!({"path": "gone.sh"}),
            "hook.artifact",
            "gone.sh",
        ),
    ] {
        *world.hook_service_call.lock().unwrap() = Some((service, request));
        engine.retry(TENANT, &op).await.unwrap();
        engine.drive(&op).await.unwrap();
        let problem = op_error(&engine, &op).await.unwrap();
        assert_eq!(problem.code.as_deref(), Some(code));
        assert!(problem.detail.contains(word), "{}", problem.detail);
    }
}
