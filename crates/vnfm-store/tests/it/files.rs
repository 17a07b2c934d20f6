//! Files of the data folder that are missing or were replaced, crash leftovers, and damaged databases.

use crate::log::Crashed;
use crate::records::{Home, at, notification};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use vnfm_core::ports::{SealingKeys as _, StoreAdmin as _};
use vnfm_core::ports::{Store as _, StoreError};
use vnfm_descriptor::Limits;
use vnfm_store::{
    Folder, PackageDir, SecretKeys, SqliteStore, accept_loss, check_files, remove_leftovers_in,
};

async fn rows(store: &SqliteStore) -> usize {
    store.outbox(0, 1_000).await.unwrap().len()
}

/// A database that acknowledged ten writes, as left by a kill.
async fn killed() -> Home {
    let (home, living) = (Home::new(), Home::new());
    let store = living.open().await;
    for round in 0..10 {
        store
            .write(None, vec![notification("i", json!(round))])
            .await
            .unwrap();
    }
    let crashed = Crashed::now(living.folder.path());
    crashed.write_to(home.folder.path(), &crashed.log);
    home
}

fn refused(outcome: Result<SqliteStore, StoreError>) -> String {
    match outcome {
        Err(StoreError::Broken(why)) => why,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_lost_log_is_detected_and_its_loss_can_be_accepted() {
    for empty in [false, true] {
        let home = killed().await;
        let log = home.folder.path().join("vnfm.db-wal");
        let saved_log = fs::read(&log).unwrap();
        fs::remove_file(&log).unwrap();
        if empty {
            fs::write(&log, "").unwrap();
        }
        let why = refused(home.try_open().await);
        for word in [
            "vnfm.db-wal",
            "missing or empty",
            "frames were acknowledged",
            "accept-loss",
        ] {
            assert!(why.contains(word), "{word}: {why}");
        }
        // Nothing was changed: with the log restored, all rows are back.
        fs::write(&log, &saved_log).unwrap();
        let store = home.open().await;
        assert_eq!(rows(&store).await, 10);
        store.close().await.unwrap();

        let home = killed().await;
        fs::remove_file(home.folder.path().join("vnfm.db-wal")).unwrap();
        let moved = accept_loss(home.folder.path(), at()).unwrap();
        assert!(
            moved
                .iter()
                .any(|(from, to)| from.ends_with("vnfm.db-acked") && to.exists())
        );
        assert!(rows(&home.open().await).await < 10);
    }
}

#[tokio::test]
async fn a_checkpointed_log_may_be_absent() {
    // Checkpointed by a reader after a kill.
    let home = killed().await;
    let other = rusqlite::Connection::open(home.database()).unwrap();
    let count = other.query_row("SELECT COUNT(*) FROM outbox", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(count.unwrap(), 10);
    other.close().unwrap();
    assert!(!home.folder.path().join("vnfm.db-wal").exists());
    let store = home.open().await;
    assert_eq!(rows(&store).await, 10);
    // Checkpointed by a shutdown.
    store
        .write(None, vec![notification("i", json!("last"))])
        .await
        .unwrap();
    store.checkpoint_log().await.unwrap();
    assert_eq!(
        fs::metadata(home.folder.path().join("vnfm.db-wal"))
            .unwrap()
            .len(),
        0
    );
    let copy = Home::new();
    for name in ["vnfm.db", "vnfm.db-acked", "secrets.key"] {
        fs::copy(home.folder.path().join(name), copy.folder.path().join(name)).unwrap();
    }
    assert_eq!(rows(&copy.open().await).await, 11);
    // Truncated by a rotation.
    store
        .write(None, vec![notification("i", json!("later"))])
        .await
        .unwrap();
    store.rotate().await.unwrap();
    drop(store);
    assert_eq!(rows(&home.open().await).await, 12);
}

#[tokio::test]
async fn a_note_of_an_older_binary_does_not_detect_a_lost_log() {
    let home = killed().await;
    fs::remove_file(home.folder.path().join("vnfm.db-wal")).unwrap();
    let note = home.folder.path().join("vnfm.db-acked");
    let bytes = fs::read(&note).unwrap();
    fs::write(&note, &bytes[..12]).unwrap();
    home.open().await.close().await.unwrap();
}

#[tokio::test]
async fn a_lost_database_is_detected_by_its_other_files() {
    for removed in [false, true] {
        let home = killed().await;
        if removed {
            fs::remove_file(home.database()).unwrap();
        } else {
            fs::write(home.database(), "").unwrap();
        }
        let why = refused(home.try_open().await);
        assert!(
            why.contains("vnfm.db-wal") && why.contains("accept-loss"),
            "{why}"
        );
        let checked = check_files(home.folder.path()).unwrap_err();
        assert!(matches!(checked, StoreError::Broken(_)), "{checked}");
        assert!(
            !removed || !home.database().exists(),
            "no new database is created"
        );
    }
}

#[tokio::test]
async fn a_key_or_package_without_a_database_is_refused_but_not_a_new_folder() {
    for sign in [
        "secrets.key",
        "packages/0b6bc0ac-9d61-4d53-9d9c-f9b3a6ad4aa5.csar",
    ] {
        let home = Home::new();
        let file = home.folder.path().join(sign);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        let error = check_files(home.folder.path()).unwrap_err();
        assert!(error.to_string().contains(sign), "{error}");
        let moved = accept_loss(home.folder.path(), at()).unwrap();
        assert_eq!(
            moved.len(),
            usize::from(sign.starts_with("packages")),
            "the key file stays"
        );
        check_files(home.folder.path()).unwrap();
    }
    let home = Home::new();
    check_files(home.folder.path()).unwrap();
    // As left by a first start that was killed after it created its key.
    SecretKeys::open(&home.key_file()).unwrap();
    check_files(home.folder.path()).unwrap();
    home.open().await;
    check_files(home.folder.path()).unwrap();
    let refused = accept_loss(home.folder.path(), at()).unwrap_or_default();
    assert!(refused.is_empty(), "nothing is missing: {refused:?}");
}

#[tokio::test]
async fn a_damaged_database_is_refused_with_a_hint() {
    let home = Home::new();
    let store = home.open().await;
    for round in 0..40 {
        store
            .write(
                None,
                vec![notification("i", json!("x".repeat(3_000 + round)))],
            )
            .await
            .unwrap();
    }
    store.integrity().unwrap();
    store.close().await.unwrap();
    let mut bytes = fs::read(home.database()).unwrap();
    let middle = bytes.len() / 4096 / 2 * 4096;
    bytes[middle..middle + 512].fill(0xa5);
    fs::write(home.database(), &bytes).unwrap();
    let why = refused(home.try_open().await);
    for word in ["vnfm.db", "is damaged", "vnfm-server restore FILE"] {
        assert!(why.contains(word), "{word}: {why}");
    }
    assert!(
        fs::read(home.database()).unwrap() == bytes,
        "the database is unchanged"
    );
}

#[tokio::test]
async fn removed_or_replaced_files_of_an_open_database_are_detected() {
    type Act = fn(&Path);
    let acts: [(&str, Act); 4] = [
        (
            "vnfm.db`, which this server has open, was removed",
            |data| {
                fs::remove_file(data.join("vnfm.db")).unwrap();
            },
        ),
        ("vnfm.db-wal`", |data| {
            fs::remove_file(data.join("vnfm.db-wal")).unwrap();
        }),
        ("was replaced", |data| {
            fs::copy(data.join("vnfm.db"), data.join("copy")).unwrap();
            fs::rename(data.join("copy"), data.join("vnfm.db")).unwrap();
        }),
        ("was removed", |data| {
            fs::rename(data, data.with_extension("away")).unwrap();
        }),
    ];
    for (word, act) in acts {
        let home = Home::new();
        let data = home.folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let keys = SecretKeys::open(&data.join("secrets.key")).unwrap();
        let store = SqliteStore::open(&data.join("vnfm.db"), keys)
            .await
            .unwrap();
        assert_eq!(store.check_open_files(), Ok(()));
        act(&data);
        let why = store.check_open_files().unwrap_err();
        assert!(why.contains(word), "{word}: {why}");
    }
}

#[tokio::test]
async fn only_crash_leftovers_are_removed_at_the_next_start() {
    let home = Home::new();
    home.open().await.close().await.unwrap();
    let data = home.folder.path();
    let (packages, plugins) = (data.join("packages"), data.join("plugins"));
    fs::create_dir(&packages).unwrap();
    fs::create_dir(&plugins).unwrap();
    let left = [
        "secrets.new-3f0c",
        "backup-3f0c.part",
        "backup-3f0c.part.part",
        "vnfm.db.restoring",
        "vnfm.db.restoring.part",
        "packages/.incoming-3f0c",
        "packages/3f0c.csar.part",
        "plugins/.tmpAbC.so",
    ];
    let stays = [
        "backup-of-monday.zip",
        "vnfm.db.before-20260101T000000Z",
        "packages/3f0c.csar",
        "packages/3f0c.arriving",
        "plugins/a-1.0.0.so",
        "plugins/plugins.lock",
    ];
    for name in left.iter().chain(&stays) {
        fs::write(data.join(name), "x").unwrap();
    }
    home.open().await;
    PackageDir::open(&packages, Limits::default()).unwrap();
    assert_eq!(remove_leftovers_in(Folder::Plugins, &plugins).unwrap(), 1);
    let still: Vec<_> = left
        .iter()
        .filter(|name| data.join(name).exists())
        .collect();
    assert!(still.is_empty(), "{still:?}");
    let removed: Vec<_> = stays
        .iter()
        .filter(|name| !data.join(name).exists())
        .collect();
    assert!(removed.is_empty(), "{removed:?}");
    assert!(home.key_file().exists());
}

#[test]
fn package_files_are_restricted_to_their_owner() {
    let home = Home::new();
    let folder = home.folder.path().join("packages");
    let file = folder.join("0b6bc0ac-9d61-4d53-9d9c-f9b3a6ad4aa5.csar");
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "x").unwrap();
    for (path, mode) in [(&folder, 0o755), (&file, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    PackageDir::open(&folder, Limits::default()).unwrap();
    let mode = |path: &PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
}
