//! Durations in JSON: as a number of seconds.

use std::time::Duration;

/// Seconds with fractions, or null.
#[expect(clippy::ref_option, reason = "serde hands the field by reference")]
pub(super) fn seconds<S: serde::Serializer>(
    timeout: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match timeout {
        Some(timeout) => serializer.serialize_f64(timeout.as_secs_f64()),
        None => serializer.serialize_none(),
    }
}
