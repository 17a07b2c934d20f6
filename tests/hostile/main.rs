//! The hostile machine: attacks the built programs with hostile neighbours, packages, values and clients.
//!
//! ```text
//! this process                                    vnfm-server, a process        vnfm-sim, a process
//!   cases ── by seed, from the project's own        two tenants and an operator,   call log, and a script
//!     │      lists: calls, routes, requests,        a third one, the victim        of hostile responses
//!     │      samples                                     ▲        │                     ▲
//!   lanes ── one ground each ── HTTP ────────────────────┘        └── HTTP, TLS ────────┘
//!     │                                                           └── canary: nobody has business there
//!   check ── I1 to I10, memory
//! ```
//! `cargo xtask hostile` runs it; `docs/how-to/hostile.md` says how to read and replay it.

mod access;
mod canary;
mod cases;
mod catalogue;
mod check;
mod destinations;
mod disks;
mod flood_clients;
mod floods;
mod hooks;
mod http;
mod lifecycle;
mod memory;
mod neighbours;
mod network;
mod packages;
mod payloads;
mod processes;
mod quotas;
mod registries;
mod report;
mod testbed;
mod tokens;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use cases::Case;
use clap::Parser;
use processes::Limits;
use report::{Failure, Report};
use testbed::Testbed;
use vnfm_tests::machine;

#[derive(Parser)]
#[command(
    about = "Attack the built programs with hostile neighbours, packages, values and clients"
)]
struct Arguments {
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Size of the classes that are not limited by themselves
    #[arg(long, default_value_t = 2400, value_name = "N")]
    cases: usize,
    /// Run only this many cases, sampled from every class
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Only cases of this class, or whose description contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only this case, as numbered in a report
    #[arg(long, value_name = "N")]
    case: Option<usize>,
    /// Number of testbeds that run in parallel
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// The machine is shared with other work: do not judge latencies
    #[arg(long)]
    shared_machine: bool,
    /// List the cases without running them
    #[arg(long)]
    list: bool,
    /// Write the report to this file: `{"seed","cases","seconds","failed"}`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Serve as the idle server that floods are compared with
    #[arg(long, hide = true)]
    dummy: bool,
}

fn main() -> ExitCode {
    machine::ended(run())
}

fn run() -> Result<bool> {
    let arguments = Arguments::parse();
    if arguments.dummy {
        return floods::serve_idle().map(|()| true);
    }
    network::isolate();
    floods::SHARED.store(arguments.shared_machine, Ordering::Relaxed);
    let began = Instant::now();
    let learnt = learn()?;
    let mut cases = cases::all(arguments.seed, &learnt, arguments.cases)?;
    let total = cases.len();
    cases.truncate(arguments.sample.unwrap_or(usize::MAX));
    if let Some(text) = &arguments.only {
        cases.retain(|case| case.class == text || case.description.contains(text.as_str()));
    }
    if let Some(number) = arguments.case {
        cases.retain(|case| case.number == number);
    }
    eprintln!(
        "{} of {total} cases; seed {}; calls recorded in {:.1} s",
        cases.len(),
        arguments.seed,
        began.elapsed().as_secs_f64()
    );
    if arguments.list {
        for case in &cases {
            println!("{} {} {}", case.number, case.class, case.description);
        }
        return Ok(true);
    }
    let report = Mutex::new(Report {
        seed: arguments.seed,
        ..Report::default()
    });
    let (exclusive, shared): (Vec<_>, Vec<_>) =
        cases.into_iter().partition(|case| case.exclusive.is_some());
    run_shared(&arguments, shared, &report);
    run_exclusive(&arguments, exclusive, &report)?;
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = began.elapsed().as_secs_f64();
    eprint!("{}", report.classes.lines());
    println!(
        "{} cases in {:.0} s, {} failed (seed {}; memory grew by {} %)",
        report.cases,
        report.seconds,
        report.failed.len(),
        report.seed,
        report.growth_percent
    );
    machine::write(&report, arguments.json.as_deref())?;
    Ok(report.failed.is_empty())
}

