//! Crashes: a future dropped anywhere in a write, a process killed while it writes, a second process on the same file,
//! operations in flight when the database is reopened.

use crate::backup_files::{put, stored};
use crate::backups::names;
use crate::records::{
    Home, TENANT, at, folders, folders_with_package, instance, notification, op, package, seed,
    step,
};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use vnfm_core::ports::{Backups as _, InstanceFiles as _, SealingKeys as _};
use vnfm_core::ports::{Change, StepStatus, Store as _, StoreError};
use vnfm_store::{SecretKeys, SqliteStore, StoreBackups, restore};

/// Environment variable with the data folder, for a test that runs itself as a child process.
const CHILD: &str = "VNFM_STORE_TEST_CHILD";
const LONG: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_write_is_done_completely_or_not_at_all() {
    let home = Home::new();
    let mut store = home.open().await;
    seed(&store, &[]).await;
    let (mut complete, mut absent) = (0, 0);
    for round in 0..60 {
        let id = format!("i{round:03}");
        let changes = vec![
            Change::AddInstance(instance(&id)),
            Change::AddOp(op(&format!("o{round}"), &id)),
            notification(&id, json!(round)),
        ];
        {
            let mut write = store.write(None, changes);
            let mut context = Context::from_waker(Waker::noop());
            // Each poll lets the database execute some statements; then the write is dropped.
            for _ in 0..round * round * 4 {
                if write.as_mut().poll(&mut context).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        if round % 10 == 9 {
            drop(store);
            store = home.open().await;
        }
        // The dropped write ends before the next one begins.
        store.write(None, vec![]).await.unwrap();
        let is_reported = store
            .outbox(0, 100)
            .await
            .unwrap()
            .iter()
            .any(|row| row.instance_id == id);
        let active = store
            .instance(TENANT, &id)
            .await
            .ok()
            .map(|record| record.active_op);
        match (active, is_reported) {
            (Some(Some(_)), true) => complete += 1,
            (None, false) => absent += 1,
            partial => panic!("round {round}: {partial:?}"),
        }
    }
    assert!(absent > 0, "a write that is never polled does nothing");
    println!("{complete} complete, {absent} absent");
    store
        .write(None, vec![Change::AddPackage(package("after", None))])
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_in_flight_can_be_claimed_after_a_restart() {
    let home = Home::new();
    let store = home.open().await;
    let id = store.installation_id().to_owned();
    seed(&store, &["i1"]).await;
    store
        .write(None, vec![Change::AddOp(op("o1", "i1"))])
        .await
        .unwrap();
    let before = store
        .claim("the dead", LONG, None)
        .await
        .unwrap()
        .unwrap()
        .fence;
    let started = step("o1", "allocate", StepStatus::Started, Value::Null);
    store.write(Some(&before), vec![started]).await.unwrap();
    drop(store);
    let store = home.open().await;
    assert_eq!(store.installation_id(), id);
    let taken_over = store.op(TENANT, "o1").await.unwrap().epoch;
    assert_eq!(taken_over, before.epoch + 1, "opening takes the lease over");
    let late = step("o1", "allocate", StepStatus::Done, Value::Null);
    assert_eq!(
        store.write(Some(&before), vec![late]).await,
        Err(StoreError::LeaseLost { op_id: "o1".into() }),
        "the former owner writes nothing, even before another process claims the operation"
    );
    let after = store
        .claim("the living", LONG, None)
        .await
        .unwrap()
        .unwrap()
        .fence;
    assert_eq!((after.op_id.as_str(), after.epoch), ("o1", taken_over + 1));
    assert_eq!(
        store.journal("o1").await.unwrap()[0].status,
        StepStatus::Started
    );
    assert_eq!(
        store
            .instance(TENANT, "i1")
            .await
            .unwrap()
            .active_op
            .as_deref(),
        Some("o1")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_survives_a_kill() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return write_until_killed(&std::path::PathBuf::from(folder)).await;
    }
    let home = Home::new();
    let mut acknowledged = 0;
    for _ in 0..3 {
        let mut child = Killed(child(
            "crash::every_acknowledged_write_survives_a_kill",
            &home,
        ));
        let output = BufReader::new(child.0.stdout.take().unwrap());
        let acks = output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| number_in(&line));
        let last = acks.take(25).last().unwrap();
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        assert!(last >= acknowledged + 25);
        acknowledged = last;
        let store = home.open().await;
        let rows = store.outbox(0, 10_000).await.unwrap();
        assert!(
            rows.len() as u64 >= acknowledged,
            "{} of {acknowledged}",
            rows.len()
        );
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row.seq, index as u64 + 1);
        }
        store.close().await.unwrap();
    }
}

