//! What a case is: where something goes wrong, what it is, and how it is brought to an end.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One call of an operation: the nth of its name in a step. Steps that run side by side keep their addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Address {
    /// The step, `undo …` where it is its opposite; `accept` before the first one.
    pub(crate) step: String,
    /// Its name: `store …`, `ssh.run …`, `hook …`, or as the simulated world calls it.
    pub(crate) call: String,
    /// On what, where its name alone does not say it; `{id}` stands for the instance.
    pub(crate) subject: Option<String>,
    /// Which of them, from 1.
    pub(crate) nth: u32,
}

impl Address {
    /// Whether the simulated world is to play the fault, and not the port.
    pub(crate) fn is_on_the_wire(&self) -> bool {
        !["store ", "ssh.", "hook "]
            .iter()
            .any(|new_resources| self.call.starts_with(new_resources))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = self
            .subject
            .as_deref()
            .map(|on| format!(" {on}"))
            .unwrap_or_default();
        write!(f, "{} {}{subject} #{}", self.step, self.call, self.nth)
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// An error, and nothing was done.
    ErrorBefore,
    /// An error, although it was done.
    ErrorAfter,
    /// No answer until the deadline.
    NoAnswer,
    /// Done and answered, and meanwhile the clock jumps an hour, ahead or back.
    ClockJumps,
    /// The future that drives the operation is dropped; its process lives on.
    Dropped,
    /// The process is killed just before.
    KilledBefore,
    /// The process is killed just after.
    KilledAfter,
}

impl Fault {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::NoAnswer,
        Self::ClockJumps,
        Self::Dropped,
        Self::KilledBefore,
        Self::KilledAfter,
    ];

    /// Whether whoever drives the operation ends here.
    pub(crate) fn ends_the_drive(self) -> bool {
        matches!(self, Self::Dropped | Self::KilledBefore | Self::KilledAfter)
    }
}

/// A fault at an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Where.
    pub(crate) address: Address,
    /// What.
    pub(crate) fault: Fault,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.fault, self.address)
    }
}

/// How an operation that has stopped is brought to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Recovery {
    /// Forward again.
    Retry,
    /// Back; forward again where there is no way back.
    Rollback,
    /// Given up, and what is left is terminated.
    FailAndTerminate,
}

impl Recovery {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Retry, Self::Rollback, Self::FailAndTerminate];
}

/// How a process ends that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// Its runtime is dropped with everything on it.
    Dropped,
    /// A process of its own gets SIGKILL.
    Signal,
}

/// Numbers that look random and come again with the same seed.
#[derive(Debug, Clone)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    /// From a seed and what it is for.
    pub(crate) fn new(seed: u64, what: &str) -> Self {
        let mixed = what
            .bytes()
            .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(mixed)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
