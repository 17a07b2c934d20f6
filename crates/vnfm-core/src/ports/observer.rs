//! Metrics of the engine's work. The engine does not depend on them.

use super::StepStatus;
use jiff::Timestamp;
use std::time::Duration;
use vnfm_types::{LcmOperationState, LcmOperationType};

/// How a call to a VIM ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// The caller got a usable response.
    Answered,
    /// With an error response, or none.
    Failed,
    /// The call was dropped before its response.
    Dropped,
}

/// Receives the engine's metrics. Its methods are called in the middle of work and must return at once.
pub trait Observer: Send + Sync {
    /// An operation entered another state, which is stored.
    fn entered(&self, operation: LcmOperationType, state: LcmOperationState) {
        let _ = (operation, state);
    }

    /// A step or its undo ended after `took`. If its status is still `Started` or `Undoing`, it
    /// failed and stopped the operation.
    fn step_ended(
        &self,
        operation: LcmOperationType,
        step: &str,
        status: StepStatus,
        took: Duration,
    ) {
        let _ = (operation, step, status, took);
    }

    /// A call to the VIM with this registry id (`inline` for a connection from a request) ended. It `waited` for a slot
    /// first, and then `took` so long.
    fn vim_called(&self, vim: &str, end: CallEnd, waited: Duration, took: Duration) {
        let _ = (vim, end, waited, took);
    }

    /// The VIM with this registry id sent an event, or reported that nothing changed, at this time; `None`: its events are
    /// not followed any more.
    fn vim_heard(&self, vim: &str, at: Option<Timestamp>) {
        let _ = (vim, at);
    }
}

pub(crate) struct NoopObserver;

impl Observer for NoopObserver {}
