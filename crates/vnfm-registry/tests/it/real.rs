//! Debian's `docker-registry` with TLS and a login, started by `tests/stack/registry.sh`.

use crate::image::image;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use vnfm_outbound::{Certificate, Destinations, Trust};
use vnfm_registry::{Access, Deleted, ErrorKind, Login, Registry};
use vnfm_types::Secret;

/// A registry that ends with the test.
struct Running {
    folder: TempDir,
    address: String,
    _child: Child,
}

impl Running {
    /// `None`, with a message, if it is not installed.
    async fn start(no_delete: bool) -> Option<Self> {
        if !Path::new("/usr/bin/docker-registry").exists() {
            let required = std::env::var("VNFM_REQUIRE_LIVE").is_ok_and(|set| set == "1");
            let text = "docker-registry is missing: tests/stack/packages.sh install registry";
            assert!(!required, "{text}");
            eprintln!("skipped: {text}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/stack/registry.sh");
        let mut command = Command::new(script);
        command
            .arg(folder.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if no_delete {
            command.env("NO_DELETE", "1");
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    let port = rest.split([',', '"', ' ']).next().unwrap();
                    let port = port.rsplit(':').next().unwrap().to_owned();
                    return format!("localhost:{port}");
                }
            }
            panic!("docker-registry ended");
        };
        let address = tokio::time::timeout(Duration::from_secs(30), listening).await;
        // Its output must be read for as long as it runs.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self {
            folder,
            address: address.expect("it listens in time"),
            _child: child,
        })
    }

    fn registry(&self, password: &str) -> Registry {
        let pem = std::fs::read(self.folder.path().join("ca.pem")).unwrap();
        let authorities = Certificate::from_pem_bundle(&pem).unwrap();
        let access = Access::new(&self.address).unwrap();
        let access = access.with_login(Login {
            user: "vnfm".into(),
            password: Secret::new(password),
        });
        let access = access.trusting(Trust {
            authorities,
            ..Trust::default()
        });
        Registry::new(Destinations::anywhere(), access).unwrap()
    }
}

#[tokio::test]
async fn an_image_is_pushed_once_tagged_and_deleted() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let registry = running.registry("hunter2");
    let (image, content) = image(&vec![7; 3 << 20]);
    let first = registry.push(&image, &content).await.unwrap();
    assert!(first.created && first.tag_taken_by.is_none(), "{first:?}");
    let found = registry.digest("acme/web", "1.0").await.unwrap();
    assert_eq!(found.as_ref(), Some(&image.digest));
    let read = content.read.load(Ordering::Relaxed);
    assert!(!registry.push(&image, &content).await.unwrap().created);
    assert_eq!(
        content.read.load(Ordering::Relaxed),
        read,
        "nothing is read twice"
    );
    let deleted = registry.delete("acme/web", &image.digest).await.unwrap();
    assert_eq!(deleted, Deleted::Gone);
    assert_eq!(
        registry.digest("acme/web", &image.digest).await.unwrap(),
        None
    );
    assert_eq!(registry.digest("acme/web", "1.0").await.unwrap(), None);
    let again = registry.delete("acme/web", &image.digest).await.unwrap();
    assert_eq!(again, Deleted::Gone);
}

#[tokio::test]
async fn a_tag_of_another_image_stays() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let registry = running.registry("hunter2");
    let (other, content) = image(b"other");
    registry.push(&other, &content).await.unwrap();
    let (own, content) = image(b"own");
    let pushed = registry.push(&own, &content).await.unwrap();
    assert_eq!(pushed.tag_taken_by.as_ref(), Some(&other.digest));
    let found = registry.digest("acme/web", "1.0").await.unwrap();
    assert_eq!(found, Some(other.digest));
    assert!(
        registry
            .digest("acme/web", &own.digest)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_wrong_digest_and_a_wrong_password_are_refused() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let (image, mut content) = image(b"layer");
    let layer = &image.blobs[1].digest;
    content.bytes.insert(layer.clone(), b"LAYER".to_vec());
    let registry = running.registry("hunter2");
    let error = registry.push(&image, &content).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains(layer.as_str()), "{error}");
    assert_eq!(
        registry.digest("acme/web", &image.digest).await.unwrap(),
        None
    );
    let error = running
        .registry("hunter3")
        .push(&image, &content)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(!format!("{error:?}").contains("hunter3"), "{error:?}");
}

#[tokio::test]
async fn a_registry_that_is_not_trusted_gets_no_login() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let access = Access::new(&running.address).unwrap();
    let registry = Registry::new(Destinations::anywhere(), access).unwrap();
    let (image, content) = image(b"layer");
    let error = registry.push(&image, &content).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.detail.contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_registry_without_deletion_says_so() {
    let Some(running) = Running::start(true).await else {
        return;
    };
    let registry = running.registry("hunter2");
    let (image, content) = image(b"layer");
    registry.push(&image, &content).await.unwrap();
    let deleted = registry.delete("acme/web", &image.digest).await.unwrap();
    assert_eq!(deleted, Deleted::NotAllowed);
}
