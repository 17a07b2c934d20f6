//! Limits concurrent calls and concurrent operations per VIM; later ones queue for a slot.
//!
//! ```text
//! call, operation ─ request ─┬─ a slot is free ────────────────────────► runs ─ dropped ─► next in the queue
//!                            └─ queue: 1 2 3 … (position reported every second)
//! ```
//! A queue belongs to a VIM's address and not to its record, so that what several tenants registered counts as the one
//! Heat that it is. First come, first served: an operation with many calls queues behind the others each time.

use crate::ports::Clock;
use event_listener::Event;
use futures_util::future::{Either, select};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Interval at which the queue position is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The queues of all VIMs for one kind of work.
#[derive(Default)]
pub(crate) struct VimLimiter {
    /// Maximum concurrent slots per VIM; 0: unlimited.
    limit: Arc<AtomicUsize>,
    queues: Mutex<HashMap<String, Weak<Queue>>>,
}

struct Queue {
    limit: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_use: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

/// A request for a slot.
#[derive(Default)]
struct Waiter {
    has_slot: AtomicBool,
    assigned: Event,
}

/// A slot or a request for one; released when dropped.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    waiter: Arc<Waiter>,
}

impl VimLimiter {
    /// Sets the maximum; 0: unlimited. Slots in use stay.
    pub(crate) fn set_max(&self, limit: usize) {
        self.limit.store(limit, Ordering::SeqCst);
        let queues: Vec<_> = lock(&self.queues)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for queue in queues {
            queue.assign_slots();
        }
    }

    /// The current maximum; 0: unlimited.
    pub(crate) fn max(&self) -> usize {
        self.limit.load(Ordering::SeqCst)
    }

    /// Requests a slot at the VIM with this address.
    pub(crate) fn request(&self, address: &str) -> Ticket {
        let queue = self.queue(address);
        let waiter = Arc::new(Waiter::default());
        lock(&queue.state).waiting.push_back(waiter.clone());
        queue.assign_slots();
        Ticket { queue, waiter }
    }

    fn queue(&self, address: &str) -> Arc<Queue> {
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.get(address).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Queue {
            limit: self.limit.clone(),
            state: Mutex::default(),
        });
        queues.insert(address.to_owned(), Arc::downgrade(&queue));
        queue
    }
}

impl Queue {
    /// Assigns free slots to the first in the queue.
    fn assign_slots(&self) {
        let limit = self.limit.load(Ordering::SeqCst);
        let mut state = lock(&self.state);
        while limit == 0 || state.in_use < limit {
            let Some(waiter) = state.waiting.pop_front() else {
                return;
            };
            state.in_use += 1;
            waiter.has_slot.store(true, Ordering::SeqCst);
            waiter.assigned.notify(usize::MAX);
        }
    }
}

impl Ticket {
    /// Position in the queue, from 1; `None` once it has a slot.
    pub(crate) fn position(&self) -> Option<usize> {
        let state = lock(&self.queue.state);
        state
            .waiting
            .iter()
            .position(|waiter| Arc::ptr_eq(waiter, &self.waiter))
            .map(|position| position + 1)
    }

    /// Waits for the slot. Meanwhile `report` gets the position repeatedly, and may end the wait by returning false.
    pub(crate) async fn wait_for_slot(&self, clock: &dyn Clock, report: impl Fn(usize) -> bool) {
        loop {
            let listener = self.waiter.assigned.listen();
            if self.waiter.has_slot.load(Ordering::SeqCst) {
                return;
            }
            if let Some(position) = self.position()
                && !report(position)
            {
                return;
            }
            match select(listener, clock.sleep(REPORT_INTERVAL)).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        if self.waiter.has_slot.load(Ordering::SeqCst) {
            state.in_use = state.in_use.saturating_sub(1);
        } else {
            state
                .waiting
                .retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        }
        drop(state);
        self.queue.assign_slots();
    }
}

/// Ignores poisoning: no change to the guarded state can stop half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::VimLimiter;

    #[test]
    fn slots_are_limited_and_assigned_in_order() {
        let limiter = VimLimiter::default();
        limiter.set_max(2);
        let mut all: Vec<_> = (0..5).map(|_| limiter.request("a")).collect();
        let places =
            |all: &[super::Ticket]| all.iter().map(super::Ticket::position).collect::<Vec<_>>();
        assert_eq!(places(&all), [None, None, Some(1), Some(2), Some(3)]);
        assert_eq!(
            limiter.request("b").position(),
            None,
            "another VIM has its own queue"
        );
        drop(all.remove(3)); // it gave up before it had a slot
        drop(all.remove(0));
        assert_eq!(places(&all), [None, None, Some(1)]);
        limiter.set_max(0);
        assert_eq!(places(&all), [None, None, None]);
        limiter.set_max(1);
        let late = limiter.request("a");
        all.clear();
        assert_eq!(late.position(), None);
    }
}
