//! Keys at a key provider: migrations to it and back, interrupted at every point, and outages of the provider.

use crate::records::{Home, TENANT, vim};
use crate::sealed::{all_planted, files_with, harvest, plant};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use vnfm_core::ports::SealingKeys as _;
use vnfm_core::ports::{Change, Code, ErrorKind, PortError, SecretSealer, Store as _, StoreError};
use vnfm_store::{KeyLocation, SecretKeys, SqliteStore, restore, restore_with};
use vnfm_types::Secret;

const UNAVAILABLE: Code = Code {
    name: "test.unavailable",
    kind: ErrorKind::Unavailable,
    means: "the test made the provider unavailable",
    next: "wait for it",
};

/// A key provider in memory; unavailable while `unavailable` is set.
#[derive(Default)]
struct TestProvider {
    keys: Mutex<BTreeMap<String, (String, String)>>,
    unavailable: AtomicBool,
}

impl TestProvider {
    fn check_available(&self) -> Result<(), PortError> {
        if self.unavailable.load(SeqCst) {
            return Err(PortError::new(
                &UNAVAILABLE,
                "ask the key provider",
                "it is unavailable",
            ));
        }
        Ok(())
    }

    fn texts(&self) -> Vec<String> {
        self.keys
            .lock()
            .unwrap()
            .values()
            .map(|(_, key)| key.clone())
            .collect()
    }
}

#[async_trait]
impl SecretSealer for TestProvider {
    fn key_type(&self) -> &'static str {
        "barbican_key"
    }
    async fn store_key(&self, name: &str, key: &Secret) -> Result<String, PortError> {
        tokio::task::yield_now().await;
        self.check_available()?;
        let mut keys = self.keys.lock().unwrap();
        let id = format!("id-{}", keys.len());
        keys.insert(id.clone(), (name.to_owned(), key.reveal().to_owned()));
        drop(keys);
        Ok(id)
    }
    async fn key(&self, id: &str) -> Result<Secret, PortError> {
        self.check_available()?;
        let keys = self.keys.lock().unwrap();
        let found = keys.get(id).map(|(_, key)| Secret::new(key.as_str()));
        found.ok_or_else(|| PortError::new(&UNAVAILABLE, "get a key", "there is no such key"))
    }
    async fn key_ids(&self, name: &str) -> Result<Vec<String>, PortError> {
        self.check_available()?;
        let keys = self.keys.lock().unwrap();
        Ok(keys
            .iter()
            .filter(|(_, (its, _))| its == name)
            .map(|(id, _)| id.clone())
            .collect())
    }
}

async fn try_open(home: &Home, provider: &Arc<TestProvider>) -> Result<SqliteStore, StoreError> {
    let keys = SecretKeys::with(&home.key_file(), provider.clone())?;
    SqliteStore::open(&home.database(), keys).await
}

async fn open(home: &Home, provider: &Arc<TestProvider>) -> SqliteStore {
    try_open(home, provider).await.unwrap()
}

