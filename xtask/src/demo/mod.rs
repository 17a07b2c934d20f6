//! `cargo xtask demo`: a story with the built programs.
//!
//! ```text
//! cluster.rs     the story `cluster`, top to bottom: VNF-A builds a cluster, VNF-B runs on it
//! operations.rs  the story `operations`, top to bottom: every task there and back
//! workers.rs     the story `workers`, top to bottom: VNF-A grows and shrinks
//! charts.rs      the story `charts`, top to bottom: charts of a VNFD and of an ASD, compared with helm's own list
//! clusters.rs    the story `clusters`, top to bottom: a highly available cluster through all that can happen to it
//!                (machines.rs: the hosts behind the servers; releases.rs: packages that it makes)
//! task.rs        one task: planned, run, compared with the plan (plan.rs) and with the neighbour
//!                (record.rs, neighbour.rs: OpenStack by cloud.rs, the cluster by kubectl.rs, control_plane.rs)
//! snapshots.rs   VNF snapshots: created before their task, compared, deleted before their VIM
//! instances.rs   the steps that stories share
//! world.rs       the simulated world as a process, or the real systems
//! ctl.rs         runs `vnfmctl` as a user would
//! stage.rs       runs and times steps
//! rescue.rs      cleans up after a failed step
//! ```
//! `--real` only changes endpoints. All resources are deleted at the end, even after a failure, unless `--keep` is given.

mod availability;
pub(crate) mod charts;
mod cloud;
mod cluster;
mod clusters;
mod control_plane;
mod ctl;
mod instances;
mod kubectl;
mod machines;
mod neighbour;
mod operations;
mod plan;
mod record;
mod releases;
mod requests;
mod rescue;
mod snapshots;
mod stage;
mod task;
pub(crate) mod workers;
mod world;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::{interrupt, paths, process, terminal};
use ctl::Ctl;
use instances::Scenario;
use requests::Shape;
use stage::{Stage, Step};
use world::World;

/// The sequences of steps that the demo can play.
#[derive(Clone, Copy, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Plot {
    /// VNF-A builds a Kubernetes cluster, VNF-B runs on it, both are terminated.
    Cluster,
    /// Every task of a VNF, there and back, compared with its plan and with what the neighbours report.
    Operations,
    /// VNF-A's cluster grows from two workers to four, and shrinks again.
    Workers,
    /// A highly available cluster is scaled, loses power, is healed, rotated, restored and upgraded under load; needs `--real`.
    Clusters,
    /// Helm charts, of a VNFD and of an ASD, are installed, upgraded, rolled back, scaled and uninstalled; needs `--real`.
    Charts,
    /// One chart, then fifty charts in one stage of an ASD, to compare with the same by hand; needs `--real`.
    ManyCharts,
}

impl Plot {
    fn play(self, scenario: &mut Scenario<'_>) -> Result<()> {
        match self {
            Self::Cluster => cluster::play(scenario),
            Self::Operations => operations::play(scenario),
            Self::Workers => workers::play(scenario),
            Self::Clusters => clusters::play(scenario),
            Self::Charts => charts::play(scenario),
            Self::ManyCharts => charts::play_many(scenario),
        }
    }

    /// The systems that it needs.
    fn world(self, real: bool) -> Result<world::Kind> {
        match self {
            Self::Charts | Self::ManyCharts => {
                ensure!(
                    real,
                    "charts are installed by helm on a real control plane: add `--real` (`cargo xtask stack up kubernetes` prepares it)"
                );
                Ok(world::Kind::ControlPlane)
            }
            Self::Clusters if !real => {
                bail!("HAProxy, keepalived and power cuts need real hosts: add `--real`")
            }
            _ if real => Ok(world::Kind::Real),
            _ => Ok(world::Kind::Simulated),
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The sequence of steps to play.
    #[arg(long, value_enum, default_value = "cluster")]
    story: Plot,
    /// Use real OpenStack, hosts, kubeadm and Kubernetes; they are started if they do not run.
    #[arg(long)]
    real: bool,
    /// Which of VNF-A's packages to use.
    #[arg(long, value_enum, default_value = "tosca")]
    package: Shape,
    /// Write the result to this file, as `{"story","world","ok","seconds","steps","left_behind"}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep everything running at the end or after a failure, and print where it is.
    #[arg(long)]
    keep: bool,
    /// Use the programs that are already built.
    #[arg(long)]
    built: bool,
}

/// Result of the demo, by step.
#[derive(Serialize)]
pub(crate) struct Report {
    story: Plot,
    world: &'static str,
    ok: bool,
    seconds: f64,
    steps: Vec<Step>,
    left_behind: Vec<String>,
}

/// The server process; it is stopped on drop.
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        process::end(&mut self.child);
    }
}

