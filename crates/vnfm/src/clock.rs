//! The time of this machine, on tokio's timer.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use std::time::Duration;
use vnfm_core::ports::Clock;

/// The time of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// In microseconds: clients that know SOL003's date-time as six digits of a second trip over more.
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the Clock that everybody else uses"
    )]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
