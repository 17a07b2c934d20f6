//! Time as a port, and the engine's only polling loop.

use super::PortError;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tracing::Instrument as _;
use tracing::field::Empty;

/// The current time and sleeping. Tests accelerate it; the core has no other source of time.
pub trait Clock: Send + Sync {
    /// Current time, UTC.
    fn now(&self) -> Timestamp;
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The result of one check of a condition.
#[derive(Debug)]
pub enum Waited<T> {
    /// The condition holds.
    Done(T),
    /// Not yet; the text names what is missing, for operators.
    NotYet(String),
}

/// Calls `look` until it returns [`Waited::Done`]. The interval doubles from `usual`/128 up to `usual`, then grows slowly
/// to eight times that, by about a thirtieth of the time waited so far: quick changes are noticed at once, and long waits
/// poll rarely but still notice the end soon. `seen` gets every reason for waiting. Returns `None` if `deadline` passed
/// first; the last reason given to `seen` then tells why.
///
/// # Errors
///
/// The first error of `look`. To tolerate an error, return `NotYet` instead.
pub async fn wait<T, F, Fut>(
    clock: &dyn Clock,
    deadline: Timestamp,
    usual: Duration,
    seen: impl Fn(&str),
    mut look: F,
) -> Result<Option<T>, PortError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Waited<T>, PortError>>,
{
    let span = tracing::info_span!("wait", last_pause_ms = Empty);
    let waiting = span.clone();
    let looking = async move {
        let mut pause = usual / 128;
        loop {
            match look().await? {
                Waited::Done(value) => return Ok(Some(value)),
                Waited::NotYet(reason) => seen(&reason),
            }
            let left = deadline.duration_since(clock.now());
            if left <= SignedDuration::ZERO {
                return Ok(None);
            }
            let rest = pause.min(left.unsigned_abs());
            clock.sleep(rest).await;
            waiting.record(
                "last_pause_ms",
                u64::try_from(rest.as_millis()).unwrap_or(u64::MAX),
            );
            pause = if pause < usual {
                pause * 2
            } else {
                (pause * 33 / 32).min(usual * 8)
            };
        }
    };
    looking.instrument(span).await
}
