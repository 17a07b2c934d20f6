//! A login that came inline with the instantiation is changed where it lies sealed, and only to one that leads to
//! the resources of the instance.

use super::fakes::*;
use super::setup::*;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::{Engine, VimChange, Why};
use vnfm_types::LcmOperationState::{self, Completed, FailedTemp, RolledBack};
use vnfm_types::{InstantiateVnfRequest, OPENSTACK, VimConnectionInfo, VnfLcmOpOcc};

async fn instantiated_inline() -> (Arc<FakeWorld>, Engine, String) {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let connection = json!({"vimType": OPENSTACK, "interfaceInfo": {"endpoint": "https://old.example.com"},
        "accessInfo": {"username": "u", "password": "planted-old"}});
    let connection: VimConnectionInfo = serde_json::from_value(connection).unwrap();
    let request = InstantiateVnfRequest {
        vim_connection_info: [("vim1".to_owned(), Box::new(connection))].into(),
        ..on("cloud")
    };
    let op = engine.instantiate(TENANT, &id, request).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    (world, engine, id)
}

async fn modify(engine: &Engine, id: &str, patch: Value) -> (LcmOperationState, VnfLcmOpOcc) {
    let request = serde_json::from_value(patch).unwrap();
    let op = engine.modify(TENANT, id, request, &|_| true).await.unwrap();
    engine.drive(&op).await.unwrap();
    let op = engine.store().op(TENANT, &op).await.unwrap().op;
    (op.operation_state, op)
}

/// The password that is kept, and where the connection leads as it is shown.
async fn stored(engine: &Engine, id: &str) -> (String, String) {
    let record = engine.store().instance(TENANT, id).await.unwrap();
    let visible = &record.vnf.vim_connection_info["vim1"];
    assert!(visible.access_info.is_empty(), "{visible:?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let sealed = &record.deployment.as_ref().unwrap().vim_connection_info["vim1"];
    assert_eq!(
        text(&sealed.interface_info["endpoint"]),
        text(&visible.interface_info["endpoint"])
    );
    (
        text(&sealed.access_info["password"]),
        text(&visible.interface_info["endpoint"]),
    )
}

#[tokio::test]
async fn a_changed_vim_connection_is_checked_and_stored() {
    let (world, engine, id) = instantiated_inline().await;
    world.calls.lock().unwrap().clear();
    let patch = json!({"vimConnectionInfo": {"vim1": {"accessInfo": {"password": "planted-new"},
        "interfaceInfo": {"endpoint": "https://new.example.com"}}}});
    let (state, op) = modify(&engine, &id, patch).await;
    assert_eq!(
        (state, world.calls()),
        (Completed, vec!["check".to_owned()]),
        "{op:?}"
    );
    let stored = stored(&engine, &id).await;
    assert_eq!(
        stored,
        (
            "planted-new".to_owned(),
            "https://new.example.com".to_owned()
        )
    );
    let visible = serde_json::to_string(&op).unwrap();
    assert!(
        visible.contains("new.example.com") && !visible.contains("planted"),
        "{visible}"
    );
    assert_consistent(&engine, &world, "modified").await;
}

#[tokio::test]
async fn a_vim_connection_without_the_instances_resources_is_not_stored() {
    let (world, engine, id) = instantiated_inline().await;
    let changed = std::mem::take(&mut *world.resources.lock().unwrap());
    let patch = json!({"vimConnectionInfo": {"vim1": {"accessInfo": {"password": "planted-new"}}}});
    let (state, op) = modify(&engine, &id, patch).await;
    let why = op.error.unwrap().detail;
    assert!(
        state == FailedTemp && why.contains("holds none of the instance's resources"),
        "{why}"
    );
    assert_eq!(stored(&engine, &id).await.0, "planted-old");
    assert!(op.changed_info.is_none());
    engine.rollback(TENANT, &op.id).await.unwrap();
    engine.drive(&op.id).await.unwrap();
    assert_eq!(
        engine
            .store()
            .op(TENANT, &op.id)
            .await
            .unwrap()
            .op
            .operation_state,
        RolledBack
    );
    assert_eq!(stored(&engine, &id).await.0, "planted-old");
    *world.resources.lock().unwrap() = changed;
    assert_consistent(&engine, &world, "rolled back").await;
}

#[tokio::test]
async fn a_modification_without_connection_changes_calls_no_vim() {
    let (world, engine, id) = instantiated_inline().await;
    world.calls.lock().unwrap().clear();
    let (state, op) = modify(&engine, &id, json!({"vnfInstanceName": "web"})).await;
    assert_eq!(
        (state, world.calls()),
        (Completed, Vec::<String>::new()),
        "{op:?}"
    );
}

/// Mallory changes where a VIM is, and leaves its login to us: the password would go there.
#[tokio::test]
async fn a_stored_vim_login_is_not_sent_to_a_changed_address() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    for (connection, expected) in [
        (
            json!({"vimType": "", "interfaceInfo": {"endpoint": "http://mallory/v3"}}),
            "interfaceInfo.endpoint",
        ),
        (
            json!({"vimType": "", "interfaceInfo": {"ssl_ca_cert": "None"}}),
            "interfaceInfo.ssl_ca_cert",
        ),
        (
            json!({"vimType": "", "extra": {"proxy": "http://mallory:3128"}}),
            "extra.proxy",
        ),
    ] {
        let changed: VimConnectionInfo = serde_json::from_value(connection).unwrap();
        let refusal = engine
            .update_vim(TENANT, "cloud", VimChange::to(changed.clone()))
            .await
            .unwrap_err();
        assert_eq!(
            (refusal.why, refusal.code.name),
            (Why::Unprocessable, "vim.login-elsewhere")
        );
        assert!(
            refusal.detail.contains(expected) && refusal.detail.contains("`password`"),
            "{refusal}"
        );
        assert_eq!(
            world.calls(),
            Vec::<String>::new(),
            "nobody was called with it"
        );

        let complete = VimChange::to(changed.access("password", "new"));
        engine.update_vim(TENANT, "cloud", complete).await.unwrap();
        world.calls.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn an_instances_login_is_not_sent_to_a_changed_address() {
    let (world, engine, id) = instantiated_inline().await;
    world.calls.lock().unwrap().clear();
    for changed in [
        json!({"interfaceInfo": {"endpoint": "https://mallory.example.com"}}),
        json!({"extra": {"proxy": "http://mallory.example.com:3128"}}),
        json!({"interfaceInfo": {"endpoint": "https://mallory.example.com"},
            "accessInfo": {"username": "u"}}),
    ] {
        let patch = json!({"vimConnectionInfo": {"vim1": changed}});
        let request = serde_json::from_value(patch).unwrap();
        let refusal = engine
            .modify(TENANT, &id, request, &|_| true)
            .await
            .unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert!(
            refusal
                .detail
                .contains("send `accessInfo` with `password` again"),
            "{refusal}"
        );
    }
    assert_eq!(
        world.calls(),
        Vec::<String>::new(),
        "nobody was called with it"
    );
    assert_eq!(stored(&engine, &id).await.0, "planted-old");
}
