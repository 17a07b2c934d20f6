//! `cargo xtask bench`: runs `vnfm-benches` with release builds of the programs, and times the demo in the simulated world.
//! With `--real`: compares the demo and VNF-A's scale-out on the real systems with the same steps done manually, and measures
//! the time for which the demo had no external call in flight. `--real --clusters` does so with the story `clusters`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vnfm_spans::Collector;

use crate::demo::charts::{INSTALL_MANY, INSTALL_ONE};
use crate::demo::workers::SCALE_OUT;
use crate::idle_time::idle;
use crate::{paths, process, stack, terminal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only this group of benchmarks; can be repeated.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// With `--real`: compare only the installation of charts, which needs no hosts.
    #[arg(long, requires = "real")]
    charts: bool,
    /// With `--real`: compare only the story `clusters`, which takes long.
    #[arg(long, requires = "real", conflicts_with = "charts")]
    clusters: bool,
    /// Instead: compare the demo and a scale-out on the real systems with the same steps done manually, in this many pairs.
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, default_missing_value = "5", conflicts_with = "groups")]
    real: Option<usize>,
    /// Also write the results to this file, as `{"figures":[{"name","value","unit","aim","holds"}]}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the benchmarks; the table goes to standard output.
///
/// # Errors
/// If something does not build or cannot be measured, or a result misses its target.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match arguments.real {
        Some(pairs) if arguments.charts => compare_charts(pairs, arguments),
        Some(pairs) if arguments.clusters => compare_clusters(pairs, arguments),
        Some(pairs) => compare_with_manual(pairs, arguments),
        None => released(arguments),
    }
}

/// The benchmark program, followed by the programs that it measures.
const PROGRAMS: &[&str] = &[
    "vnfm-benches",
    "vnfm-server",
    "vnfm-cli",
    "vnfm-sim",
    "kubernetes-cluster",
    "mgmt-template",
];
/// Groups that need only the benchmark program.
const STANDALONE: &[&str] = &["embed"];

fn released(arguments: &Arguments) -> Result<()> {
    let is_alone = |group: &String| STANDALONE.contains(&group.as_str());
    let alone = !arguments.groups.is_empty() && arguments.groups.iter().all(is_alone);
    let mut build = paths::cargo();
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
        "the release build failed; its output is above"
    );
    let release = paths::target()?.join("dist");
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
    ensure!(
        all_hold,
        "a figure missed its aim, or could not be measured; see above"
    );
    Ok(())
}

/// Maximum duration of the demo once it is built, in seconds.
const MAX_DEMO: f64 = 15.0;

fn demo(arguments: &Arguments) -> Result<()> {
    let seconds = run_demo(&[], &[])?["seconds"]
        .as_f64()
        .context("the report of the demo has no `seconds`")?;
    println!("the demo in the simulated world: {seconds:.1} s (target < {MAX_DEMO} s)");
    if let Some(file) = &arguments.json {
        let mut figures: Value = serde_json::from_slice(&std::fs::read(file)?)?;
        let figure = serde_json::json!({ "name": "the demo in the simulated world", "value": seconds, "unit": "s",
            "aim": MAX_DEMO, "holds": seconds < MAX_DEMO });
        figures["figures"]
            .as_array_mut()
            .context("no list of figures")?
            .push(figure);
        std::fs::write(file, serde_json::to_string_pretty(&figures)?)?;
    }
    ensure!(seconds < MAX_DEMO, "the demo missed its aim");
    Ok(())
}

/// The steps of the demo whose duration the cloud, the hosts and the cluster determine: these are compared.
const OPERATIONS: [&str; 4] = [
    "instantiate VNF-A",
    "instantiate VNF-B",
    "terminate VNF-B",
    "terminate VNF-A",
];
/// Maximum ratio of our duration to the manual one.
const MAX_RATIO: f64 = 1.0;
/// Maximum ratio for a scale-out by two workers.
const MAX_SCALE_OUT_RATIO: f64 = 1.1;
/// Maximum ratio for all operations on a highly available cluster.
const MAX_CLUSTERS_RATIO: f64 = 1.1;
/// Maximum seconds of the demo with no external call in flight.
const MAX_IDLE: f64 = 2.0;
/// Maximum seconds that our installation of a chart may take longer than `helm install --wait`.
const MAX_CHART_EXCESS: f64 = 0.6;
/// Maximum ratio for fifty charts in one stage.
const MAX_CHARTS_RATIO: f64 = 1.3;

