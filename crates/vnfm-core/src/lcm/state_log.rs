//! One log line for each state that an operation enters, so that the server's log tells what happened. Instance and
//! operation id come from the enclosing span.

use vnfm_types::LcmOperationState::{Failed, FailedTemp, RolledBack};
use vnfm_types::VnfLcmOpOcc;

/// Logs the operation's new state: at level warn with its error if it did not succeed, else at level info.
pub(super) fn log_state(op: &VnfLcmOpOcc) {
    let (operation, state) = (op.operation, op.operation_state);
    let elapsed = op.state_entered_time.duration_since(op.start_time);
    let seconds = elapsed.as_secs_f64();
    let failed = matches!(state, FailedTemp | RolledBack | Failed);
    if let Some(error) = op.error.as_ref().filter(|_| failed) {
        tracing::warn!(
            seconds,
            code = error.code,
            step = error.step,
            error = error.detail,
            "{operation} is {state}"
        );
    } else {
        tracing::info!(seconds, "{operation} is {state}");
    }
}
