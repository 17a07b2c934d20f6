//! Drives accepted operations on this process's runtime, and takes over those that nobody drives.

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

/// Tells the loop that drives which operations were accepted.
#[derive(Clone, Default)]
pub struct Wake(Arc<Accepted>);

#[derive(Default)]
struct Accepted {
    /// Each with the trace of what began it.
    ops: Mutex<Vec<(String, Context)>>,
    some: Notify,
}

impl Wake {
    /// This operation is to be driven.
    pub fn drive(&self, op_id: &str) {
        self.ops()
            .push((op_id.to_owned(), Span::current().context()));
        self.0.some.notify_one();
    }

    /// Those that were told since the last time.
    fn taken(&self) -> Vec<(String, Context)> {
        std::mem::take(&mut *self.ops())
    }

    fn ops(&self) -> MutexGuard<'_, Vec<(String, Context)>> {
        self.0.ops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long after the last look the loop looks again for operations that another process left.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long running steps may take to reach the journal, once everything is to stop.
const TO_THE_JOURNAL: Duration = Duration::from_secs(4);
/// How long operations may take after that to be left in order.
const LEAVE: Duration = Duration::from_secs(3);

/// Drives everything until `stop` completes. Then no step begins any more, and those that run may end; what has not
/// ended within some seconds is left in order, and what takes too long to leave is dropped, which means what a crash
/// means. The next start goes on with all of it.
pub async fn run(
    engine: Engine,
    clock: Arc<dyn Clock>,
    wake: Wake,
    stop: impl Future<Output = ()>,
) {
    let mut driven = JoinSet::new();
    let mut stop = pin!(stop);
    take_all(&engine, &mut driven).await;
    let mut look_again = clock.sleep(LOOK_AGAIN);
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = wake.0.some.notified() => {
                for (op_id, cause) in wake.taken() {
                    let engine = engine.clone();
                    let driving = async move { ended(engine.drive(&op_id).await) };
                    driven.spawn(driving.with_context(cause));
                }
            }
            () = &mut look_again => {
                take_all(&engine, &mut driven).await;
                look_again = clock.sleep(LOOK_AGAIN);
            }
            Some(ended) = driven.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "the task of an operation ended badly; it is taken up again");
                }
            }
        }
    }
    engine.rest();
    let ends = ended_within(TO_THE_JOURNAL, &mut driven);
    let ((), in_time) = tokio::join!(engine.announce_shutdown(), ends);
    if !in_time {
        engine.leave();
        let left_in_time = ended_within(LEAVE, &mut driven).await;
        tracing::info!(left_in_time, "operations are left for the next start");
    }
    driven.shutdown().await;
}

/// Whether all of them ended in time.
async fn ended_within(time: Duration, driven: &mut JoinSet<()>) -> bool {
    let ended = async { while driven.join_next().await.is_some() {} };
    tokio::time::timeout(time, ended).await.is_ok()
}

async fn take_all(engine: &Engine, driven: &mut JoinSet<()>) {
    loop {
        match engine.take_over().await {
            Ok(Some(operation)) => {
                driven.spawn(async move { ended(operation.await) });
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "cannot look for operations to drive");
                return;
            }
        }
    }
}

fn ended(outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "an operation is not driven any further for now");
    }
}
