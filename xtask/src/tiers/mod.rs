//! `cargo xtask test`: all tiers of tests, with their prerequisites.
//!
//! ```text
//! simulated   the entire workspace: unit tests, contracts, the demo scenario in the simulated world; needs only Rust
//! real        test programs called `live`: real OpenStack, hosts and Kubernetes; these are installed and started
//!             first, and stopped afterwards if they did not run before
//! long        test programs called `long`: what takes longest on the same systems; runs only if it is named
//! ```
//! The first two run in parallel, because the real tests mostly wait. A test that cannot run prints `skipped: REASON` and is counted
//! as skipped. A tier that cannot run reports the reasons. With `VNFM_REQUIRE_LIVE=1` both are failures. A failed test is
//! repeated once; if it passes then, it counts as passed and is listed as `unsteady`.

mod junit;
mod plain;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use crate::stack::{self, Part};
use crate::{interrupt, paths, process, terminal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only this tier. Default: simulated and real.
    #[arg(long)]
    tier: Option<Tier>,
    /// Write the passed, failed and skipped tests of each tier to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the real systems running that this command starts.
    #[arg(long)]
    keep: bool,
    /// Run the simulated tier with `cargo test`, as without cargo-nextest.
    #[arg(long)]
    without_nextest: bool,
    /// Run only part M of N of the tests, such as `1/3`; all parts together are the tier. Needs cargo-nextest.
    #[arg(
        long,
        value_name = "M/N",
        requires = "tier",
        conflicts_with = "without_nextest"
    )]
    partition: Option<Partition>,
}

/// One of several parts of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partition {
    number: u32,
    of: u32,
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/');
        let numbers =
            numbers.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("M/N with M from 1 to N is needed, such as `1/3`".to_owned()),
        }
    }
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Options for all tiers of a run.
#[derive(Clone, Copy)]
struct Options {
    keep: bool,
    without_nextest: bool,
    partition: Option<Partition>,
}

/// A set of tests with the same needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tier {
    /// Tests that need nothing but Rust.
    Simulated,
    /// Needs root, cgroup v1, Debian 12, and Go or the Kubernetes binaries.
    Real,
    /// As `real`, for what takes longest.
    Long,
}

impl Tier {
    /// Whether it runs on the real systems.
    fn needs_stack(self) -> bool {
        self.program().is_some()
    }

    /// The name of its test programs, if all its tests are in programs of one name.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::Simulated => None,
            Self::Real => Some("live"),
            Self::Long => Some("long"),
        }
    }

    /// The filter that selects its tests in nextest.
    fn filter(self) -> &'static str {
        match self {
            Self::Simulated => "not binary(live) and not binary(long)",
            Self::Real => "binary(live)",
            Self::Long => "binary(long)",
        }
    }

    /// The tier of a test program.
    fn of_program(name: &str) -> Self {
        let mut real = [Self::Real, Self::Long].into_iter();
        real.find(|tier| tier.program() == Some(name))
            .unwrap_or(Self::Simulated)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Real => "real",
            Self::Long => "long",
        }
    }
}

/// Results of the tests of a tier.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    /// Number of tests that passed.
    pub(crate) passed: usize,
    /// Number of tests that failed.
    pub(crate) failed: usize,
    /// Number that did not run, or reported that they cannot.
    pub(crate) skipped: usize,
    /// Reasons for skipping, with the names of the tests.
    pub(crate) why: Vec<String>,
    /// Names of the failed tests.
    pub(crate) failures: Vec<String>,
    /// Names of the tests that passed only when repeated.
    pub(crate) unsteady: Vec<String>,
}

#[derive(Serialize)]
struct Report {
    tier: Tier,
    ran: bool,
    /// Duration of the entire run, since tiers run in parallel.
    seconds: f64,
    #[serde(flatten)]
    count: Count,
}

/// Runs the tiers and prints the results.
///
/// # Errors
/// If a test or the build fails, or a required tier cannot run.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tiers = arguments
        .tier
        .map_or_else(|| vec![Tier::Simulated, Tier::Real], |tier| vec![tier]);
    let mut build = paths::cargo();
    build.args(["build", "--workspace", "--all-targets"]); // also the programs and plugins that tests start
    if !process::foreground(&mut build)? {
        bail!("the workspace does not build; cargo's output is above");
    }
    let options = Options {
        keep: arguments.keep,
        without_nextest: arguments.without_nextest,
        partition: arguments.partition,
    };
    if options.partition.is_some() && !has_nextest() {
        bail!("`--partition` needs cargo-nextest: `cargo install cargo-nextest --locked`");
    }
    let reports = run_all(&tiers, options)?;
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
            .try_for_each(|name| write!(f, "\n  unsteady: {name}: passed only when repeated"))?;
        why.iter()
            .try_for_each(|reason| write!(f, "\n  skipped: {reason}"))
    }
}

fn verdict(reports: &[Report]) -> Result<()> {
    let failed: usize = reports.iter().map(|report| report.count.failed).sum();
    let not_run: Vec<_> = reports
        .iter()
        .filter(|report| !report.ran)
        .map(|report| report.tier.name())
        .collect();
    if failed > 0 {
        bail!("{failed} tests failed; their names are above");
    }
    if must_run() && !not_run.is_empty() {
        bail!(
            "tier {} could not run, but VNFM_REQUIRE_LIVE=1 requires it",
            not_run.join(", ")
        );
    }
    Ok(())
}

/// Whether a tier that cannot run is a failure.
fn must_run() -> bool {
    std::env::var("VNFM_REQUIRE_LIVE").is_ok_and(|value| value == "1")
}

