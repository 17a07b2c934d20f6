//! `cargo xtask check`: checks that a change must pass before review.
//!
//! All checks run even if one fails; a list of the failed ones is printed at the end.

mod licences;
mod sizes;

use std::process::Command;

use anyhow::{Result, ensure};

use crate::{paths, process, terminal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only the checks with these names: sizes, scripts, fmt, clippy, rustdoc, layering, generated, licences.
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

/// Runs the selected checks, and lists those that failed.
///
/// # Errors
/// If a check fails, or a name is unknown.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
    for name in &arguments.only {
        ensure!(
            names.contains(&name.as_str()),
            "unknown check `{name}`; known: {}",
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
    ensure!(broken.is_empty(), "failed checks: {}", broken.join(", "));
    println!("all checks passed");
    Ok(())
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let mut command = paths::cargo();
    command.args(arguments).envs(environment.iter().copied());
    ensure!(
        process::foreground(&mut command)?,
        "`cargo {}` failed",
        arguments.join(" ")
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

/// Tests whose names end in `is_current` compare the checked-in generated files with new ones.
fn generated() -> Result<()> {
    cargo(&["test", "--workspace", "--", "is_current"], &[])
}

fn scripts() -> Result<()> {
    let script = paths::root().join("tests/stack");
    let files =
        process::query("find", &[&script.to_string_lossy(), "-name", "*.sh"]).unwrap_or_default();
    let ci = paths::root().join(".ci/run");
    let files: Vec<_> = files
        .lines()
        .map(std::path::PathBuf::from)
        .chain([ci])
        .collect();
    for file in &files {
        ensure!(
            process::foreground(Command::new("bash").arg("-n").arg(file))?,
            "`{}` is not valid bash",
            file.display()
        );
    }
    println!("{} scripts are valid bash", files.len());
    Ok(())
}
