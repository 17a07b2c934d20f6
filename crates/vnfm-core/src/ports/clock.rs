//! Time as a port, and the one function that waits.

use super::PortError;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tracing::Instrument as _;
use tracing::field::Empty;

/// Tells the time and lets it pass. Tests hurry it; nothing else in the core knows time.
pub trait Clock: Send + Sync {
    /// Now, in UTC.
    fn now(&self) -> Timestamp;
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// What one look at the thing that is waited for says.
#[derive(Debug)]
pub enum Waited<T> {
    /// It is as wanted.
    Done(T),
    /// Not yet; the text says what is missing, for the operator.
    NotYet(String),
}

/// Looks with `look` until it says [`Waited::Done`], with pauses that double from a 128th of `usual` to `usual`,
/// then grow to eight times that, each about a thirtieth of the time waited so far: what is quick is noticed at once, and
/// what takes long is asked for rarely and noticed soon all the same.
/// `seen` hears every reason for waiting. `None` where `deadline` passed first; the last reason is then
/// what `seen` heard last.
///
/// # Errors
///
/// The first error of `look`: whoever wants to tolerate one answers `NotYet` instead.
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
