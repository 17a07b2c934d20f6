//! Silence in this process for one step at a time: what a step runs in during which processes died again and again.
//!
//! ```text
//! a step ─ enter ─┬─ nobody wants silence ──────────► it runs ─ dropped ─► gone
//!                 └─ somebody does: it rests ── until there was silence, or for two minutes at most
//! a suspect ─ stand in line ─ steps that run come to their ends ─► it runs alone, for its time ─► the others go on
//! ```
//! Suspects of one tenant do not keep those of others waiting: the tenant that had its turn longest ago is next, and of
//! its suspects the one that outlived the fewest turns. Everybody else works at least as long as they rested before
//! they rest again; a tenant whose step killed a process within the last hour asks for silence late, and ever later.

use event_listener::{Event, EventListener};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first time alone; it doubles with each that a process outlived.
pub(crate) const ALONE: Duration = Duration::from_secs(30);
/// The longest that others rest, the last suspect's time alone not counted.
const LONGEST_REST: Duration = Duration::from_mins(2);
/// How long the suspects that the journal shows may take to ask for silence once a process has started.
const EXPECTED: Duration = Duration::from_secs(15);
/// The longest that a tenant with steps that killed processes waits before it asks for silence.
const LATEST: Duration = Duration::from_mins(30);

/// Who runs, who wants to run alone, who does.
#[derive(Default)]
pub(crate) struct Solitude {
    state: Mutex<State>,
    changed: Event,
}

/// A suspect that waits.
#[derive(Debug)]
struct Place {
    number: u64,
    tenant: String,
    outlived: u32,
    /// When it asks for silence.
    asks: Timestamp,
}

#[derive(Debug, Default)]
struct State {
    /// Steps that run, without the one that runs alone.
    running: usize,
    line: Vec<Place>,
    /// The place that runs alone.
    alone: Option<u64>,
    /// Since when others rest.
    resting_since: Option<Timestamp>,
    /// When somebody was last told to rest.
    rested: Option<Timestamp>,
    /// Until when they work, because they rested before.
    works_until: Option<Timestamp>,
    /// Operations with suspects that the journal shows and that are not driven here yet.
    expected: BTreeSet<String>,
    expected_until: Option<Timestamp>,
    /// By tenant: how many of its steps killed a process.
    killers: BTreeMap<String, u32>,
    /// By tenant: the number of its last turn.
    turns: BTreeMap<String, u64>,
    next: u64,
}

/// What a step runs under; given back when dropped.
pub(crate) struct Pass<'s> {
    solitude: &'s Solitude,
    place: Option<u64>,
    is_alone: bool,
    is_running: bool,
}

impl Solitude {
    /// From now on the suspects of these operations are waited for a while, and a tenant with so many steps that killed
    /// a process asks late.
    pub(crate) fn expect(
        &self,
        operations: BTreeSet<String>,
        killers: BTreeMap<String, u32>,
        now: Timestamp,
    ) {
        let mut state = self.state();
        state.expected = operations;
        state.expected_until = Some(later(now, EXPECTED));
        state.killers = killers;
    }

    /// This operation is driven here, or no more: nobody waits for it.
    pub(crate) fn is_here(&self, op_id: &str) {
        if self.state().expected.remove(op_id) {
            self.changed.notify(usize::MAX);
        }
    }

    /// A step of this tenant killed a process.
    pub(crate) fn killed(&self, tenant: &str) {
        *self.state().killers.entry(tenant.to_owned()).or_default() += 1;
    }

