//! Large numbers: memory of 10 000 instances, and how soon 1 000 running operations resume after `kill -9`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;

use crate::figure::Figure;
use crate::world::{INSTANCES, LONG, World, runtime};

const INSTANCES_KEPT: usize = 10_000;
const IN_FLIGHT: usize = 1_000;
const CLIENTS: usize = 16;
/// Interval between polls of the call log.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Runs the benchmarks with the programs in this folder.
///
/// # Errors
/// If a program is missing or a request is refused.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let mut figures = idle_fleet(programs)?;
    figures.extend(in_flight(programs)?);
    Ok(figures)
}

/// Memory and startup time with 10 000 instances.
fn idle_fleet(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = runtime()?;
    let mut world = Arc::new(runtime.block_on(World::start(programs, &[]))?);
    runtime.block_on(create(&world, CLIENTS))?;
    let before = world.server.resident()?;
    runtime.block_on(create(&world, INSTANCES_KEPT))?;
    runtime.block_on(world.get(INSTANCES))?;
    let more = world.server.resident()? - before;
    let own = Arc::get_mut(&mut world).context("the world is still in use")?;
    let began = Instant::now();
    own.crash_and_start()?;
    runtime.block_on(own.get(INSTANCES))?;
    let milliseconds = began.elapsed().as_secs_f64() * 1000.0;
    Ok(vec![
        Figure::at_most(
            15.0,
            "server: more memory for 10 000 instances",
            more,
            "MiB",
        ),
        Figure::at_most(
            100.0,
            "server: start to first answer, 10 000 instances",
            milliseconds,
            "ms",
        ),
    ])
}

async fn create(world: &Arc<World>, all: usize) -> Result<Vec<String>> {
    let clients = (0..CLIENTS).map(|client| {
        let world = Arc::clone(world);
        tokio::spawn(async move {
            let mut created = Vec::new();
            for _ in (client..all).step_by(CLIENTS) {
                created.push(world.create().await?);
            }
            anyhow::Ok(created)
        })
    });
    let all = try_join_all(clients).await.context("a client panicked")?;
    Ok(all.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// Memory with 1 000 operations that wait for their servers, and how soon each calls the VIM again after a restart.
fn in_flight(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = runtime()?;
    let mut world = runtime.block_on(World::start(programs, &["--server-build", "600000"]))?;
    // No limit: an operation that waits for a slot of the VIM makes no call.
    world.without_server("limits: {vim_operations: 0}\n", |_| Ok(()))?;
    let mut world = Arc::new(world);
    let instances = runtime.block_on(create(&world, IN_FLIGHT))?;
    runtime.block_on(begin(&world, &instances))?;
    runtime.block_on(called(&world, &instances, 0))?;
    let resident = world.server.resident()?;
    let own = Arc::get_mut(&mut world).context("the world is still in use")?;
    let last = runtime.block_on(own.book("calls"))?.len();
    let began = Instant::now();
    own.crash_and_start()?;
    runtime.block_on(called(own, &instances, last))?;
    let seconds = began.elapsed().as_secs_f64();
    let with = format!("{} operations in flight", instances.len());
    Ok(vec![
        Figure::at_most(
            150.0,
            format!("server: resident memory with {with}"),
            resident,
            "MiB",
        ),
        Figure::at_most(
            5.0,
            format!("kill -9 with {with}, start, each has called again"),
            seconds,
            "s",
        ),
    ])
}

async fn begin(world: &Arc<World>, instances: &[String]) -> Result<()> {
    let share = instances.len().div_ceil(CLIENTS).max(1);
    let clients = instances.chunks(share).map(|mine| {
        let (world, mine) = (Arc::clone(world), mine.to_vec());
        tokio::spawn(async move {
            for instance in mine {
                world.begin(&instance, "instantiate").await?;
            }
            anyhow::Ok(())
        })
    });
    try_join_all(clients)
        .await
        .context("a client panicked")?
        .into_iter()
        .collect()
}

/// Waits until, after call number `last`, there was a call for the stack of each instance.
async fn called(world: &World, instances: &[String], last: usize) -> Result<()> {
    let began = Instant::now();
    let mut waited: BTreeSet<&str> = instances.iter().map(String::as_str).collect();
    while !waited.is_empty() {
        if began.elapsed() > LONG {
            let open = waited.len();
            let one = waited.first().copied().unwrap_or_default();
            let path = format!("/vnflcm/v2/vnf_lcm_op_occs?filter=(eq,vnfInstanceId,{one})");
            bail!(
                "{open} operations made no call after call {last}; one of them is {}",
                world.get(&path).await?
            );
        }
        for call in world.book("calls").await?.iter().skip(last) {
            let subject = call["subject"].as_str().unwrap_or_default();
            if let Some(instance) = subject
                .split_once("vnf-")
                .and_then(|(_, rest)| rest.get(..36))
            {
                waited.remove(instance);
            }
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "interval between polls of another process"
        )]
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}
