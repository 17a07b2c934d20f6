//! The time of this machine, on tokio's timer.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use std::time::Duration;
use vnfm_core::ports::Clock;

/// The time of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Clock that everybody else uses")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
