//! Stored files in backups: as they were described, those of the backup after a restore, the previous ones kept.

use crate::backups::{create_backup, names};
use crate::records::{Home, at, folders, folders_with_package, seed};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use tempfile::NamedTempFile;
use vnfm_core::ports::{InstanceFiles as _, StoreError};
use vnfm_store::{FileDir, restore};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// Stores a file with instance `id`.
pub(crate) async fn put(files: &FileDir, id: &str, name: &str, content: &[u8]) {
    let local = files.begin(id, name, content.len() as u64).await.unwrap();
    fs::write(&local, content).unwrap();
    files.complete(id, name, (local, None)).await.unwrap();
}

/// The names of the files of `id`, each of which has the content that was stored.
pub(crate) async fn stored(files: &FileDir, id: &str) -> Vec<String> {
    let mut names = Vec::new();
    for file in files.list(id).await.unwrap() {
        files.open(id, &file.name).await.unwrap();
        names.push(file.name);
    }
    names
}

/// Everything in a data folder.
fn entries(data: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(data).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Copies a backup with another manifest, and other contents.
fn rewritten(
    backup: &Path,
    change: impl Fn(&mut Value),
    content: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>,
) -> NamedTempFile {
    let mut from = ZipArchive::new(File::open(backup).unwrap()).unwrap();
    let file = NamedTempFile::new().unwrap();
    let mut to = ZipWriter::new(file.reopen().unwrap());
    for index in 0..from.len() {
        let mut entry = from.by_index(index).unwrap();
        let (name, mut bytes) = (entry.name().unwrap().into_owned(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        if name == "manifest.json" {
            let mut manifest = serde_json::from_slice(&bytes).unwrap();
            change(&mut manifest);
            bytes = serde_json::to_vec(&manifest).unwrap();
        }
        let Some(bytes) = content(&name, bytes) else {
            continue;
        };
        to.start_file(name, SimpleFileOptions::default()).unwrap();
        to.write_all(&bytes).unwrap();
    }
    to.finish().unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_brings_the_files_of_the_backup_and_keeps_the_previous_ones() {
    let home = Home::new();
    let data = home.folder.path();
    let store = home.open().await;
    seed(&store, &["i1", "i2"]).await;
    let files = folders(data).files;
    put(&files, "i1", "a.enc", b"abc").await;
    put(&files, "i2", "b.enc", &vec![7; 200_000]).await;
    put(&files, "gone", "of-no-instance.enc", b"x").await;
    let backup = create_backup(&home, &store).await;
    files.remove("i1", "a.enc").await.unwrap();
    put(&files, "i2", "b.enc", b"newer").await;
    put(&files, "i1", "late.enc", b"late").await;
    drop(store);
    let restored = restore(&backup, data, at()).await.unwrap();
    assert_eq!((restored.files, restored.packages), (2, 1));
    let files = folders(data).files;
    assert_eq!(stored(&files, "i1").await, ["a.enc"]);
    assert_eq!(stored(&files, "i2").await, ["b.enc"]);
    let listed = files.list("i1").await.unwrap();
    assert_eq!((listed[0].bytes, listed[0].stored_at), (3, at()));
    assert!(!data.join("files/gone").exists());
    for (path, expected) in [
        ("files", 0o700),
        ("files/i1", 0o700),
        ("files/i1/a.enc", 0o600),
    ] {
        assert_eq!(mode(&data.join(path)), expected, "{path}");
    }
    let kept = restored.files_before.unwrap();
    assert!(kept.ends_with("files.before-20260304T050607Z"), "{kept:?}");
    let kept = crate::instance_files::open(&kept);
    assert_eq!(stored(&kept, "i1").await, ["late.enc"]);
    assert_eq!(stored(&kept, "i2").await, ["b.enc"]);
    drop(home.open().await);
    assert_eq!(stored(&files, "i1").await, ["a.enc"], "after a start");
}

/// A backup reads files while others replace and delete them: what it contains is complete and as described.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_while_files_are_replaced_and_deleted_has_only_whole_files() {
    let home = Home::new();
    let data = home.folder.path();
    let store = home.open().await;
    seed(&store, &["i1"]).await;
    let folders = folders_with_package(data);
    for number in 0..20 {
        put(
            &folders.files,
            "i1",
            &format!("{number}.enc"),
            &vec![1; 50_000],
        )
        .await;
    }
    let changing = {
        let files = folders.files.clone();
        tokio::spawn(async move {
            for round in 0_u8.. {
                for number in 0..20 {
                    let name = format!("{number}.enc");
                    files.remove("i1", &name).await.unwrap();
                    let content = vec![round; 50_000 + usize::from(round)];
                    put(&files, "i1", &name, &content).await;
                }
            }
        })
    };
    let mut backups = Vec::new();
    for round in 0..5 {
        let file = data.join(format!("{round}.backup"));
        store.backup(&folders, &file, at()).await.unwrap();
        backups.push(file);
    }
    changing.abort();
    let _ = changing.await;
    drop(store);
    for backup in backups {
        let other = tempfile::tempdir().unwrap();
        fs::copy(home.key_file(), other.path().join("secrets.key")).unwrap();
        restore(&backup, other.path(), at()).await.unwrap();
        let files = crate::records::folders(other.path()).files;
        let names = stored(&files, "i1").await;
        assert!(names.len() <= 20, "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_from_before_files_were_in_backups_leaves_those_that_are_there() {
    let home = Home::new();
    let data = home.folder.path();
    let store = home.open().await;
    seed(&store, &["i1"]).await;
    let backup = create_backup(&home, &store).await;
    put(&folders(data).files, "i1", "a.enc", b"abc").await;
    drop(store);
    let first = |manifest: &mut Value| manifest["format"] = json!(1);
    let old = rewritten(&backup, first, |_, bytes| Some(bytes));
    let restored = restore(old.path(), data, at()).await.unwrap();
    assert_eq!((restored.files, restored.files_before), (0, None));
    assert_eq!(stored(&folders(data).files, "i1").await, ["a.enc"]);
    assert_eq!(names(&home.open().await).await, ["i1"]);
    // One of today without files is of a time at which there were none.
    let later = "2026-03-05T00:00:00Z".parse().unwrap();
    let restored = restore(&backup, data, later).await.unwrap();
    assert!(restored.files_before.is_some());
    assert!(stored(&folders(data).files, "i1").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_with_a_damaged_or_foreign_file_is_refused_and_changes_nothing() {
    let home = Home::new();
    let data = home.folder.path();
    let store = home.open().await;
    seed(&store, &["i1"]).await;
    put(&folders(data).files, "i1", "a.enc", b"abc").await;
    let backup = create_backup(&home, &store).await;
    store.close().await.unwrap();
    let before = entries(data);
    let renamed = |to: &'static str| {
        move |manifest: &mut Value| {
            let files = manifest["files"].as_object_mut().unwrap();
            let entry = files.remove("files/i1/a.enc").unwrap();
            files.insert(to.to_owned(), entry);
        }
    };
    let keep = |_: &mut Value| {};
    let damaged = |name: &str, bytes: Vec<u8>| {
        let is_stored = name.starts_with("files/");
        Some(if is_stored { b"abd".to_vec() } else { bytes })
    };
    let missing = |name: &str, bytes: Vec<u8>| (!name.starts_with("files/")).then_some(bytes);
    let undescribed = |manifest: &mut Value| {
        manifest["files"]["files/i1/a.enc"]["stored"] = Value::Null;
    };
    let same = |_: &str, bytes: Vec<u8>| Some(bytes);
    let named = |name| rewritten(&backup, renamed(name), same);
    for (file, words) in [
        (
            rewritten(&backup, keep, damaged),
            "`files/i1/a.enc` in it is damaged",
        ),
        (rewritten(&backup, keep, missing), "`files/i1/a.enc`"),
        (rewritten(&backup, undescribed, same), "has no description"),
        (named("files/../a.enc"), "it names"),
        (named("files/i1/../a.enc"), "it names"),
        (named("files/i1/b.enc"), "it names"),
    ] {
        let error = restore(file.path(), data, at()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!(entries(data), before, "{words}");
        assert_eq!(stored(&folders(data).files, "i1").await, ["a.enc"]);
    }
}

/// What a kill leaves before the database is renamed is given up; what it leaves afterwards is completed.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_gives_up_or_completes_a_killed_restore() {
    let unpacked = "files.restoring-20260304T050607Z";
    for (is_renamed, is_aside) in [(false, false), (true, false), (true, true)] {
        let home = Home::new();
        let data = home.folder.path();
        home.open().await.close().await.unwrap();
        put(&folders(data).files, "i1", "old.enc", b"old").await;
        let new = crate::instance_files::open(&data.join(unpacked));
        put(&new, "i1", "new.enc", b"new").await;
        if !is_renamed {
            fs::write(data.join("vnfm.db.restoring"), "half").unwrap();
        }
        if is_aside {
            let aside = data.join("files.before-20260304T050607Z");
            fs::rename(data.join("files"), aside).unwrap();
        }
        home.open().await.close().await.unwrap();
        let expected = if is_renamed { "new.enc" } else { "old.enc" };
        assert_eq!(stored(&folders(data).files, "i1").await, [expected]);
        let left = entries(data);
        for name in [unpacked, "vnfm.db.restoring"] {
            assert!(!left.contains(name), "{left:?}");
        }
        let is_kept = left.contains("files.before-20260304T050607Z");
        assert_eq!(is_kept, is_renamed, "{left:?}");
    }
}

#[tokio::test]
async fn a_backup_that_does_not_fit_is_refused_before_it_is_written() {
    let home = Home::new();
    let data = home.folder.path();
    let store = home.open().await;
    seed(&store, &["i1"]).await;
    put(&folders(data).files, "i1", "a.enc", b"abc").await;
    let mut folders = folders_with_package(data);
    let clock = Arc::new(crate::instance_files::FixedClock);
    folders.files = Arc::new(FileDir::open(&data.join("files"), clock, 1 << 60).unwrap());
    let file = data.join("a.backup");
    let error = store.backup(&folders, &file, at()).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.contains("the stored files have 3 bytes")),
        "{error}"
    );
    assert!(!file.exists());
    folders.files.remove("i1", "a.enc").await.unwrap();
    store.backup(&folders, &file, at()).await.unwrap();
}
