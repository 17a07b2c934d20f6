//! What a response of the API server means for the next attempt.

use crate::api::{MAX_FAILURES, Response};
use vnfm_plugin_sdk::HttpResponse;
use vnfm_plugin_sdk::prelude::*;

/// Whether an API server may respond like this while it starts: behind a proxy, or until it has loaded roles and bindings. Our
/// login has all rights, but may have lost them.
pub(crate) fn is_transient(response: &HttpResponse) -> bool {
    let has_no_right =
        response.body.contains(" is forbidden: User ") && response.body.contains(" cannot ");
    matches!(response.status, 502..=504) || (response.status == 403 && has_no_right)
}

/// A refusal of the last attempt is no matter of time.
pub(crate) fn is_last_refusal(response: &HttpResponse, failed: u32) -> bool {
    response.status == 403 && failed == MAX_FAILURES
}

pub(crate) fn unexpected_response(verb: &str, path: &str, response: &Response) -> DriverError {
    let detail = format!(
        "cannot {verb} `{path}`: {} {}",
        response.status,
        response.reason()
    );
    let error = DriverError::new("api-refused", detail).phase("cluster");
    if response.status >= 500 || response.status == 429 {
        error.retryable()
    } else {
        error
    }
}
