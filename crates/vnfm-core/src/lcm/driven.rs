//! The state in which a process left an operation.

use super::op_context::Op;
use std::fmt;
use vnfm_types::{LcmOperationState, ProblemDetails};

/// How [`Engine::drive`](crate::Engine::drive) left an operation. That it returned does not mean that the operation
/// succeeded: [`Driven::completed`] tells.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Driven {
    /// The operation occurrence's id.
    pub op_id: String,
    /// The state when this process stopped driving it; `None` if another process drives it or none needs to.
    pub state: Option<LcmOperationState>,
    /// Why it is FAILED_TEMP, FAILED or ROLLED_BACK.
    pub error: Option<Box<ProblemDetails>>,
}

impl Driven {
    pub(super) fn left(op: &Op) -> Self {
        let occurrence = &op.record.op;
        let state = occurrence.operation_state;
        let has_stopped = !state.is_driven() && state != LcmOperationState::Completed;
        let error = occurrence.error.clone().filter(|_| has_stopped);
        Self {
            op_id: occurrence.id.clone(),
            state: Some(state),
            error: error.map(Box::new),
        }
    }

    pub(crate) fn elsewhere(op_id: impl Into<String>) -> Self {
        Self {
            op_id: op_id.into(),
            state: None,
            error: None,
        }
    }

    /// Requires that the operation is COMPLETED.
    ///
    /// # Errors
    ///
    /// [`NotCompleted`], with state and cause.
    pub fn completed(self) -> Result<(), NotCompleted> {
        match self.state {
            Some(LcmOperationState::Completed) => Ok(()),
            _ => Err(NotCompleted(self)),
        }
    }
}

/// An operation that is not COMPLETED.
#[derive(Debug, Clone, PartialEq)]
pub struct NotCompleted(pub Driven);

impl fmt::Display for NotCompleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Driven {
            op_id,
            state,
            error,
        } = &self.0;
        match state {
            Some(state) => write!(f, "operation `{op_id}` is {state}")?,
            None => write!(f, "operation `{op_id}` is not driven by this process")?,
        }
        match error {
            Some(error) => write!(f, ": {}", error.detail),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NotCompleted {}