fn compare_with_manual(pairs: usize, arguments: &Arguments) -> Result<()> {
    ensure!(pairs > 0, "at least one pair is needed");
    let parts = stack::ALL.into();
    stack::up(&parts)?;
    let (mut ratios, mut idles, mut scale_outs) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 1..=pairs {
        let manual = by_hand("baseline.sh")?;
        let (ours, idle) = ours()?;
        terminal::note(&format!(
            "pair {pair}: manual {manual:.1} s, ours {ours:.1} s, of these {idle:.1} s with no external call in flight"
        ));
        ratios.push(ours / manual);
        idles.push(idle);
        let (manual, ours) = (by_hand("scale-by-hand.sh")?, our_scale_out()?);
        terminal::note(&format!(
            "pair {pair}: scale-out, manual {manual:.1} s, ours {ours:.1} s"
        ));
        scale_outs.push(ours / manual);
    }
    println!("on the real systems, {pairs} times in turn with the same steps done manually");
    let charts = charts_in_pairs(pairs)?;
    let (story, idle, scale_out) = (
        "the real story against the same by hand",
        "the real story with nothing outside in flight",
        "scale-out by two workers against the same by hand",
    );
    let mut figures = vec![
        figure(story, "", ratios, MAX_RATIO),
        figure(idle, "s", idles, MAX_IDLE),
        figure(scale_out, "", scale_outs, MAX_SCALE_OUT_RATIO),
    ];
    figures.extend(charts);
    report(&figures, arguments)
}

/// Writes the figures, and fails if one misses its target.
fn report(figures: &[Value], arguments: &Arguments) -> Result<()> {
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "figures": figures }))?;
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    let all_hold = figures.iter().all(|figure| figure["holds"] == true);
    ensure!(all_hold, "a result on the real systems misses its target");
    Ok(())
}

fn compare_charts(pairs: usize, arguments: &Arguments) -> Result<()> {
    ensure!(pairs > 0, "at least one pair is needed");
    stack::up(&[stack::Part::Kubernetes].into())?;
    println!(
        "on the real control plane, {pairs} times in turn with the same charts installed by hand"
    );
    report(&charts_in_pairs(pairs)?, arguments)
}

/// How the steps of the story `clusters` begin that are also done by hand.
const CLUSTER_STEPS: [&str; 7] = [
    "instantiate VNF-A",
    "scale to ",
    "heal ",
    "rotate the certificates",
    "back up etcd",
    "restore the snapshot of etcd",
    "upgrade Kubernetes to ",
];

fn compare_clusters(pairs: usize, arguments: &Arguments) -> Result<()> {
    ensure!(pairs > 0, "at least one pair is needed");
    stack::up(&stack::ALL.into())?;
    println!("a highly available cluster, {pairs} times in turn with the same steps by hand");
    let mut ratios = Vec::new();
    for pair in 1..=pairs {
        let ours = || cluster_seconds(&run_demo(&["--real", "--story", "clusters"], &[])?);
        let manual = || cluster_seconds(&manual_report("clusters-by-hand.sh", "VNFM_LIVE_IMAGES")?);
        // Whatever the first one leaves in caches serves each of them as often.
        let (ours, manual) = if pair % 2 == 1 {
            let ours = ours()?;
            (ours, manual()?)
        } else {
            let manual = manual()?;
            (ours()?, manual)
        };
        for (step, (ours, manual)) in CLUSTER_STEPS.iter().zip(ours.iter().zip(&manual)) {
            let (step, ratio) = (step.trim_end(), ours / manual);
            let slow = if ratio > MAX_CLUSTERS_RATIO {
                ", slower than the target"
            } else {
                ""
            };
            terminal::note(&format!(
                "pair {pair}: {step}, manual {manual:.1} s, ours {ours:.1} s, ratio {ratio:.3}{slow}"
            ));
        }
        ratios.push(ours.iter().sum::<f64>() / manual.iter().sum::<f64>());
    }
    let name = "operations on a highly available cluster against the same by hand";
    report(&[figure(name, "", ratios, MAX_CLUSTERS_RATIO)], arguments)
}

