//! `cargo xtask bench`: builds the programs as they are released and lets `vnfm-benches` measure; with `--real`,
//! the real story beside the same by hand, and for how long it had nothing outside in flight. The demo in the simulated world is a figure, too.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vnfm_spans::Collector;

use crate::outside::idle;
use crate::{places, process, stack, terminal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Take only this group of figures; again for several.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Instead: the real story and the same by hand, in turn, so many times each; their ratio.
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, default_missing_value = "5", conflicts_with = "groups")]
    real: Option<usize>,
    /// Write the figures here as well, as `{"figures":[{"name","value","unit","aim","holds"}]}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures; the table goes to standard output.
///
/// # Errors
/// When something does not build or cannot be measured, or a figure misses its aim.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match arguments.real {
        Some(pairs) => beside_by_hand(pairs, arguments),
        None => released(arguments),
    }
}

/// What measures, and what is measured.
const PROGRAMS: &[&str] = &[
    "vnfm-benches",
    "vnfm-server",
    "vnfm-cli",
    "vnfm-sim",
    "kubernetes-cluster",
    "mgmt-template",
];
/// Groups that need no program beside the one that measures.
const ALONE: &[&str] = &["embed"];

fn released(arguments: &Arguments) -> Result<()> {
    let is_alone = |group: &String| ALONE.contains(&group.as_str());
    let alone = !arguments.groups.is_empty() && arguments.groups.iter().all(is_alone);
    let mut build = places::cargo();
    build.args(["build", "--profile", "dist"]);
    for program in PROGRAMS
        .iter()
        .copied()
        .take(if alone { 1 } else { PROGRAMS.len() })
    {
        build.args(["--package", program]);
    }
    ensure!(
        process::foreground(&mut build)?,
        "the release build failed; its words are above"
    );
    let release = places::target()?.join("dist");
    let mut figures = Command::new(release.join("vnfm-benches"));
    figures.arg("--programs").arg(&release);
    for group in &arguments.groups {
        figures.args(["--group", group]);
    }
    if let Some(json) = &arguments.json {
        figures.arg("--json").arg(json);
    }
    let all_hold = process::foreground(&mut figures)?;
    if arguments.groups.is_empty() {
        demo(arguments)?;
    }
    ensure!(all_hold, "a figure misses its aim or could not be taken");
    Ok(())
}

/// The longest that the demo may take once it is built, in seconds.
const DEMO: f64 = 15.0;

fn demo(arguments: &Arguments) -> Result<()> {
    let seconds = told(&[], &[])?["seconds"]
        .as_f64()
        .context("the demo tells no seconds")?;
    println!("the demo in the simulated world: {seconds:.1} s (aim < {DEMO} s)");
    if let Some(file) = &arguments.json {
        let mut figures: Value = serde_json::from_slice(&std::fs::read(file)?)?;
        let figure = serde_json::json!({ "name": "the demo in the simulated world", "value": seconds, "unit": "s",
            "aim": DEMO, "holds": seconds < DEMO });
        figures["figures"]
            .as_array_mut()
            .context("no list of figures")?
            .push(figure);
        std::fs::write(file, serde_json::to_string_pretty(&figures)?)?;
    }
    ensure!(seconds < DEMO, "the demo takes too long");
    Ok(())
}

/// The steps of the story that the cloud, the hosts and the cluster decide: what a pair compares.
const OPERATIONS: [&str; 4] = [
    "instantiate VNF-A",
    "instantiate VNF-B",
    "terminate VNF-B",
    "terminate VNF-A",
];
/// What the ratio should be at most.
const AIM: f64 = 1.0;
/// Seconds of a story in which nothing outside may be in flight.
const IDLE: f64 = 2.0;

