//! Images of a package: pushed to a real registry, and referred to by digest on a real API server.

use crate::running::Running;
use crate::support::{VNF, WEB_SERVER, World, deployment, package_of};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::slice::from_ref;
use vnfm_core::ports::{Allocation, Convergence, ErrorKind, InfraDriver as _, Recorded};

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A package whose Deployment uses `uses`, with the image `acme/web:1.0`; and the digest of the image.
pub(crate) fn package(uses: &str) -> (Allocation, String) {
    let config =
        br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    let layer = vec![0_u8; 1 << 20];
    let part = |bytes: &[u8], kind: &str| json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len()});
    let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": part(config, "config.v1+json"), "layers": [part(&layer, "layer.v1.tar")]});
    let manifest = manifest.to_string().into_bytes();
    let mut entry = part(&manifest, "manifest.v1+json");
    entry["annotations"] = json!({"org.opencontainers.image.ref.name": "acme/web:1.0"});
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    let blob = |bytes: &[u8]| format!("images/web/blobs/sha256/{}", sha256(bytes));
    let blobs = [blob(config), blob(&layer), blob(&manifest)];
    let web = deployment(1, "").replace("localhost/busybox:1", uses);
    let order = "manifests: [{path: Files/kubernetes/web.yaml, order: 1}]\n";
    let files = vec![
        (
            "images/web/oci-layout",
            &br#"{"imageLayoutVersion":"1.0.0"}"#[..],
        ),
        ("images/web/index.json", index.as_bytes()),
        (blobs[0].as_str(), &config[..]),
        (blobs[1].as_str(), &layer[..]),
        (blobs[2].as_str(), &manifest[..]),
        ("Files/kubernetes/web.yaml", web.as_bytes()),
        ("Files/kubernetes/order.yaml", order.as_bytes()),
    ];
    let digest = format!("sha256:{}", sha256(&manifest));
    (
        package_of((&format!("{VNF}{WEB_SERVER}"), files), &json!({})),
        digest,
    )
}

fn use_registry(world: &World, registry: &Running, password: &str) {
    world.vim.update(|info| {
        for (name, value) in [
            ("registry", registry.address.clone()),
            ("registry_ca_cert", registry.ca()),
            ("registry_prefix", "team".into()),
        ] {
            info.interface_info.insert(name.into(), value.into());
        }
        for (name, value) in [
            ("registry_username", "vnfm"),
            ("registry_password", password),
        ] {
            info.access_info.insert(name.into(), value.into());
        }
    });
}

async fn converged(world: &World, change: &Convergence<'_>) -> Recorded {
    let cx = world.cx(60);
    let converged = world.driver.converge(&cx, change, &Value::Null).await;
    converged.unwrap()
}

