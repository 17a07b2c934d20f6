//! `cargo xtask hostile`: builds the hostile machine, the programs and the simulated world, and lets it run.
//!
//! `docs/how-to/hostile.md` tells what it does, how to read what it says, and how a failed case is run again.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{places, process};

/// The programs are attacked as they are for the fault machine: a little optimised.
const PROFILE: &str = "faults";

/// Grounds side by side for each core: a case waits more than it works.
const WORKERS: usize = 3;

/// What is built: the machine, what it attacks, the world, and the plugin that runs scripts.
const PACKAGES: &[&str] = &[
    "vnfm-tests",
    "vnfm-server",
    "vnfm-cli",
    "vnfm-sim",
    "mgmt-script",
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What decides where something is left to chance; a report names the one that it was made with.
    #[arg(long)]
    seed: Option<u64>,
    /// How large the classes are that have no end of their own; 20000 for the night.
    #[arg(long, value_name = "N")]
    cases: Option<usize>,
    /// Only so many of all cases, a sample of each class.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Only cases whose class or description holds this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only this case, as a report numbers it.
    #[arg(long, value_name = "N")]
    case: Option<usize>,
    /// The machine has other work: how long a victim waits is not judged.
    #[arg(long)]
    shared_machine: bool,
    /// Say which cases there are, and run none.
    #[arg(long)]
    list: bool,
    /// Write what was found here as well: `{"seed","cases","seconds","failed":[{"seed","case","class","what","why"}]}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the machine; what it found goes to standard output.
///
/// # Errors
/// When something does not build, or a case did not hold.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut build = places::cargo();
    build.args(["build", "--profile", PROFILE, "--lib", "--bins"]);
    build.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    ensure!(
        process::foreground(&mut build)?,
        "the build failed; its words are above"
    );
    let program = places::target()?.join(PROFILE).join("vnfm-hostile");
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
        "a case did not hold; it is named above"
    );
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