    /// Lets a step run beside others, unless they rest.
    pub(crate) fn enter(&self, now: Timestamp) -> Option<Pass<'_>> {
        let mut state = self.state();
        state.settle(now);
        if state.resting_since.is_some() {
            state.rested = Some(now);
            return None;
        }
        state.running += 1;
        Some(Pass {
            solitude: self,
            place: None,
            is_alone: false,
            is_running: true,
        })
    }

    /// A place in line for a suspect of `tenant` that outlived so many turns.
    pub(crate) fn stand(&self, tenant: &str, outlived: u32, now: Timestamp) -> Pass<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let asks = later(now, state.patience(tenant));
        let tenant = tenant.to_owned();
        state.line.push(Place {
            number,
            tenant,
            outlived,
            asks,
        });
        Pass {
            solitude: self,
            place: Some(number),
            is_alone: false,
            is_running: false,
        }
    }

    /// Completes at the next change.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How long a tenant waits before it asks for silence.
    fn patience(&self, tenant: &str) -> Duration {
        match self.killers.get(tenant) {
            None | Some(0) => Duration::ZERO,
            Some(times) => doubled(ALONE, times - 1).min(LATEST),
        }
    }

    /// Whether anybody wants silence now.
    fn is_wanted(&self, now: Timestamp) -> bool {
        let is_expected = self.expected_until.is_some_and(|until| now < until);
        (is_expected && !self.expected.is_empty())
            || self.line.iter().any(|place| place.asks <= now)
    }

    /// Others begin to rest, or go on; where there is silence somebody gets it.
    fn settle(&mut self, now: Timestamp) {
        if self.alone.is_some() {
            return;
        }
        match self.resting_since {
            None if self.is_wanted(now) && self.works_until.is_none_or(|until| until <= now) => {
                self.resting_since = Some(now);
            }
            Some(_) if !self.is_wanted(now) => self.go_on(now),
            Some(since) if passed(since, now) >= LONGEST_REST => self.go_on(now),
            _ => {}
        }
        if self.resting_since.is_none() || self.running > 0 {
            return;
        }
        let ready = self
            .line
            .iter()
            .enumerate()
            .filter(|(_, place)| place.asks <= now);
        let order = |place: &Place| {
            (
                self.turns.get(&place.tenant).copied(),
                place.outlived,
                place.number,
            )
        };
        if let Some((at, _)) = ready.min_by_key(|(_, place)| order(place)) {
            let place = self.line.remove(at);
            self.alone = Some(place.number);
            self.next += 1;
            self.turns.insert(place.tenant, self.next);
        }
    }

    /// Others work for as long as they rested.
    fn go_on(&mut self, now: Timestamp) {
        if let (Some(since), Some(rested)) = (self.resting_since.take(), self.rested.take()) {
            self.works_until = Some(later(now, passed(since, rested)));
        }
    }
}

impl Pass<'_> {
    /// Whether it runs alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Takes its turn if there is silence for it.
    pub(crate) fn take_turn(&mut self, now: Timestamp) -> bool {
        let mut state = self.solitude.state();
        state.settle(now);
        self.is_alone = self.place.is_some() && state.alone == self.place;
        self.is_alone
    }

    /// It waited for long enough: it runs beside the others.
    pub(crate) fn run_beside(&mut self) {
        let mut state = self.solitude.state();
        state.line.retain(|place| Some(place.number) != self.place);
        state.running += 1;
        self.is_running = true;
    }

    /// Its time alone is over: it runs beside the others. True where further suspects wait for silence, which is not to
    /// be had while it runs.
    pub(crate) fn end_turn(&mut self, now: Timestamp) -> bool {
        let mut state = self.solitude.state();
        state.alone = None;
        state.running += 1;
        (self.is_alone, self.is_running) = (false, true);
        let is_over = state
            .resting_since
            .is_none_or(|since| passed(since, now) >= LONGEST_REST);
        let others_wait = state.line.iter().any(|place| place.asks <= now);
        if is_over || !others_wait {
            state.go_on(now);
        }
        drop(state);
        self.solitude.changed.notify(usize::MAX);
        others_wait && !is_over
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.solitude.state();
        state.line.retain(|place| Some(place.number) != self.place);
        if self.place.is_some() && state.alone == self.place {
            state.alone = None;
        }
        if self.is_running {
            state.running = state.running.saturating_sub(1);
        }
        let is_heard = state.resting_since.is_some() || self.place.is_some();
        drop(state);
        if is_heard {
            self.solitude.changed.notify(usize::MAX);
        }
    }
}

