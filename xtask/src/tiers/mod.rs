//! `cargo xtask test`: every tier of tests, with what it needs.
//!
//! ```text
//! simulated   the whole workspace: unit tests, contracts, the story in the simulated world; needs Rust alone
//! real        test programs called `live`: real OpenStack, real hosts, real
//!             Kubernetes; what they need is installed and started first, and stopped again if it did not run
//! ```
//! A test that cannot run prints a line `skipped: why`; it is counted as skipped. A tier that cannot
//! run says why. With `VNFM_REQUIRE_LIVE=1` either is a failure.

mod junit;
mod plain;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use crate::{places, process, stack, terminal};

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
}

#[derive(Serialize)]
struct Report {
    tier: Tier,
    ran: bool,
    seconds: f64,
    #[serde(flatten)]
    count: Count,
}

/// Runs the tiers and says how they went.
///
/// # Errors
/// When a test failed, a build failed, or a tier could not run that had to.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tiers = arguments.tier.map_or_else(|| vec![Tier::Simulated, Tier::Real], |tier| vec![tier]);
    let mut build = places::cargo();
    build.args(["build", "--workspace"]); // programs and plugins that tests start
    if !process::foreground(&mut build)? {
        bail!("the workspace does not build; cargo's words are above");
    }
    let mut reports = Vec::new();
    for tier in tiers {
        reports.push(run_tier(tier, arguments.keep)?);
    }
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
        let Count { passed, failed, skipped, why, failures } = &self.count;
        write!(f, "{:<10} {passed} passed, {failed} failed, {skipped} skipped", self.tier.name())?;
        write!(f, " in {:.0} s", self.seconds)?;
        failures.iter().try_for_each(|name| write!(f, "\n  failed: {name}"))?;
        why.iter().try_for_each(|reason| write!(f, "\n  skipped: {reason}"))
    }
}

fn verdict(reports: &[Report]) -> Result<()> {
    let failed: usize = reports.iter().map(|report| report.count.failed).sum();
    let silent: Vec<_> =
        reports.iter().filter(|report| !report.ran).map(|report| report.tier.name()).collect();
    if failed > 0 {
        bail!("{failed} tests failed; their names are above");
    }
    if must_run() && !silent.is_empty() {
        bail!("tier {} could not run, and VNFM_REQUIRE_LIVE=1 demands it", silent.join(", "));
    }
    Ok(())
}

/// Whether a tier that cannot run is a failure.
fn must_run() -> bool {
    std::env::var("VNFM_REQUIRE_LIVE").is_ok_and(|value| value == "1")
}

fn run_tier(tier: Tier, keep: bool) -> Result<Report> {
    let began = Instant::now();
    terminal::note(&format!("── tier {} ──", tier.name()));
    let parts = stack::ALL.into();
    let mut to_stop = None;
    if tier == Tier::Real {
        let obstacles = stack::obstacles(&parts);
        if !obstacles.is_empty() {
            let count = Count { skipped: live_tests()?, why: obstacles, ..Count::default() };
            return Ok(Report { tier, ran: false, seconds: began.elapsed().as_secs_f64(), count });
        }
        let ran_before =
            stack::look(&parts).into_iter().filter(|part| part.is_up).map(|part| part.part);
        let ran_before: std::collections::BTreeSet<_> = ran_before.collect();
        stack::up(&parts)?;
        to_stop = Some(&parts - &ran_before).filter(|parts| !keep && !parts.is_empty());
    }
    let count = run_tests(tier);
    if let Some(parts) = to_stop {
        stack::down(&parts)?;
    }
    Ok(Report { tier, ran: true, seconds: began.elapsed().as_secs_f64(), count: count? })
}

fn run_tests(tier: Tier) -> Result<Count> {
    if has_nextest() {
        return with_nextest(tier);
    }
    terminal::note(
        "cargo-nextest is absent (`cargo install cargo-nextest --locked`): `cargo test` it is, which is slower",
    );
    plain::run(tier)
}

fn has_nextest() -> bool {
    process::ask("cargo", &["nextest", "--version"]).is_some()
}

/// The command over the workspace, with the environment that the tier's tests read.
pub(crate) fn cargo_for(tier: Tier, words: &[&str]) -> std::process::Command {
    let mut command = places::cargo();
    command.args(words).arg("--workspace");
    if tier == Tier::Real {
        command.envs(stack::environment());
    }
    command
}

fn with_nextest(tier: Tier) -> Result<Count> {
    // where .config/nextest.toml has it, whatever folder cargo builds into
    let report = places::root().join("target/nextest/ci/junit.xml");
    remove(&report)?;
    let mut command = cargo_for(tier, &["nextest", "run", "--profile", "ci", "--no-tests", "pass"]);
    command.args(["--filterset", tier.filter()]);
    let held = process::foreground(&mut command)?;
    if !report.exists() && held {
        return Ok(Count::default()); // nothing was selected
    }
    let text = std::fs::read_to_string(&report).with_context(|| {
        format!("nextest wrote no report `{}`; its words are above", report.display())
    })?;
    let count = junit::count(&text)?;
    if !held && count.failed == 0 {
        bail!("nextest failed, though no test did; its words are above");
    }
    Ok(count)
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
    let mut list = cargo_for(Tier::Simulated, &["test", "--quiet"]);
    list.args(["--test", "live", "--", "--list"]);
    let output = list.output().context("cannot list the tests")?;
    Ok(plain::listed(&String::from_utf8_lossy(&output.stdout)))
}
