//! Turns at a VIM: so many calls, and so many operations, at a time; whoever comes later stands in line.
//!
//! ```text
//! call, operation ─ stand ─┬─ there is room ────────────────► its turn ─ dropped ─► the first in line has its turn
//!                          └─ line: 1 2 3 … (its place is told once a second)
//! ```
//! A line belongs to a VIM's address and not to its record, so that what several tenants registered counts as the one
//! Heat that it is. First come, first served: an operation that asks often stands behind the others each time.

use crate::ports::Clock;
use event_listener::Event;
use futures_util::future::{Either, select};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How often somebody in line is told its place.
const TOLD_AGAIN: Duration = Duration::from_secs(1);

/// The lines of all VIMs for one kind of thing.
#[derive(Default)]
pub(crate) struct Turns {
    /// How many at a time; 0: any number.
    limit: Arc<AtomicUsize>,
    lines: Mutex<HashMap<String, Weak<Line>>>,
}

/// The line of one VIM.
struct Line {
    limit: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    having: usize,
    waiting: VecDeque<Arc<Slot>>,
}

/// One place in line.
#[derive(Default)]
struct Slot {
    has_turn: AtomicBool,
    called: Event,
}

/// A turn, or a place in line for one; given back when dropped.
pub(crate) struct Ticket {
    line: Arc<Line>,
    slot: Arc<Slot>,
}

impl Turns {
    /// From now on so many at a time; 0: any number. Those that have their turn keep it.
    pub(crate) fn limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::SeqCst);
        let lines: Vec<_> = lock(&self.lines)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for line in lines {
            line.serve();
        }
    }

    /// How many at a time; 0: any number.
    pub(crate) fn limited_to(&self) -> usize {
        self.limit.load(Ordering::SeqCst)
    }

    /// Stands in the line of the VIM at `address`.
    pub(crate) fn stand(&self, address: &str) -> Ticket {
        let line = self.line(address);
        let slot = Arc::new(Slot::default());
        lock(&line.state).waiting.push_back(slot.clone());
        line.serve();
        Ticket { line, slot }
    }

    fn line(&self, address: &str) -> Arc<Line> {
        let mut lines = lock(&self.lines);
        if let Some(line) = lines.get(address).and_then(Weak::upgrade) {
            return line;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Line {
            limit: self.limit.clone(),
            state: Mutex::default(),
        });
        lines.insert(address.to_owned(), Arc::downgrade(&line));
        line
    }
}

impl Line {
    /// Calls those for whom there is room.
    fn serve(&self) {
        let limit = self.limit.load(Ordering::SeqCst);
        let mut state = lock(&self.state);
        while limit == 0 || state.having < limit {
            let Some(slot) = state.waiting.pop_front() else {
                return;
            };
            state.having += 1;
            slot.has_turn.store(true, Ordering::SeqCst);
            slot.called.notify(usize::MAX);
        }
    }
}

impl Ticket {
    /// Its place in line, from 1; `None` once it has its turn.
    pub(crate) fn place(&self) -> Option<usize> {
        let state = lock(&self.line.state);
        state
            .waiting
            .iter()
            .position(|slot| Arc::ptr_eq(slot, &self.slot))
            .map(|place| place + 1)
    }

    /// Completes once it has its turn; meanwhile `told` hears its place, again and again, and may end the wait by
    /// saying false.
    pub(crate) async fn called(&self, clock: &dyn Clock, told: impl Fn(usize) -> bool) {
        loop {
            let listener = self.slot.called.listen();
            if self.slot.has_turn.load(Ordering::SeqCst) {
                return;
            }
            if let Some(place) = self.place()
                && !told(place)
            {
                return;
            }
            match select(listener, clock.sleep(TOLD_AGAIN)).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = lock(&self.line.state);
        if self.slot.has_turn.load(Ordering::SeqCst) {
            state.having = state.having.saturating_sub(1);
        } else {
            state.waiting.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        }
        drop(state);
        self.line.serve();
    }
}

/// A lock that a panic elsewhere does not make unusable: no change to what it guards can stop half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::Turns;

    #[test]
    fn so_many_at_a_time_in_the_order_in_which_they_came() {
        let turns = Turns::default();
        turns.limit(2);
        let mut all: Vec<_> = (0..5).map(|_| turns.stand("a")).collect();
        let places =
            |all: &[super::Ticket]| all.iter().map(super::Ticket::place).collect::<Vec<_>>();
        assert_eq!(places(&all), [None, None, Some(1), Some(2), Some(3)]);
        assert_eq!(
            turns.stand("b").place(),
            None,
            "another VIM has a line of its own"
        );
        drop(all.remove(3)); // it went away before its turn
        drop(all.remove(0));
        assert_eq!(places(&all), [None, None, Some(1)]);
        turns.limit(0);
        assert_eq!(places(&all), [None, None, None]);
        turns.limit(1);
        let late = turns.stand("a");
        all.clear();
        assert_eq!(late.place(), None);
    }
}
