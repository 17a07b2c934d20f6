//! `cargo xtask hostile`: builds the programs, the simulated world and the program that attacks them, and runs it.
//!
//! `docs/how-to/hostile.md` describes the cases, the report, and how to repeat a failed case.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{paths, process};

/// The same profile as for fault injection: lightly optimised.
const PROFILE: &str = "faults";

/// Parallel cases per core; a case mostly waits.
const WORKERS: usize = 3;

/// Packages to build: the attacker, the programs under attack, the simulated world, and the script plugin.
const PACKAGES: &[&str] = &[
    "vnfm-tests",
    "vnfm-server",
    "vnfm-cli",
    "vnfm-sim",
    "mgmt-script",
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seed of the random cases; a report contains the seed of its run.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of cases of each unbounded class; 20000 for a nightly run.
    #[arg(long, value_name = "N")]
    cases: Option<usize>,
    /// Run only this many cases, sampled from every class.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Run only cases whose class or description contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Run only the case with this number in a report.
    #[arg(long, value_name = "N")]
    case: Option<usize>,
    /// Do not check response times, because the machine has other load.
    #[arg(long)]
    shared_machine: bool,
    /// List the cases without running them.
    #[arg(long)]
    list: bool,
    /// Also write the result to this file: `{"seed","cases","seconds","failed":[{"seed","case","class","what","why"}]}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the cases; the report goes to standard output.
///
/// # Errors
/// If something does not build, or a case fails.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut build = paths::cargo();
    build.args(["build", "--profile", PROFILE, "--lib", "--bins"]);
    build.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    ensure!(
        process::foreground(&mut build)?,
        "the build failed; its output is above"
    );
    let program = paths::target()?.join(PROFILE).join("vnfm-hostile");
    let mut machine = std::process::Command::new(program);
    machine.args(["--workers", &(WORKERS * cores()).to_string()]);
    let numbers = [
        ("--seed", arguments.seed.map(|seed| seed.to_string())),
        ("--cases", arguments.cases.map(|cases| cases.to_string())),
        (
            "--sample",
            arguments.sample.map(|sample| sample.to_string()),
        ),
        ("--case", arguments.case.map(|case| case.to_string())),
        ("--only", arguments.only.clone()),
    ];
    for (flag, value) in numbers {
        machine.args(
            value
                .map(|value| [flag.to_owned(), value])
                .into_iter()
                .flatten(),
        );
    }
    for (flag, set) in [
        ("--shared-machine", arguments.shared_machine),
        ("--list", arguments.list),
    ] {
        machine.args(set.then_some(flag));
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
