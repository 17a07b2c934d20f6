//! Files that hooks store with an instance: a quota refuses them for good, and nothing of a file that fails is left.

use super::fakes::*;
use super::plugins::op_error;
use super::setup::*;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use vnfm_core::ports::{QuotaResource, Store as _, StoreAdmin as _};
use vnfm_store::{FileDir, SqliteStore};
use vnfm_types::LcmOperationState::{Completed, FailedTemp};

/// What a tenant may store in these tests, in bytes.
const MOST: u64 = 100;

/// Names of everything in the folder of an instance.
fn left(folder: &Path, id: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join(id)).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

async fn used(store: &SqliteStore) -> u64 {
    let used = store.used(TENANT, QuotaResource::StoredFileBytes).await;
    used.unwrap()
}

#[tokio::test]
async fn a_hook_that_stores_more_than_the_quota_fails_for_good_and_leaves_nothing() {
    let (world, folder) = (Arc::new(FakeWorld::default()), tempfile::tempdir().unwrap());
    let store = store().await;
    store.set_quotas(Arc::new(|_, what| {
        (what == QuotaResource::StoredFileBytes).then_some(MOST)
    }));
    let files = FileDir::open(folder.path(), Arc::new(vnfm::SystemClock), 0);
    let engine = engine(store.clone(), &world).with_files(Arc::new(files.unwrap()));
    let id = instance(&engine).await;
    let host = json!({"serverId": "s", "address": "192.0.2.1", "username": "ubuntu"});
    let fetch = |bytes: u64| {
        let request = json!({"host": host, "name": "a.enc", "path": "/a", "bytes": bytes});
        *world.hook_service_call.lock().unwrap() = Some(("file.fetch", request));
    };
    fetch(MOST + 1);
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, FailedTemp);
    let problem = op_error(&engine, &op).await.unwrap();
    assert_eq!(problem.code.as_deref(), Some("file.quota"), "{problem:?}");
    for words in [
        "have 0 bytes, and may have 100",
        "`stored_file_bytes`",
        "has 101",
    ] {
        assert!(problem.detail.contains(words), "{words}: {problem:?}");
    }
    assert_eq!((used(&store).await, left(folder.path(), &id)), (0, vec![]));

    // It fits, and its host cannot be reached.
    fetch(MOST);
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    let problem = op_error(&engine, &op).await.unwrap();
    assert_eq!(
        problem.code.as_deref(),
        Some("hook.no-hosts"),
        "{problem:?}"
    );
    assert_eq!((used(&store).await, left(folder.path(), &id)), (0, vec![]));

    *world.hook_service_call.lock().unwrap() = None;
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
}