/// A database that was sealed with the key file, with secrets in it.
async fn of_file() -> Home {
    let home = Home::new();
    let store = home.open().await;
    plant(&store).await;
    store.close().await.unwrap();
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_key_seals_a_new_database_and_is_in_no_file() {
    let (home, provider) = (Home::new(), Arc::new(TestProvider::default()));
    let store = open(&home, &provider).await;
    plant(&store).await;
    assert_eq!(store.key_location(), KeyLocation::Sealer);
    let vim = store.vim(TENANT, "v1").await.unwrap().vim;
    assert_eq!(vim.key_type.as_deref(), Some("barbican_key"));
    assert_eq!(vim.secret_uuid.as_deref(), Some("id-0"));
    store.close().await.unwrap();
    assert!(!home.key_file().exists());
    for key in provider.texts() {
        assert_eq!(files_with(home.folder.path(), &key), [""; 0]);
    }
    let store = open(&home, &provider).await;
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    assert_eq!(store.rotate().await.unwrap(), 9);
    let vim = store.vim(TENANT, "v1").await.unwrap().vim;
    assert_eq!(
        vim.secret_uuid.as_deref(),
        Some("id-1"),
        "the record names the new key"
    );
    assert_eq!(
        store.unused_keys().await.unwrap(),
        ["id-0"],
        "the old key is listed, not deleted"
    );
    store.close().await.unwrap();
    assert_eq!(
        harvest(&open(&home, &provider).await).await.unwrap(),
        all_planted()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn migrating_to_the_provider_and_back_loses_nothing() {
    let (home, provider) = (of_file().await, Arc::new(TestProvider::default()));
    let store = open(&home, &provider).await;
    assert_eq!(
        store.key_location(),
        KeyLocation::File,
        "opening does not migrate"
    );
    assert_eq!(store.vim(TENANT, "v1").await.unwrap().vim.key_type, None);
    assert_eq!(store.migrate(KeyLocation::Sealer).await.unwrap(), 9);
    assert_eq!(
        store.migrate(KeyLocation::Sealer).await.unwrap(),
        0,
        "already migrated"
    );
    assert!(!home.key_file().exists());
    let sealed = store.sealed_by().await.unwrap();
    let sealed_values: Vec<_> = sealed
        .iter()
        .map(|one| (one.key_type.as_str(), one.values, one.seals))
        .collect();
    assert_eq!(sealed_values, [("barbican_key", 9, true)]);
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    let vim = store.vim(TENANT, "v1").await.unwrap().vim;
    assert_eq!(vim.key_type.as_deref(), Some("barbican_key"));
    store.close().await.unwrap();
    let without = home.try_open().await;
    let Err(StoreError::Keys {
        kind: ErrorKind::Refused,
        detail,
    }) = without
    else {
        panic!("it was opened without its key provider")
    };
    assert!(detail.contains("secrets.barbican"), "{detail}");
    std::fs::remove_file(home.key_file()).unwrap(); // created by that attempt
    let store = open(&home, &provider).await;
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    assert_eq!(store.migrate(KeyLocation::File).await.unwrap(), 9);
    assert_eq!(store.vim(TENANT, "v1").await.unwrap().vim.key_type, None);
    store.close().await.unwrap();
    assert_eq!(harvest(&home.open().await).await.unwrap(), all_planted());
}

/// Polls `future` at most `times` times and then drops it; true if it had ended.
async fn poll_at_most(times: usize, future: impl Future<Output = Result<u64, StoreError>>) -> bool {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(context).map(|ended| ended.is_ok())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_migration_loses_nothing_and_can_be_continued() {
    for (from, to) in [
        (KeyLocation::File, KeyLocation::Sealer),
        (KeyLocation::Sealer, KeyLocation::File),
    ] {
        let mut polls = 0;
        loop {
            polls += 1;
            let (home, provider) = (of_file().await, Arc::new(TestProvider::default()));
            let store = open(&home, &provider).await;
            store.migrate(from).await.unwrap();
            let ended = poll_at_most(polls, store.migrate(to)).await;
            drop(store);
            let store = open(&home, &provider).await;
            let context = format!("to {to:?}, cut after {polls}");
            assert_eq!(harvest(&store).await.unwrap(), all_planted(), "{context}");
            store.migrate(to).await.unwrap();
            assert_eq!(harvest(&store).await.unwrap(), all_planted(), "{context}");
            assert_eq!(
                store.sealed_by().await.unwrap().len(),
                1,
                "{context}: one key remains"
            );
            assert_eq!(store.key_location(), to, "{context}");
            assert_eq!(
                home.key_file().exists(),
                to == KeyLocation::File,
                "{context}"
            );
            drop(store);
            assert_eq!(
                harvest(&open(&home, &provider).await).await.unwrap(),
                all_planted(),
                "{context}"
            );
            if ended {
                break;
            }
        }
        assert!(polls > 10, "it was interrupted at only {polls} points");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn during_a_provider_outage_nothing_changes_and_open_stores_work() {
    let (home, provider) = (of_file().await, Arc::new(TestProvider::default()));
    let unavailable = |outcome: Result<u64, StoreError>| match outcome {
        Err(StoreError::Keys {
            kind: ErrorKind::Unavailable,
            detail,
        }) => {
            assert!(
                detail.contains("it is unavailable") && detail.contains("wait for it"),
                "{detail}"
            );
        }
        other => panic!("{other:?}"),
    };
    let store = open(&home, &provider).await;
    provider.unavailable.store(true, SeqCst);
    unavailable(store.migrate(KeyLocation::Sealer).await);
    assert_eq!(
        (store.key_location(), home.key_file().exists()),
        (KeyLocation::File, true)
    );
    provider.unavailable.store(false, SeqCst);
    store.migrate(KeyLocation::Sealer).await.unwrap();
    provider.unavailable.store(true, SeqCst);
    unavailable(store.rotate().await);
    assert!(store.unused_keys().await.is_err());
    assert_eq!(
        harvest(&store).await.unwrap(),
        all_planted(),
        "the open store has the key in memory"
    );
    store.close().await.unwrap();
    unavailable(try_open(&home, &provider).await.map(|_| 0));
    provider.unavailable.store(false, SeqCst);
    assert_eq!(
        harvest(&open(&home, &provider).await).await.unwrap(),
        all_planted()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_different_key_under_the_recorded_id_is_refused() {
    let (home, provider) = (Home::new(), Arc::new(TestProvider::default()));
    let store = open(&home, &provider).await;
    plant(&store).await;
    store.rotate().await.unwrap();
    store.close().await.unwrap();
    {
        let mut keys = provider.keys.lock().unwrap();
        let old = keys["id-0"].clone();
        keys.insert("id-1".into(), old);
    }
    let Err(StoreError::Keys {
        kind: ErrorKind::Refused,
        detail,
    }) = try_open(&home, &provider).await
    else {
        panic!("it was opened")
    };
    assert!(detail.contains("`id-1` is not the key"), "{detail}");
    assert!(
        provider.texts().iter().all(|key| !detail.contains(key)),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_with_a_provider_key() {
    let (home, provider) = (Home::new(), Arc::new(TestProvider::default()));
    let store = open(&home, &provider).await;
    let planted = vim("v1", "one");
    store
        .write(None, vec![Change::AddVim(planted.clone())])
        .await
        .unwrap();
    let folders = crate::records::folders(home.folder.path());
    let file = home.folder.path().join("backup.zip");
    let at = crate::records::at();
    store.backup(&folders, &file, at).await.unwrap();
    store.rotate().await.unwrap(); // the backup needs the previous key
    let new = tempfile::tempdir().unwrap();
    let without = restore(&file, new.path(), at).await;
    assert!(matches!(without, Err(StoreError::Broken(_))), "{without:?}");
    restore_with(&file, new.path(), at, Some(provider.clone()))
        .await
        .unwrap();
    let keys = SecretKeys::with(&new.path().join("secrets.key"), provider).unwrap();
    let restored = SqliteStore::open(&new.path().join("vnfm.db"), keys)
        .await
        .unwrap();
    assert_eq!(
        restored.vim(TENANT, "v1").await.unwrap().access_info,
        planted.access_info
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_rotations_are_serialised() {
    let home = of_file().await;
    let store = Arc::new(home.open().await);
    let rotations: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.rotate().await.unwrap() })
        })
        .collect();
    for rotation in rotations {
        assert_eq!(rotation.await.unwrap(), 9);
    }
    drop(store);
    assert_eq!(harvest(&home.open().await).await.unwrap(), all_planted());
}
