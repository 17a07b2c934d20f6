//! A full or read-only disk: a clear error, nothing lost, and the next write succeeds once there is space. The disk is a
//! small tmpfs; mounting it needs root, without which these tests are skipped.

use crate::records::{Home, at, folders, folders_with_package, notification, seed};
use futures::future::join_all;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use vnfm_core::ports::{Store as _, StoreError};
use vnfm_store::{SecretKeys, SqliteStore, restore};

/// A filesystem of a few megabytes, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if mount(folder.path(), &["-t", "tmpfs", "-o", "size=4m", "tmpfs"]) {
            return Some(Self(folder));
        }
        let why = "cannot mount a small disk: this needs root";
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "{why}"
        );
        eprintln!("skipped: {why}");
        None
    }

    async fn open(&self) -> Result<SqliteStore, StoreError> {
        let keys = SecretKeys::open(&self.0.path().join("secrets.key"))?;
        SqliteStore::open(&self.0.path().join("vnfm.db"), keys).await
    }

    fn fill(&self) {
        let filler = std::fs::File::create(self.0.path().join("filler")).unwrap();
        let mut rest = &filler;
        while std::io::Write::write_all(&mut rest, &[0; 512]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status(); // nothing can be done about it here
    }
}

fn mount(at: &Path, arguments: &[&str]) -> bool {
    let mounted = Command::new("mount").args(arguments).arg(at).output();
    mounted.is_ok_and(|output| output.status.success())
}

async fn numbers(store: &SqliteStore) -> Vec<u64> {
    store
        .outbox(0, 10_000)
        .await
        .unwrap()
        .iter()
        .map(|row| row.seq)
        .collect()
}

/// Writes until one fails; returns the number of successes and the error.
async fn write_until_full(store: &SqliteStore) -> (u64, StoreError) {
    let mut written = 0;
    loop {
        let write = store.write(None, vec![notification("i", json!("x".repeat(3_000)))]);
        match write.await {
            Ok(()) => written += 1,
            Err(error) => return (written, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_and_works_again_once_space_is_freed() {
    let Some(disk) = Disk::mount() else { return };
    let store = disk.open().await.unwrap();
    store
        .write(None, vec![notification("i", json!("first"))])
        .await
        .unwrap();
    disk.fill();
    let (written, error) = write_until_full(&store).await;
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.contains("disk is full")),
        "a retry may succeed: {error}"
    );
    let writes =
        (0..8).map(|_| store.write(None, vec![notification("i", json!("x".repeat(30_000)))]));
    let all = join_all(writes).await;
    assert!(
        all.iter().all(Result::is_err),
        "each caller gets the error: {all:?}"
    );
    assert_eq!(
        numbers(&store).await.len() as u64,
        written + 1,
        "reads continue"
    );
    disk.make_room();
    store
        .write(None, vec![notification("i", json!("x".repeat(30_000)))])
        .await
        .unwrap();
    let expected: Vec<_> = (1..=written + 2).collect();
    assert_eq!(numbers(&store).await, expected);
    drop(store);
    assert_eq!(
        numbers(&disk.open().await.unwrap()).await,
        expected,
        "after a restart"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_on_a_full_disk_loses_nothing() {
    let Some(disk) = Disk::mount() else { return };
    let store = disk.open().await.unwrap();
    let (written, _) = write_until_full(&store).await;
    drop(store);
    disk.fill();
    match disk.open().await {
        Ok(store) => assert_eq!(numbers(&store).await.len() as u64, written),
        Err(error) => assert!(matches!(&error, StoreError::Unavailable(_)), "{error}"),
    }
    disk.make_room();
    // The log itself fills the disk: it is checkpointed once there is space.
    let grown = format!("remount,size={}m", 16);
    assert!(mount(disk.0.path(), &["-o", &grown]));
    let store = disk.open().await.unwrap();
    assert_eq!(numbers(&store).await, (1..=written).collect::<Vec<_>>());
    store
        .write(None, vec![notification("i", json!("after"))])
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_turns_read_only_is_an_error_and_works_again_once_writable() {
    let Some(disk) = Disk::mount() else { return };
    let store = disk.open().await.unwrap();
    store
        .write(None, vec![notification("i", json!(1))])
        .await
        .unwrap();
    store.close().await.unwrap();
    assert!(mount(disk.0.path(), &["-o", "remount,ro"]));
    let error = disk.open().await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.contains("vnfm.db") && why.contains("ead-only")),
        "{error}"
    );
    assert!(mount(disk.0.path(), &["-o", "remount,rw"]));
    let store = disk.open().await.unwrap();
    assert_eq!(numbers(&store).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_write_permission_is_named_in_the_error() {
    let home = Home::new();
    home.open().await.close().await.unwrap();
    let mut mode = std::fs::metadata(home.database()).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(home.database(), mode).unwrap();
    match home.try_open().await {
        // Root may write any file.
        Ok(store) => store
            .write(None, vec![notification("i", json!(1))])
            .await
            .unwrap(),
        Err(error) => assert!(
            matches!(&error, StoreError::Unavailable(why) if why.contains("vnfm.db")),
            "{error}"
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_onto_a_full_disk_changes_nothing() {
    let Some(disk) = Disk::mount() else { return };
    let (home, data) = (Home::new(), disk.0.path());
    let store = home.open().await;
    seed(&store, &["i1"]).await;
    let from = folders_with_package(home.folder.path());
    // Larger than the disk, and not compressed in the backup.
    for name in ["a.enc", "b.enc"] {
        crate::backup_files::put(&from.files, "i1", name, &vec![1; 3 << 20]).await;
    }
    let backup = home.folder.path().join("a.backup");
    store.backup(&from, &backup, at()).await.unwrap();
    std::fs::copy(home.key_file(), data.join("secrets.key")).unwrap();
    disk.open().await.unwrap().close().await.unwrap();
    crate::backup_files::put(&folders(data).files, "i1", "before.enc", b"abc").await;
    let names = || {
        let entries = std::fs::read_dir(data).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let error = restore(&backup, data, at()).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.contains("cannot write") && why.contains(".enc")),
        "{error}"
    );
    assert_eq!(names(), before, "nothing is left");
    let files = folders(data).files;
    let kept = crate::backup_files::stored(&files, "i1").await;
    assert_eq!(kept, ["before.enc"]);
    disk.open().await.unwrap();
}
