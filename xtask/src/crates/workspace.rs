//! The packages of the workspace, and cargo commands for them.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{interrupt, paths, process};

/// Runs cargo in the foreground.
///
/// # Errors
/// If cargo cannot be started, is interrupted, or fails.
pub(super) fn cargo(arguments: &[&str]) -> Result<()> {
    interrupt::check()?;
    let mut command = paths::cargo();
    command.args(arguments);
    ensure!(
        process::foreground(&mut command)?,
        "`cargo {}` failed",
        arguments.join(" ")
    );
    Ok(())
}

/// All packages of the workspace, from `cargo metadata`.
///
/// # Errors
/// If cargo does not list them.
pub(super) fn packages() -> Result<Vec<Value>> {
    let mut metadata_command = paths::cargo();
    metadata_command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let output = metadata_command
        .output()
        .context("cannot run `cargo metadata`")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    metadata["packages"]
        .as_array()
        .cloned()
        .context("`cargo metadata` lists no packages")
}

/// Whether the crate is published: its manifest has no `publish`.
pub(super) fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// Names of the published crates.
///
/// # Errors
/// If cargo does not list them.
pub(super) fn published() -> Result<Vec<String>> {
    let names = packages()?.into_iter().filter(is_published);
    Ok(names
        .filter_map(|package| Some(package["name"].as_str()?.to_owned()))
        .collect())
}

/// The crate `vnfm`, which re-exports the others.
///
/// # Errors
/// If the workspace has none.
pub(super) fn umbrella() -> Result<Value> {
    let found = packages()?
        .into_iter()
        .find(|package| package["name"] == "vnfm");
    found.context("the workspace has no crate `vnfm`")
}
