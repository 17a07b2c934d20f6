//! A store that fails as databases do: before a write took effect, after its commit, or by being slow.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use vnfm_core::ports::{Clock, Store, StoreError};

use crate::intercepted_store::{Intercept, Intercepted, StoreCall};

/// How a write goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// It fails as unavailable and has no effect.
    Before,
    /// It is committed, but the caller gets an error.
    AfterCommit,
    /// It takes this much longer.
    Slow(Duration),
}

/// The store; reads always reach the real one.
pub type FaultyStore = Intercepted<WriteFaults>;

/// Which write fails, and how.
pub struct WriteFaults {
    clock: Arc<dyn Clock>,
    writes: AtomicUsize,
    plan: Mutex<Option<(usize, StoreFault)>>,
    logs_to_fail: AtomicUsize,
}

impl FaultyStore {
    /// A store over `inner` in which nothing fails yet.
    pub fn without_faults(inner: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let faults = WriteFaults {
            clock,
            writes: AtomicUsize::new(0),
            plan: Mutex::new(None),
            logs_to_fail: AtomicUsize::new(0),
        };
        Self::new(inner, faults)
    }
}

impl WriteFaults {
    /// Lets the `at`th write from now fail once, counted from 1. Claims, renewals, releases and log lines are writes.
    pub fn fail_at(&self, at: usize, fault: StoreFault) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((self.writes.load(SeqCst) + at, fault));
    }

    /// Lets the next `times` writes of log lines fail as unavailable; everything else works.
    pub fn fail_log_writes(&self, times: usize) {
        self.logs_to_fail.store(times, SeqCst);
    }

    /// Number of writes so far.
    pub fn writes(&self) -> usize {
        self.writes.load(SeqCst)
    }

    fn fault(&self) -> Option<StoreFault> {
        let number = self.writes.fetch_add(1, SeqCst) + 1;
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, fault) = plan.take_if(|(at, _)| *at == number)?;
        Some(fault)
    }

    fn takes_log_failure(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.logs_to_fail
            .fetch_update(SeqCst, SeqCst, one_less)
            .is_ok()
    }
}

/// The kind of a call, as far as faults distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A call that never fails.
    Read,
    /// A call that is counted and may fail.
    Write,
    /// A write of at least one log line.
    Log,
}

impl Intercept for WriteFaults {
    type Call = CallKind;

    fn before(&self, call: StoreCall<'_>) -> CallKind {
        match call {
            StoreCall::Read | StoreCall::Outbox => CallKind::Read,
            StoreCall::AppendLog { lines, .. } if !lines.is_empty() => CallKind::Log,
            _ => CallKind::Write,
        }
    }

    async fn around<T: Send>(
        &self,
        call: CallKind,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let failed = |when| Err(StoreError::Unavailable(format!("injected failure {when}")));
        if call == CallKind::Read {
            return work.await;
        }
        if call == CallKind::Log && self.takes_log_failure() {
            return failed("of a log write");
        }
        match self.fault() {
            None => work.await,
            Some(StoreFault::Before) => failed("before the write"),
            Some(StoreFault::AfterCommit) => {
                work.await?;
                failed("after the commit")
            }
            Some(StoreFault::Slow(longer)) => {
                self.clock.sleep(longer).await;
                work.await
            }
        }
    }
}
