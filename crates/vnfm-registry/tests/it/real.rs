//! Pushes to, and deletions from, Debian's `docker-registry`.

use crate::image::image;
use crate::running::Running;
use std::sync::atomic::Ordering;
use vnfm_outbound::Destinations;
use vnfm_registry::{Access, Deleted, ErrorKind, Registry};

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
    assert_eq!(deleted, Deleted::Absent);
    assert_eq!(
        registry.digest("acme/web", &image.digest).await.unwrap(),
        None
    );
    assert_eq!(registry.digest("acme/web", "1.0").await.unwrap(), None);
    let again = registry.delete("acme/web", &image.digest).await.unwrap();
    assert_eq!(again, Deleted::Absent);
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
    running.registry("hunter2").check().await.unwrap();
    let error = running.registry("hunter3").check().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
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
