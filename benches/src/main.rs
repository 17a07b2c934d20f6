//! `vnfm-benches`: runs the benchmarks and prints the results; `cargo xtask bench` builds and runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
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

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(file) = &arguments.load {
        println!(
            "{}",
            serde_json::to_string(&packages::load(file, arguments.hashed)?)?
        );
        return Ok(ExitCode::SUCCESS);
    }
    let (mut figures, mut yardstick) = (Vec::new(), Yardstick::default());
    let known = |name: &String| GROUPS.iter().any(|(group, _)| group == name);
    if let Some(unknown) = arguments.groups.iter().find(|name| !known(name)) {
        let names: Vec<_> = GROUPS.iter().map(|(name, _)| *name).collect();
        anyhow::bail!("unknown group `{unknown}`; known: {}", names.join(", "));
    }
    let wanted =
        |name: &str| arguments.groups.is_empty() || arguments.groups.iter().any(|g| g == name);
    for (name, take) in GROUPS.iter().filter(|(name, _)| wanted(name)) {
        eprintln!("── {name} ──");
        yardstick.take();
        figures.extend(
            take(&arguments.programs).with_context(|| format!("cannot run the group `{name}`"))?,
        );
    }
    yardstick.take();
    figures.extend(yardstick.figures());
    println!("{}", figure::table(&figures));
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "figures": figures }))?;
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    Ok(match figure::missed(&figures) {
        None => ExitCode::SUCCESS,
        Some(missed) => {
            println!("{missed}");
            ExitCode::from(MISSED)
        }
    })
}
