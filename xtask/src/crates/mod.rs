//! `cargo xtask crates`: checks for users of our library crates.
//!
//! | command | check | file |
//! |---|---|---|
//! | `features` | `vnfm` builds with sets of its features, and each published crate builds alone | `features.rs` |
//! | `package` | each published crate has complete metadata, packs, and builds from its package; compared with a release | `published.rs` |
//! | `msrv` | each published crate builds with its `rust-version` | `published.rs` |
//! | `weight` | crates, cold build and size of a program for each feature; slow, because it rebuilds everything for each | `weight.rs` |

mod features;
mod published;
mod weight;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{interrupt, paths, process};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Check that `vnfm` builds with sets of its features, and each published crate alone.
    Features {
        /// Largest number of features in a set; the empty and the full set are always included.
        #[arg(long, value_name = "FEATURES", default_value_t = 2)]
        depth: usize,
    },
    /// Pack every published crate; optionally compare its API with a release.
    Package {
        /// Git revision of the release to compare with; needs cargo-semver-checks.
        #[arg(long, value_name = "REVISION")]
        since: Option<String>,
    },
    /// Check that each published crate builds with its `rust-version`.
    Msrv,
    /// Measure the crates, build time and program size for each feature.
    Weight {
        /// Measure only these features, not all of them.
        features: Vec<String>,
    },
}

/// Runs the subcommand of `cargo xtask crates`.
///
/// # Errors
/// If something does not build, or a required tool is missing.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.task {
        Task::Features { depth } => features::check(*depth),
        Task::Package { since } => published::package(since.as_deref()),
        Task::Msrv => published::msrv(),
        Task::Weight { features } => weight::measure(features),
    }
}

fn cargo(arguments: &[&str]) -> Result<()> {
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
fn packages() -> Result<Vec<Value>> {
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
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// Names of the published crates.
fn published() -> Result<Vec<String>> {
    let names = packages()?.into_iter().filter(is_published);
    Ok(names
        .filter_map(|package| Some(package["name"].as_str()?.to_owned()))
        .collect())
}

/// The crate `vnfm`, which re-exports the others.
fn umbrella() -> Result<Value> {
    let found = packages()?
        .into_iter()
        .find(|package| package["name"] == "vnfm");
    found.context("the workspace has no crate `vnfm`")
}
