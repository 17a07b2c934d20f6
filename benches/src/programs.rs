//! The programs as they are released: size, time until the server listens, its memory when idle.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::figure::{Figure, median};
use crate::world::Running;

const MIB: f64 = 1024.0 * 1024.0;
/// How often the server is started for its figures.
const STARTS: usize = 5;

/// Takes the figures of the programs in this folder.
///
/// # Errors
/// When one is missing or the server does not start.
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
            .with_context(|| format!("cannot look at `{}`", file.display()))?
            .len();
        figures.push(Figure::told(
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

/// Starts the server with an empty folder; milliseconds until it listens, and its memory then.
fn start(programs: &Path) -> Result<(f64, f64)> {
    let data = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut command = Command::new(programs.join("vnfm-server"));
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(data.path());
    let began = Instant::now();
    let (server, line) = Running::start(&mut command)?;
    let milliseconds = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(
        line.starts_with("listening on "),
        "the server does not say where it listens: `{line}`"
    );
    Ok((milliseconds, server.resident()?))
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn as_float(number: u64) -> f64 {
    number as f64
}
