//! Images and artifacts in the record of a package, for all forms of packages.

use crate::bench::{Bench, PACKAGES, packed};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::Cursor;
use vnfm_descriptor::{Limits, Package};

/// A sample with additional or changed files.
fn with(sample: &str, files: &[(&str, String)]) -> Vec<u8> {
    let package = Package::from_bytes(packed(sample), &Limits::default()).unwrap();
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.clone().into_bytes()));
    let mut bytes = Cursor::new(Vec::new());
    vnfm_descriptor::repack(&package, &files.collect(), &mut bytes).unwrap();
    bytes.into_inner()
}

fn text_of(sample: &str, path: &str) -> String {
    let package = Package::from_bytes(packed(sample), &Limits::default()).unwrap();
    String::from_utf8(package.read(path).unwrap()).unwrap()
}

fn sha256(text: &str) -> Value {
    json!({"algorithm": "SHA-256", "hash": hex::encode(Sha256::digest(text))})
}

async fn onboarded(bench: &Bench, content: Vec<u8>) -> Value {
    let (id, response) = bench.upload(content).await;
    assert_eq!(response.status, 202, "{response:?}");
    let info = bench.get(&format!("{PACKAGES}/{id}")).await.body;
    assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
    info
}

fn artifact<'a>(info: &'a Value, path: &str) -> &'a Value {
    let all = info["additionalArtifacts"].as_array().unwrap();
    all.iter()
        .find(|one| one["artifactPath"] == path)
        .unwrap_or(&Value::Null)
}

/// VNF-B with an image, a test and a licence in the package.
fn vnf_b_with_an_image() -> Vec<u8> {
    let vnfd = text_of("vnf-b-cnf", "Definitions/vnf-b.yaml");
    assert!(
        vnfd.contains("file: localhost/busybox:1") && vnfd.contains("            version: '1'\n")
    );
    let vnfd = vnfd.replace(
        "file: localhost/busybox:1",
        "file: ../Files/images/busybox.tar",
    );
    let image = "            version: '1'\n            provider: somebody else\n            min_ram: 100 MiB\n";
    let vnfd = vnfd.replace("            version: '1'\n", image);
    let manifest = text_of("vnf-b-cnf", "vnf-b.mf")
        + "\nSource: Tests/smoke.sh\nAlgorithm: sha-256\nHash: "
        + sha256("true")["hash"].as_str().unwrap()
        + "\nnon_mano_artifact_sets:\n  acme_tests:\n    Source: Tests/smoke.sh\n";
    with(
        "vnf-b-cnf",
        &[
            ("Definitions/vnf-b.yaml", vnfd),
            ("vnf-b.mf", manifest),
            ("Files/images/busybox.tar", "layers".into()),
            ("Tests/smoke.sh", "true".into()),
            ("Licenses/LICENSE", "do what you want".into()),
        ],
    )
}

#[tokio::test]
async fn a_package_lists_its_images_and_artifacts() {
    let bench = Bench::new().await;
    let info = onboarded(&bench, vnf_b_with_an_image()).await;
    let images = info["softwareImages"].as_array().unwrap();
    // Both the VDU and its container use it.
    assert_eq!(
        (&images[0]["id"], &images[1]["id"], images.len()),
        (&json!("httpd"), &json!("web"), 2)
    );
    for (member, value) in [
        ("name", json!("busybox")),
        ("provider", json!("somebody else")),
        ("version", json!("1")),
        ("checksum", sha256("layers")),
        ("containerFormat", json!("DOCKER")),
        ("diskFormat", json!("RAW")),
        ("minRam", json!(100 << 20)),
        ("minDisk", json!(0)),
        ("size", json!(6)),
        ("imagePath", json!("Files/images/busybox.tar")),
    ] {
        let both = (&images[0][member], &images[1][member]);
        assert_eq!(both, (&value, &value), "{member}: {info:#}");
    }
    assert!(images[0]["createdAt"].is_string());
    let tests = artifact(&info, "Tests/smoke.sh");
    assert_eq!(
        (
            &tests["artifactClassification"],
            &tests["nonManoArtifactSetId"],
            &tests["checksum"]
        ),
        (&json!("TESTING"), &json!("acme_tests"), &sha256("true")),
        "{info:#}"
    );
    let licence = artifact(&info, "Licenses/LICENSE");
    assert_eq!(licence["artifactClassification"], "LICENSE", "{info:#}");
    assert_eq!(licence["checksum"], sha256("do what you want"));
    assert!(
        artifact(&info, "Files/kubernetes/order.yaml").is_object(),
        "{info:#}"
    );
    for other in [
        "Definitions/vnf-b.yaml",
        "vnf-b.mf",
        "Files/images/busybox.tar",
    ] {
        assert!(
            artifact(&info, other).is_null(),
            "{other} is not an artifact: {info:#}"
        );
    }
    a_list_includes_images_and_artifacts_only_on_request(&bench, &info).await;
}

