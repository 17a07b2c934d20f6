//! Notifications: their delay after the commit with five subscribers and 50 operations per second, and the effect of an
//! additional dead and an additional slow subscriber.
//!
//! Each operation is a modification, the shortest operation, with notifications. The `timeStamp` of a notification is taken
//! before its commit, so the measured delay is slightly too large. Both times are from the clock of this machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use reqwest::StatusCode as Answered;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::figure::Figure;
use crate::world::{INSTANCES, World, runtime};

const SUBSCRIPTIONS: &str = "/vnflcm/v2/subscriptions";
/// Number of operations begun per second.
const RATE: u32 = 50;
const SECONDS: u32 = 20;
/// Notifications of each modification: PROCESSING and COMPLETED.
const EACH: usize = 2;
const SUBSCRIBERS: usize = 5;
/// Response time of the slow subscriber.
const SLOW: Duration = Duration::from_secs(1);
/// Time limit for all notifications after the start of the last operation.
const LAST: Duration = Duration::from_secs(30);

/// Runs the benchmarks with the programs in this folder.
///
/// # Errors
/// If a program is missing or a request is refused.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = runtime()?;
    let mut world = runtime.block_on(World::start(programs, &[]))?;
    world.without_server("notifications: {networks: [127.0.0.0/8]}\n", |_| Ok(()))?;
    let ids = runtime.block_on(instances(&world))?;
    let sinks = runtime.block_on(subscribed(&world))?;
    let alone = runtime.block_on(delay_p99(&world, &ids, &sinks))?;
    let ends = runtime.block_on(burdened(&world))?;
    let with_slow = runtime.block_on(delay_p99(&world, &ids, &sinks))?;
    drop(ends);
    let more = (with_slow / alone - 1.0) * 100.0;
    Ok(vec![
        Figure::at_most(
            100.0,
            "notifications, 50 operations/s × 5 subscribers: p99 behind the commit",
            alone,
            "ms",
        ),
        Figure::untargeted(
            "the same with a dead and a slow subscriber: p99",
            with_slow,
            "ms",
        ),
        Figure::at_most(
            10.0,
            "a dead and a slow subscriber: p99 of the others",
            more,
            "% more",
        ),
    ])
}

/// Number of instances: more than concurrent operations.
async fn instances(world: &World) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for _ in 0..2 * RATE {
        ids.push(world.create().await?);
    }
    Ok(ids)
}

/// A subscriber with the delay of each notification, in milliseconds.
struct Sink {
    url: String,
    late: Arc<Mutex<Vec<f64>>>,
    task: JoinHandle<()>,
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Taking {
    late: Arc<Mutex<Vec<f64>>>,
    pause: Duration,
}

#[expect(clippy::disallowed_methods, reason = "a slow subscriber responds late")]
async fn take(State(taking): State<Taking>, method: Method, body: String) -> StatusCode {
    let now = Timestamp::now();
    if method == Method::GET {
        return StatusCode::NO_CONTENT;
    }
    tokio::time::sleep(taking.pause).await;
    let notification: Value = serde_json::from_str(&body).unwrap_or_default();
    let written = notification["timeStamp"]
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    if let Some(written) = written {
        let late = now.duration_since(written).as_secs_f64() * 1000.0;
        taking
            .late
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(late);
    }
    StatusCode::NO_CONTENT
}

impl Sink {
    async fn start(pause: Duration) -> Result<Self> {
        let late = Arc::<Mutex<Vec<f64>>>::default();
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("http://{}/callback", listener.local_addr()?);
        let router = Router::new().fallback(take).with_state(Taking {
            late: late.clone(),
            pause,
        });
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await; // ends with its task
        });
        Ok(Self { url, late, task })
    }

    fn taken(&self) -> Vec<f64> {
        std::mem::take(&mut self.late.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self) -> usize {
        self.late
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

async fn subscribe(world: &World, sink: &Sink) -> Result<()> {
    let body = json!({"callbackUri": sink.url});
    world
        .post(SUBSCRIPTIONS, &body, Answered::CREATED)
        .await
        .map(drop)
}

async fn subscribed(world: &World) -> Result<Vec<Sink>> {
    let mut sinks = Vec::new();
    for _ in 0..SUBSCRIBERS {
        let sink = Sink::start(Duration::ZERO).await?;
        subscribe(world, &sink).await?;
        sinks.push(sink);
    }
    Ok(sinks)
}

/// Adds a slow subscriber, and one whose address does not respond.
async fn burdened(world: &World) -> Result<Vec<Sink>> {
    let (slow, dead) = (Sink::start(SLOW).await?, Sink::start(Duration::ZERO).await?);
    subscribe(world, &slow).await?;
    subscribe(world, &dead).await?;
    drop(dead);
    Ok(vec![slow])
}

/// Runs operations for a while; returns the 99th percentile of the delay of notifications.
async fn delay_p99(world: &World, ids: &[String], sinks: &[Sink]) -> Result<f64> {
    let (mut beat, mut begun) = (
        tokio::time::interval(Duration::from_secs(1) / RATE),
        Vec::new(),
    );
    for number in 0..RATE * SECONDS {
        beat.tick().await;
        let id = &ids[usize::try_from(number)? % ids.len()];
        let request = world.client.patch(world.at(&format!("{INSTANCES}/{id}")));
        let body = json!({"vnfInstanceName": format!("n{number}")});
        let request = request.header("Version", "2.3.0").json(&body).send();
        begun.push(tokio::spawn(request));
    }
    for request in begun {
        let answer = request.await.context("a client panicked")??;
        ensure!(
            answer.status() == Answered::ACCEPTED,
            "a modification: {}",
            answer.status()
        );
    }
    let wanted = usize::try_from(RATE * SECONDS)? * EACH;
    let (began, mut look) = (
        Instant::now(),
        tokio::time::interval(Duration::from_millis(50)),
    );
    while sinks.iter().any(|sink| sink.count() < wanted) {
        ensure!(
            began.elapsed() < LAST,
            "a subscriber did not receive all notifications within {LAST:?}"
        );
        look.tick().await;
    }
    let mut late: Vec<_> = sinks.iter().flat_map(Sink::taken).collect();
    late.sort_by(f64::total_cmp);
    late.get(late.len() * 99 / 100)
        .copied()
        .context("no notification was received")
}
