//! `cargo xtask faults`: builds fault injection and the simulated world, and runs it.
//!
//! `docs/how-to/faults.md` describes the faults, the report, and how to repeat a failed case.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{paths, process};

/// Lightly optimised: with thousands of operations this pays off.
const PROFILE: &str = "faults";

/// Parallel cases per core; a case mostly waits.
const WORKERS: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seed of the random cases; a report contains the seed of its run.
    #[arg(long)]
    seed: Option<u64>,
    /// Test only this operation, such as INSTANTIATE.
    #[arg(long)]
    operation: Option<String>,
    /// Run only cases whose fault, as named in a report, contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Test only faults outside operations, and deleted files of the data folder.
    #[arg(long)]
    administrative: bool,
    /// Use SIGKILL in every crash case instead of in a tenth of them.
    #[arg(long)]
    all: bool,
    /// Path of an earlier version's `vnfm-faults`: it starts each operation and is killed; this version resumes it.
    #[arg(long, value_name = "PROGRAM")]
    from: Option<PathBuf>,
    /// Minutes of paired and random faults after all single faults.
    #[arg(long, default_value_t = 0, value_name = "N")]
    minutes: u64,
    /// Run only the random piece with this number in a report.
    #[arg(long, value_name = "N")]
    piece: Option<usize>,
    /// Also write the result to this file: `{"cases","seconds","failed":[{"operation","step","fault","why"}]}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the cases; the report goes to standard output.
///
/// # Errors
/// If something does not build, or a case fails.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut build = paths::cargo();
    build.args(["build", "--profile", PROFILE, "--bins"]);
    build.args(["--package", "vnfm-sim", "--package", "vnfm-tests"]);
    ensure!(
        process::foreground(&mut build)?,
        "the build failed; its output is above"
    );
    let mut machine =
        std::process::Command::new(paths::target()?.join(PROFILE).join("vnfm-faults"));
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
    for (flag, wanted) in [
        ("--all", arguments.all),
        ("--administrative", arguments.administrative),
    ] {
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
        "a case failed; it is named above"
    );
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