/// Lists omit them unless requested, and can be filtered by them.
async fn a_list_includes_images_and_artifacts_only_on_request(bench: &Bench, info: &Value) {
    let listed = bench.get(PACKAGES).await.body;
    assert!(
        listed[0].get("softwareImages").is_none() && listed[0].get("additionalArtifacts").is_none()
    );
    let found = format!("{PACKAGES}?fields=softwareImages&filter=(eq,softwareImages/name,busybox)");
    assert_eq!(
        bench.get(&found).await.body[0]["softwareImages"],
        info["softwareImages"]
    );
    let nothing = format!("{PACKAGES}?filter=(eq,additionalArtifacts/artifactPath,vnf-b.mf)");
    assert_eq!(bench.get(&nothing).await.body, json!([]));
}

#[tokio::test]
async fn a_package_with_an_asd_lists_its_images_and_artifacts() {
    let folder = "Artifacts/images/web";
    let blob = |text: &str| {
        let hash = hex::encode(Sha256::digest(text));
        let path = format!("{folder}/blobs/sha256/{hash}");
        let digest = format!("sha256:{hash}");
        (
            path,
            json!({"mediaType": "text/plain", "digest": digest, "size": text.len()}),
        )
    };
    let (layer_path, layer) = blob("layer");
    let (config_path, config) = blob("{}");
    let manifest = json!({"config": config, "layers": [layer]}).to_string();
    let (manifest_path, mut image) = blob(&manifest);
    image["annotations"] = json!({"name": "example.com/web:1.2"});
    let index = json!({"manifests": [image]}).to_string();
    let content = with(
        "asd-web",
        &[
            ("Artifacts/images/web/oci-layout", "{}".into()),
            ("Artifacts/images/web/index.json", index.clone()),
            (&layer_path, "layer".into()),
            (&config_path, "{}".into()),
            (&manifest_path, manifest.clone()),
        ],
    );
    let bench = Bench::new().await;
    let info = onboarded(&bench, content).await;
    assert!(info["vnfdId"].is_string());
    let images = info["softwareImages"].as_array().unwrap();
    assert_eq!(images.len(), 1, "{info:#}");
    for (member, value) in [
        ("id", json!("example.com/web:1.2")),
        ("version", json!("1.2")),
        ("checksum", sha256(&index)),
        ("containerFormat", json!("DOCKER")),
        (
            "size",
            json!(index.len() + manifest.len() + 2 * "{}".len() + "layer".len()),
        ),
        ("imagePath", json!("Artifacts/images/web")),
    ] {
        assert_eq!(images[0][member], value, "{member}: {info:#}");
    }
    assert!(
        artifact(&info, "Artifacts/Deployment/Kubernetes/web.yaml").is_object(),
        "{info:#}"
    );
    assert!(
        artifact(&info, "Artifacts/images/web/index.json").is_null(),
        "{info:#}"
    );
}

#[tokio::test]
async fn an_image_in_a_registry_is_not_listed() {
    let bench = Bench::new().await;
    let info = onboarded(&bench, packed("vnf-b-cnf")).await;
    assert!(info.get("softwareImages").is_none(), "{info:#}");
}
