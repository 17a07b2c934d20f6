//! 1 GiB of layers, compared with a plain push by skopeo to the same kind of registry: the median of five pairs.

use crate::running::Running;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{Write as _, copy};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use vnfm_outbound::Body;
use vnfm_registry::{Blob, Content, Image};

const LAYERS: u64 = 4;
const LAYER_BYTES: usize = 256 << 20;
/// Pairs of pushes, in alternating order.
const PAIRS: usize = 5;

struct Layout(PathBuf);

impl Content for Layout {
    fn body(&self, blob: &Blob) -> Body {
        let path = self.0.join(&blob.path);
        vnfm_outbound::written(move |out| copy(&mut File::open(path)?, out).map(drop))
    }

    fn pushed(&self, _: u64) {}
}

impl Layout {
    fn add(&self, bytes: &[u8], kind: &str, manifest: bool) -> Blob {
        let hash = hex::encode(Sha256::digest(bytes));
        let path = format!("blobs/sha256/{hash}");
        std::fs::write(self.0.join(&path), bytes).unwrap();
        Blob {
            digest: format!("sha256:{hash}"),
            media_type: format!("application/vnd.oci.image.{kind}"),
            size: bytes.len() as u64,
            path,
            manifest,
        }
    }
}

/// An image whose layers cannot be compressed.
fn image(layout: &Layout) -> Image {
    std::fs::create_dir_all(layout.0.join("blobs/sha256")).unwrap();
    let config =
        br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    let mut blobs = vec![layout.add(config, "config.v1+json", false)];
    for number in 0..LAYERS {
        let mut state = number + 1;
        let mut layer = Vec::with_capacity(LAYER_BYTES);
        while layer.len() < LAYER_BYTES {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            layer.write_all(&state.to_le_bytes()).unwrap();
        }
        blobs.push(layout.add(&layer, "layer.v1.tar", false));
    }
    let parts: Vec<String> = blobs.iter().map(entry).collect();
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}}"#,
        parts[0],
        parts[1..].join(",")
    );
    let manifest = layout.add(manifest.as_bytes(), "manifest.v1+json", true);
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"annotations":{{"org.opencontainers.image.ref.name":"1.0"}},{}]}}"#,
        &entry(&manifest)[1..]
    );
    std::fs::write(layout.0.join("index.json"), index).unwrap();
    let marker = r#"{"imageLayoutVersion":"1.0.0"}"#;
    std::fs::write(layout.0.join("oci-layout"), marker).unwrap();
    let digest = manifest.digest.clone();
    blobs.push(manifest);
    Image {
        repository: "acme/large".into(),
        tag: Some("1.0".into()),
        digest,
        blobs,
        user: None,
    }
}

fn entry(blob: &Blob) -> String {
    format!(
        r#"{{"mediaType":"{}","digest":"{}","size":{}}}"#,
        blob.media_type, blob.digest, blob.size
    )
}

fn by_skopeo(layout: &Path, registry: &Running) -> Duration {
    let certificates = layout.join("certs");
    std::fs::create_dir_all(&certificates).unwrap();
    std::fs::write(certificates.join("ca.crt"), registry.ca()).unwrap();
    let began = Instant::now();
    let ended = Command::new("skopeo")
        .args([
            "--insecure-policy",
            "copy",
            "--preserve-digests",
            "--dest-creds",
            "vnfm:hunter2",
        ])
        .arg("--dest-cert-dir")
        .arg(&certificates)
        .arg(format!("oci:{}:1.0", layout.display()))
        .arg(format!("docker://{}/acme/large:1.0", registry.address))
        .status();
    assert!(ended.unwrap().success());
    began.elapsed()
}

async fn by_ours(layout: &Layout, image: &Image, registry: &Running) -> Duration {
    let began = Instant::now();
    let pushed = registry.registry("hunter2").push(image, layout).await;
    assert!(pushed.unwrap().created);
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: writes 2 GiB at a time, and needs a quiet machine"]
async fn a_gibibyte_is_pushed_at_least_at_0_8_of_skopeos_speed() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout(folder.path().to_owned());
    let image = image(&layout);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        for ours_now in [pair % 2 == 0, pair % 2 != 0] {
            let registry = Running::start(false).await.expect("it is installed");
            if ours_now {
                ours.push(by_ours(&layout, &image, &registry).await);
            } else {
                theirs.push(by_skopeo(folder.path(), &registry));
            }
        }
        println!("skopeo {:?}, ours {:?}", theirs[pair], ours[pair]);
    }
    theirs.sort();
    ours.sort();
    let (plain, own) = (theirs[PAIRS / 2], ours[PAIRS / 2]);
    println!("medians: skopeo {plain:?}, ours {own:?}");
    assert!(own.as_secs_f64() * 0.8 <= plain.as_secs_f64());
}
