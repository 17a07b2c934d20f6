//! `cargo xtask`: the project's own commands, each one file or folder.
//!
//! ```text
//! demo     the demo scenario with the built programs, simulated or on real systems    demo/
//! test     all tiers of tests, with their prerequisites installed and started         tiers/
//! stack    the real systems: OpenStack, hosts, a Kubernetes control plane             stack/
//! check    checks that a change must pass before review                               check/
//! faults   fault injection at every call of every operation                           faults.rs
//! hostile  the built programs among malicious peers                                  hostile.rs
//! judge    third-party tests of the HTTP interface                                    judge.rs
//! bench    measurements as a table                                                    bench.rs, idle_time.rs
//! book     the documentation as a book with search                                    book.rs
//! crates   checks for users of our crates                                             crates/
//! deb      the Debian package                                                         deb.rs
//! samples  the sample packages as .csar files                                         samples.rs
//! ```
//! Data goes to standard output, progress to standard error.

mod bench;
mod book;
mod check;
mod crates;
mod deb;
mod demo;
mod faults;
mod hostile;
mod idle_time;
mod interrupt;
mod judge;
mod paths;
mod process;
mod samples;
mod sbom;
mod stack;
mod terminal;
mod tiers;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "The project's own commands"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the demo: VNF-A builds a Kubernetes cluster, VNF-B runs on it; or every operation, there and back.
    Demo(demo::Arguments),
    /// Install and start what the tests need, run all tiers, and report what passed, failed and was skipped.
    Test(tiers::Arguments),
    /// Start, stop or inspect the real systems (OpenStack, hosts, Kubernetes).
    Stack(stack::Arguments),
    /// Run all checks for a change: format, lints, documents, layers, sizes, licences.
    Check(check::Arguments),
    /// Run the benchmarks and print a table.
    Bench(bench::Arguments),
    /// Build the documentation as a book with search.
    Book(book::Arguments),
    /// Check our crates for their users: feature sets, packaging, minimum Rust version, dependencies.
    Crates(crates::Arguments),
    /// Inject a fault at every call of every operation, and check the outcome.
    Faults(faults::Arguments),
    /// Test the server against malicious peers, packages, values and clients.
    Hostile(hostile::Arguments),
    /// Test the HTTP interface with schemathesis and Tacker's client.
    Judge(judge::Arguments),
    /// Build the Debian package of server and client.
    Deb(deb::Arguments),
    /// Pack the sample packages into .csar files.
    Samples(samples::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = interrupt::listen().and_then(|()| match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Test(arguments) => tiers::run(&arguments),
        Command::Stack(arguments) => stack::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Book(arguments) => book::run(&arguments),
        Command::Crates(arguments) => crates::run(&arguments),
        Command::Faults(arguments) => faults::run(&arguments),
        Command::Hostile(arguments) => hostile::run(&arguments),
        Command::Judge(arguments) => judge::run(&arguments),
        Command::Deb(arguments) => deb::run(&arguments),
        Command::Samples(arguments) => samples::run(&arguments),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
