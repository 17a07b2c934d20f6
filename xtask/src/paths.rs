//! Paths: the checkout, cargo's target folder, the caches, and the state of the running systems.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Top folder of the checkout: from cargo when it runs us, otherwise from the build.
pub(crate) fn root() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR");
    let folder = folder.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    folder.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// What we read of the output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn metadata() -> Result<Metadata> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version=1"])
        .output()
        .context("cannot run `cargo metadata`")?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "`cargo metadata` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Path of the target folder of cargo.
///
/// # Errors
/// If `cargo metadata` fails or prints no JSON.
pub(crate) fn target() -> Result<PathBuf> {
    Ok(metadata()?.target_directory)
}

/// Names of the integration test programs of all crates.
///
/// # Errors
/// If `cargo metadata` fails or prints no JSON.
pub(crate) fn test_programs() -> Result<BTreeSet<String>> {
    let targets = metadata()?
        .packages
        .into_iter()
        .flat_map(|package| package.targets);
    Ok(targets
        .filter(|target| target.kind.iter().any(|kind| kind == "test"))
        .map(|target| target.name)
        .collect())
}

/// Folder for the state of the running real systems: `$VNFM_STACK`, else `/var/tmp/vnfm-stack`.
pub(crate) fn state() -> PathBuf {
    std::env::var_os("VNFM_STACK").map_or_else(|| "/var/tmp/vnfm-stack".into(), PathBuf::from)
}

/// Cache for expensive builds, shared by all checkouts: `$VNFM_CACHE`, else
/// `/var/cache/vnfm` for root, else `$XDG_CACHE_HOME/vnfm`.
pub(crate) fn cache() -> PathBuf {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(cache) = set("VNFM_CACHE") {
        return cache;
    }
    if rustix::process::getuid().is_root() {
        return "/var/cache/vnfm".into();
    }
    let home = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    home.unwrap_or_else(|| "/var/tmp".into()).join("vnfm")
}

/// Folder of the scripts that start the real systems.
pub(crate) fn scripts() -> PathBuf {
    root().join("tests/stack")
}
