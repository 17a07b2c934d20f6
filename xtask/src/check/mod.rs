//! `cargo xtask check`: what a change must pass before somebody looks at it.
//!
//! Every check runs, even after one has failed; the list at the end says which did not hold.

mod licences;
mod sizes;

use std::process::Command;

use anyhow::{Result, ensure};

use crate::{places, process, terminal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the checks with these names (see the list that a run prints).
    only: Vec<String>,
}

type Check = (&'static str, fn() -> Result<()>);

const CHECKS: &[Check] = &[
    ("sizes", sizes::check),
    ("scripts", scripts),
    ("fmt", fmt),
    ("clippy", clippy),
    ("rustdoc", rustdoc),
    ("layering", layering),
    ("generated", generated),
    ("licences", licences::check),
];

/// Runs the checks.
///
/// # Errors
/// When one does not hold, or a name is unknown.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
    for name in &arguments.only {
        ensure!(
            names.contains(&name.as_str()),
            "no check `{name}`; there are: {}",
            names.join(", ")
        );
    }
    let mut broken = Vec::new();
    for (name, check) in CHECKS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == name) {
            continue;
        }
        terminal::note(&format!("── {name} ──"));
        if let Err(error) = check() {
            terminal::note(&format!("{name}: {error:#}"));
            broken.push(*name);
        }
        crate::interrupt::check()?;
    }
    ensure!(
        broken.is_empty(),
        "these checks do not hold: {}",
        broken.join(", ")
    );
    println!("every check holds");
    Ok(())
}

fn cargo(words: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let mut command = places::cargo();
    command.args(words).envs(environment.iter().copied());
    ensure!(
        process::foreground(&mut command)?,
        "`cargo {}` does not pass",
        words.join(" ")
    );
    Ok(())
}

fn fmt() -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn clippy() -> Result<()> {
    cargo(
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )
}

fn rustdoc() -> Result<()> {
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    cargo(
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        &strict,
    )
}

fn layering() -> Result<()> {
    cargo(
        &[
            "test",
            "--package",
            "vnfm-tests",
            "--test",
            "it",
            "--",
            "layering::",
            "docs::",
        ],
        &[],
    )
}

/// Files that are generated and checked in are compared by tests whose names end so.
fn generated() -> Result<()> {
    cargo(&["test", "--workspace", "--", "is_current"], &[])
}

fn scripts() -> Result<()> {
    let script = places::root().join("tests/stack");
    let files =
        process::ask("find", &[&script.to_string_lossy(), "-name", "*.sh"]).unwrap_or_default();
    let ci = places::root().join(".ci/run");
    let files: Vec<_> = files
        .lines()
        .map(std::path::PathBuf::from)
        .chain([ci])
        .collect();
    for file in &files {
        ensure!(
            process::foreground(Command::new("bash").arg("-n").arg(file))?,
            "`{}` is no valid bash",
            file.display()
        );
    }
    println!("{} scripts are valid bash", files.len());
    Ok(())
}
