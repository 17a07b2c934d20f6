//! A store whose process ends at a chosen write: from then on no write returns, before or after it took effect.

use futures::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Notify;
use vnfm_core::ports::{Store, StoreError};
use vnfm_tests::intercepted_store::{Intercept, Intercepted, StoreCall};

/// The store of a process that ends.
pub(super) type StoppingStore = Intercepted<StopAtWrite>;

/// Counts transactions and ends the process at one of them.
pub(super) struct StopAtWrite {
    writes: AtomicUsize,
    outbox_reads: AtomicUsize,
    at: usize,
    after_effect: bool,
    stopped: Notify,
}

/// A store over `inner` whose process ends at write `at`, counted from 1.
pub(super) fn stop_at(inner: Arc<dyn Store>, at: usize, after_effect: bool) -> Arc<StoppingStore> {
    let stop = StopAtWrite {
        writes: AtomicUsize::new(0),
        outbox_reads: AtomicUsize::new(0),
        at,
        after_effect,
        stopped: Notify::new(),
    };
    Arc::new(Intercepted::new(inner, stop))
}

/// A store that only counts.
pub(super) fn counting(inner: Arc<dyn Store>) -> Arc<StoppingStore> {
    stop_at(inner, usize::MAX, false)
}

impl StopAtWrite {
    pub(super) fn outbox_reads(&self) -> usize {
        self.outbox_reads.load(SeqCst)
    }

    pub(super) fn writes(&self) -> usize {
        self.writes.load(SeqCst)
    }

    /// Completes once the chosen write is reached.
    pub(super) async fn stopped(&self) {
        self.stopped.notified().await;
    }
}

impl Intercept for StopAtWrite {
    /// The number of a transaction, from 1; absent for every other call.
    type Call = Option<usize>;

    fn before(&self, call: StoreCall<'_>) -> Option<usize> {
        match call {
            StoreCall::Write { .. } => Some(self.writes.fetch_add(1, SeqCst) + 1),
            StoreCall::Outbox => {
                self.outbox_reads.fetch_add(1, SeqCst);
                None
            }
            _ => None,
        }
    }

    async fn around<T: Send>(
        &self,
        call: Option<usize>,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let Some(number) = call.filter(|number| *number >= self.at) else {
            return work.await;
        };
        if self.after_effect && number == self.at {
            work.await?;
        }
        self.stopped.notify_one();
        pending().await
    }
}