/// The duration of each of [`CLUSTER_STEPS`] in a report, in seconds.
fn cluster_seconds(report: &Value) -> Result<Vec<f64>> {
    let all = report["steps"].as_array().into_iter().flatten();
    let all: Vec<_> = all
        .filter_map(|step| Some((step["step"].as_str()?, step["seconds"].as_f64()?)))
        .collect();
    let sum = |begin: &&str| {
        let found: Vec<f64> = all
            .iter()
            .filter(|(name, _)| name.starts_with(begin))
            .map(|(_, seconds)| *seconds)
            .collect();
        ensure!(!found.is_empty(), "the report has no step `{begin}…`");
        Ok(found.iter().sum())
    };
    CLUSTER_STEPS.iter().map(sum).collect()
}

/// One chart, and fifty in one stage: in turn by hand and by us.
fn charts_in_pairs(pairs: usize) -> Result<[Value; 2]> {
    let (mut excesses, mut ratios) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        let manual = manual_report("charts-by-hand.sh", "VNFM_LIVE_KUBECONFIG")?;
        let manual = |member: &str| {
            let seconds = manual[member].as_f64();
            seconds.with_context(|| format!("the report of the manual steps has no `{member}`"))
        };
        let (one, many) = (manual("one")?, manual("many")?);
        let ours = run_demo(&["--real", "--story", "many-charts"], &[])?;
        let (our_one, our_many) = (step(&ours, INSTALL_ONE)?, step(&ours, INSTALL_MANY)?);
        terminal::note(&format!(
            "pair {pair}: one chart, manual {one:.2} s, ours {our_one:.2} s; fifty, manual {many:.2} s, ours {our_many:.2} s"
        ));
        excesses.push(our_one - one);
        ratios.push(our_many / many);
    }
    Ok([
        figure(
            "a chart, more than `helm install --wait`",
            "s",
            excesses,
            MAX_CHART_EXCESS,
        ),
        figure(
            "fifty charts in one stage against the same by hand",
            "",
            ratios,
            MAX_CHARTS_RATIO,
        ),
    ])
}

/// Duration of VNF-A's scale-out from two workers to four, in seconds.
fn our_scale_out() -> Result<f64> {
    step(
        &run_demo(&["--real", "--story", "workers"], &[])?,
        SCALE_OUT,
    )
}

/// Duration of one step of a report, in seconds.
fn step(report: &Value, name: &str) -> Result<f64> {
    let mut steps = report["steps"].as_array().into_iter().flatten();
    let step = steps.find(|step| step["step"] == name);
    let seconds = step.and_then(|step| step["seconds"].as_f64());
    seconds.with_context(|| format!("the report of the demo lacks `{name}`"))
}

/// The median and all values of a result.
fn figure(name: &str, unit: &str, mut values: Vec<f64>, aim: f64) -> Value {
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or_default();
    let all: Vec<_> = values.iter().map(|value| format!("{value:.3}")).collect();
    println!(
        "{name}: {median:.3} {unit} (target ≤ {aim}); each: {}",
        all.join(" ")
    );
    serde_json::json!({ "name": name, "value": median, "unit": unit, "aim": aim, "holds": median <= aim })
}

/// Duration of the manual steps of a script, in seconds.
fn by_hand(name: &str) -> Result<f64> {
    let report = manual_report(name, "VNFM_LIVE_IMAGES")?;
    report["seconds"]
        .as_f64()
        .context("the report of the manual steps has no `seconds`")
}

