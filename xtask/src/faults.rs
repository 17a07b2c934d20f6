//! `cargo xtask faults`: builds the fault machine and the simulated world, and lets it run.
//!
//! `docs/how-to/faults.md` tells what it does, how to read what it says, and how a failed case is run again.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{places, process};

/// Thousands of operations win back what it costs to optimise them a little.
const PROFILE: &str = "faults";

/// Worlds side by side for each core: a case waits more than it works.
const WORKERS: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What decides where something is left to chance; a report names the one that it was made with.
    #[arg(long)]
    seed: Option<u64>,
    /// Only this operation, such as INSTANTIATE.
    #[arg(long)]
    operation: Option<String>,
    /// Only cases whose fault, as a report spells it, holds this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only what is done beside operations, and files of the data folder that go.
    #[arg(long)]
    beside: bool,
    /// Kill every process that is to die by SIGKILL, and not a tenth of them.
    #[arg(long)]
    all: bool,
    /// The `vnfm-faults` of an earlier version begins each operation and is killed; this one goes on.
    #[arg(long, value_name = "PROGRAM")]
    from: Option<PathBuf>,
    /// How long faults in pairs and at random go on after every single one was tried.
    #[arg(long, default_value_t = 0, value_name = "N")]
    minutes: u64,
    /// Of what is left to chance only this piece, as a report numbers it.
    #[arg(long, value_name = "N")]
    piece: Option<usize>,
    /// Write what was found here as well: `{"cases","seconds","failed":[{"operation","step","fault","why"}]}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the machine; what it found goes to standard output.
///
/// # Errors
/// When something does not build, or a case did not end well.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut build = places::cargo();
    build.args(["build", "--profile", PROFILE, "--bins"]);
    build.args(["--package", "vnfm-sim", "--package", "vnfm-tests"]);
    ensure!(
        process::foreground(&mut build)?,
        "the build failed; its words are above"
    );
    let mut machine =
        std::process::Command::new(places::target()?.join(PROFILE).join("vnfm-faults"));
    machine.args(["--seconds", &(arguments.minutes * 60).to_string()]);
    machine.args(["--workers", &(WORKERS * cores()).to_string()]);
    if let Some(seed) = arguments.seed {
        machine.args(["--seed", &seed.to_string()]);
    }
    for (flag, value) in [
        ("--operation", &arguments.operation),
        ("--only", &arguments.only),
    ] {
        if let Some(value) = value {
            machine.args([flag, value]);
        }
    }
    if let Some(piece) = arguments.piece {
        machine.args(["--piece", &piece.to_string()]);
    }
    for (flag, wanted) in [("--all", arguments.all), ("--beside", arguments.beside)] {
        if wanted {
            machine.arg(flag);
        }
    }
    if let Some(program) = &arguments.from {
        machine.arg("--from").arg(program);
    }
    if let Some(json) = &arguments.json {
        machine.arg("--json").arg(json);
    }
    ensure!(
        process::foreground(&mut machine)?,
        "a case did not end well; it is named above"
    );
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
