//! A clock that advances only when everything waits for it.
//!
//! Half an hour of deadline costs a millisecond: sleepers are queued, and [`JumpingClock::jump`] advances to the time at
//! which the first one wakes. [`crate::process`] decides when to call it.

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use vnfm_core::ports::Clock;

/// Shorter sleeps are polling intervals; the others are timeouts that work has to beat: the shortest is that of
/// `vim.list-time`.
const MAX_PAUSE: Duration = Duration::from_secs(20);

/// The latest time that any clock of a site has shown: a process never starts before its predecessor ended. Each site
/// has its own, otherwise runs would not be reproducible.
#[derive(Clone, Default)]
pub(crate) struct Latest(Arc<Mutex<Option<Timestamp>>>);

impl Latest {
    /// Start time of the next process: a full second, because requests to neighbours never use fractions.
    fn begin(&self) -> Timestamp {
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
        self.lock().map_or(now, |latest| latest.max(now))
    }

    fn reach(&self, time: Timestamp) {
        let mut latest = self.lock();
        *latest = (*latest).max(Some(time));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clock; clones share it.
#[derive(Clone)]
pub(crate) struct JumpingClock(Arc<Mutex<State>>);

struct State {
    began: Timestamp,
    elapsed: Duration,
    offset: SignedDuration,
    sleepers: BTreeMap<(Duration, u64), Sleeper>,
    number: u64,
    latest: Latest,
}

struct Sleeper {
    wake: oneshot::Sender<()>,
    pauses: bool,
}

impl JumpingClock {
    /// Starts at the time of this machine, or at the time that an earlier clock has reached.
    pub(crate) fn new(latest: &Latest) -> Self {
        Self(Arc::new(Mutex::new(State {
            began: latest.begin(),
            elapsed: Duration::ZERO,
            offset: SignedDuration::ZERO,
            sleepers: BTreeMap::new(),
            number: 0,
            latest: latest.clone(),
        })))
    }

    /// Advances to the time at which the next sleeper wakes.
    pub(crate) fn jump(&self) {
        let mut state = self.state();
        let Some(at) = state.pass() else { return };
        while let Some(first) = state
            .sleepers
            .first_entry()
            .filter(|first| first.key().0 <= at)
        {
            // It may have been cancelled at this moment.
            let _ = first.remove().wake.send(());
        }
    }

    /// As [`Self::jump`], but wakes only the first of several sleepers with the same wake time.
    pub(crate) fn jump_to_one(&self) {
        let mut state = self.state();
        if state.pass().is_some()
            && let Some((_, first)) = state.sleepers.pop_first()
        {
            let _ = first.wake.send(()); // as above
        }
    }

    /// Shifts the displayed time; sleepers are not affected.
    pub(crate) fn set_offset(&self, offset: SignedDuration) {
        self.state().offset = offset;
    }

    /// Whether anything sleeps for a polling interval.
    pub(crate) fn is_paused(&self) -> bool {
        let mut state = self.state();
        state.drop_cancelled();
        state.sleepers.values().any(|sleeper| sleeper.pauses)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn now(&self) -> Timestamp {
        self.true_now()
            .saturating_add(self.offset)
            .unwrap_or(Timestamp::MAX)
    }

    fn true_now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed).unwrap_or(SignedDuration::MAX);
        self.began.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Advances to the next wake time.
    fn pass(&mut self) -> Option<Duration> {
        self.drop_cancelled();
        let (&(at, _), _) = self.sleepers.first_key_value()?;
        self.elapsed = at;
        self.latest.reach(self.true_now());
        Some(at)
    }

    fn drop_cancelled(&mut self) {
        self.sleepers.retain(|_, sleeper| !sleeper.wake.is_closed());
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        self.state().now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (wake, woken) = oneshot::channel();
        let mut state = self.state();
        state.number += 1;
        let key = (state.elapsed.saturating_add(duration), state.number);
        state.sleepers.insert(
            key,
            Sleeper {
                wake,
                pauses: duration < MAX_PAUSE,
            },
        );
        Box::pin(async move {
            // The sender is dropped only with everything that uses the clock.
            let _ = woken.await;
        })
    }
}