/// The report of a script, whose second argument is the path of this variable.
fn manual_report(name: &str, second: &str) -> Result<Value> {
    let environment = stack::environment();
    let folder = |name: &str| {
        let found = environment.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, path)| path.clone())
            .with_context(|| format!("`{name}` is missing"))
    };
    let report = tempfile::NamedTempFile::new()?;
    let mut script = Command::new("bash");
    script.arg(paths::root().join("tests/stack").join(name));
    script
        .arg(folder("VNFM_LIVE_ASSETS")?)
        .arg(folder(second)?)
        .arg(report.path());
    ensure!(
        process::foreground(&mut script)?,
        "the manual steps failed; its output is above"
    );
    Ok(serde_json::from_slice(&std::fs::read(report.path())?)?)
}

/// Duration of our four operations, and for how much of it no external call was in flight, in seconds.
fn ours() -> Result<(f64, f64)> {
    let collector = Collector::begin()?;
    let report = run_demo(&["--real"], &[("VNFM_MONITORING_TRACES", collector.url())])?;
    let idle = idle(&collector.end()?);
    for (operation, seconds) in &idle {
        terminal::note(&format!(
            "{operation}: {seconds:.2} s with no external call in flight"
        ));
    }
    ensure!(
        idle.len() == OPERATIONS.len(),
        "got spans of {} operations instead of four",
        idle.len()
    );
    let idle = idle.iter().map(|(_, seconds)| seconds).sum();
    let steps = report["steps"]
        .as_array()
        .context("the report of the demo has no `steps`")?;
    let seconds = |operation: &&Value| {
        let name = operation["step"].as_str().unwrap_or_default();
        OPERATIONS.iter().any(|wanted| name.starts_with(wanted)) && !name.contains("refused")
    };
    let counted: Vec<_> = steps.iter().filter(seconds).collect();
    ensure!(
        counted.len() == OPERATIONS.len(),
        "expected one step for each of {OPERATIONS:?}: {steps:?}"
    );
    Ok((
        counted
            .iter()
            .filter_map(|step| step["seconds"].as_f64())
            .sum(),
        idle,
    ))
}

/// The report of the demo with these flags.
fn run_demo(flags: &[&str], environment: &[(&str, String)]) -> Result<Value> {
    let report = tempfile::NamedTempFile::new()?;
    let mut demo = Command::new(std::env::current_exe()?);
    demo.arg("demo")
        .args(flags)
        .arg("--json")
        .arg(report.path());
    demo.envs(environment.iter().map(|(name, value)| (*name, value)));
    ensure!(
        process::foreground(&mut demo)?,
        "the demo failed; its output is above"
    );
    Ok(serde_json::from_slice(&std::fs::read(report.path())?)?)
}

#[cfg(test)]
mod tests {
    use super::cluster_seconds;
    use serde_json::{Value, json};

    fn report(steps: &[(&str, f64)]) -> Value {
        let step = |(name, seconds): &(&str, f64)| json!({"step": name, "seconds": seconds});
        json!({"steps": steps.iter().map(step).collect::<Vec<_>>()})
    }

    #[test]
    fn steps_of_a_cluster_are_summed_by_the_beginning_of_their_names() {
        let mut steps = vec![
            ("instantiate VNF-A: stack, hosts", 100.0),
            ("instantiate VNF-B on VNF-A", 7.0),
            ("scale to four workers", 30.0),
            ("scale to two workers", 15.0),
            ("heal masterNode-1", 60.0),
            ("heal masterNode-2", 61.0),
            ("rotate the certificates", 200.0),
            ("rotate the ca", 9.0),
            ("back up etcd", 4.0),
            ("restore the snapshot of etcd", 40.0),
        ];
        let error = cluster_seconds(&report(&steps)).unwrap_err();
        assert!(
            error.to_string().contains("upgrade Kubernetes to "),
            "{error}"
        );
        steps.push(("upgrade Kubernetes to the next minor version", 500.0));
        let seconds = cluster_seconds(&report(&steps)).unwrap();
        assert_eq!(seconds, [100.0, 45.0, 121.0, 200.0, 4.0, 40.0, 500.0]);
    }
}
