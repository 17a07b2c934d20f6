//! The neighbours of the tier `long` alone: Cluster API and Kuryr-Kubernetes, built once into the cache. Their tests start them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{paths, process};

/// The variable with which tests find it, its folder in the cache, its script, and what it is.
const NEIGHBOURS: [(&str, &str, &str, &str); 2] = [
    (
        "VNFM_LIVE_CLUSTER_API",
        "cluster-api",
        "kubernetes/cluster-api/build.sh",
        "controllers of Cluster API",
    ),
    (
        "VNFM_LIVE_KURYR",
        "kuryr",
        "kubernetes/kuryr/build.sh",
        "Kuryr-Kubernetes",
    ),
];

/// Builds those that the cache lacks.
///
/// # Errors
/// If one cannot be built; with the last output lines.
pub(crate) fn provide(cache: &Path) -> Result<()> {
    for (_, folder, script, what) in NEIGHBOURS {
        let mut build = Command::new(paths::scripts().join(script));
        build.arg(cache.join(folder));
        process::run(what, &mut build)?;
    }
    Ok(())
}

/// Environment variables with which tests find them.
pub(crate) fn environment(cache: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    NEIGHBOURS
        .map(|(variable, folder, ..)| (variable, cache.join(folder)))
        .into_iter()
}