async fn image_of_pod(world: &World) -> Value {
    let pods = world.api(
        "apps/v1",
        "Deployment",
        "deployments",
        Some(&world.namespace()),
    );
    let web = pods.get("web").await.unwrap();
    web.data["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

#[tokio::test]
async fn an_image_of_the_package_is_pushed_and_used_by_its_digest() {
    let (Some(world), Some(registry)) = (World::start().await, Running::start(false).await) else {
        return;
    };
    use_registry(&world, &registry, "hunter2");
    let report = world.driver.check(&world.vim).await.unwrap();
    assert_eq!(report.detail["registry"], json!(registry.address));
    let (what, digest) = package("acme/web:1.0");
    let made = world.instantiate(&what, 60).await.unwrap();
    let expected = format!("{}/team/acme/web@{digest}", registry.address);
    assert_eq!(image_of_pod(&world).await, json!(expected));
    let client = registry.registry("hunter2");
    let tagged = client.digest("team/acme/web", "1.0").await.unwrap();
    assert_eq!(tagged, Some(digest.clone()));
    world
        .seen
        .wait_for("is pushed to the registry: 1 of 2 MiB")
        .await;
    let logs = world.seen.logs.lock().unwrap().concat();
    assert!(
        logs.contains(&digest) && !logs.contains("hunter2"),
        "{logs}"
    );
    client.delete("team/acme/web", &digest).await.unwrap();
    converged(&world, &Convergence::create(&what)).await;
    let pushed = client.digest("team/acme/web", &digest).await.unwrap();
    assert_eq!(pushed, Some(digest), "a repeated call completes it");
    world.terminate(&what, made.handle).await.unwrap();
    world.assert_nothing_left().await;
}

async fn has(registry: &Running, digest: &str) -> bool {
    let client = registry.registry("hunter2");
    let found = client.digest("team/acme/web", digest).await.unwrap();
    found.is_some()
}

/// The instances that use images, as the driver lists them.
async fn users(world: &World) -> Vec<String> {
    let installation = &world.owner.installation_id;
    let owned = world.driver.owned(&world.vim, installation).await.unwrap();
    let images = owned.into_iter().filter(|one| one.kind == "Image");
    images.filter_map(|one| one.instance_id).collect()
}

#[tokio::test]
async fn an_image_is_deleted_with_its_last_user() {
    let (Some(world), Some(registry)) = (World::start().await, Running::start(false).await) else {
        return;
    };
    use_registry(&world, &registry, "hunter2");
    let other = world.neighbour();
    let (what, digest) = package("acme/web:1.0");
    let first = world.instantiate(&what, 60).await.unwrap();
    let second = other.instantiate(&what, 60).await.unwrap();
    let mut both = [&world, &other].map(|one| one.owner.instance_id.clone());
    both.sort();
    assert_eq!(users(&world).await, both);
    world.terminate(&what, first.handle).await.unwrap();
    assert_eq!(users(&world).await, from_ref(&other.owner.instance_id));
    assert!(has(&registry, &digest).await);

    // The package that the other instance changes to does not use the image; its rollback pushes it again.
    let (without, _) = package("localhost/busybox:1");
    let change = Convergence::update(&second, &without).coming_from(&what);
    let changed = converged(&other, &change).await;
    assert!(!has(&registry, &digest).await);
    let change = Convergence::update(&second, &what).coming_from(&without);
    converged(&other, &change).await;
    assert!(has(&registry, &digest).await);
    other.terminate(&what, changed.handle).await.unwrap();
    assert!(!has(&registry, &digest).await);
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_image_that_cannot_be_deleted_is_an_orphan_and_no_failure() {
    let (Some(world), Some(registry)) = (World::start().await, Running::start(true).await) else {
        return;
    };
    use_registry(&world, &registry, "hunter2");
    let (what, digest) = package("acme/web:1.0");
    let made = world.instantiate(&what, 60).await.unwrap();
    world.terminate(&what, made.handle).await.unwrap();
    let logs = world.seen.logs.lock().unwrap().concat();
    assert!(logs.contains("the registry allows no deletion"), "{logs}");
    assert!(has(&registry, &digest).await);
    assert_eq!(users(&world).await, from_ref(&world.owner.instance_id));
}

#[tokio::test]
async fn without_a_registry_only_a_package_that_uses_its_images_is_refused() {
    let Some(world) = World::start().await else {
        return;
    };
    let (what, _) = package("acme/web:1.0");
    let refused = world.instantiate(&what, 20).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.no-registry", "{refused}");
    assert!(refused.to_string().contains("acme/web:1.0"), "{refused}");
    world.assert_nothing_left().await;
    let (what, _) = package("localhost/busybox:1");
    let made = world.instantiate(&what, 60).await.unwrap();
    world.terminate(&what, made.handle).await.unwrap();
}

#[tokio::test]
async fn a_login_that_the_registry_refuses_creates_nothing() {
    let (Some(world), Some(registry)) = (World::start().await, Running::start(false).await) else {
        return;
    };
    use_registry(&world, &registry, "hunter3");
    let refused = world.driver.check(&world.vim).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.registry", "{refused}");
    let (what, digest) = package("acme/web:1.0");
    let refused = world.instantiate(&what, 20).await.unwrap_err();
    let expected = ("kubernetes.registry", ErrorKind::Refused);
    assert_eq!((refused.name(), refused.kind()), expected, "{refused}");
    assert!(!format!("{refused} {refused:?}").contains("hunter3"));
    world.assert_nothing_left().await;
    let client = registry.registry("hunter2");
    assert_eq!(client.digest("team/acme/web", &digest).await.unwrap(), None);
}
