//! `cargo xtask crates`: what those need who build on our crates, and not on our programs.
//!
//! | command | what | file |
//! |---|---|---|
//! | `features` | the umbrella builds with sets of its features, and each crate that is published builds alone | `features.rs` |
//! | `package` | each crate that is published says what it is, packs, and builds from what it packs; compared with a release | `published.rs` |
//! | `msrv` | each crate that is published builds with the oldest Rust that it names | `published.rs` |
//! | `weight` | crates, cold build and size of a program, for each feature; slow: it builds everything again and again | `weight.rs` |

mod features;
mod published;
mod weight;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{interrupt, places, process};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Check that the umbrella builds with sets of its features, and each published crate alone.
    Features {
        /// How many features are chosen at once at most: 1 is each alone, 10 every set; none and all are always among them.
        #[arg(long, value_name = "FEATURES", default_value_t = 2)]
        depth: usize,
    },
    /// Pack every crate that is published; compare what it offers with a released version.
    Package {
        /// The released version to compare with, as git names it; needs cargo-semver-checks.
        #[arg(long, value_name = "REVISION")]
        since: Option<String>,
    },
    /// Check that each published crate builds with the oldest Rust that it names.
    Msrv,
    /// Measure, for each feature, the crates, the cold build and the size that it adds to a program.
    Weight {
        /// Only these features.
        features: Vec<String>,
    },
}

/// Runs it.
///
/// # Errors
/// When something does not build, or what is needed is not there.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.task {
        Task::Features { depth } => features::check(*depth),
        Task::Package { since } => published::package(since.as_deref()),
        Task::Msrv => published::msrv(),
        Task::Weight { features } => weight::measure(features),
    }
}

fn cargo(words: &[&str]) -> Result<()> {
    interrupt::check()?;
    let mut command = places::cargo();
    command.args(words);
    ensure!(
        process::foreground(&mut command)?,
        "`cargo {}` does not pass",
        words.join(" ")
    );
    Ok(())
}

/// All packages of the workspace, as cargo describes them.
fn packages() -> Result<Vec<Value>> {
    let mut asked = places::cargo();
    asked.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let output = asked
        .output()
        .context("cannot ask `cargo metadata` about the workspace")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    metadata["packages"]
        .as_array()
        .cloned()
        .context("`cargo metadata` names no packages")
}

/// Whether whoever likes may build on it: cargo says nothing of where it may be published.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// The names of what is published.
fn published() -> Result<Vec<String>> {
    let names = packages()?.into_iter().filter(is_published);
    Ok(names
        .filter_map(|package| Some(package["name"].as_str()?.to_owned()))
        .collect())
}

/// The crate that embedders name.
fn umbrella() -> Result<Value> {
    let found = packages()?
        .into_iter()
        .find(|package| package["name"] == "vnfm");
    found.context("the workspace has no crate `vnfm`")
}
