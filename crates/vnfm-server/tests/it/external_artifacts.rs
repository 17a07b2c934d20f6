//! External artifacts are fetched from allowed addresses and stored if their hash matches; otherwise the package
//! is refused with the reason.

use crate::bench::{Bench, PACKAGES, Setup, packed};
use axum::Router;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use serde_json::Value;
use sha2::{Digest as _, Sha512};
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;
use vnfm_core::ports::Packages as _;
use vnfm_descriptor::{Limits, Package};
use vnfm_server::Packages;

const IMAGE: &[u8] = b"not quite a disk";

/// A server of artifacts that counts its requests.
struct Shelf {
    url: String,
    requests: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

async fn shelf() -> Shelf {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let image = get(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { IMAGE }
    });
    let away = get(|| async { Redirect::temporary("/images/disk.img") });
    let router = Router::new()
        .route("/images/disk.img", image.clone())
        .route("/other/disk.img", image)
        .route("/images/moved.img", away)
        .route("/images/large.img", get(|| async { vec![0; 2 << 20] }))
        .route(
            "/images/broken.img",
            get(|| async { StatusCode::INTERNAL_SERVER_ERROR }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut task = JoinSet::new();
    task.spawn(async move { axum::serve(listener, router).await.unwrap() });
    Shelf {
        url,
        requests,
        _task: task,
    }
}

/// VNF-B with another artifact in its manifest: `lines` follow `Source:`.
fn package(lines: &str) -> Vec<u8> {
    let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
    let manifest = &package.manifest().unwrap().path;
    let mut text = String::from_utf8(package.read(manifest).unwrap()).unwrap();
    text += "\nSource: ";
    text += lines;
    text += "\n";
    let changed = [(manifest.clone(), text.into_bytes())].into();
    let mut bytes = Cursor::new(Vec::new());
    vnfm_descriptor::repack(&package, &changed, &mut bytes).unwrap();
    bytes.into_inner()
}

fn hash(bytes: &[u8]) -> String {
    format!("{:X}", Sha512::digest(bytes))
}

async fn bench(allowed: &[String]) -> Bench {
    let signatures = Packages {
        external: allowed.to_vec(),
        ..Packages::default()
    };
    Bench::with(Setup {
        signatures,
        ..Setup::default()
    })
    .await
}

async fn onboarded(bench: &Bench, content: Vec<u8>) -> Value {
    let (id, response) = bench.upload(content).await;
    assert_eq!(response.status, 202, "{response:?}");
    bench.get(&format!("{PACKAGES}/{id}")).await.body
}

#[tokio::test]
async fn an_external_artifact_is_fetched_once_and_read_like_a_file_of_the_package() {
    let shelf = shelf().await;
    let bench = bench(&[format!("{}/images/", shelf.url)]).await;
    let uri = format!("{}/images/disk.img", shelf.url);
    let content = package(&format!("{uri}\nAlgorithm: SHA-512\nHash: {}", hash(IMAGE)));
    let package_info = onboarded(&bench, content).await;
    assert_eq!(
        package_info["onboardingState"], "ONBOARDED",
        "{package_info:#}"
    );
    let id = package_info["id"].as_str().unwrap();
    for round in ["as it was onboarded", "read again"] {
        let package = bench.packages.package("default", id).await.unwrap();
        assert_eq!(package.read(&uri).unwrap(), IMAGE, "{round}");
        let mut copy = Vec::new();
        assert_eq!(package.copy(&uri, &mut copy).unwrap(), IMAGE.len() as u64);
        drop(package);
        bench.packages.drop_unused(false);
    }
    assert_eq!(shelf.requests.load(Ordering::SeqCst), 1);
    let files = bench.packages.files(id).unwrap();
    assert_eq!(files.len(), 2, "{files:?}");
    // A file that was changed on the disk is not served as the artifact.
    std::fs::write(&files[1], b"something else").unwrap();
    let error = bench
        .packages
        .package("default", id)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&uri) && error.contains("its hash is"),
        "{error}"
    );
    bench.drop_package(id).await;
    assert!(files.iter().all(|file| !file.exists()), "{files:?}");
}

/// Artifacts that cannot be had: URI, lines after it in the manifest, and a part of the reason.
fn unavailable(shelf: &str) -> Vec<(String, String, &'static str)> {
    let sha512 = || format!("Algorithm: SHA-512\nHash: {}", hash(IMAGE));
    let sha256 = || "Algorithm: SHA-256\nHash: abcd".to_owned();
    let at = |path: &str| format!("{shelf}{path}");
    vec![
        (
            at("/images/absent.img"),
            sha512(),
            "its server responds with 404",
        ),
        (
            at("/images/broken.img"),
            sha512(),
            "its server responds with 500",
        ),
        (
            at("/images/moved.img"),
            sha512(),
            "redirects are not followed",
        ),
        (at("/images/large.img"), sha512(), "larger than the limit"),
        (
            "http://127.0.0.1:1/disk.img".into(),
            sha512(),
            "cannot connect to its server",
        ),
        (
            at("/other/disk.img"),
            sha512(),
            "not below any address in `packages.external`",
        ),
        (
            at("/images/disk.img"),
            sha256(),
            "is not a hexadecimal SHA-256",
        ),
        (at("/images/disk.img"), String::new(), "has no hash"),
        (
            "file:///etc/passwd".into(),
            sha512(),
            "cannot be downloaded",
        ),
    ]
}

#[tokio::test]
async fn an_unavailable_external_artifact_refuses_the_package_with_the_reason() {
    let shelf = shelf().await;
    let bench = bench(&[
        format!("{}/images/", shelf.url),
        "http://127.0.0.1:1/".into(),
    ])
    .await;
    let at = |path: &str| format!("{}{path}", shelf.url);
    for (uri, stated, why) in unavailable(&shelf.url) {
        let package_info = onboarded(&bench, package(&format!("{uri}\n{stated}"))).await;
        assert_eq!(
            package_info["onboardingState"], "ERROR",
            "{uri}: {package_info:#}"
        );
        let detail = package_info["onboardingFailureDetails"]["detail"]
            .as_str()
            .unwrap();
        assert!(
            detail.contains(why) && detail.contains(&uri),
            "`{detail}` lacks `{why}` or {uri}"
        );
        let left = bench
            .packages
            .files(package_info["id"].as_str().unwrap())
            .unwrap();
        assert!(left.iter().all(|file| !file.exists()), "{left:?}");
    }
    assert_eq!(
        shelf.requests.load(Ordering::SeqCst),
        0,
        "only allowed addresses are called"
    );
    let other = format!("Algorithm: SHA-512\nHash: {}", hash(b"another disk"));
    let package_info = onboarded(
        &bench,
        package(&format!("{}\n{other}", at("/images/disk.img"))),
    )
    .await;
    let detail = package_info["onboardingFailureDetails"]["detail"]
        .as_str()
        .unwrap();
    assert!(detail.contains("but the manifest has"), "{detail}");
}

#[tokio::test]
async fn without_allowed_addresses_no_external_artifact_is_fetched() {
    let (shelf, bench) = (shelf().await, bench(&[]).await);
    let uri = format!("{}/images/disk.img", shelf.url);
    let content = package(&format!("{uri}\nAlgorithm: SHA-512\nHash: {}", hash(IMAGE)));
    let package_info = onboarded(&bench, content).await;
    let detail = package_info["onboardingFailureDetails"]["detail"]
        .as_str()
        .unwrap();
    assert!(
        detail.contains("`packages.external` in the configuration allows no address"),
        "{detail}"
    );
    assert_eq!(shelf.requests.load(Ordering::SeqCst), 0);
}
