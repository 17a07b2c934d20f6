//! Files that are stored with instances: complete and unchanged, or refused.

use jiff::Timestamp;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Clock, ErrorKind, InstanceFiles as _, PortError};
use vnfm_store::FileDir;
use vnfm_types::StoredFile;

const SHA256_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        crate::records::at()
    }
    fn sleep(&self, _: Duration) -> futures::future::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

pub(crate) fn open(folder: &Path) -> FileDir {
    FileDir::open(folder, Arc::new(FixedClock), 0).unwrap()
}

async fn store(
    files: &FileDir,
    name: &str,
    content: &str,
    hash: Option<&str>,
) -> Result<StoredFile, PortError> {
    let path = files.begin("i1", name, content.len() as u64).await?;
    std::fs::write(&path, content).unwrap();
    files.complete("i1", name, (path, hash)).await
}

async fn names(files: &FileDir) -> Vec<String> {
    let listed = files.list("i1").await.unwrap();
    listed.into_iter().map(|file| file.name).collect()
}

#[tokio::test]
async fn a_file_is_stored_listed_read_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let files = open(folder.path());
    assert!(files.list("i1").await.unwrap().is_empty());
    store(&files, "b.enc", "other", None).await.unwrap();
    let stored = store(&files, "a.enc", "abc", Some(SHA256_OF_ABC))
        .await
        .unwrap();
    let expected = StoredFile {
        name: "a.enc".into(),
        bytes: 3,
        sha256: SHA256_OF_ABC.into(),
        stored_at: crate::records::at(),
    };
    assert_eq!(stored, expected);
    assert_eq!(names(&files).await, ["a.enc", "b.enc"]);
    assert!(files.list("i2").await.unwrap().is_empty());
    let (read, path) = open(folder.path()).open("i1", "a.enc").await.unwrap();
    assert_eq!(
        (read, std::fs::read(&path).unwrap()),
        (expected, b"abc".to_vec())
    );
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    files.remove("i1", "a.enc").await.unwrap();
    files.remove("i1", "a.enc").await.unwrap();
    assert_eq!(names(&files).await, ["b.enc"]);
    files.remove_all("i1").await.unwrap();
    files.remove_all("i1").await.unwrap();
    assert!(names(&files).await.is_empty());
}

#[tokio::test]
async fn a_file_that_is_not_what_it_should_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = open(folder.path());
    let wrong = store(&files, "a.enc", "abd", Some(SHA256_OF_ABC)).await;
    assert_eq!(wrong.unwrap_err().name(), "file.altered");
    assert!(names(&files).await.is_empty());
    store(&files, "a.enc", "abc", None).await.unwrap();
    // A file that replaces it and is not what it should be leaves it as it is.
    store(&files, "a.enc", "abd", Some(SHA256_OF_ABC))
        .await
        .unwrap_err();
    let (_, path) = files.open("i1", "a.enc").await.unwrap();
    std::fs::write(&path, "ab").unwrap();
    let altered = files.open("i1", "a.enc").await.unwrap_err();
    assert_eq!(altered.name(), "file.altered");
    assert!(altered.to_string().contains(SHA256_OF_ABC), "{altered}");
    let absent = files.open("i1", "none").await.unwrap_err();
    assert_eq!(
        (absent.name(), absent.kind()),
        ("file.absent", ErrorKind::Refused)
    );
    for name in ["", ".hidden", "a/b", "../x", "a.stored", &"x".repeat(129)] {
        let refused = files.begin("i1", name, 1).await.unwrap_err();
        assert_eq!(refused.name(), "file.bad-name", "{name}");
    }
    let refused = files.begin("../i1", "a", 1).await.unwrap_err();
    assert_eq!(refused.name(), "file.bad-name");
}

#[tokio::test]
async fn a_partial_file_is_removed_at_the_next_start_and_never_listed() {
    let folder = tempfile::tempdir().unwrap();
    let files = open(folder.path());
    store(&files, "a.enc", "abc", None).await.unwrap();
    let partial = files.begin("i1", "b.enc", 9).await.unwrap();
    std::fs::write(&partial, "half").unwrap();
    assert_eq!(names(&files).await, ["a.enc"]);
    let files = open(folder.path());
    assert!(!partial.exists());
    assert_eq!(names(&files).await, ["a.enc"]);
    let discarded = files.begin("i1", "b.enc", 9).await.unwrap();
    files.discard(discarded.clone()).await;
    assert!(!discarded.exists());
}

#[tokio::test]
async fn a_file_that_does_not_fit_is_refused_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    store(&open(folder.path()), "a.enc", "abc", None)
        .await
        .unwrap();
    let full = FileDir::open(folder.path(), Arc::new(FixedClock), 1 << 60).unwrap();
    let refused = full.begin("i1", "b.enc", 5).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("file.no-space", ErrorKind::Unavailable)
    );
    assert!(
        refused.to_string().contains("the file has 5 bytes"),
        "{refused}"
    );
    assert_eq!(names(&full).await, ["a.enc"]);
    full.open("i1", "a.enc").await.unwrap();
}

#[tokio::test]
async fn a_description_that_has_grown_is_not_read_into_memory() {
    let folder = tempfile::tempdir().unwrap();
    let files = open(folder.path());
    for name in ["a.snapshot", "b.snapshot"] {
        store(&files, name, "text", None).await.unwrap();
    }
    let description = folder.path().join("i1/a.snapshot.stored");
    let description = std::fs::File::options().write(true).open(description);
    description.unwrap().set_len(1 << 40).unwrap();
    assert_eq!(names(&files).await, ["b.snapshot"]);
}

/// A file of one client is renamed or removed while another client's is begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn clients_that_store_and_discard_at_once_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(open(folder.path()));
    let client = |number: usize| {
        let files = files.clone();
        async move {
            for _ in 0..100 {
                let path = files.begin("i1", &format!("f{number}"), 0).await?;
                files.discard(path).await;
            }
            Ok::<_, PortError>(())
        }
    };
    let clients: Vec<_> = (0..16).map(|number| tokio::spawn(client(number))).collect();
    for client in clients {
        client.await.unwrap().unwrap();
    }
    assert!(names(&files).await.is_empty());
}
