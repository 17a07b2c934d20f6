//! The fault machine: operations against the simulated world, with something going wrong at every call.
//!
//! ```text
//! this process                                                 vnfm-sim, a process of its own
//!   clock ── jumps when nobody does anything                     books, script of faults
//!   probe ── counts calls, strikes one ───── store, SSH, hooks        ▲
//!     │                                                               │ HTTP, TLS, SSH
//!   process ── engine + real drivers + plugin kubernetes-cluster ─────┘
//!   case ── begin, fault, anew, way on, end ── check ── I1 to I8 by the books
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
mod exhaustive;
mod idle;
mod plan;
mod ports;
mod probe;
mod process;
mod random;
mod report;
mod site;
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
#[command(about = "Operations with something going wrong at every call")]
struct Arguments {
    /// What decides where something is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this operation, such as INSTANTIATE
    #[arg(long)]
    operation: Option<String>,
    /// Only cases whose fault, as a report spells it, holds this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Every death by SIGKILL, and not a tenth of them
    #[arg(long)]
    all: bool,
    /// This program of an earlier version begins each operation and is killed; this one goes on
    #[arg(long, value_name = "PROGRAM")]
    from: Option<PathBuf>,
    /// Of so many cases run one
    #[arg(long, default_value_t = 1)]
    share: usize,
    /// How long faults in pairs and at random go on afterwards
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Only those
    #[arg(long)]
    skip_single: bool,
    /// Of those only this piece, as a report numbers it
    #[arg(long, value_name = "N")]
    piece: Option<usize>,
    /// Write what a chosen piece has called here, in order
    #[arg(long, value_name = "FILE", requires = "piece")]
    journal: Option<PathBuf>,
    /// How many worlds work side by side
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Write `{"cases","seconds","failed"}` here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only what is done beside operations, and files that go
    #[arg(long)]
    beside: bool,
    /// Drive one operation as standard input says, to be killed
    #[arg(long, hide = true)]
    drive: bool,
    /// Do what is done beside operations as standard input says, to be killed
    #[arg(long, hide = true)]
    act: bool,
}

fn main() -> ExitCode {
    machine::ended(run())
}

fn run() -> Result<bool> {
    let arguments = Arguments::parse();
    // There is one already where a library was first.
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
    let report = if arguments.beside {
        admin_faults::run(&choice)?
    } else {
        single(&arguments, &choice)?
    };
    eprint!("{}", report.kinds.lines());
    println!(
        "{} cases in {:.0} s, {} failed (seed {}; {} calls did not come again)",
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

/// Every single fault, what is done beside operations, then pairs and crowds: as far as they are wanted.
fn single(arguments: &Arguments, choice: &exhaustive::Choice) -> Result<Report> {
    let began = Instant::now();
    let (site, learnt) = exhaustive::learn().context("cannot learn what the operations do")?;
    eprintln!(
        "learnt in {:.1} s; seed {}",
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
        .with_context(|| format!("there is no operation `{name}`"))
}
