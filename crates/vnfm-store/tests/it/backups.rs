//! Backups are consistent, contain no key, and can be restored; an invalid backup changes nothing.

use crate::records::{
    Home, TENANT, at, deployment, folders_with_package, instance, notification, op, package, seed,
};
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use tokio::task::spawn_blocking;
use vnfm_core::ports::StoreAdmin as _;
use vnfm_core::ports::{Change, Store as _, StoreError};
use vnfm_store::{SqliteStore, restore};

pub(crate) async fn create_backup(home: &Home, store: &SqliteStore) -> PathBuf {
    let folders = folders_with_package(home.folder.path());
    let file = home.folder.path().join("a.backup");
    store.backup(&folders, &file, at()).await.unwrap();
    file
}

pub(crate) async fn names(store: &SqliteStore) -> Vec<String> {
    let instances = store.instances(TENANT, &<_>::default()).await.unwrap();
    instances.into_iter().map(|record| record.vnf.id).collect()
}

/// All files of a folder but the lock, each with the sum of its bytes.
fn checksums(folder: &Path) -> Vec<(PathBuf, u64)> {
    let sum = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.iter().fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        })
    };
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_none_or(|end| end != "lock"))
        .map(|path| (path.clone(), sum(&path)))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_during_writes_is_a_consistent_snapshot() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &[]).await;
    let folders = folders_with_package(home.folder.path());
    let file = home.folder.path().join("a.backup");
    let writes = async {
        for n in 0..200 {
            let id = format!("i{n:03}");
            let changes = vec![
                Change::AddInstance(instance(&id)),
                Change::AddOp(op(&format!("o{n}"), &id)),
                notification(&id, json!(n)),
            ];
            store.write(None, changes).await.unwrap();
        }
    };
    let (made, ()) = futures::join!(store.backup(&folders, &file, at()), writes);
    made.unwrap();
    let id = store.installation_id().to_owned();
    drop(store);
    let restored = restore(&file, home.folder.path(), at()).await.unwrap();
    assert_eq!(
        (restored.installation_id.as_str(), restored.packages),
        (id.as_str(), 1)
    );
    let store = home.open().await;
    let found = names(&store).await;
    let notifications = store.outbox(0, 1_000).await.unwrap();
    assert_eq!(
        found.len(),
        notifications.len(),
        "each with its notification"
    );
    for (n, name) in found.iter().enumerate() {
        assert_eq!(*name, format!("i{n:03}"), "a prefix");
        let record = store.instance(TENANT, name).await.unwrap();
        assert_eq!(record.active_op, Some(format!("o{n}")));
    }
}