/// Records the calls of every operation, first without and then with an NFVO.
fn learn() -> Result<neighbours::Learnt> {
    let mut testbed = Testbed::start(Limits::default())?;
    let mut learnt =
        neighbours::learn(&mut testbed).context("cannot record the calls of operations")?;
    drop(testbed);
    let mut testbed = Testbed::start(Limits {
        nfvo: true,
        ..Limits::default()
    })?;
    neighbours::learn_nfvo(&mut testbed, &mut learnt)
        .context("cannot record the calls to the NFVO")?;
    Ok(learnt)
}

/// Runs the cases that may share the machine. Cases with the same limits follow each other and share servers.
fn run_shared(arguments: &Arguments, mut cases: Vec<Case>, report: &Mutex<Report>) {
    cases.sort_by_key(|case| case.limits);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..arguments.workers.clamp(1, cases.len().max(1)) {
            scope.spawn(|| Worker::new(arguments.seed, report).run(&cases, &next));
        }
    });
}

/// Runs the cases that need the machine to themselves. Cases with the same limits follow each other and share a server.
fn run_exclusive(
    arguments: &Arguments,
    mut cases: Vec<Case>,
    report: &Mutex<Report>,
) -> Result<()> {
    if cases.is_empty() {
        return Ok(());
    }
    floods::move_to_other_core()?;
    cases.sort_by_key(|case| case.exclusive);
    for cases in cases.chunk_by(|one, other| one.exclusive == other.exclusive) {
        Worker::new(arguments.seed, report).run(cases, &AtomicUsize::new(0));
    }
    Ok(())
}

/// A ground, and the cases that are played on it one after the other.
struct Worker<'a> {
    seed: u64,
    report: &'a Mutex<Report>,
    testbed: Option<Testbed>,
}

/// Allowed growth of a server's memory over a run, in percent.
const GROWTH: u64 = 20;

impl<'a> Worker<'a> {
    fn new(seed: u64, report: &'a Mutex<Report>) -> Self {
        Self {
            seed,
            report,
            testbed: None,
        }
    }

    fn run(mut self, cases: &[Case], next: &AtomicUsize) {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            if let Some(testbed) = self
                .testbed
                .take_if(|testbed| testbed.limits != case.server_limits())
            {
                self.close(&testbed, cases);
            }
            let why = self.play(case).err().map(|error| format!("{error:#}"));
            let failure = why.map(|why| self.failure(case, why));
            let has_failed = failure.is_some();
            self.update_report(|report| report.add(case.class, began.elapsed(), failure));
            if has_failed {
                // The next case must not see its leftovers.
                self.testbed = None;
            } else if let Some(testbed) = &mut self.testbed {
                testbed.memory.case_ended(case.number);
            }
        }
        if let Some(testbed) = self.testbed.take() {
            self.close(&testbed, cases);
        }
    }

    fn play(&mut self, case: &Case) -> Result<()> {
        let mut testbed = match self.testbed.take() {
            Some(testbed) => testbed,
            None => Testbed::start(case.server_limits())?,
        };
        let played = (case.act)(&mut testbed, &mut case.rng(self.seed));
        let alive = testbed.check_alive();
        let held = alive.and(played).and_then(|()| check::all(&mut testbed));
        self.testbed = Some(testbed);
        held
    }

    /// Checks files and memory after the last case.
    fn close(&self, testbed: &Testbed, cases: &[Case]) {
        let mut found: Vec<_> = testbed.memory.leaks();
        if let Err(error) = check::files(testbed) {
            found.push((
                cases.last().map_or(0, |case| case.number),
                format!("{error:#}"),
            ));
        }
        if let Some((warm, percent)) = testbed.memory.growth() {
            self.update_report(|report| report.growth_percent = report.growth_percent.max(percent));
            if percent > GROWTH {
                let why = format!(
                    "memory: grown by {percent} % from {} MiB over the run",
                    warm >> 20
                );
                found.push((cases.last().map_or(0, |case| case.number), why));
            }
        }
        for (number, why) in found {
            if let Some(case) = cases.iter().find(|case| case.number == number) {
                let failure = self.failure(case, why);
                self.update_report(|report| report.fail(failure));
            }
        }
    }

    fn failure(&self, case: &Case, why: String) -> Failure {
        Failure {
            seed: self.seed,
            case: case.number,
            class: case.class.to_owned(),
            what: case.description.clone(),
            why,
        }
    }

    fn update_report(&self, write: impl FnOnce(&mut Report)) {
        write(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
