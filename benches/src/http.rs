//! The HTTP server under load: concurrent creation of instances, reading one instance and a list of a hundred.
//!
//! Creating is durable: each response follows a commit with `synchronous=FULL`. The number of flushes is counted by
//! `strace` in a separate run, because it would slow down the timed one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;

use crate::figure::{Figure, median};
use crate::world::{INSTANCES, Running, World, runtime};

/// Concurrent clients, and instances that each creates in the timed and in the counted run.
const CLIENTS: usize = 16;
const TIMED: usize = 500;
const COUNTED: usize = 50;
/// Number of reads of each page.
const READS: usize = 500;

/// Runs the benchmarks with the programs in this folder.
///
/// # Errors
/// If a program is missing or a request is refused.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = runtime()?;
    let world = Arc::new(runtime.block_on(World::start(programs, &[]))?);
    runtime.block_on(create(&world, 20))?; // warm-up
    let mut figures = Vec::new();
    let began = Instant::now();
    let mut milliseconds = runtime.block_on(create(&world, TIMED))?;
    let rate = as_float(milliseconds.len()) / began.elapsed().as_secs_f64();
    milliseconds.sort_by(f64::total_cmp);
    let late = milliseconds
        .get(milliseconds.len() * 99 / 100)
        .copied()
        .unwrap_or_default();
    figures.push(Figure::at_least(
        3000.0,
        "create VNF instance, 16 clients, durable",
        rate,
        "/s",
    ));
    figures.push(Figure::at_most(
        10.0,
        "create VNF instance, 16 clients, p99",
        late,
        "ms",
    ));
    if let Some(flushes) = flushes(&world.server, || runtime.block_on(create(&world, COUNTED)))? {
        let each = flushes / as_float(CLIENTS * COUNTED);
        figures.push(Figure::at_most(
            0.25,
            "fsync for each create, counted by strace",
            each,
            "",
        ));
    }
    let id = runtime.block_on(world.create())?;
    let one = format!("{INSTANCES}/{id}");
    let read = |path: &str| runtime.block_on(reads(&world, path));
    figures.push(Figure::at_most(
        0.5,
        "GET one instance, median",
        read(&one)?,
        "ms",
    ));
    figures.push(Figure::at_most(
        5.0,
        "GET a list of 100, median",
        read(INSTANCES)?,
        "ms",
    ));
    Ok(figures)
}

/// Every client creates `each` instances sequentially; returns the duration of each creation in milliseconds.
async fn create(world: &Arc<World>, each: usize) -> Result<Vec<f64>> {
    let clients = (0..CLIENTS).map(|_| {
        let world = Arc::clone(world);
        tokio::spawn(async move {
            let mut took = Vec::with_capacity(each);
            for _ in 0..each {
                let began = Instant::now();
                world.create().await?;
                took.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok(took)
        })
    });
    let all = try_join_all(clients).await.context("a client panicked")?;
    Ok(all.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

async fn reads(world: &World, path: &str) -> Result<f64> {
    let mut milliseconds = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        world.get(path).await?;
        milliseconds.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    median(milliseconds)
}

/// Number of flushes by the server while `act` runs; `None` without `strace`.
fn flushes<T>(server: &Running, act: impl FnOnce() -> Result<T>) -> Result<Option<f64>> {
    let file = tempfile::NamedTempFile::new()?;
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-c", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(file.path());
    strace.arg("-p").arg(server.0.id().to_string());
    strace
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let Ok(mut child) = strace.spawn() else {
        eprintln!(
            "strace is not installed (Debian: `apt-get install strace`): flushes are not counted"
        );
        return Ok(None);
    };
    // It prints a line once attached.
    let mut line = String::new();
    let words = child
        .stderr
        .take()
        .context("strace has no standard error")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(words), &mut line)?;
    let acted = act();
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    child.wait()?;
    interrupt?;
    acted?;
    let table = std::fs::read_to_string(file.path())?;
    let calls = table
        .lines()
        .filter(|line| line.ends_with("sync"))
        .filter_map(|line| {
            line.split_whitespace().nth(3)?.parse::<u32>().ok() // % time, seconds, usecs/call, calls
        });
    Ok(Some(f64::from(calls.sum::<u32>())))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn as_float(number: usize) -> f64 {
    number as f64
}