/// The time alone of a step that outlived so many turns.
pub(crate) fn time_alone(outlived: u32, longest: Duration) -> Duration {
    doubled(ALONE, outlived).min(longest)
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
    use super::{ALONE, EXPECTED, LONGEST_REST, Solitude, later, time_alone};
    use jiff::Timestamp;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn after(seconds: u64) -> Timestamp {
        later(START, Duration::from_secs(seconds))
    }

    #[test]
    fn a_suspect_runs_once_the_steps_that_run_have_ended_and_nobody_begins_meanwhile() {
        let solitude = Solitude::default();
        let running = solitude.enter(START).unwrap();
        let mut suspect = solitude.stand("a", 0, START);
        assert!(!suspect.take_turn(START), "a step runs");
        assert!(solitude.enter(START).is_none(), "who comes now rests");
        drop(running);
        assert!(suspect.take_turn(after(1)));
        assert!(solitude.enter(after(2)).is_none());
        assert!(
            !suspect.end_turn(after(31)),
            "nobody else waits for silence"
        );
        assert!(solitude.enter(after(31)).is_some(), "they go on beside it");
    }

    #[test]
    fn a_step_that_does_not_end_holds_the_others_up_for_two_minutes_and_then_they_work_as_long() {
        let solitude = Solitude::default();
        let _running = solitude.enter(START).unwrap();
        let mut suspect = solitude.stand("a", 0, START);
        assert!(!suspect.take_turn(START));
        let rest = LONGEST_REST.as_secs();
        assert!(solitude.enter(after(rest - 1)).is_none());
        assert!(solitude.enter(after(rest)).is_some());
        assert!(
            solitude.enter(after(2 * rest - 2)).is_some(),
            "they work as long as they rested"
        );
        assert!(solitude.enter(after(2 * rest)).is_none());
    }

    #[test]
    fn a_thousand_suspects_of_one_tenant_keep_one_of_another_waiting_for_one_turn() {
        let solitude = Solitude::default();
        let mut of_a: Vec<_> = (0..1000).map(|_| solitude.stand("a", 0, START)).collect();
        let mut of_b = solitude.stand("b", 0, START);
        assert!(of_a[0].take_turn(START), "who came first");
        assert!(!of_b.take_turn(START));
        assert!(of_a[0].end_turn(after(30)), "it makes room: others wait");
        drop(of_a.remove(0));
        assert!(!of_a[0].take_turn(after(30)));
        assert!(
            of_b.take_turn(after(30)),
            "a tenant that had no turn comes before one that had"
        );
    }

    #[test]
    fn a_tenant_whose_steps_killed_processes_asks_late_and_ever_later() {
        let solitude = Solitude::default();
        solitude.expect(
            BTreeSet::new(),
            BTreeMap::from([("a".to_owned(), 2)]),
            START,
        );
        let mut suspect = solitude.stand("a", 0, START);
        assert!(!suspect.take_turn(after(59)));
        assert!(
            solitude.enter(after(59)).is_some(),
            "nobody rests for it yet"
        );
        assert!(suspect.take_turn(after(60)));
        drop(suspect);
        solitude.killed("a");
        let mut next = solitude.stand("a", 0, after(60));
        assert!(!next.take_turn(after(179)));
        assert!(next.take_turn(after(180)));
    }

    #[test]
    fn what_the_journal_shows_is_waited_for_before_anything_begins() {
        let solitude = Solitude::default();
        let expected = || BTreeSet::from(["o1".to_owned()]);
        solitude.expect(expected(), BTreeMap::new(), START);
        assert!(solitude.enter(START).is_none());
        solitude.is_here("o1");
        assert!(solitude.enter(START).is_some());
        solitude.expect(expected(), BTreeMap::new(), START);
        assert!(
            solitude.enter(later(START, EXPECTED)).is_some(),
            "but not for ever"
        );
    }

    #[test]
    fn the_time_alone_doubles_up_to_the_steps_own() {
        let longest = Duration::from_mins(30);
        let times: Vec<_> = (0..3)
            .map(|outlived| time_alone(outlived, longest))
            .collect();
        assert_eq!(times, [ALONE, ALONE * 2, ALONE * 4]);
        assert_eq!(time_alone(u32::MAX, longest), longest);
    }
}
