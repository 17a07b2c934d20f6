//! The world's clock: the only module of this crate that sleeps.

use std::time::Duration;

/// Sleeps; a zero duration returns at once.
#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the simulated world: its delays are its subject"
)]
pub(crate) async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// The current UTC time to the second, as OpenStack and Kubernetes format it.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}
