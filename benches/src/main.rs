//! `vnfm-benches`: runs the benchmarks and prints the results; `cargo xtask bench` builds and runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use vnfm_benches::figure::Figure;
use vnfm_benches::machine::Yardstick;
use vnfm_benches::{GROUPS, figure, packages};

/// Runs the benchmarks of the released programs.
#[derive(Parser)]
struct Arguments {
    /// Folder with the release builds of the programs.
    #[arg(long, value_name = "FOLDER")]
    programs: PathBuf,
    /// Run only this group; can be repeated.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Also write the results to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Instead, open this package and print the time and memory; used by the benchmarks themselves.
    #[arg(long, value_name = "FILE", hide = true)]
    load: Option<PathBuf>,
    /// With `--load`: the hash of the archive is already known.
    #[arg(long, hide = true)]
    hashed: bool,
}

/// Exit code if everything was measured, and a figure misses its aim.
const MISSED: u8 = 3;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Success only if every group ran and every figure met its aim.
fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(file) = &arguments.load {
        let load = packages::load(file, arguments.hashed)?;
        println!("{}", serde_json::to_string(&load)?);
        return Ok(ExitCode::SUCCESS);
    }
    let known = |name: &String| GROUPS.iter().any(|(group, _)| group == name);
    if let Some(unknown) = arguments.groups.iter().find(|name| !known(name)) {
        let names: Vec<_> = GROUPS.iter().map(|(name, _)| *name).collect();
        anyhow::bail!("unknown group `{unknown}`; known: {}", names.join(", "));
    }
    let (figures, failed) = measure(arguments);
    println!("{}", figure::table(&figures));
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "figures": figures }))?;
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    let missed = figure::missed(&figures);
    if let Some(missed) = &missed {
        println!("{missed}");
    }
    if !failed.is_empty() {
        anyhow::bail!("could not be measured: {}", failed.join(", "));
    }
    Ok(missed.map_or(ExitCode::SUCCESS, |_| ExitCode::from(MISSED)))
}

/// The figures of every requested group, and the names of the groups that failed.
fn measure(arguments: &Arguments) -> (Vec<Figure>, Vec<&'static str>) {
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    let mut yardstick = Yardstick::default();
    let requested =
        |name: &str| arguments.groups.is_empty() || arguments.groups.iter().any(|g| g == name);
    for (name, take) in GROUPS.iter().filter(|(name, _)| requested(name)) {
        eprintln!("── {name} ──");
        yardstick.take();
        match take(&arguments.programs) {
            Ok(group) => figures.extend(group),
            Err(error) => {
                eprintln!("the group `{name}` failed: {error:#}");
                failed.push(*name);
            }
        }
    }
    yardstick.take();
    figures.extend(yardstick.figures());
    (figures, failed)
}
