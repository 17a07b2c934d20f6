//! Whoever counts what the engine does. Nothing depends on what it does with it.

use super::StepStatus;
use std::time::Duration;
use vnfm_types::{LcmOperationState, LcmOperationType};

/// How a call to a VIM ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// With an answer that the caller wanted.
    Answered,
    /// With an answer that is an error, or with none.
    Failed,
    /// Before its answer: nobody wanted it any more.
    Dropped,
}

/// Counts what the engine does. Its methods are called in the middle of the work: they return at once.
pub trait Observer: Send + Sync {
    /// An operation is in another state now, and the database has it.
    fn entered(&self, operation: LcmOperationType, state: LcmOperationState) {
        let _ = (operation, state);
    }

    /// A step, or its opposite, has ended after `took`; it stopped the operation where it is still `Started` or
    /// `Undoing`.
    fn step_ended(
        &self,
        operation: LcmOperationType,
        (step, status): (&str, StepStatus),
        took: Duration,
    ) {
        let _ = (operation, step, status, took);
    }

    /// A call to the VIM with this id in the registry (`inline` where a request brought it) ended; it `waited` for its
    /// turn first.
    fn vim_called(&self, vim: &str, end: CallEnd, (waited, took): (Duration, Duration)) {
        let _ = (vim, end, waited, took);
    }
}

/// Counts nothing.
pub(crate) struct Nobody;

impl Observer for Nobody {}
