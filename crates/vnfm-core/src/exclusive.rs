//! Exclusive execution for steps during which processes died repeatedly.
//!
//! ```text
//! a step    ─ enter ─┬─ no exclusive request ─► runs ─ dropped
//!                    └─ otherwise: pauses, until the exclusive run has ended, for at most two minutes
//! a suspect ─ queue ─ running steps finish ─► runs exclusively for a while ─► the others continue
//! ```
//! Suspects of one tenant do not delay those of others: the tenant whose last turn is longest ago is next, and of its
//! suspects the one that survived the fewest turns. After a pause, other steps run for at least as long as they paused; a
//! tenant whose step killed a process within the last hour requests exclusive execution late, and later each time.

use event_listener::{Event, EventListener};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Duration of the first exclusive run; doubles with each one that a process survived.
pub(crate) const FIRST_EXCLUSIVE_RUN: Duration = Duration::from_secs(30);
/// The longest pause of other steps, not counting the last suspect's exclusive run.
const MAX_PAUSE: Duration = Duration::from_mins(2);
/// How long after the start of a process the suspects in the journal may take to request exclusive execution.
const EXPECTED_SUSPECTS_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest delay of a tenant with steps that killed processes.
const MAX_DELAY: Duration = Duration::from_mins(30);

/// Coordinates running, waiting and exclusive steps.
#[derive(Default)]
pub(crate) struct Exclusion {
    state: Mutex<State>,
    changed: Event,
}

/// A suspect that waits for its exclusive execution.
#[derive(Debug)]
struct Suspect {
    number: u64,
    tenant: String,
    outlived: u32,
    /// When it requests exclusive execution.
    requests_at: Timestamp,
}

#[derive(Debug, Default)]
struct State {
    /// Number of running steps, without the exclusive one.
    running: usize,
    queue: Vec<Suspect>,
    /// Number of the exclusive suspect.
    alone: Option<u64>,
    /// Since when other steps are paused.
    paused_since: Option<Timestamp>,
    /// When a step was last asked to pause.
    last_paused: Option<Timestamp>,
    /// Other steps may run until then, because they were paused before.
    runs_until: Option<Timestamp>,
    /// Operations with suspects in the journal that are not driven here yet.
    expected: BTreeSet<String>,
    expected_until: Option<Timestamp>,
    /// By tenant: number of its steps that killed a process.
    killers: BTreeMap<String, u32>,
    /// By tenant: number of its last turn.
    turns: BTreeMap<String, u64>,
    next: u64,
}

/// Permission to run a step; released when dropped.
pub(crate) struct Pass<'s> {
    exclusion: &'s Exclusion,
    number: Option<u64>,
    is_alone: bool,
    is_running: bool,
}

impl Exclusion {
    /// Sets the suspects to wait for after the start of a process, and the tenants whose requests are delayed.
    pub(crate) fn expect(
        &self,
        operations: BTreeSet<String>,
        killers: BTreeMap<String, u32>,
        now: Timestamp,
    ) {
        let mut state = self.state();
        state.expected = operations;
        state.expected_until = Some(later(now, EXPECTED_SUSPECTS_TIMEOUT));
        state.killers = killers;
    }

    /// The operation is driven here, or will not be: do not wait for it.
    pub(crate) fn arrived(&self, op_id: &str) {
        if self.state().expected.remove(op_id) {
            self.changed.notify(usize::MAX);
        }
    }

    pub(crate) fn killed(&self, tenant: &str) {
        *self.state().killers.entry(tenant.to_owned()).or_default() += 1;
    }

