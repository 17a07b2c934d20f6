//! VNF-B whose package brings the image of its containers, in OCI image layout, and the cluster with a registry for it.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use vnfm::sim::registry::{PASSWORD, USER};
use vnfm_types::VimConnectionInfo;

/// The sample that gets the image.
pub const SAMPLE: &str = "vnf-b-cnf";
/// The `vnfdId` of the sample, and that of the package with the image.
const VNFD_IDS: [&str; 2] = [
    "8d1c9f0e-5a53-4e5d-9d2c-6c1f0a7b0b01",
    "8d1c9f0e-5a53-4e5d-9d2c-6c1f0a7b0b0f",
];
/// The image of the sample's containers.
const IMAGE: &str = "localhost/busybox:1";
const WORKLOAD: &str = "Files/kubernetes/web.yaml";

/// The files of [`SAMPLE`] by path, without its requests, with the image `samples/NAME:1.0`, which its containers use; its VNFD
/// has an id of its own.
///
/// # Errors
/// If the sample cannot be read, or does not have what is replaced.
pub fn files(name: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let folder = crate::sources::root().join("vnfd-samples").join(SAMPLE);
    let mut files = BTreeMap::new();
    read(&folder, &folder, &mut files)?;
    files.retain(|name, _| !name.starts_with("requests/"));
    replace(&mut files, "Definitions/vnf-b.yaml", VNFD_IDS)?;
    let image = format!("samples/{name}:1.0");
    replace(&mut files, WORKLOAD, [IMAGE, &image])?;
    add_image(&mut files, &image);
    Ok(files)
}

/// The simulated cluster of a kubeconfig with a token, whose nodes pull images from this registry.
///
/// # Errors
/// If the file cannot be read or is not a kubeconfig.
pub fn cluster(kubeconfig: &Path, registry: &str) -> Result<VimConnectionInfo> {
    let config: Value = serde_yaml::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let cluster = &config["clusters"][0]["cluster"];
    let authority = cluster["certificate-authority-data"]
        .as_str()
        .unwrap_or_default();
    let authority = String::from_utf8(STANDARD.decode(authority)?)?;
    Ok(serde_json::from_value(json!({
        "vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": cluster["server"], "ssl_ca_cert": authority, "registry": registry},
        "accessInfo": {"bearer_token": config["users"][0]["user"]["token"],
            "registry_username": USER, "registry_password": PASSWORD}}))?)
}

fn replace(files: &mut BTreeMap<String, Vec<u8>>, path: &str, [old, new]: [&str; 2]) -> Result<()> {
    let file = files.get_mut(path);
    let file = file.with_context(|| format!("`{SAMPLE}` has no `{path}`"))?;
    let text = String::from_utf8(file.clone())?;
    anyhow::ensure!(text.contains(old), "`{path}` does not contain `{old}`");
    *file = text.replace(old, new).into_bytes();
    Ok(())
}

/// Adds an image of one layer, which starts with its name.
fn add_image(files: &mut BTreeMap<String, Vec<u8>>, name: &str) {
    let mut add = |bytes: Vec<u8>, kind: &str| {
        let digest = format!("{:x}", Sha256::digest(&bytes));
        let size = bytes.len();
        files.insert(format!("images/web/blobs/sha256/{digest}"), bytes);
        let media_type = format!("application/vnd.oci.image.{kind}");
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
    };
    let config =
        br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    let config = add(config.to_vec(), "config.v1+json");
    let mut layer = name.as_bytes().to_vec();
    layer.resize(64 << 10, 0);
    let layer = add(layer, "layer.v1.tar");
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
    let mut image = add(manifest.to_string().into_bytes(), "manifest.v1+json");
    image["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    let index = json!({"schemaVersion": 2, "manifests": [image]});
    let layout = json!({"imageLayoutVersion": "1.0.0"});
    for (name, content) in [("index.json", index), ("oci-layout", layout)] {
        files.insert(
            format!("images/web/{name}"),
            content.to_string().into_bytes(),
        );
    }
}

fn read(top: &Path, folder: &Path, into: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(top, &path, into)?;
        } else {
            let name = path.strip_prefix(top)?.to_string_lossy().into_owned();
            into.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(())
}
