//! The fault machine: runs operations against the simulated world and injects a fault at every call.
//!
//! ```text
//! this process                                                 vnfm-sim, a process of its own
//!   clock ── jumps when everything is idle                       call log, fault script
//!   probe ── counts calls, strikes one ───── store, SSH, hooks        ▲
//!     │                                                               │ HTTP, TLS, SSH
//!   process ── engine + real drivers + plugin kubernetes-cluster ─────┘
//!   case ── begin, fault, restart, recover ── check ── I1 to I8 by the call log
//!   exhaustive ── every call × every fault       random ── pairs, and many instances at once
//! ```
//! `cargo xtask faults` runs it; `docs/how-to/faults.md` says how to read and replay it.

mod admin_faults;
mod admin_tasks;
mod call_queue;
mod case;
mod check;
mod child;
mod clock;
mod crowd;
mod exhaustive;
mod idle;
mod plan;
mod ports;
mod probe;
mod process;
mod random;
mod report;
mod resources;
mod site;
mod stable_names;
mod vnf;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use report::Report;
use vnfm_tests::machine;
use vnfm_types::LcmOperationType;

#[derive(Parser)]
#[command(about = "Run operations with a fault injected at every call")]
struct Arguments {
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this operation, such as INSTANTIATE
    #[arg(long)]
    operation: Option<String>,
    /// Only cases whose fault, as reported, contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Kill every process with SIGKILL, not only a tenth of them
    #[arg(long)]
    all: bool,
    /// Begin each operation with this program of an earlier version and resume with the current one
    #[arg(long, value_name = "PROGRAM")]
    from: Option<PathBuf>,
    /// Run one of this many cases
    #[arg(long, default_value_t = 1)]
    share: usize,
    /// Seconds of paired and random faults afterwards
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Skip the cases with a single fault
    #[arg(long)]
    skip_single: bool,
    /// Only this piece of the paired and random faults, as numbered in a report
    #[arg(long, value_name = "N")]
    piece: Option<usize>,
    /// Write the calls of the chosen piece to this file, in order
    #[arg(long, value_name = "FILE", requires = "piece")]
    journal: Option<PathBuf>,
    /// Number of simulated worlds that run in parallel
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Write the report to this file: `{"cases","seconds","failed"}`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only administrative tasks and missing files
    #[arg(long)]
    administrative: bool,
    /// Run the operation given on standard input, until killed
    #[arg(long, hide = true)]
    drive: bool,
    /// Run the administrative task given on standard input, until killed
    #[arg(long, hide = true)]
    act: bool,
}

fn main() -> ExitCode {
    machine::ended(run())
}

fn run() -> Result<bool> {
    let arguments = Arguments::parse();
    // Fails if a library has installed one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    if arguments.act {
        return admin_faults::act().map(|()| true);
    }
    if arguments.drive {
        return child::drive().map(|()| true);
    }
    if let Some(program) = arguments.from.clone() {
        child::FIRST_PROGRAM.get_or_init(|| program);
    }
    let operation = arguments.operation.as_deref().map(operation).transpose()?;
    let choice = exhaustive::Choice {
        seed: arguments.seed,
        operation,
        only: arguments.only.clone(),
        all: arguments.all,
        upgrade: arguments.from.is_some(),
        share: arguments.share.max(1),
        workers: arguments.workers.max(1),
        piece: arguments.piece,
    };
    let report = if arguments.administrative {
        admin_faults::run(&choice)?
    } else {
        single(&arguments, &choice)?
    };
    eprint!("{}", report.kinds.lines());
    println!(
        "{} cases in {:.0} s, {} failed (seed {}; {} calls did not recur)",
        report.cases,
        report.seconds,
        report.failed.len(),
        report.seed,
        report.missed
    );
    machine::write(&report, arguments.json.as_deref())?;
    if let Some(file) = &arguments.journal {
        std::fs::write(file, report.journal.join("\n"))
            .with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    Ok(report.failed.is_empty())
}

/// Runs every single fault, then the administrative tasks, pairs and crowds, as far as requested.
fn single(arguments: &Arguments, choice: &exhaustive::Choice) -> Result<Report> {
    let began = Instant::now();
    let (site, learnt) =
        exhaustive::learn().context("cannot record the calls of the operations")?;
    eprintln!(
        "calls recorded in {:.1} s; seed {}",
        began.elapsed().as_secs_f64(),
        choice.seed
    );
    let mut report = Report::new(choice.seed);
    if arguments.skip_single || arguments.piece.is_some() {
        drop(site);
    } else {
        report.add(exhaustive::run(choice, site, &learnt));
        if choice.operation.is_none() && !choice.upgrade {
            report.add(admin_faults::run(choice)?);
        }
    }
    if arguments.seconds > 0 || arguments.piece.is_some() {
        let time = Duration::from_secs(arguments.seconds);
        report.add(random::run(choice, time, &learnt)?);
    }
    Ok(report)
}

fn operation(name: &str) -> Result<LcmOperationType> {
    serde_json::from_value(serde_json::json!(name.to_uppercase()))
        .with_context(|| format!("unknown operation `{name}`"))
}