async fn write_until_killed(folder: &std::path::Path) {
    let keys = SecretKeys::open(&folder.join("secrets.key")).unwrap();
    let store = SqliteStore::open(&folder.join("vnfm.db"), keys)
        .await
        .unwrap();
    loop {
        store
            .write(None, vec![notification("i", json!("x".repeat(2_000)))])
            .await
            .unwrap();
        let after = store.outbox(0, usize::MAX).await.unwrap().len();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nack {after}")
            .and_then(|()| out.flush())
            .unwrap();
    }
}

/// A process that runs the test `name` as child, and has written something.
fn writing_child(name: &str, home: &Home) -> Killed {
    let mut child = Killed(child(name, home));
    let output = BufReader::new(child.0.stdout.take().unwrap());
    let mut lines = output.lines().map_while(Result::ok);
    lines.find_map(|line| number_in(&line)).unwrap();
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_the_same_file_is_refused_by_name() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return write_until_killed(&std::path::PathBuf::from(folder)).await;
    }
    let home = Home::new();
    let name = "crash::a_second_process_on_the_same_file_is_refused_by_name";
    let mut child = writing_child(name, &home);
    let Err(StoreError::Unavailable(text)) = home.try_open().await else {
        panic!("two processes have it open")
    };
    assert!(
        text.contains(&format!("the process {} has it open", child.0.id())),
        "{text}"
    );
    assert!(text.contains("vnfm.db"), "{text}");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    home.open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_store_in_the_same_process_is_refused_too() {
    let home = Home::new();
    let first = home.open().await;
    assert!(matches!(
        home.try_open().await,
        Err(StoreError::Unavailable(_))
    ));
    drop(first);
    home.open().await;
}

/// Removing the lock file does not help: the database itself is locked too.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused_even_without_the_lock_file() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return write_until_killed(&std::path::PathBuf::from(folder)).await;
    }
    let home = Home::new();
    let name = "crash::a_second_process_is_refused_even_without_the_lock_file";
    let mut child = writing_child(name, &home);
    std::fs::remove_file(home.folder.path().join("vnfm.db.lock")).unwrap();
    let Err(StoreError::Unavailable(text)) = home.try_open().await else {
        panic!("two processes have it open")
    };
    assert!(text.contains("another process has it open"), "{text}");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    home.open().await;
    // Within a process too, where the test of the lock must not drop SQLite's own locks.
    let first = home.open().await;
    std::fs::remove_file(home.folder.path().join("vnfm.db.lock")).unwrap();
    let error = home.try_open().await.unwrap_err();
    assert!(
        error.to_string().contains("this process has it open"),
        "{error}"
    );
    first
        .write(None, vec![notification("i", json!(1))])
        .await
        .unwrap();
}

/// A process killed during a rotation or backup leaves files with keys or a copy of the database;
/// the next start removes them.
#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_killed_rotation_or_backup_are_removed_at_the_next_start() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return rotate_and_back_up(&std::path::PathBuf::from(folder)).await;
    }
    let home = Home::new();
    let name = "crash::leftovers_of_a_killed_rotation_or_backup_are_removed_at_the_next_start";
    let mut left = 0;
    for round in 0..12 {
        let mut child = Killed(child(name, &home));
        let output = BufReader::new(child.0.stdout.take().unwrap());
        // Each process is killed after a different number of rounds, at an arbitrary point.
        output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| number_in(&line))
            .take(1 + round % 3)
            .last();
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        left += leftovers(&home).len();
        let store = home.open().await;
        assert_eq!(leftovers(&home), [""; 0]);
        store.close().await.unwrap();
    }
    println!("{left} files were left and removed");
}

fn leftovers(home: &Home) -> Vec<String> {
    let known = [
        "vnfm.db",
        "vnfm.db-wal",
        "vnfm.db-shm",
        "vnfm.db-acked",
        "vnfm.db.lock",
        "secrets.key",
        "packages",
        "files",
    ];
    let names = home.folder.path().read_dir().unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| !known.contains(&name.as_str()))
        .collect()
}

