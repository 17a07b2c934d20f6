//! Keys that somebody else keeps: there and back, cut short at every point, and while nobody answers.

use crate::records::{Home, TENANT, vim};
use crate::sealed::{all_planted, files_with, harvest, plant};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use vnfm_core::ports::{Change, Code, ErrorKind, PortError, SecretSealer, Store as _, StoreError};
use vnfm_store::{KeyLocation, PackageDir, SecretKeys, SqliteStore, restore, restore_with};
use vnfm_types::Secret;

const AWAY: Code = Code {
    name: "test.away",
    kind: ErrorKind::Unavailable,
    means: "the test sent it away",
    next: "wait for it",
};

/// Keeps keys in memory; `away` while it does not answer.
#[derive(Default)]
struct Keeper {
    keys: Mutex<BTreeMap<String, (String, String)>>,
    away: AtomicBool,
}

impl Keeper {
    fn answers(&self) -> Result<(), PortError> {
        if self.away.load(SeqCst) {
            return Err(PortError::new(&AWAY, "ask the keeper", "it is away"));
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
impl SecretSealer for Keeper {
    fn key_type(&self) -> &'static str {
        "barbican_key"
    }
    async fn store_key(&self, name: &str, key: &Secret) -> Result<String, PortError> {
        tokio::task::yield_now().await;
        self.answers()?;
        let mut keys = self.keys.lock().unwrap();
        let id = format!("id-{}", keys.len());
        keys.insert(id.clone(), (name.to_owned(), key.reveal().to_owned()));
        drop(keys);
        Ok(id)
    }
    async fn key(&self, id: &str) -> Result<Secret, PortError> {
        self.answers()?;
        let keys = self.keys.lock().unwrap();
        let found = keys.get(id).map(|(_, key)| Secret::new(key.as_str()));
        found.ok_or_else(|| PortError::new(&AWAY, "get a key", "there is none"))
    }
    async fn key_ids(&self, name: &str) -> Result<Vec<String>, PortError> {
        self.answers()?;
        let keys = self.keys.lock().unwrap();
        Ok(keys
            .iter()
            .filter(|(_, (its, _))| its == name)
            .map(|(id, _)| id.clone())
            .collect())
    }
}

async fn try_open(home: &Home, keeper: &Arc<Keeper>) -> Result<SqliteStore, StoreError> {
    let keys = SecretKeys::with(&home.key_file(), keeper.clone())?;
    SqliteStore::open(&home.database(), keys).await
}

async fn open(home: &Home, keeper: &Arc<Keeper>) -> SqliteStore {
    try_open(home, keeper).await.unwrap()
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
async fn a_key_that_somebody_keeps_seals_a_new_database_and_no_file_holds_it() {
    let (home, keeper) = (Home::new(), Arc::new(Keeper::default()));
    let store = open(&home, &keeper).await;
    plant(&store).await;
    assert_eq!(store.key_place(), KeyLocation::Sealer);
    let vim = store.vim(TENANT, "v1").await.unwrap().vim;
    assert_eq!(vim.key_type.as_deref(), Some("barbican_key"));
    assert_eq!(vim.secret_uuid.as_deref(), Some("id-0"));
    store.close().await.unwrap();
    assert!(!home.key_file().exists());
    for key in keeper.texts() {
        assert_eq!(files_with(home.folder.path(), &key), [""; 0]);
    }
    let store = open(&home, &keeper).await;
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    assert_eq!(store.rotate().await.unwrap(), 8);
    let vim = store.vim(TENANT, "v1").await.unwrap().vim;
    assert_eq!(
        vim.secret_uuid.as_deref(),
        Some("id-1"),
        "the record tells of the new key"
    );
    assert_eq!(
        store.unused_keys().await.unwrap(),
        ["id-0"],
        "it is not deleted, but named"
    );
    store.close().await.unwrap();
    assert_eq!(
        harvest(&open(&home, &keeper).await).await.unwrap(),
        all_planted()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_there_and_back_loses_nothing() {
    let (home, keeper) = (of_file().await, Arc::new(Keeper::default()));
    let store = open(&home, &keeper).await;
    assert_eq!(
        store.key_place(),
        KeyLocation::File,
        "nothing moves by itself"
    );
    assert_eq!(store.vim(TENANT, "v1").await.unwrap().vim.key_type, None);
    assert_eq!(store.migrate(KeyLocation::Sealer).await.unwrap(), 8);
    assert_eq!(
        store.migrate(KeyLocation::Sealer).await.unwrap(),
        0,
        "it is there already"
    );
    assert!(!home.key_file().exists());
    let sealed = store.sealed_by().await.unwrap();
    let told: Vec<_> = sealed
        .iter()
        .map(|one| (one.key_type.as_str(), one.values, one.seals))
        .collect();
    assert_eq!(told, [("barbican_key", 8, true)]);
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
        panic!("it was opened without the one who keeps its key")
    };
    assert!(detail.contains("secrets.barbican"), "{detail}");
    std::fs::remove_file(home.key_file()).unwrap(); // which that attempt made
    let store = open(&home, &keeper).await;
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    assert_eq!(store.migrate(KeyLocation::File).await.unwrap(), 8);
    assert_eq!(store.vim(TENANT, "v1").await.unwrap().vim.key_type, None);
    store.close().await.unwrap();
    assert_eq!(harvest(&home.open().await).await.unwrap(), all_planted());
}

/// Lets `future` go on so many times and then drops it; whether it had ended by then.
async fn cut_after(times: usize, future: impl Future<Output = Result<u64, StoreError>>) -> bool {
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
async fn a_migration_that_is_cut_short_anywhere_loses_nothing_and_goes_on() {
    for (from, to) in [
        (KeyLocation::File, KeyLocation::Sealer),
        (KeyLocation::Sealer, KeyLocation::File),
    ] {
        let mut cuts = 0;
        loop {
            cuts += 1;
            let (home, keeper) = (of_file().await, Arc::new(Keeper::default()));
            let store = open(&home, &keeper).await;
            store.migrate(from).await.unwrap();
            let ended = cut_after(cuts, store.migrate(to)).await;
            drop(store);
            let store = open(&home, &keeper).await;
            let what = format!("to {to:?}, cut after {cuts}");
            assert_eq!(harvest(&store).await.unwrap(), all_planted(), "{what}");
            store.migrate(to).await.unwrap();
            assert_eq!(harvest(&store).await.unwrap(), all_planted(), "{what}");
            assert_eq!(
                store.sealed_by().await.unwrap().len(),
                1,
                "{what}: one key is left"
            );
            assert_eq!(store.key_place(), to, "{what}");
            assert_eq!(home.key_file().exists(), to == KeyLocation::File, "{what}");
            drop(store);
            assert_eq!(
                harvest(&open(&home, &keeper).await).await.unwrap(),
                all_planted(),
                "{what}"
            );
            if ended {
                break;
            }
        }
        assert!(cuts > 10, "it was cut at {cuts} points only");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_keeper_is_away_nothing_is_changed_and_what_is_open_goes_on() {
    let (home, keeper) = (of_file().await, Arc::new(Keeper::default()));
    let away = |outcome: Result<u64, StoreError>| match outcome {
        Err(StoreError::Keys {
            kind: ErrorKind::Unavailable,
            detail,
        }) => {
            assert!(
                detail.contains("it is away") && detail.contains("wait for it"),
                "{detail}"
            );
        }
        other => panic!("{other:?}"),
    };
    let store = open(&home, &keeper).await;
    keeper.away.store(true, SeqCst);
    away(store.migrate(KeyLocation::Sealer).await);
    assert_eq!(
        (store.key_place(), home.key_file().exists()),
        (KeyLocation::File, true)
    );
    keeper.away.store(false, SeqCst);
    store.migrate(KeyLocation::Sealer).await.unwrap();
    keeper.away.store(true, SeqCst);
    away(store.rotate().await);
    assert!(store.unused_keys().await.is_err());
    assert_eq!(
        harvest(&store).await.unwrap(),
        all_planted(),
        "it has the key in memory"
    );
    store.close().await.unwrap();
    away(try_open(&home, &keeper).await.map(|_| 0));
    keeper.away.store(false, SeqCst);
    assert_eq!(
        harvest(&open(&home, &keeper).await).await.unwrap(),
        all_planted()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_in_the_place_of_ours_is_refused() {
    let (home, keeper) = (Home::new(), Arc::new(Keeper::default()));
    let store = open(&home, &keeper).await;
    plant(&store).await;
    store.rotate().await.unwrap();
    store.close().await.unwrap();
    {
        let mut keys = keeper.keys.lock().unwrap();
        let old = keys["id-0"].clone();
        keys.insert("id-1".into(), old);
    }
    let Err(StoreError::Keys {
        kind: ErrorKind::Refused,
        detail,
    }) = try_open(&home, &keeper).await
    else {
        panic!("it was opened")
    };
    assert!(detail.contains("`id-1` is not the key"), "{detail}");
    assert!(
        keeper.texts().iter().all(|key| !detail.contains(key)),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_with_the_key_that_is_kept() {
    let (home, keeper) = (Home::new(), Arc::new(Keeper::default()));
    let store = open(&home, &keeper).await;
    let planted = vim("v1", "one");
    store
        .write(None, vec![Change::AddVim(planted.clone())])
        .await
        .unwrap();
    let limits = vnfm_descriptor::Limits::default();
    let packages = PackageDir::open(&home.folder.path().join("packages"), limits).unwrap();
    let file = home.folder.path().join("backup.zip");
    let at = crate::records::at();
    store.backup(&packages, &file, at).await.unwrap();
    store.rotate().await.unwrap(); // the backup needs the key before
    let new = tempfile::tempdir().unwrap();
    let without = restore(&file, new.path(), at).await;
    assert!(matches!(without, Err(StoreError::Broken(_))), "{without:?}");
    restore_with(&file, new.path(), at, Some(keeper.clone()))
        .await
        .unwrap();
    let keys = SecretKeys::with(&new.path().join("secrets.key"), keeper).unwrap();
    let restored = SqliteStore::open(&new.path().join("vnfm.db"), keys)
        .await
        .unwrap();
    assert_eq!(
        restored.vim(TENANT, "v1").await.unwrap().access_info,
        planted.access_info
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_at_once_come_one_after_the_other() {
    let home = of_file().await;
    let store = Arc::new(home.open().await);
    let rotations: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.rotate().await.unwrap() })
        })
        .collect();
    for rotation in rotations {
        assert_eq!(rotation.await.unwrap(), 8);
    }
    drop(store);
    assert_eq!(harvest(&home.open().await).await.unwrap(), all_planted());
}
