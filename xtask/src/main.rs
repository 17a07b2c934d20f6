//! `cargo xtask`: the project's own commands, each one file or folder.
//!
//! ```text
//! demo     the whole story with the built programs, simulated or on real neighbours   demo/
//! test     every tier of tests, with what it needs installed and started              tiers/
//! stack    the real neighbours: OpenStack, hosts, a Kubernetes control plane          stack/
//! check    what a change must pass before it is looked at                             check/
//! faults   operations with something going wrong at every call                        faults.rs
//! hostile  the built programs, with everybody around them lying                      hostile.rs
//! judge    judges that are not ours look at the HTTP interface                        judge.rs
//! bench    figures as a table                                                         bench.rs, outside.rs
//! crates   what those need who build on our crates                                    crates/
//! deb      the Debian package                                                         deb.rs
//! samples  the sample packages as .csar files                                         samples.rs
//! ```
//! Data goes to standard output, what is being done to standard error.

mod bench;
mod check;
mod crates;
mod deb;
mod demo;
mod faults;
mod hostile;
mod interrupt;
mod judge;
mod outside;
mod places;
mod process;
mod samples;
mod sbom;
mod stack;
mod terminal;
mod tiers;

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
    /// Play the whole story: VNF-A builds a Kubernetes cluster, VNF-B runs on it, both come down.
    Demo(demo::Arguments),
    /// Install and start what the tests need, run every tier, say what passed, failed and was skipped.
    Test(tiers::Arguments),
    /// Start, stop or look at the real neighbours.
    Stack(stack::Arguments),
    /// Everything that a change must pass: format, lints, documents, layers, sizes, licences.
    Check(check::Arguments),
    /// Measure, and print the figures as a table.
    Bench(bench::Arguments),
    /// What those need who build on our crates: feature sets, packing, the oldest Rust, weights.
    Crates(crates::Arguments),
    /// Let something go wrong at every call of every operation, and look whether all ends well.
    Faults(faults::Arguments),
    /// Let neighbours, packages, values and clients lie, and look whether the server bears it.
    Hostile(hostile::Arguments),
    /// Let schemathesis and Tacker's client judge the HTTP interface.
    Judge(judge::Arguments),
    /// Build the Debian package.
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
