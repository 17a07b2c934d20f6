//! The pauses of a loop that waits. Everything that waits for a neighbour is a plain loop:
//!
//! ```text
//! loop {
//!     if look().await? { return Ok(()) }
//!     if let Err(Expired) = backoff.pause("the stack to be created").await { return Err(too_late()) }
//! }
//! ```

use super::{Clock, VimCall, Watcher};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// The deadline passed while something was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired;

/// The growing pauses between looks, up to a deadline; the watcher learns what each is for.
///
/// They double from a 128th of the interval to the interval, then grow by a thirtieth to eight times that: a quick change
/// is noticed at once, and a long wait looks rarely.
pub struct Backoff<'a> {
    clock: &'a dyn Clock,
    watcher: &'a dyn Watcher,
    deadline: Timestamp,
    next: Duration,
    interval: Duration,
    span: Span,
}

impl<'a> Backoff<'a> {
    /// Pauses of about `interval`, at most until `deadline`.
    pub fn new(
        clock: &'a dyn Clock,
        watcher: &'a dyn Watcher,
        deadline: Timestamp,
        interval: Duration,
    ) -> Self {
        Self {
            clock,
            watcher,
            deadline,
            next: interval / 128,
            interval,
            span: tracing::info_span!("wait", last_pause_ms = Empty),
        }
    }

    /// Pauses of a call to a VIM, at most until the deadline of its step.
    pub fn for_call(cx: &VimCall<'a>, interval: Duration) -> Self {
        Self::new(cx.clock, cx.watcher, cx.deadline, interval)
    }

    /// Begins with a pause of `first`.
    #[must_use]
    pub fn starting_with(mut self, first: Duration) -> Self {
        self.next = first;
        self
    }

    /// The span of the wait, for the looks between the pauses.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// Waits for the next look; `reason` says what for.
    ///
    /// # Errors
    ///
    /// [`Expired`] once the deadline has passed. The last pause ends at the deadline, so that one look is left.
    pub async fn pause(&mut self, reason: &str) -> Result<(), Expired> {
        self.watcher.waiting(reason);
        let left = self.left()?;
        self.sleep(self.next.min(left)).await;
        Ok(())
    }

    /// Waits before a call is repeated: for `wanted`, such as the server's `Retry-After`, or for the next pause.
    ///
    /// # Errors
    ///
    /// [`Expired`], at once, if the repetition would come after the deadline.
    pub async fn retry(&mut self, reason: &str, wanted: Option<Duration>) -> Result<(), Expired> {
        let pause = wanted.unwrap_or(self.next);
        if pause >= self.left()? {
            return Err(Expired);
        }
        self.watcher.waiting(reason);
        self.sleep(pause).await;
        Ok(())
    }

    fn left(&self) -> Result<Duration, Expired> {
        let left = self.deadline.duration_since(self.clock.now());
        if left <= SignedDuration::ZERO {
            return Err(Expired);
        }
        Ok(left.unsigned_abs())
    }

    async fn sleep(&mut self, pause: Duration) {
        self.clock.sleep(pause).instrument(self.span()).await;
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.span.record("last_pause_ms", millis);
        self.next = if self.next < self.interval {
            (self.next * 2).min(self.interval)
        } else {
            (self.next * 33 / 32).min(self.interval * 8)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use futures_util::future::{BoxFuture, ready};
    use std::sync::Mutex;

    /// A clock whose sleeps end at once and are recorded.
    #[derive(Default)]
    struct Recorder {
        slept: Mutex<Vec<Duration>>,
        reasons: Mutex<Vec<String>>,
    }

    impl Clock for Recorder {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + self.slept.lock().unwrap().iter().sum::<Duration>()
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            self.slept.lock().unwrap().push(duration);
            Box::pin(ready(()))
        }
    }

    impl Watcher for Recorder {
        fn waiting(&self, what: &str) {
            self.reasons.lock().unwrap().push(what.to_owned());
        }
        fn progress(&self, _: u8, _: &str) {}
        fn log(&self, _: &str, _: &str, _: &str) {}
    }

    const INTERVAL: Duration = Duration::from_millis(1280);

    fn backoff(world: &Recorder, seconds: i64) -> Backoff<'_> {
        let deadline = Timestamp::from_second(seconds).unwrap();
        Backoff::new(world, world, deadline, INTERVAL)
    }

    #[test]
    fn pauses_grow_and_the_last_one_ends_at_the_deadline() {
        let world = Recorder::default();
        let mut backoff = backoff(&world, 600);
        let mut looks = 0;
        while backoff.pause("it").now_or_never() == Some(Ok(())) {
            looks += 1;
        }
        let slept = world.slept.lock().unwrap();
        assert_eq!(slept.len(), looks);
        assert_eq!(slept[..3], [10, 20, 40].map(Duration::from_millis));
        assert!(slept.iter().all(|pause| *pause <= INTERVAL * 8));
        assert_eq!(slept.iter().sum::<Duration>(), Duration::from_mins(10));
        assert_eq!(world.reasons.lock().unwrap().len(), looks + 1);
    }

    #[test]
    fn a_retry_that_would_come_too_late_is_not_waited_for() {
        let world = Recorder::default();
        let mut backoff = backoff(&world, 10).starting_with(Duration::from_secs(1));
        let mut retry = |wanted: Option<u64>| {
            let wanted = wanted.map(Duration::from_secs);
            backoff.retry("it", wanted).now_or_never().unwrap()
        };
        assert_eq!(retry(Some(7)), Ok(()));
        assert_eq!(retry(Some(3)), Err(Expired));
        assert_eq!(retry(None), Ok(()), "there is time for its own pause");
        assert_eq!(world.now(), Timestamp::from_millisecond(8_280).unwrap());
        assert_eq!(world.reasons.lock().unwrap().len(), 2);
    }
}