    /// Permission to run concurrently; `None` while steps are paused.
    pub(crate) fn enter(&self, now: Timestamp) -> Option<Pass<'_>> {
        let mut state = self.state();
        state.update(now);
        if state.paused_since.is_some() {
            state.last_paused = Some(now);
            return None;
        }
        state.running += 1;
        Some(Pass {
            exclusion: self,
            number: None,
            is_alone: false,
            is_running: true,
        })
    }

    /// Queues a suspect of `tenant` that survived `outlived` turns.
    pub(crate) fn queue_suspect(&self, tenant: &str, outlived: u32, now: Timestamp) -> Pass<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let requests_at = later(now, state.delay(tenant));
        let tenant = tenant.to_owned();
        state.queue.push(Suspect {
            number,
            tenant,
            outlived,
            requests_at,
        });
        Pass {
            exclusion: self,
            number: Some(number),
            is_alone: false,
            is_running: false,
        }
    }

    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Delay of a tenant before it requests exclusive execution.
    fn delay(&self, tenant: &str) -> Duration {
        match self.killers.get(tenant) {
            None | Some(0) => Duration::ZERO,
            Some(times) => doubled(FIRST_EXCLUSIVE_RUN, times - 1).min(MAX_DELAY),
        }
    }

    /// Whether a suspect requests exclusive execution now.
    fn is_requested(&self, now: Timestamp) -> bool {
        let is_expected = self.expected_until.is_some_and(|until| now < until);
        (is_expected && !self.expected.is_empty())
            || self.queue.iter().any(|suspect| suspect.requests_at <= now)
    }

    /// Pauses or continues other steps; once nothing runs, selects the next suspect.
    fn update(&mut self, now: Timestamp) {
        if self.alone.is_some() {
            return;
        }
        match self.paused_since {
            None if self.is_requested(now) && self.runs_until.is_none_or(|until| until <= now) => {
                self.paused_since = Some(now);
            }
            Some(_) if !self.is_requested(now) => self.resume(now),
            Some(since) if passed(since, now) >= MAX_PAUSE => self.resume(now),
            _ => {}
        }
        if self.paused_since.is_none() || self.running > 0 {
            return;
        }
        let ready = self
            .queue
            .iter()
            .enumerate()
            .filter(|(_, suspect)| suspect.requests_at <= now);
        let order = |suspect: &Suspect| {
            (
                self.turns.get(&suspect.tenant).copied(),
                suspect.outlived,
                suspect.number,
            )
        };
        if let Some((at, _)) = ready.min_by_key(|(_, suspect)| order(suspect)) {
            let suspect = self.queue.remove(at);
            self.alone = Some(suspect.number);
            self.next += 1;
            self.turns.insert(suspect.tenant, self.next);
        }
    }

    /// Lets other steps run for as long as they were paused.
    fn resume(&mut self, now: Timestamp) {
        if let (Some(since), Some(last_paused)) =
            (self.paused_since.take(), self.last_paused.take())
        {
            self.runs_until = Some(later(now, passed(since, last_paused)));
        }
    }
}

impl Pass<'_> {
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Takes the exclusive turn if it is due.
    pub(crate) fn take_turn(&mut self, now: Timestamp) -> bool {
        let mut state = self.exclusion.state();
        state.update(now);
        self.is_alone = self.number.is_some() && state.alone == self.number;
        self.is_alone
    }

    /// Stops waiting: the suspect runs concurrently with others.
    pub(crate) fn run_concurrently(&mut self) {
        let mut state = self.exclusion.state();
        state
            .queue
            .retain(|suspect| Some(suspect.number) != self.number);
        state.running += 1;
        self.is_running = true;
    }

    /// Ends the exclusive run; the step continues concurrently. True if more suspects wait for their turn, which they cannot
    /// get while this step runs.
    pub(crate) fn end_turn(&mut self, now: Timestamp) -> bool {
        let mut state = self.exclusion.state();
        state.alone = None;
        state.running += 1;
        (self.is_alone, self.is_running) = (false, true);
        let is_over = state
            .paused_since
            .is_none_or(|since| passed(since, now) >= MAX_PAUSE);
        let others_wait = state.queue.iter().any(|suspect| suspect.requests_at <= now);
        if is_over || !others_wait {
            state.resume(now);
        }
        drop(state);
        self.exclusion.changed.notify(usize::MAX);
        others_wait && !is_over
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.exclusion.state();
        state
            .queue
            .retain(|suspect| Some(suspect.number) != self.number);
        if self.number.is_some() && state.alone == self.number {
            state.alone = None;
        }
        if self.is_running {
            state.running = state.running.saturating_sub(1);
        }
        let is_heard = state.paused_since.is_some() || self.number.is_some();
        drop(state);
        if is_heard {
            self.exclusion.changed.notify(usize::MAX);
        }
    }
}