async fn rotate_and_back_up(folder: &std::path::Path) {
    let keys = SecretKeys::open(&folder.join("secrets.key")).unwrap();
    let store = SqliteStore::open(&folder.join("vnfm.db"), keys)
        .await
        .unwrap();
    let store = Arc::new(store);
    let backups = StoreBackups {
        store: store.clone(),
        folders: folders(folder),
    };
    for round in 1.. {
        store.rotate().await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nack {round}")
            .and_then(|()| out.flush())
            .unwrap();
        drop(out);
        backups.unnamed_backup(folder, at()).await.unwrap();
    }
}

/// A process killed during a restore: the next start has the database and the files of one backup, never of two.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_restore_is_complete_or_undone_at_the_next_start() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return restore_alternately(&std::path::PathBuf::from(folder)).await;
    }
    let home = Home::new();
    for id in ["one", "two"] {
        let (from, store) = (folders_with_package(home.folder.path()), home.open().await);
        if id == "one" {
            seed(&store, &[]).await;
        }
        let add = Change::AddInstance(instance(id));
        store.write(None, vec![add]).await.unwrap();
        for file in 0..8 {
            put(
                &from.files,
                "one",
                &format!("{id}-{file}"),
                &vec![1; 60_000],
            )
            .await;
        }
        let file = home.folder.path().join(format!("{id}.backup"));
        store.backup(&from, &file, at()).await.unwrap();
        for file in 0..8 {
            let name = format!("{id}-{file}");
            from.files.remove("one", &name).await.unwrap();
        }
        store.close().await.unwrap();
    }
    let name = "crash::a_killed_restore_is_complete_or_undone_at_the_next_start";
    for round in 0..12 {
        let mut child = Killed(child(name, &home));
        let output = BufReader::new(child.0.stdout.take().unwrap());
        // Each process is killed after a different number of restores, at an arbitrary point of the next.
        let acks = output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| number_in(&line));
        acks.take(1 + round % 3).last().unwrap();
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        let store = home.open().await;
        let newest = names(&store).await.pop().unwrap();
        let files = stored(&folders(home.folder.path()).files, "one").await;
        let expected: Vec<_> = (0..8).map(|file| format!("{newest}-{file}")).collect();
        assert_eq!(files, expected, "round {round}");
        let is_kept = |name: &String| name.contains(".before-") || name.ends_with(".backup");
        let left = leftovers(&home).into_iter().filter(|name| !is_kept(name));
        assert_eq!(left.collect::<Vec<_>>(), [""; 0], "round {round}");
        store.close().await.unwrap();
    }
}

/// Restores one backup and the other, and reports each.
async fn restore_alternately(folder: &std::path::Path) {
    let kept = std::fs::read_dir(folder).unwrap().count() as u64;
    for round in 0_u64.. {
        let file = folder.join(["one.backup", "two.backup"][usize::from(round % 2 == 1)]);
        // Names with the time of a restore must differ.
        let time = at() + Duration::from_secs(kept * 10_000 + round);
        restore(&file, folder, time).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nack {round}")
            .and_then(|()| out.flush())
            .unwrap();
    }
}

#[tokio::test]
async fn a_missing_folder_is_an_error_with_a_hint() {
    let home = Home::new();
    let path = home.folder.path().join("nowhere/vnfm.db");
    let Err(StoreError::Unavailable(text)) =
        SqliteStore::open(&path, SecretKeys::ephemeral()).await
    else {
        panic!("it was opened")
    };
    assert!(text.contains("nowhere") && text.contains("hint"), "{text}");
}

#[tokio::test]
async fn a_database_of_a_newer_binary_is_refused_before_anything_is_written() {
    let home = Home::new();
    home.open().await.close().await.unwrap();
    let sql = "INSERT INTO schema_version (version, applied_at) VALUES (999, 'tomorrow')";
    let newer = rusqlite::Connection::open(home.database()).unwrap();
    newer.execute_batch(sql).unwrap();
    newer.close().unwrap();
    let before = std::fs::read(home.database()).unwrap();
    let error = home.try_open().await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Broken(why) if why.contains("schema 999") && why.contains("newer binary")),
        "{error}"
    );
    assert!(
        std::fs::read(home.database()).unwrap() == before,
        "the database is unchanged"
    );
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_unchanged() {
    let home = Home::new();
    let content = format!("not a database, {}", at()).repeat(100);
    std::fs::write(home.database(), &content).unwrap();
    let error = home.try_open().await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Broken(text) if text.contains("vnfm.db")),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(home.database()).unwrap(), content);
}

/// A child process, killed when the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the test `name` of this program in a child process.
fn child(name: &str, home: &Home) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, home.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn number_in(line: &str) -> Option<u64> {
    line.strip_prefix("ack ")?.parse().ok()
}
