//! Time that passes only when everybody waits for it.
//!
//! Half an hour of deadline costs a millisecond: whoever sleeps is put into a queue, and [`JumpingClock::jump`] goes
//! to the moment at which the first of them wakes. Who may call it, and when, is the matter of [`crate::process`].

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use vnfm_core::ports::Clock;

/// Shorter sleeps are pauses between two looks; longer ones are limits that something else has to beat.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The latest time that a clock of one site has shown: a process that comes after another does not live before it.
/// What happens at other sites does not count, or no run would be like the one before.
#[derive(Clone, Default)]
pub(crate) struct Latest(Arc<Mutex<Option<Timestamp>>>);

impl Latest {
    /// When the next process may begin: at a whole second, for less of it is never asked of a neighbour.
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

/// The clock; clones are the same clock.
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
    /// A clock that shows the time of this machine until it jumps, or what an earlier one has reached.
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

    /// Goes to the moment at which the next sleeper wakes.
    pub(crate) fn jump(&self) {
        let mut state = self.state();
        let Some(at) = state.pass() else { return };
        while let Some(first) = state
            .sleepers
            .first_entry()
            .filter(|first| first.key().0 <= at)
        {
            // It may have gone in this very moment.
            let _ = first.remove().wake.send(());
        }
    }

    /// The same, and of several who wake at one moment only the one that lay down first does.
    pub(crate) fn jump_to_one(&self) {
        let mut state = self.state();
        if state.pass().is_some()
            && let Some((_, first)) = state.sleepers.pop_first()
        {
            let _ = first.wake.send(()); // as above
        }
    }

    /// Shows another time from now on; who sleeps does not notice.
    pub(crate) fn set_offset(&self, offset: SignedDuration) {
        self.state().offset = offset;
    }

    /// Whether somebody pauses between two looks.
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

    /// Lets time pass until the next sleeper wakes.
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
            // The clock is gone only with everybody who looks at it.
            let _ = woken.await;
        })
    }
}