fn beside_by_hand(pairs: usize, arguments: &Arguments) -> Result<()> {
    ensure!(pairs > 0, "no pair, no ratio");
    let parts = stack::ALL.into();
    stack::up(&parts)?;
    let (mut ratios, mut idles) = (Vec::with_capacity(pairs), Vec::with_capacity(pairs));
    for pair in 1..=pairs {
        let by_hand = by_hand()?;
        let (ours, idle) = ours()?;
        terminal::note(&format!(
            "pair {pair}: by hand {by_hand:.1} s, ours {ours:.1} s, of them {idle:.1} s with nothing in flight outside"
        ));
        ratios.push(ours / by_hand);
        idles.push(idle);
    }
    println!("the real story, its four operations, {pairs} times in turn with the same by hand");
    let figures = [
        figure("the real story against the same by hand", "", ratios, AIM),
        figure(
            "the real story with nothing outside in flight",
            "s",
            idles,
            IDLE,
        ),
    ];
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "figures": figures }))?;
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    let all_hold = figures.iter().all(|figure| figure["holds"] == true);
    ensure!(all_hold, "the real story misses an aim");
    Ok(())
}

/// The median, beside all that it is of.
fn figure(name: &str, unit: &str, mut values: Vec<f64>, aim: f64) -> Value {
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or_default();
    let all: Vec<_> = values.iter().map(|value| format!("{value:.3}")).collect();
    println!(
        "{name}: {median:.3} {unit} (aim ≤ {aim}); each: {}",
        all.join(" ")
    );
    serde_json::json!({ "name": name, "value": median, "unit": unit, "aim": aim, "holds": median <= aim })
}

/// Seconds of the same by hand.
fn by_hand() -> Result<f64> {
    let environment = stack::environment();
    let folder = |name: &str| {
        let found = environment.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, path)| path.clone())
            .with_context(|| format!("`{name}` is not there"))
    };
    let told = tempfile::NamedTempFile::new()?;
    let mut script = Command::new("bash");
    script.arg(places::root().join("tests/stack/baseline.sh"));
    script
        .arg(folder("VNFM_LIVE_ASSETS")?)
        .arg(folder("VNFM_LIVE_IMAGES")?)
        .arg(told.path());
    ensure!(
        process::foreground(&mut script)?,
        "the story by hand broke off; its words are above"
    );
    let told: Value = serde_json::from_slice(&std::fs::read(told.path())?)?;
    told["seconds"]
        .as_f64()
        .context("the story by hand tells no seconds")
}

/// Seconds of our four operations, and of these the seconds with nothing outside in flight.
fn ours() -> Result<(f64, f64)> {
    let collector = Collector::begin()?;
    let told = told(&["--real"], &[("VNFM_MONITORING_TRACES", collector.url())])?;
    let idle = idle(&collector.end()?);
    for (operation, seconds) in &idle {
        terminal::note(&format!(
            "{operation}: {seconds:.2} s with nothing in flight outside"
        ));
    }
    ensure!(
        idle.len() == OPERATIONS.len(),
        "spans of {} operations, not of four",
        idle.len()
    );
    let idle = idle.iter().map(|(_, seconds)| seconds).sum();
    let steps = told["steps"]
        .as_array()
        .context("the story tells no steps")?;
    let of = |operation: &&Value| {
        let name = operation["step"].as_str().unwrap_or_default();
        OPERATIONS.iter().any(|wanted| name.starts_with(wanted)) && !name.contains("refused")
    };
    let counted: Vec<_> = steps.iter().filter(of).collect();
    ensure!(
        counted.len() == OPERATIONS.len(),
        "not one step for each of {OPERATIONS:?}: {steps:?}"
    );
    Ok((
        counted
            .iter()
            .filter_map(|step| step["seconds"].as_f64())
            .sum(),
        idle,
    ))
}

/// What the demo tells of itself, played with these flags.
fn told(flags: &[&str], environment: &[(&str, String)]) -> Result<Value> {
    let told = tempfile::NamedTempFile::new()?;
    let mut demo = Command::new(std::env::current_exe()?);
    demo.arg("demo").args(flags).arg("--json").arg(told.path());
    demo.envs(environment.iter().map(|(name, value)| (*name, value)));
    ensure!(
        process::foreground(&mut demo)?,
        "the story broke off; its words are above"
    );
    Ok(serde_json::from_slice(&std::fs::read(told.path())?)?)
}
