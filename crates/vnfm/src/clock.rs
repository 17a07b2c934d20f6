//! The system clock, with tokio's timer.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use std::time::Duration;
use vnfm_core::ports::Clock;

/// The system clock, and timers of tokio.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// In microseconds: some clients parse SOL003's date-time with at most six fractional digits.
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the Clock that all other code uses"
    )]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
