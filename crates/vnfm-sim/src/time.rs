//! The world's clock: the only place of this crate that lets time pass.

use std::time::Duration;

/// Lets the given time pass; no time at all costs nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the simulated world: its delays are its subject"
)]
pub(crate) async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// Now in UTC, to the second, as OpenStack and Kubernetes print it.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}
