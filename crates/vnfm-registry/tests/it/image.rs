//! An image with one layer of any size, in memory.

use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use vnfm_outbound::Body;
use vnfm_registry::{Blob, Content, Image};

/// The blobs of an image by digest, and how much was pushed.
#[derive(Default)]
pub(crate) struct Blobs {
    pub(crate) bytes: BTreeMap<String, Vec<u8>>,
    pub(crate) pushed: AtomicU64,
    pub(crate) read: AtomicU64,
}

impl Content for Blobs {
    fn body(&self, blob: &Blob) -> Body {
        self.read.fetch_add(1, Ordering::Relaxed);
        Body::from(self.bytes[&blob.digest].clone())
    }

    fn pushed(&self, size: u64) {
        self.pushed.fetch_add(size, Ordering::Relaxed);
    }
}

/// An image whose layer has this content.
pub(crate) fn image(layer: &[u8]) -> (Image, Blobs) {
    let mut content = Blobs::default();
    let mut add = |bytes: Vec<u8>, media_type: &str, manifest| {
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
        let blob = Blob {
            digest: digest.clone(),
            media_type: media_type.into(),
            size: bytes.len() as u64,
            path: digest.clone(),
            manifest,
        };
        content.bytes.insert(digest, bytes);
        blob
    };
    let config_type = "application/vnd.oci.image.config.v1+json";
    let layer_type = "application/vnd.oci.image.layer.v1.tar";
    let config =
        br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    let config = add(config.to_vec(), config_type, false);
    let layer = add(layer.to_vec(), layer_type, false);
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"{config_type}","digest":"{}","size":{}}},"layers":[{{"mediaType":"{layer_type}","digest":"{}","size":{}}}]}}"#,
        config.digest, config.size, layer.digest, layer.size
    );
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = add(manifest.into_bytes(), manifest_type, true);
    let image = Image {
        repository: "acme/web".into(),
        tag: Some("1.0".into()),
        digest: manifest.digest.clone(),
        blobs: vec![config, layer, manifest],
        user: None,
    };
    (image, content)
}
