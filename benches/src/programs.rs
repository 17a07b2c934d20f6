//! The released programs: size, startup time of the server, and its memory when idle.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::figure::{Figure, median};
use crate::world::Running;

const MIB: f64 = 1024.0 * 1024.0;
/// Number of measured starts of the server.
const STARTS: usize = 5;

/// Runs the benchmarks with the programs in this folder.
///
/// # Errors
/// If one is missing or the server does not start.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for name in [
        "vnfm-server",
        "vnfmctl",
        "vnfm-sim",
        "libkubernetes_cluster.so",
    ] {
        let file = programs.join(name);
        let size = file
            .metadata()
            .with_context(|| format!("cannot read the size of `{}`", file.display()))?
            .len();
        figures.push(Figure::untargeted(
            format!("size of {name}, stripped"),
            as_float(size) / MIB,
            "MiB",
        ));
    }
    let (mut starts, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let (milliseconds, mib) = start(programs)?;
        starts.push(milliseconds);
        memory.push(mib);
    }
    figures.push(Figure::at_most(
        100.0,
        "server: start to listening, empty",
        median(starts)?,
        "ms",
    ));
    figures.push(Figure::at_most(
        25.0,
        "server: resident memory when idle",
        median(memory)?,
        "MiB",
    ));
    Ok(figures)
}

/// Starts the server with an empty folder; returns the milliseconds until it listens, and its memory then.
fn start(programs: &Path) -> Result<(f64, f64)> {
    let data = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut command = Command::new(programs.join("vnfm-server"));
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(data.path());
    let began = Instant::now();
    let (server, line) = Running::start(&mut command)?;
    let milliseconds = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(
        line.starts_with("listening on "),
        "the server did not print its address, but `{line}`"
    );
    Ok((milliseconds, server.resident()?))
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn as_float(number: u64) -> f64 {
    number as f64
}
