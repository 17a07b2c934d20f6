//! Builds the published crates as an embedder does, by cargo-hack: with chosen features, and without the rest of the
//! workspace, which would enable features of shared dependencies.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::workspace::published;
use crate::tools::Tool;
use crate::{interrupt, paths, process};

const HACK: Tool = Tool {
    name: "cargo-hack",
    version: "0.6.46",
    install: &[],
};

/// Checks each crate alone, then `vnfm` with every set of up to `depth` features, and with all.
///
/// # Errors
/// If one does not build.
pub(super) fn check(depth: usize) -> Result<()> {
    let began = Instant::now();
    let names = published()?;
    hack(&names, &[])?;
    let depth = depth.to_string();
    hack(
        &["vnfm".to_owned()],
        &["--lib", "--feature-powerset", "--depth", &depth],
    )?;
    let seconds = began.elapsed().as_secs();
    println!(
        "{} crates build alone, vnfm with each set of up to {depth} features and with all, in {seconds} s",
        names.len()
    );
    Ok(())
}

/// Checks each published crate with its `rust-version`.
///
/// # Errors
/// If rustup has no such Rust and cannot install it, or a crate does not build with it.
pub(super) fn msrv() -> Result<()> {
    let names = published()?;
    hack(&names, &["--rust-version", "--all-features"])?;
    println!("{} crates build with their `rust-version`", names.len());
    Ok(())
}

/// `cargo hack check` for these crates, one at a time.
fn hack(crates: &[String], arguments: &[&str]) -> Result<()> {
    interrupt::check()?;
    let mut command = std::process::Command::new(HACK.provide()?);
    command.args(["hack", "check", "--quiet"]).args(arguments);
    command.args(crates.iter().flat_map(|name| ["--package", name]));
    command.current_dir(paths::root());
    ensure!(
        process::foreground(&mut command)?,
        "a crate does not build in this way; cargo's output is above"
    );
    Ok(())
}
