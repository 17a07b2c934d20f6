//! Package files on the disk: stored, read, damaged and removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::{ErrorKind, Packages as _};
use vnfm_descriptor::{Limits, pack};
use vnfm_store::{PackageDir, PackageFailure};

fn sample() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/vnf-b-cnf");
    pack(&folder, &Limits::default()).unwrap()
}

fn open(folder: &tempfile::TempDir) -> PackageDir {
    PackageDir::open(&folder.path().join("packages"), Limits::default()).unwrap()
}

fn upload(packages: &PackageDir, content: &[u8]) -> PathBuf {
    let path = packages.incoming();
    std::fs::write(&path, content).unwrap();
    path
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    all_names(folder)
        .into_iter()
        .filter(|name| !is_hash_link(name))
        .collect()
}

/// True for the name of an archive's hard link by hash.
fn is_hash_link(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "kept")
}

/// Including the hard links by hash.
fn all_names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = folder.path().join("packages").read_dir().unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn an_archive_is_found_by_its_hash_while_a_package_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    let hash = packages
        .store("p1", upload(&packages, &sample()))
        .await
        .unwrap()
        .sha256()
        .to_owned();
    let copy = packages.copy_of(&hash.to_uppercase()).await.unwrap();
    packages.store("p2", copy).await.unwrap();
    assert_eq!(
        all_names(&folder).len(),
        3,
        "two packages, one hash: {:?}",
        all_names(&folder)
    );
    packages.remove("p1").await.unwrap();
    let copy = packages.copy_of(&hash).await.unwrap();
    assert_eq!(std::fs::read(&copy).unwrap(), sample());
    std::fs::remove_file(copy).unwrap();
    for unknown in ["", "../p2.csar", &"0".repeat(64)] {
        assert_eq!(packages.copy_of(unknown).await, None, "{unknown}");
    }
    packages.remove("p2").await.unwrap();
    assert_eq!(all_names(&folder), [""; 0]);
    assert_eq!(packages.copy_of(&hash).await, None);
    // A file changed on the disk does not count.
    packages
        .store("p3", upload(&packages, &sample()))
        .await
        .unwrap();
    std::fs::write(packages.path("p3").unwrap(), b"something else").unwrap();
    assert_eq!(packages.copy_of(&hash).await, None);
}

#[tokio::test]
async fn a_package_is_read_once_and_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    let upload = upload(&packages, &sample());
    let stored = packages.store("p1", upload.clone()).await.unwrap();
    assert!(!upload.exists());
    let read = packages.package("default", "p1").await.unwrap();
    assert!(Arc::ptr_eq(&stored, &read));
    let again = open(&folder);
    let (one, two) = tokio::join!(
        again.package("default", "p1"),
        again.package("default", "p1")
    );
    assert!(Arc::ptr_eq(&one.unwrap(), two.as_ref().unwrap()));
    assert_eq!(two.unwrap().sha256(), stored.sha256());
    assert_eq!(std::fs::read(again.path("p1").unwrap()).unwrap(), sample());
}

#[tokio::test]
async fn a_known_hash_is_not_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    let hash = packages
        .store("p1", upload(&packages, &sample()))
        .await
        .unwrap()
        .sha256()
        .to_owned();
    let known = packages.store_hashed("p2", upload(&packages, &sample()), hash.clone());
    assert_eq!(known.await.unwrap().sha256(), hash);
    let believed = packages.store_hashed("p3", upload(&packages, &sample()), "00".into());
    assert_eq!(
        believed.await.unwrap().sha256(),
        "00",
        "it was read a second time"
    );
    let broken = packages
        .store_hashed("p4", upload(&packages, b"no archive"), hash)
        .await;
    let Err(PackageFailure::Refused(_)) = broken else {
        panic!("{broken:?}")
    };
}

#[tokio::test]
async fn folders_and_archives_are_copied_and_stay_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/vnf-b-cnf");
    let archive = folder.path().join("b.csar");
    std::fs::write(&archive, sample()).unwrap();
    let one = packages.store_copy("p1", &sources).await.unwrap();
    let two = packages.store_copy("p2", &archive).await.unwrap();
    assert_eq!(one.sha256(), two.sha256());
    assert!(archive.exists() && sources.is_dir());
    let none = packages
        .store_copy("p3", &folder.path().join("absent.csar"))
        .await;
    let Err(PackageFailure::Disk(error)) = none else {
        panic!("{none:?}")
    };
    assert!(error.to_string().contains("absent.csar"), "{error}");
    let mut names = names(&folder);
    names.sort();
    assert_eq!(names, ["p1.csar", "p2.csar"]);
}

#[tokio::test]
async fn an_invalid_package_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    let refused = packages.store("p1", upload(&packages, b"no archive")).await;
    let Err(PackageFailure::Refused(findings)) = refused else {
        panic!("{refused:?}")
    };
    assert!(findings.errors().count() > 0);
    assert_eq!(names(&folder), [""; 0]);
    let absent = packages.package("default", "p1").await.unwrap_err();
    assert_eq!(
        (absent.kind(), absent.name()),
        (ErrorKind::Refused, "package.absent")
    );
    packages
        .store("p1", upload(&packages, &sample()))
        .await
        .unwrap();
    packages.package("default", "p1").await.unwrap();
}

#[tokio::test]
async fn an_id_is_never_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    std::fs::write(folder.path().join("outside.csar"), sample()).unwrap();
    for id in ["../outside", "/etc/passwd", "", ".", "a/b", "a\0b"] {
        assert_eq!(
            packages.package("default", id).await.unwrap_err().kind(),
            ErrorKind::Refused
        );
        assert_eq!(
            packages.remove(id).await.unwrap_err().kind(),
            ErrorKind::Refused
        );
    }
    assert!(folder.path().join("outside.csar").exists());
}

#[tokio::test]
async fn removing_a_package_is_idempotent() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    packages
        .store("p1", upload(&packages, &sample()))
        .await
        .unwrap();
    packages.remove("p1").await.unwrap();
    packages.remove("p1").await.unwrap();
    assert_eq!(names(&folder), [""; 0]);
    assert_eq!(
        packages.package("default", "p1").await.unwrap_err().name(),
        "package.absent"
    );
}

#[tokio::test]
async fn leftovers_of_an_interrupted_upload_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    packages
        .store("p1", upload(&packages, &sample()))
        .await
        .unwrap();
    upload(&packages, b"half");
    assert_eq!(names(&folder).len(), 2);
    open(&folder);
    assert_eq!(names(&folder), ["p1.csar"]);
}

#[tokio::test]
async fn a_damaged_package_and_an_absent_one_are_different_errors() {
    let folder = tempfile::tempdir().unwrap();
    let packages = open(&folder);
    std::fs::write(packages.path("p1").unwrap(), b"no archive").unwrap();
    let error = packages.package("default", "p1").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Broken, "package.damaged")
    );
    assert_eq!(error.resource(), Some("p1"));
}
