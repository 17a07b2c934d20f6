//! `cargo xtask test`: every tier of tests, with what it needs.
//!
//! ```text
//! simulated   the whole workspace: unit tests, contracts, the story in the simulated world; needs Rust alone
//! real        test programs called `live`: real OpenStack, real hosts, real
//!             Kubernetes; what they need is installed and started first, and stopped again if it did not run
//! ```
//! They run side by side: the real tests wait more than they work.
//! A test that cannot run prints a line `skipped: why`; it is counted as skipped. A tier that cannot
//! run says why. With `VNFM_REQUIRE_LIVE=1` either is a failure. A test that fails is tried once more: one
//! that holds then has passed, and is named as `unsteady`.

mod junit;
mod plain;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use crate::stack::{self, Part};
use crate::{interrupt, places, process, terminal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this tier; without it: all.
    #[arg(long)]
    tier: Option<Tier>,
    /// Write what passed, failed and was skipped, by tier, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave the real neighbours running that this run has started.
    #[arg(long)]
    keep: bool,
    /// Run the simulated tier by `cargo test`, as a machine without cargo-nextest does.
    #[arg(long)]
    without_nextest: bool,
}

/// What holds for all tiers of a run.
#[derive(Clone, Copy)]
struct Ways {
    keep: bool,
    without_nextest: bool,
}

/// A set of tests with the same needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tier {
    /// Needs Rust alone.
    Simulated,
    /// Needs root, cgroup v1, Debian 12, and Go or the Kubernetes binaries.
    Real,
}

impl Tier {
    /// Its tests, as nextest selects them.
    fn filter(self) -> &'static str {
        match self {
            Self::Simulated => "not binary(live)",
            Self::Real => "binary(live)",
        }
    }

    /// Whose test program this is, as the report names it.
    fn of(program: &str) -> Self {
        if program.ends_with("::live") {
            Self::Real
        } else {
            Self::Simulated
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Real => "real",
        }
    }
}

/// What became of a tier's tests.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    /// Ran and held.
    pub(crate) passed: usize,
    /// Ran and did not hold.
    pub(crate) failed: usize,
    /// Did not run, or said that they could not.
    pub(crate) skipped: usize,
    /// Why they were skipped, with the test's name.
    pub(crate) why: Vec<String>,
    /// The names of those that failed.
    pub(crate) failures: Vec<String>,
    /// The names of those that held at their second try only.
    pub(crate) unsteady: Vec<String>,
}

#[derive(Serialize)]
struct Report {
    tier: Tier,
    ran: bool,
    /// Of the run that it was part of; tiers run side by side.
    seconds: f64,
    #[serde(flatten)]
    count: Count,
}

/// Runs the tiers and says how they went.
///
/// # Errors
/// When a test failed, a build failed, or a tier could not run that had to.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tiers = arguments
        .tier
        .map_or_else(|| vec![Tier::Simulated, Tier::Real], |tier| vec![tier]);
    let mut build = places::cargo();
    build.args(["build", "--workspace", "--all-targets"]); // tests, and programs and plugins that they start
    if !process::foreground(&mut build)? {
        bail!("the workspace does not build; cargo's words are above");
    }
    let ways = Ways {
        keep: arguments.keep,
        without_nextest: arguments.without_nextest,
    };
    let reports = run_all(&tiers, ways)?;
    for report in &reports {
        println!("{report}");
    }
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "tiers": reports }))?;
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    verdict(&reports)
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Count {
            passed,
            failed,
            skipped,
            why,
            failures,
            unsteady,
        } = &self.count;
        write!(
            f,
            "{:<10} {passed} passed, {failed} failed, {skipped} skipped",
            self.tier.name()
        )?;
        write!(f, " in {:.0} s", self.seconds)?;
        failures
            .iter()
            .try_for_each(|name| write!(f, "\n  failed: {name}"))?;
        unsteady
            .iter()
            .try_for_each(|name| write!(f, "\n  unsteady: {name}: held at its second try only"))?;
        why.iter()
            .try_for_each(|reason| write!(f, "\n  skipped: {reason}"))
    }
}

fn verdict(reports: &[Report]) -> Result<()> {
    let failed: usize = reports.iter().map(|report| report.count.failed).sum();
    let silent: Vec<_> = reports
        .iter()
        .filter(|report| !report.ran)
        .map(|report| report.tier.name())
        .collect();
    if failed > 0 {
        bail!("{failed} tests failed; their names are above");
    }
    if must_run() && !silent.is_empty() {
        bail!(
            "tier {} could not run, and VNFM_REQUIRE_LIVE=1 demands it",
            silent.join(", ")
        );
    }
    Ok(())
}

/// Whether a tier that cannot run is a failure.
fn must_run() -> bool {
    std::env::var("VNFM_REQUIRE_LIVE").is_ok_and(|value| value == "1")
}

