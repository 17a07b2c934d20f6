//! `cargo xtask crates`: checks for users of our library crates.
//!
//! | command | check | file |
//! |---|---|---|
//! | `features` | `vnfm` builds with sets of its features, and each published crate builds alone | `features.rs` |
//! | `package` | each published crate has complete metadata, packs, and builds from its package; compared with a release | `published.rs` |
//! | `msrv` | each published crate builds with its `rust-version` | `features.rs` |
//! | `weight` | crates, cold build and size of a program for each feature; slow, because it rebuilds everything for each | `weight.rs` |

mod features;
mod published;
mod weight;
mod workspace;

use anyhow::Result;

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
    /// Check that each published crate builds with its `rust-version`; needs rustup.
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
        Task::Msrv => features::msrv(),
        Task::Weight { features } => weight::measure(features),
    }
}
