//! `cargo xtask bench`: builds the programs as they are released and lets `vnfm-benches` measure.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{places, process};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Take only this group of figures; again for several.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Write the figures here as well, as `{"figures":[{"name","value","unit","aim","holds"}]}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures; the table goes to standard output.
///
/// # Errors
/// When something does not build or cannot be measured, or a figure misses its aim.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let programs = [
        "vnfm-server",
        "vnfm-cli",
        "vnfm-sim",
        "kubernetes-cluster",
        "mgmt-template",
        "vnfm-benches",
    ];
    let mut build = places::cargo();
    build.args(["build", "--release"]);
    for program in programs {
        build.args(["--package", program]);
    }
    ensure!(process::foreground(&mut build)?, "the release build failed; its words are above");
    let release = places::target()?.join("release");
    let mut figures = std::process::Command::new(release.join("vnfm-benches"));
    figures.arg("--programs").arg(&release);
    for group in &arguments.groups {
        figures.args(["--group", group]);
    }
    if let Some(json) = &arguments.json {
        figures.arg("--json").arg(json);
    }
    ensure!(process::foreground(&mut figures)?, "a figure misses its aim or could not be taken");
    Ok(())
}
