//! `cargo xtask demo`: the whole story with the built programs, told live.
//!
//! ```text
//! world.rs   what the programs talk to: the simulated world as a process, or the real neighbours
//! ctl.rs     `vnfmctl`, run as a person would
//! story.rs   the seven chapters, top to bottom
//! rescue.rs  what is done about a story that broke off
//! ```
//! `--real` changes endpoints only. Whatever happens, nothing stays, unless `--keep` says so.

mod cloud;
mod ctl;
mod requests;
mod rescue;
mod story;
mod world;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;

use crate::{interrupt, places, process, terminal};
use ctl::Ctl;
use world::World;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// On real OpenStack, real hosts, real kubeadm, real Kubernetes; started if they do not run.
    #[arg(long)]
    real: bool,
    /// Which shape of VNF-A's package.
    #[arg(long, value_enum, default_value = "tosca")]
    package: Shape,
    /// Write how it went here, as `{"world","ok","seconds","steps","left_behind"}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave everything as it is at the end, or where it broke off, and say what stays.
    #[arg(long)]
    keep: bool,
    /// Take the programs as they are built already.
    #[arg(long)]
    built: bool,
}

/// The two shapes of VNF-A's package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// TOSCA only: our driver makes the HOT.
    Tosca,
    /// The package brings its HOT.
    BaseHot,
}

impl Shape {
    /// The sample's folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Tosca => "vnf-a-k8s-cluster",
            Self::BaseHot => "vnf-a-k8s-cluster-base-hot",
        }
    }
}

/// How it went, by chapter.
#[derive(Serialize)]
pub(crate) struct Told {
    world: &'static str,
    ok: bool,
    seconds: f64,
    steps: Vec<Step>,
    left_behind: Vec<String>,
}

#[derive(Serialize)]
struct Step {
    step: String,
    seconds: f64,
}

/// Collects the steps and shows each as it goes.
#[derive(Default)]
pub(crate) struct Stage {
    steps: Vec<Step>,
}

impl Stage {
    /// One step of the story.
    ///
    /// # Errors
    /// What the step says, or that somebody interrupted us.
    pub(crate) fn step<T>(
        &mut self,
        label: &str,
        act: impl FnOnce(&terminal::Busy) -> Result<T>,
    ) -> Result<T> {
        interrupt::check()?;
        let busy = terminal::Busy::begin(label);
        match act(&busy) {
            Ok(value) => {
                let seconds = (busy.done() * 1000.0).round() / 1000.0;
                self.steps.push(Step {
                    step: label.to_owned(),
                    seconds,
                });
                Ok(value)
            }
            Err(error) => {
                busy.failed();
                Err(error.context(format!("in the step `{label}`")))
            }
        }
    }
}

/// The server as a process of its own; it ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        process::end(&mut self.child);
    }
}

/// Plays the story.
///
/// # Errors
/// When a step fails, or something is left behind at the end.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.built {
        build()?;
    }
    let programs = places::target()?.join("debug");
    let folder = tempfile::Builder::new()
        .prefix("vnfm-demo.")
        .tempdir()
        .context("cannot make a temporary folder")?;
    let mut stage = Stage::default();
    let world = World::start(arguments.real, &programs, folder.path())?;
    let began = Instant::now();
    story::allow_plugin(&mut stage, &programs, &folder.path().join("data/plugins"))?;
    let server = stage.step("the server starts", |_| serve(&programs, folder.path()))?;
    let ctl = Ctl::new(programs.join("vnfmctl"), &server.url);
    let outcome = story::tell(
        &mut stage,
        &ctl,
        &world,
        &story::Cast::new(arguments.package, folder.path()),
    );
    let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    let told = |ok, left_behind| Told {
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
            &told(outcome.is_ok(), left_behind),
        )?;
        return keep(outcome, server, world, folder);
    }
    if let Err(error) = &outcome {
        tell_of_failure(error, folder.path());
        interrupt::forgive();
        rescue::everything(&ctl, &world);
    }
    let left_behind = world.left_behind()?;
    let ok = outcome.is_ok() && left_behind.is_empty();
    let told = told(ok, left_behind);
    write(arguments.json.as_deref(), &told)?;
    ensure!(outcome.is_ok(), "the story broke off; the reason is above");
    ensure!(
        told.left_behind.is_empty(),
        "left behind: {}",
        told.left_behind.join(", ")
    );
    println!(
        "the story in the {} world: {seconds} s, nothing is left behind",
        told.world
    );
    Ok(())
}

fn build() -> Result<()> {
    let mut build = places::cargo();
    build.args(["build", "--quiet"]);
    for package in ["vnfm-server", "vnfm-cli", "vnfm-sim", "kubernetes-cluster"] {
        build.args(["--package", package]);
    }
    ensure!(
        process::foreground(&mut build)?,
        "the programs do not build; cargo's words are above"
    );
    Ok(())
}

/// Starts the server on a free port and reads where it listens.
fn serve(programs: &Path, folder: &Path) -> Result<Server> {
    let log = folder.join("server.log");
    let words =
        std::fs::File::create(&log).with_context(|| format!("cannot write `{}`", log.display()))?;
    let data = folder.join("data");
    let mut command = Command::new(programs.join("vnfm-server"));
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(&data);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(words);
    apart(&mut command);
    let mut child = command.spawn().context("cannot start `vnfm-server`")?;
    let line = first_line(&mut child)?;
    let Some(url) = line
        .split_whitespace()
        .find(|word| word.starts_with("http"))
    else {
        process::end(&mut child);
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        bail!(
            "`vnfm-server` did not say where it listens, but `{line}`:\n{}",
            said.trim()
        );
    };
    Ok(Server {
        url: url.to_owned(),
        child,
    })
}

/// Keeps a Ctrl-C of the terminal away from a program that the clean-up needs.
fn apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

fn first_line(child: &mut Child) -> Result<String> {
    let mut line = String::new();
    let out = child.stdout.take().context("the program has no output")?;
    BufReader::new(out)
        .read_line(&mut line)
        .context("cannot read the program's first line")?;
    Ok(line.trim().to_owned())
}

fn tell_of_failure(error: &anyhow::Error, folder: &Path) {
    terminal::note(&format!("\nthe story broke off: {error:#}\ncleaning up …"));
    let log = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    for line in &lines[lines.len().saturating_sub(8)..] {
        terminal::note(&format!("  server: {line}"));
    }
}

fn write(file: Option<&Path>, told: &Told) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(told)?;
    std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}

/// Lets everything run on and says where it is.
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
    let (told, processes) = world.keep();
    println!("      {told}");
    println!("      end it: kill {id}{processes}; rm -r {data}");
    std::mem::forget(server); // its process goes on
    outcome
}