/// The first package of the backup is read from a pipe, so that the backup waits after it has copied the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_is_deleted_during_a_backup_is_not_in_it() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &[]).await;
    let added = vec![Change::AddPackage(package("a-first", None))];
    store.write(None, added).await.unwrap();
    let folders = folders_with_package(home.folder.path());
    let pipe = folders.packages.path("a-first").unwrap();
    assert!(
        Program::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let file = home.folder.path().join("a.backup");
    let deleted = async {
        let writer = pipe.clone();
        let opened = spawn_blocking(move || File::create(writer)).await.unwrap();
        let removed = Change::RemovePackage {
            tenant: TENANT.into(),
            id: "package".into(),
        };
        store.write(None, vec![removed]).await.unwrap();
        folders.packages.remove("package").await.unwrap();
        std::fs::remove_file(&pipe).unwrap();
        std::fs::write(&pipe, "what was onboarded first").unwrap();
        drop(opened);
    };
    let (made, ()) = futures::join!(store.backup(&folders, &file, at()), deleted);
    made.unwrap();
    drop(store);
    let restored = restore(&file, home.folder.path(), at()).await.unwrap();
    assert_eq!(restored.packages, 1);
    let content = std::fs::read_to_string(&pipe).unwrap();
    assert_eq!(content, "what was onboarded first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_is_in_recovery_and_the_old_one_is_kept() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &["early"]).await;
    assert_eq!(store.recovery().await.unwrap(), None);
    let file = create_backup(&home, &store).await;
    store
        .write(None, vec![Change::AddInstance(instance("late"))])
        .await
        .unwrap();
    drop(store);
    std::fs::remove_file(home.folder.path().join("packages/package.csar")).unwrap();
    let restored = restore(&file, home.folder.path(), at()).await.unwrap();
    let store = home.open().await;
    assert_eq!(names(&store).await, ["early"]);
    let record = store.instance(TENANT, "early").await.unwrap();
    assert_eq!(record.deployment, Some(deployment("hunter2")));
    let package = std::fs::read(home.folder.path().join("packages/package.csar")).unwrap();
    assert_eq!(package, b"what was onboarded");
    let recovery = store.recovery().await.unwrap().unwrap();
    assert_eq!((recovery.backup_at, recovery.restored_at), (at(), at()));
    drop(store);
    let store = home.open().await;
    assert!(
        store.recovery().await.unwrap().is_some(),
        "recovery lasts until it is confirmed"
    );
    store.end_recovery().await.unwrap();
    drop(store);
    assert_eq!(home.open().await.recovery().await.unwrap(), None);
    // The previous database can be renamed back.
    std::fs::rename(restored.before.unwrap(), home.database()).unwrap();
    for end in ["-wal", "-shm", "-acked"] {
        let _ = std::fs::remove_file(home.folder.path().join(format!("vnfm.db{end}")));
    }
    assert_eq!(names(&home.open().await).await, ["early", "late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_contains_no_key_and_no_secret() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &["i"]).await;
    let file = create_backup(&home, &store).await;
    let bytes = std::fs::read(file).unwrap();
    let keys = std::fs::read_to_string(home.key_file()).unwrap();
    let key = keys.lines().find(|line| !line.starts_with('#')).unwrap();
    for secret in ["hunter2", key] {
        let found = bytes
            .windows(secret.len())
            .any(|window| window == secret.as_bytes());
        assert!(!found, "the backup contains a secret");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_backup_is_refused_and_changes_nothing() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &["i"]).await;
    let file = create_backup(&home, &store).await;
    let folder = home.folder.path();
    let running = restore(&file, folder, at()).await.unwrap_err();
    assert!(running.to_string().contains("has it open"), "{running}");
    store.close().await.unwrap();
    let good = std::fs::read(&file).unwrap();
    let text = folder.join("b.backup");
    std::fs::write(&text, "no backup").unwrap();
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x5a;
    std::fs::write(folder.join("c.backup"), damaged).unwrap();
    std::fs::write(folder.join("d.backup"), &good[..good.len() / 2]).unwrap();
    let before = checksums(folder);
    for name in ["b.backup", "c.backup", "d.backup", "nothing.backup"] {
        let error = restore(&folder.join(name), folder, at()).await.unwrap_err();
        let named = error.to_string();
        assert!(
            named.contains("backup cannot be used") || named.contains("nothing.backup"),
            "{name}: {error}"
        );
        assert_eq!(checksums(folder), before, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_needs_its_own_keys() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &["i"]).await;
    let file = create_backup(&home, &store).await;
    let other = Home::new();
    let error = restore(&file, other.folder.path(), at()).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Broken(why) if why.contains("secrets.key")),
        "{error}"
    );
    other.open().await.close().await.unwrap();
    let before = std::fs::read(other.database()).unwrap();
    let error = restore(&file, other.folder.path(), at()).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Broken(why) if why.contains("cannot restore")),
        "{error}"
    );
    assert!(
        std::fs::read(other.database()).unwrap() == before,
        "the data folder was changed"
    );
    std::fs::copy(home.key_file(), other.key_file()).unwrap();
    restore(&file, other.folder.path(), at()).await.unwrap();
    assert_eq!(names(&other.open().await).await, ["i"]);
}