/// Runs these tiers' tests side by side, with the neighbours that they need.
fn run_all(tiers: &[Tier], ways: Ways) -> Result<Vec<Report>> {
    let names: Vec<_> = tiers.iter().map(|tier| tier.name()).collect();
    let began = Instant::now();
    let parts = stack::ALL.into();
    let needs_neighbours = tiers.contains(&Tier::Real);
    let obstacles = if needs_neighbours {
        stack::obstacles(&parts)
    } else {
        Vec::new()
    };
    if !obstacles.is_empty() {
        let others: Vec<_> = tiers
            .iter()
            .copied()
            .filter(|tier| *tier != Tier::Real)
            .collect();
        let mut reports = if others.is_empty() {
            Vec::new()
        } else {
            run_all(&others, ways)?
        };
        let count = Count {
            skipped: live_tests()?,
            why: obstacles,
            ..Count::default()
        };
        reports.push(Report {
            tier: Tier::Real,
            ran: false,
            seconds: 0.0,
            count,
        });
        return Ok(reports);
    }
    terminal::note(&format!("── tier {} ──", names.join(" and ")));
    let counts = if needs_neighbours {
        beside_neighbours(tiers, &parts, ways)
    } else {
        run_tests(tiers, ways)
    };
    let seconds = began.elapsed().as_secs_f64();
    let report = |(tier, count): (&Tier, _)| Report {
        tier: *tier,
        ran: true,
        seconds,
        count,
    };
    Ok(tiers.iter().zip(counts?).map(report).collect())
}

/// Starts what of the neighbours does not run, and stops that again, unless it is to be kept.
fn beside_neighbours(tiers: &[Tier], parts: &BTreeSet<Part>, ways: Ways) -> Result<Vec<Count>> {
    let running = stack::look(parts).into_iter().filter(|part| part.is_up);
    let running: BTreeSet<_> = running.map(|part| part.part).collect();
    let to_stop = if ways.keep {
        BTreeSet::new()
    } else {
        parts - &running
    };
    let counts = stack::up(parts).and_then(|()| run_tests(tiers, ways));
    if !to_stop.is_empty() {
        interrupt::forgive();
        let stopped = stack::down(&to_stop);
        return counts.and_then(|counts| stopped.map(|()| counts));
    }
    counts
}

/// Runs the tests of these tiers; a count for each.
fn run_tests(tiers: &[Tier], ways: Ways) -> Result<Vec<Count>> {
    if !has_nextest() {
        terminal::note(
            "cargo-nextest is absent (`cargo install cargo-nextest --locked`): `cargo test` it is, which is slower",
        );
        return tiers.iter().map(|tier| plain::run(*tier)).collect();
    }
    if !ways.without_nextest {
        return with_nextest(tiers);
    }
    // Side by side, as nextest runs them: the real tests wait more than they work.
    std::thread::scope(|scope| {
        let run = |tier: Tier| match tier {
            Tier::Simulated => plain::run(tier),
            Tier::Real => with_nextest(&[tier])?.pop().context("nextest has no count"),
        };
        let running: Vec<_> = tiers
            .iter()
            .map(|tier| scope.spawn(move || run(*tier)))
            .collect();
        let mut counts = Vec::new();
        for one in running {
            counts.push(
                one.join()
                    .map_err(|_| anyhow::anyhow!("a tier's thread panicked"))??,
            );
        }
        Ok(counts)
    })
}

fn has_nextest() -> bool {
    process::ask("cargo", &["nextest", "--version"]).is_some()
}

/// The command over the workspace, with the environment that these tiers' tests read.
pub(crate) fn cargo_for(tiers: &[Tier], words: &[&str]) -> std::process::Command {
    let mut command = places::cargo();
    command.args(words).arg("--workspace");
    if tiers.contains(&Tier::Real) {
        command.envs(stack::environment());
    }
    command
}

fn with_nextest(tiers: &[Tier]) -> Result<Vec<Count>> {
    // where .config/nextest.toml has it, whatever folder cargo builds into
    let report = places::root().join("target/nextest/ci/junit.xml");
    remove(&report)?;
    let mut command = cargo_for(tiers, &["nextest", "run", "--profile", "ci"]);
    for tier in tiers {
        command.args(["--filterset", tier.filter()]);
    }
    let held = process::foreground(&mut command)?;
    let text = std::fs::read_to_string(&report).with_context(|| {
        format!(
            "nextest wrote no report `{}`; its words are above",
            report.display()
        )
    })?;
    let count = |tier: &Tier| junit::count(&text, |program| Tier::of(program) == *tier);
    let counts: Vec<_> = tiers.iter().map(count).collect::<Result<_>>()?;
    if !held && counts.iter().all(|count| count.failed == 0) {
        bail!("nextest failed, though no test did; its words are above");
    }
    Ok(counts)
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", file.display()))
        }
        _ => Ok(()),
    }
}

/// How many tests the real tier has.
fn live_tests() -> Result<usize> {
    let mut list = cargo_for(&[], &["test", "--quiet"]);
    list.args(["--test", "live", "--", "--list"]);
    let output = list.output().context("cannot list the tests")?;
    Ok(plain::listed(&String::from_utf8_lossy(&output.stdout)))
}
