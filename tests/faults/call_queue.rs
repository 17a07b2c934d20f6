//! Serializes concurrent calls in a reproducible order.
//!
//! A call continues only when everything else is idle. Which one is next depends on the seed and on the waiting calls,
//! never on the speed of the machine.

use std::collections::BTreeMap;
use tokio::sync::oneshot;

use crate::plan::SeededRng;

/// Waiting calls, by name and then by arrival.
pub(crate) struct CallQueue {
    waiting: BTreeMap<(String, u64), oneshot::Sender<()>>,
    number: u64,
    rng: SeededRng,
}

impl CallQueue {
    /// A queue without calls, whose order the seed decides.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            waiting: BTreeMap::new(),
            number: 0,
            rng: SeededRng::new(seed, "who is next"),
        }
    }

    /// Adds a call; the receiver completes when the call may continue.
    pub(crate) fn enqueue(&mut self, call: String) -> oneshot::Receiver<()> {
        let (turn, called) = oneshot::channel();
        self.number += 1;
        self.waiting.insert((call, self.number), turn);
        called
    }

    /// Whether any call waits for its turn.
    pub(crate) fn has_waiting(&mut self) -> bool {
        self.waiting.retain(|_, turn| !turn.is_closed());
        !self.waiting.is_empty()
    }

    /// Releases one call; false if none waits.
    pub(crate) fn release_next(&mut self) -> bool {
        while self.has_waiting() {
            let index = self.rng.below(self.waiting.len());
            let next = self.waiting.keys().nth(index).cloned();
            let turn = next.and_then(|next| self.waiting.remove(&next));
            // It may have been cancelled at this moment; then try the next one.
            if turn.is_some_and(|turn| turn.send(()).is_ok()) {
                return true;
            }
        }
        false
    }
}
