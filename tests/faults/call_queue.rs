//! The line in which calls wait for their turn, where many things happen at once and shall happen so again.
//!
//! Nobody goes on before everybody else rests, and who is next depends on the seed and on what the calls are; how fast
//! the machine is does not matter.

use std::collections::BTreeMap;
use tokio::sync::oneshot;

use crate::plan::SeededRng;

/// Calls that wait, by what they are, and the same ones in the order in which they came.
pub(crate) struct CallQueue {
    waiting: BTreeMap<(String, u64), oneshot::Sender<()>>,
    number: u64,
    rng: SeededRng,
}

impl CallQueue {
    /// An empty one.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            waiting: BTreeMap::new(),
            number: 0,
            rng: SeededRng::new(seed, "who is next"),
        }
    }

    /// A call stands in it; what is returned completes when it is called.
    pub(crate) fn enqueue(&mut self, call: String) -> oneshot::Receiver<()> {
        let (turn, called) = oneshot::channel();
        self.number += 1;
        self.waiting.insert((call, self.number), turn);
        called
    }

    /// Whether somebody waits.
    pub(crate) fn has_waiting(&mut self) -> bool {
        self.waiting.retain(|_, turn| !turn.is_closed());
        !self.waiting.is_empty()
    }

    /// Calls one of them; whether there was one.
    pub(crate) fn release_next(&mut self) -> bool {
        while self.has_waiting() {
            let index = self.rng.below(self.waiting.len());
            let next = self.waiting.keys().nth(index).cloned();
            let turn = next.and_then(|next| self.waiting.remove(&next));
            // It may have gone in this very moment; others wait all the same.
            if turn.is_some_and(|turn| turn.send(()).is_ok()) {
                return true;
            }
        }
        false
    }
}
