//! `VnfLcmOpOcc.error`: a neighbour's ProblemDetails is passed on unchanged, together with our own members.

use super::op_context::Op;
use crate::ports::{Code, ErrorKind, PortError};
use vnfm_types::{CancelMode, ProblemDetails};

/// The ProblemDetails of a failed step, for `VnfLcmOpOcc.error`.
pub(super) fn problem(op: &Op, step: &str, error: &PortError) -> ProblemDetails {
    let status = match error.kind() {
        ErrorKind::Unavailable => 503,
        ErrorKind::Refused => 422,
        ErrorKind::Broken => 500,
    };
    let theirs = error.problem().cloned().unwrap_or_default();
    let uri = || format!("https://vnfm.dev/errors#{}", error.name());
    ProblemDetails {
        type_uri: Some(theirs.type_uri.unwrap_or_else(uri)),
        title: Some(
            theirs
                .title
                .unwrap_or_else(|| error.code().means.to_owned()),
        ),
        status: if theirs.status == 0 {
            status
        } else {
            theirs.status
        },
        detail: op.live.redact(&format!("{step}: {error}")),
        next: Some(op.live.redact(error.next())),
        instance: theirs.instance,
        code: Some(error.name().to_owned()),
        step: Some(step.to_owned()),
        resource: error.resource().map(ToOwned::to_owned),
        request_id: error.request_id().map(ToOwned::to_owned),
        retryable: Some(error.is_unavailable()),
        blocked_by: Vec::new(),
    }
}

/// The error of an operation that a caller cancelled.
pub(super) fn cancelled(op: &Op) -> PortError {
    let how = match op.live.cancel_mode() {
        Some(CancelMode::Graceful) => "cancelled gracefully",
        _ => "cancelled forcefully",
    };
    PortError::new(
        &CANCELLED,
        format!("continue {}", op.record.op.operation),
        how,
    )
}

/// A caller has cancelled the operation.
pub const CANCELLED: Code = Code {
    name: "op.cancelled",
    kind: ErrorKind::Refused,
    means: "the operation was cancelled",
    next: "retry, roll back or fail it",
};