/// Duration of the exclusive run of a step that survived `outlived` turns.
pub(crate) fn exclusive_time(outlived: u32, timeout: Duration) -> Duration {
    doubled(FIRST_EXCLUSIVE_RUN, outlived).min(timeout)
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(20))
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(since).try_into().unwrap_or_default()
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::{
        EXPECTED_SUSPECTS_TIMEOUT, Exclusion, FIRST_EXCLUSIVE_RUN, MAX_PAUSE, exclusive_time, later,
    };
    use jiff::Timestamp;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn after(seconds: u64) -> Timestamp {
        later(START, Duration::from_secs(seconds))
    }

    #[test]
    fn a_suspect_runs_after_running_steps_end_and_no_step_starts_meanwhile() {
        let exclusion = Exclusion::default();
        let running = exclusion.enter(START).unwrap();
        let mut suspect = exclusion.queue_suspect("a", 0, START);
        assert!(!suspect.take_turn(START), "a step is running");
        assert!(exclusion.enter(START).is_none(), "new steps are paused");
        drop(running);
        assert!(suspect.take_turn(after(1)));
        assert!(exclusion.enter(after(2)).is_none());
        assert!(!suspect.end_turn(after(31)), "no other suspect waits");
        assert!(exclusion.enter(after(31)).is_some(), "other steps continue");
    }

    #[test]
    fn a_hanging_step_pauses_others_for_two_minutes_and_then_they_run_as_long() {
        let exclusion = Exclusion::default();
        let _running = exclusion.enter(START).unwrap();
        let mut suspect = exclusion.queue_suspect("a", 0, START);
        assert!(!suspect.take_turn(START));
        let rest = MAX_PAUSE.as_secs();
        assert!(exclusion.enter(after(rest - 1)).is_none());
        assert!(exclusion.enter(after(rest)).is_some());
        assert!(
            exclusion.enter(after(2 * rest - 2)).is_some(),
            "they run as long as they were paused"
        );
        assert!(exclusion.enter(after(2 * rest)).is_none());
    }

    #[test]
    fn a_thousand_suspects_of_one_tenant_delay_another_tenant_by_one_turn() {
        let exclusion = Exclusion::default();
        let mut of_a: Vec<_> = (0..1000)
            .map(|_| exclusion.queue_suspect("a", 0, START))
            .collect();
        let mut of_b = exclusion.queue_suspect("b", 0, START);
        assert!(of_a[0].take_turn(START), "first come, first served");
        assert!(!of_b.take_turn(START));
        assert!(of_a[0].end_turn(after(30)), "others wait");
        drop(of_a.remove(0));
        assert!(!of_a[0].take_turn(after(30)));
        assert!(
            of_b.take_turn(after(30)),
            "a tenant without a turn comes first"
        );
    }

    #[test]
    fn a_tenant_whose_steps_killed_processes_is_delayed_longer_each_time() {
        let exclusion = Exclusion::default();
        exclusion.expect(
            BTreeSet::new(),
            BTreeMap::from([("a".to_owned(), 2)]),
            START,
        );
        let mut suspect = exclusion.queue_suspect("a", 0, START);
        assert!(!suspect.take_turn(after(59)));
        assert!(
            exclusion.enter(after(59)).is_some(),
            "no step is paused for it yet"
        );
        assert!(suspect.take_turn(after(60)));
        drop(suspect);
        exclusion.killed("a");
        let mut next = exclusion.queue_suspect("a", 0, after(60));
        assert!(!next.take_turn(after(179)));
        assert!(next.take_turn(after(180)));
    }

    #[test]
    fn suspects_in_the_journal_are_awaited_before_any_step_starts() {
        let exclusion = Exclusion::default();
        let expected = || BTreeSet::from(["o1".to_owned()]);
        exclusion.expect(expected(), BTreeMap::new(), START);
        assert!(exclusion.enter(START).is_none());
        exclusion.arrived("o1");
        assert!(exclusion.enter(START).is_some());
        exclusion.expect(expected(), BTreeMap::new(), START);
        assert!(
            exclusion
                .enter(later(START, EXPECTED_SUSPECTS_TIMEOUT))
                .is_some(),
            "but only for a limited time"
        );
    }

    #[test]
    fn the_exclusive_time_doubles_up_to_the_timeout_of_the_step() {
        let timeout = Duration::from_mins(30);
        let times: Vec<_> = (0..3)
            .map(|outlived| exclusive_time(outlived, timeout))
            .collect();
        assert_eq!(
            times,
            [
                FIRST_EXCLUSIVE_RUN,
                FIRST_EXCLUSIVE_RUN * 2,
                FIRST_EXCLUSIVE_RUN * 4
            ]
        );
        assert_eq!(exclusive_time(u32::MAX, timeout), timeout);
    }
}