/// Runs the demo; builds the programs first, if necessary.
///
/// # Errors
/// If a step fails, or resources are left behind.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let kind = arguments.story.world(arguments.real)?;
    if !arguments.built {
        build()?;
    }
    let programs = paths::target()?.join("debug");
    let folder = temporary_folder()?;
    let mut stage = Stage::default();
    let world = World::start(kind, &programs, folder.path())?;
    let began = Instant::now();
    instances::allow_plugin(&mut stage, &programs, &folder.path().join("data/plugins"))?;
    let server = stage.step("the server starts", |_| {
        serve(&programs, folder.path(), world.helm().as_deref())
    })?;
    let ctl = Ctl::new(programs.join("vnfmctl"), &server.url);
    let outcome = arguments.story.play(&mut Scenario {
        stage: &mut stage,
        ctl: &ctl,
        world: &world,
        shape: arguments.package,
        folder: folder.path(),
        snapshots: Vec::new(),
    });
    let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    let report = |ok, left_behind| Report {
        story: arguments.story,
        world: world.name(),
        ok,
        seconds,
        steps: stage.steps,
        left_behind,
    };
    if arguments.keep {
        let left_behind = world.left_behind()?;
        write(
            arguments.json.as_deref(),
            &report(outcome.is_ok(), left_behind),
        )?;
        return keep(outcome, server, world, folder);
    }
    if let Err(error) = &outcome {
        report_failure(error, folder.path());
        interrupt::clear();
        rescue::clean_up(&ctl, &world);
    }
    let left_behind = world.left_behind()?;
    let ok = outcome.is_ok() && left_behind.is_empty();
    let report = report(ok, left_behind);
    write(arguments.json.as_deref(), &report)?;
    ensure!(outcome.is_ok(), "the demo failed; the error is above");
    ensure!(
        report.left_behind.is_empty(),
        "left behind: {}",
        report.left_behind.join(", ")
    );
    println!(
        "the demo in the {} world took {seconds} s, nothing is left behind",
        report.world
    );
    Ok(())
}

fn temporary_folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("vnfm-demo.")
        .tempdir()
        .context("cannot create a temporary folder")
}

/// Builds the programs. Cargo's progress is visible: the first build takes minutes.
fn build() -> Result<()> {
    terminal::note(
        "building the programs; from nothing this takes about nine minutes on two cores",
    );
    let mut build = paths::cargo();
    build.arg("build");
    for package in ["vnfm-server", "vnfm-cli", "vnfm-sim", "kubernetes-cluster"] {
        build.args(["--package", package]);
    }
    ensure!(
        process::foreground(&mut build)?,
        "the programs do not build; cargo's output is above"
    );
    Ok(())
}

/// Starts the server on a free port and reads its address.
fn serve(programs: &Path, folder: &Path, helm: Option<&Path>) -> Result<Server> {
    let log = folder.join("server.log");
    let log_file =
        std::fs::File::create(&log).with_context(|| format!("cannot write `{}`", log.display()))?;
    let data = folder.join("data");
    let mut command = Command::new(programs.join("vnfm-server"));
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(&data);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log_file);
    if let Some(helm) = helm {
        command.env("VNFM_HELM_BINARY", helm);
    }
    process::own_group(&mut command);
    let mut child = command.spawn().context("cannot start `vnfm-server`")?;
    let line = process::first_line(&mut child)?;
    let Some(url) = line
        .split_whitespace()
        .find(|word| word.starts_with("http"))
    else {
        process::end(&mut child);
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        bail!(
            "`vnfm-server` printed `{line}` instead of its address:\n{}",
            log.trim()
        );
    };
    Ok(Server {
        url: url.to_owned(),
        child,
    })
}

fn report_failure(error: &anyhow::Error, folder: &Path) {
    terminal::note(&format!("\nthe demo failed: {error:#}\ncleaning up …"));
    let log = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    for line in &lines[lines.len().saturating_sub(8)..] {
        terminal::note(&format!("  server: {line}"));
    }
}

fn write(file: Option<&Path>, report: &Report) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(report)?;
    std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}

/// Leaves everything running and prints where it is.
fn keep(
    outcome: Result<()>,
    server: Server,
    world: World,
    folder: tempfile::TempDir,
) -> Result<()> {
    let data = folder.keep();
    let (id, data) = (server.child.id(), data.display());
    println!(
        "kept: server {} (process {id}), data and logs in {data}",
        server.url
    );
    println!("      try: vnfmctl --server {} op list", server.url);
    let (line, processes) = world.keep();
    println!("      {line}");
    println!("      to stop: kill {id}{processes}; rm -r {data}");
    std::mem::forget(server); // keeps its process running
    outcome
}
