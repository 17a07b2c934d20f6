//! Whether a package has manifests or charts, which an order file, an Mciop or a request may name.

use crate::archive::Archive;
use crate::limits::Limits;
use crate::path::{base, has_extension};

/// Whether there is a chart, a YAML file with Kubernetes objects, or an external artifact that may be either.
pub fn has_workload_files(archive: &Archive, limits: &Limits) -> bool {
    let is_chart = |path: &&str| has_extension(path, &["tgz"]) || base(path) == "Chart.yaml";
    let is_yaml = |path: &&str| has_extension(path, &["yaml", "yml"]);
    let is_manifest = |path: &str| {
        let bytes = archive.read(path, limits.yaml_bytes as u64);
        let text = bytes.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().any(|line| line.starts_with("apiVersion:"))
    };
    archive.paths().any(|path| is_chart(&path))
        || archive
            .external_uris()
            .any(|uri| is_chart(&uri) || is_yaml(&uri))
        || archive.paths().filter(is_yaml).any(is_manifest)
}