/// Runs the tests of these tiers in parallel, with the real systems if needed.
fn run_all(tiers: &[Tier], options: Options) -> Result<Vec<Report>> {
    let names: Vec<_> = tiers.iter().map(|tier| tier.name()).collect();
    let began = Instant::now();
    let parts = stack::ALL.into();
    let needs_stack = tiers.iter().any(|tier| tier.needs_stack());
    let obstacles = if needs_stack {
        stack::obstacles(&parts)
    } else {
        Vec::new()
    };
    if !obstacles.is_empty() {
        let (impossible, others): (Vec<Tier>, Vec<_>) =
            tiers.iter().partition(|tier| tier.needs_stack());
        let mut reports = if others.is_empty() {
            Vec::new()
        } else {
            run_all(&others, options)?
        };
        for tier in impossible {
            let count = Count {
                skipped: number_of_tests(tier)?,
                why: obstacles.clone(),
                ..Count::default()
            };
            reports.push(Report {
                tier,
                ran: false,
                seconds: 0.0,
                count,
            });
        }
        return Ok(reports);
    }
    terminal::note(&format!("── tier {} ──", names.join(" and ")));
    let counts = if needs_stack {
        with_stack(tiers, &parts, options)
    } else {
        run_tests(tiers, options)
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

/// Starts the real systems that do not run, and stops these again, unless `keep` is set.
fn with_stack(tiers: &[Tier], parts: &BTreeSet<Part>, options: Options) -> Result<Vec<Count>> {
    let running = stack::observe(parts).into_iter().filter(|part| part.is_up);
    let running: BTreeSet<_> = running.map(|part| part.part).collect();
    let to_stop = if options.keep {
        BTreeSet::new()
    } else {
        parts - &running
    };
    let counts = stack::up(parts).and_then(|()| {
        if tiers.contains(&Tier::Long) {
            stack::provide_neighbours()?;
        }
        run_tests(tiers, options)
    });
    if !to_stop.is_empty() {
        interrupt::clear();
        let stopped = stack::down(&to_stop);
        return counts.and_then(|counts| stopped.map(|()| counts));
    }
    counts
}

/// Runs the tests of these tiers; returns the results of each.
fn run_tests(tiers: &[Tier], options: Options) -> Result<Vec<Count>> {
    if !has_nextest() {
        terminal::note(
            "cargo-nextest is not installed (`cargo install cargo-nextest --locked`); using the slower `cargo test`",
        );
        return tiers.iter().map(|tier| plain::run(*tier)).collect();
    }
    if !options.without_nextest {
        return with_nextest(tiers, options.partition);
    }
    // In parallel, as with nextest: the real tests mostly wait.
    std::thread::scope(|scope| {
        let run = |tier: Tier| match tier {
            Tier::Simulated => plain::run(tier),
            Tier::Real | Tier::Long => with_nextest(&[tier], None)?
                .pop()
                .context("nextest returned no results"),
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
    process::query("cargo", &["nextest", "--version"]).is_some()
}

/// A cargo command for the workspace, with the environment variables of these tiers.
pub(crate) fn cargo_for(tiers: &[Tier], arguments: &[&str]) -> std::process::Command {
    let mut command = paths::cargo();
    command.args(arguments).arg("--workspace");
    if tiers.iter().any(|tier| tier.needs_stack()) {
        command.envs(stack::environment());
    }
    command
}

fn with_nextest(tiers: &[Tier], partition: Option<Partition>) -> Result<Vec<Count>> {
    // the path in .config/nextest.toml, independent of the target folder
    let report = paths::root().join("target/nextest/ci/junit.xml");
    remove(&report)?;
    let mut command = cargo_for(tiers, &["nextest", "run", "--profile", "ci"]);
    for tier in tiers {
        command.args(["--filterset", tier.filter()]);
    }
    if let Some(partition) = partition {
        command.args(["--partition", &format!("count:{partition}")]);
    }
    let passed = process::foreground(&mut command)?;
    let text = std::fs::read_to_string(&report).with_context(|| {
        format!(
            "nextest wrote no report `{}`; its output is above",
            report.display()
        )
    })?;
    let count = |tier: &Tier| junit::count(&text, |suite| of_suite(suite) == *tier);
    let counts: Vec<_> = tiers.iter().map(count).collect::<Result<_>>()?;
    if !passed && counts.iter().all(|count| count.failed == 0) {
        bail!("nextest failed, but no test did; its output is above");
    }
    Ok(counts)
}

/// The tier of `package::program`, as the report names it.
fn of_suite(suite: &str) -> Tier {
    Tier::of_program(suite.rsplit("::").next().unwrap_or(suite))
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", file.display()))
        }
        _ => Ok(()),
    }
}

/// Number of tests in a tier on the real systems.
fn number_of_tests(tier: Tier) -> Result<usize> {
    let mut list = cargo_for(&[], &["test", "--quiet"]);
    list.args(["--test", tier.program().unwrap_or("*"), "--", "--list"]);
    let output = list.output().context("cannot list the tests")?;
    Ok(plain::listed(&String::from_utf8_lossy(&output.stdout)))
}

#[cfg(test)]
mod tests {
    use super::Partition;

    #[test]
    fn a_partition_is_one_of_its_number() {
        for text in ["1/1", "1/3", "3/3"] {
            let read: Partition = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        for text in ["0/3", "4/3", "1", "1/0", "a/b", "1/3/4", ""] {
            let error = text.parse::<Partition>().unwrap_err();
            assert!(error.contains("1/3"), "{text}: {error}");
        }
    }
}
