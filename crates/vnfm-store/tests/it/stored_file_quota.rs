//! The quota of stored files: holds for any number at once, counts what is on the disk, and gives back what is not.

use crate::instance_files::open;
use crate::records::{Home, TENANT, seed};
use futures::future::join_all;
use std::path::Path;
use std::sync::Arc;
use vnfm_core::ports::{
    ErrorKind, PortError, QuotaResource, Store as _, StoreAdmin as _, UnfinishedWork as _,
};
use vnfm_core::{FileOwner, StoredFiles};
use vnfm_store::SqliteStore;
use vnfm_types::StoredFile;

const MOST: u64 = 100;
const OWNER: FileOwner<'static> = FileOwner {
    tenant: TENANT,
    instance_id: "i1",
};

async fn limited(store: &Arc<SqliteStore>, folder: &Path) -> StoredFiles {
    let files = StoredFiles::new(Arc::new(open(folder)), store.clone());
    let instances = store.all_instances().await.unwrap();
    files.count(instances).await.unwrap();
    store.set_quotas(Arc::new(|tenant, what| {
        let is_limited = tenant == TENANT && what == QuotaResource::StoredFileBytes;
        is_limited.then_some(MOST)
    }));
    files
}

async fn put(files: &StoredFiles, name: &str, bytes: usize) -> Result<StoredFile, PortError> {
    let incoming = files.begin(OWNER, name, bytes as u64).await?;
    std::fs::write(incoming.local(), vec![1; bytes]).unwrap();
    incoming.complete(None).await
}

async fn used(store: &SqliteStore) -> u64 {
    let used = store.used(TENANT, QuotaResource::StoredFileBytes).await;
    used.unwrap()
}

/// The names of everything in the folder of the instance.
fn on_disk(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("i1")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn files_stored_at_once_do_not_exceed_the_quota() {
    let (store, folder) = (
        SqliteStore::in_memory().await.unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let store = Arc::new(store);
    seed(&*store, &["i1"]).await;
    let files = limited(&store, folder.path()).await;
    let names: Vec<_> = (0..16).map(|number| format!("{number}.enc")).collect();
    // All of them begin before any is complete.
    let begun = join_all(names.iter().map(|name| files.begin(OWNER, name, 40))).await;
    let (fitting, refused): (Vec<_>, Vec<_>) = begun.into_iter().partition(Result::is_ok);
    assert_eq!(fitting.len(), 2);
    for error in refused.into_iter().map(|refused| refused.err().unwrap()) {
        assert_eq!(
            (error.name(), error.kind()),
            ("file.quota", ErrorKind::Refused)
        );
        let text = error.to_string();
        for words in [
            "have 80 bytes, and may have 100",
            "this file has 40",
            TENANT,
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(error.next().contains("access.quota.stored_file_bytes"));
    }
    assert_eq!(
        on_disk(folder.path()).len(),
        2,
        "of those refused, nothing is left"
    );
    for incoming in fitting {
        let incoming = incoming.unwrap();
        std::fs::write(incoming.local(), [1; 40]).unwrap();
        incoming.complete(None).await.unwrap();
    }
    assert_eq!(used(&store).await, 80);
    put(&files, "rest", 20).await.unwrap();
    let over = put(&files, "more", 1).await.unwrap_err();
    assert_eq!(over.name(), "file.quota");
    let other = FileOwner {
        tenant: "other",
        ..OWNER
    };
    let unlimited = files.begin(other, "theirs", 1_000).await.unwrap();
    unlimited.discard().await;
}

#[tokio::test]
async fn a_file_counts_as_long_as_it_is_on_the_disk() {
    let (store, folder) = (
        SqliteStore::in_memory().await.unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let store = Arc::new(store);
    seed(&*store, &["i1"]).await;
    let files = limited(&store, folder.path()).await;
    put(&files, "a", 40).await.unwrap();
    put(&files, "a", 10).await.unwrap();
    assert_eq!(used(&store).await, 10, "it was replaced");
    let incoming = files.begin(OWNER, "b", 90).await.unwrap();
    assert_eq!(used(&store).await, 100);
    std::fs::write(incoming.local(), [1; 30]).unwrap();
    incoming.complete(None).await.unwrap();
    assert_eq!(used(&store).await, 40, "it is smaller than was announced");
    let incoming = files.begin(OWNER, "b", 60).await.unwrap();
    std::fs::write(incoming.local(), [2; 60]).unwrap();
    let altered = incoming.complete(Some("another")).await.unwrap_err();
    assert_eq!(altered.name(), "file.altered");
    assert_eq!(used(&store).await, 40, "the one before stays");
    files.remove(OWNER, "b").await.unwrap();
    files.remove(OWNER, "b").await.unwrap();
    assert_eq!(used(&store).await, 10);
}

/// An operator has lowered the quota below what is stored.
#[tokio::test(flavor = "multi_thread")]
async fn above_the_quota_files_can_be_deleted_and_not_replaced() {
    let home = Home::new();
    let folder = home.folder.path().join("files");
    let store = Arc::new(home.open().await);
    seed(&*store, &["i1"]).await;
    for name in ["a", "b"] {
        crate::backup_files::put(&open(&folder), "i1", name, &[1; 80]).await;
    }
    let files = limited(&store, &folder).await;
    assert_eq!(used(&store).await, 160);
    for bytes in [0, 1, 80] {
        let refused = put(&files, "a", bytes).await.unwrap_err();
        assert_eq!(refused.name(), "file.quota", "{bytes}");
    }
    assert_eq!(
        on_disk(&folder).len(),
        4,
        "the files and their descriptions"
    );
    files.remove(OWNER, "b").await.unwrap();
    assert_eq!(used(&store).await, 80);
    put(&files, "c", 20).await.unwrap();
}

/// As when a hook reaches its deadline, or a client disconnects.
#[tokio::test]
async fn a_file_that_is_dropped_is_removed_before_the_next_one() {
    let (store, folder) = (
        SqliteStore::in_memory().await.unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let store = Arc::new(store);
    seed(&*store, &["i1"]).await;
    let files = limited(&store, folder.path()).await;
    let incoming = files.begin(OWNER, "a", 90).await.unwrap();
    std::fs::write(incoming.local(), [1; 50]).unwrap();
    drop(incoming);
    assert_eq!(used(&store).await, 90, "it is on the disk");
    put(&files, "b", 90).await.unwrap();
    assert_eq!(used(&store).await, 90);
    let mut left = on_disk(folder.path());
    left.sort();
    assert_eq!(left, ["b", "b.stored"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_counts_the_files_that_are_there() {
    let home = Home::new();
    let folder = home.folder.path().join("files");
    let store = Arc::new(home.open().await);
    seed(&*store, &["i1", "i2"]).await;
    let files = limited(&store, &folder).await;
    put(&files, "a", 40).await.unwrap();
    // A process that is killed leaves this one behind.
    std::mem::forget(files.begin(OWNER, "b", 50).await.unwrap());
    crate::backup_files::put(&open(&folder), "gone", "c", &[1; 30]).await;
    drop((files, store));
    let store = Arc::new(home.open().await);
    assert_eq!(used(&store).await, 0);
    let files = limited(&store, &folder).await;
    assert_eq!(used(&store).await, 40);
    assert_eq!(put(&files, "b", 61).await.unwrap_err().name(), "file.quota");
    put(&files, "b", 60).await.unwrap();
}
