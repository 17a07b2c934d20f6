//! Drives accepted operations on this process's runtime, and takes over those that no process drives.

use opentelemetry::Context;
use opentelemetry::context::FutureExt as _;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use vnfm_core::Engine;
use vnfm_core::ports::{Clock, StoreError};

/// Passes accepted operations to the driving loop.
#[derive(Clone, Default)]
pub struct DriveQueue(Arc<Accepted>);

#[derive(Default)]
struct Accepted {
    /// Ids, each with the trace context of the request.
    ops: Mutex<Vec<(String, Context)>>,
    added: Notify,
}

impl DriveQueue {
    /// Queues an operation for driving, and returns at once.
    pub(crate) fn drive(&self, op_id: &str) {
        self.ops()
            .push((op_id.to_owned(), Span::current().context()));
        self.0.added.notify_one();
    }

    fn take(&self) -> Vec<(String, Context)> {
        std::mem::take(&mut *self.ops())
    }

    fn ops(&self) -> MutexGuard<'_, Vec<(String, Context)>> {
        self.0.ops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Interval between two searches for operations that another process has left.
const TAKE_OVER_INTERVAL: Duration = Duration::from_secs(2);

/// Grace period at shutdown for running steps to reach the journal.
const STEP_GRACE: Duration = Duration::from_secs(4);
/// How long operations may then take to release their leases.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Drives operations until `stop` completes. Then no new steps start, and running ones may finish for a few seconds.
/// Remaining operations are released in order; those that take too long are dropped, which has the effect of a crash.
/// The next start resumes all of them.
pub async fn run(
    engine: Engine,
    clock: Arc<dyn Clock>,
    wake: DriveQueue,
    stop: impl Future<Output = ()>,
) {
    let mut driven = JoinSet::new();
    let mut stop = pin!(stop);
    take_over_all(&engine, &mut driven).await;
    let mut take_over = clock.sleep(TAKE_OVER_INTERVAL);
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = wake.0.added.notified() => {
                for (op_id, cause) in wake.take() {
                    let engine = engine.clone();
                    let driving = async move { log_error(engine.drive(&op_id).await) };
                    driven.spawn(driving.with_context(cause));
                }
            }
            () = &mut take_over => {
                take_over_all(&engine, &mut driven).await;
                take_over = clock.sleep(TAKE_OVER_INTERVAL);
            }
            Some(finished) = driven.join_next() => {
                if let Err(error) = finished {
                    tracing::error!(%error, "the task of an operation panicked; the operation will be resumed");
                }
            }
        }
    }
    engine.rest();
    let steps = wait_for_all(STEP_GRACE, &mut driven);
    let ((), in_time) = tokio::join!(engine.announce_shutdown(), steps);
    if !in_time {
        engine.leave();
        let released_in_time = wait_for_all(RELEASE_TIMEOUT, &mut driven).await;
        tracing::info!(
            released_in_time,
            "the next start resumes the remaining operations"
        );
    }
    driven.shutdown().await;
}

/// Whether all tasks finished in time.
async fn wait_for_all(time: Duration, driven: &mut JoinSet<()>) -> bool {
    let finished = async { while driven.join_next().await.is_some() {} };
    tokio::time::timeout(time, finished).await.is_ok()
}

async fn take_over_all(engine: &Engine, driven: &mut JoinSet<()>) {
    loop {
        match engine.take_over().await {
            Ok(Some(operation)) => {
                driven.spawn(async move { log_error(operation.await) });
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "cannot search for operations to drive");
                return;
            }
        }
    }
}

fn log_error<T>(outcome: Result<T, StoreError>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "cannot continue driving an operation for now");
    }
}
