//! Cost of an operation with the simulated cloud at zero delay in a separate process, so that only our own part is measured:
//! CPU time of the server, and duration by its own timestamps. Operations that change an instance are in `changes.rs`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;

use crate::changes;
use crate::figure::{Figure, median};
use crate::world::{World, runtime};

/// Number of instances, sequentially instantiated and terminated.
const ROUNDS: u16 = 60;
/// Parallel instances, and the operations of each.
const SIDE_BY_SIDE: usize = 16;
const LIFE: [&str; 6] = ["instantiate", "heal", "heal", "heal", "heal", "terminate"];
/// Number of runs; the median counts.
const LIVES: usize = 3;

/// Runs the benchmarks with the programs in this folder.
///
/// # Errors
/// If a program is missing or an operation does not complete.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = runtime()?;
    let world = Arc::new(runtime.block_on(World::start(programs, &[]))?);
    runtime.block_on(come_and_go(&world, 5))?; // warm-up
    let before = world.server.cpu_seconds()?;
    let wall = runtime.block_on(come_and_go(&world, ROUNDS))?;
    let cpu = (world.server.cpu_seconds()? - before) * 1000.0 / (2.0 * f64::from(ROUNDS));
    let mut figures = vec![
        Figure::at_most(
            5.0,
            "instantiate, terminate: the server's CPU, each",
            cpu,
            "ms",
        ),
        Figure::at_most(10.0, "instantiate, wall, median", median(wall.0)?, "ms"),
        Figure::at_most(10.0, "terminate, wall, median", median(wall.1)?, "ms"),
    ];
    figures.extend(runtime.block_on(changes::of_servers(&world))?);
    figures.extend(runtime.block_on(changes::of_pods(programs))?);
    let mut seconds = Vec::new();
    for _ in 0..LIVES {
        let began = Instant::now();
        runtime.block_on(side_by_side(&world))?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    let name = "16 instances x 6 operations (instantiate, four heals, terminate), all in parallel";
    figures.push(Figure::at_most(1.0, name, median(seconds)?, "s"));
    Ok(figures)
}

/// Instantiates and terminates `rounds` instances; returns the duration of each operation in milliseconds.
async fn come_and_go(world: &World, rounds: u16) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let instance = world.create().await?;
        for (task, took) in [("instantiate", &mut up), ("terminate", &mut down)] {
            let op = world.begin(&instance, task).await?;
            world.completed(&op).await?;
            took.push(world.took(&op).await?);
        }
    }
    Ok((up, down))
}

async fn side_by_side(world: &Arc<World>) -> Result<()> {
    let lives = (0..SIDE_BY_SIDE).map(|_| {
        let world = Arc::clone(world);
        tokio::spawn(async move {
            let instance = world.create().await?;
            for task in LIFE {
                let op = world.begin(&instance, task).await?;
                world
                    .completed(&op)
                    .await
                    .with_context(|| task.to_owned())?;
            }
            anyhow::Ok(())
        })
    });
    try_join_all(lives)
        .await
        .context("a client panicked")?
        .into_iter()
        .collect()
}
