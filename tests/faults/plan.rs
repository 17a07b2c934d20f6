//! What a case consists of: the address of a fault, its kind, and the recovery.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One call of an operation: the nth of its name in a step. Addresses stay the same when steps run in parallel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Address {
    /// The step; `undo …` when it is undone; `accept` before the first step.
    pub(crate) step: String,
    /// Its name: `store …`, `ssh.run …`, `hook …`, or the simulated world's name.
    pub(crate) call: String,
    /// Its object, unless the name includes it; `{id}` stands for the instance.
    pub(crate) subject: Option<String>,
    /// Its number among the calls of that name, from 1.
    pub(crate) nth: u32,
}

impl Address {
    /// Whether the simulated world injects the fault, instead of the port.
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

/// A kind of fault. Earlier versions read the names: they are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// The call fails without effect.
    ErrorBefore,
    /// The call takes effect, but returns an error.
    ErrorAfter,
    /// No response until the deadline.
    NoAnswer,
    /// The call succeeds, and meanwhile the clock jumps an hour ahead or back.
    ClockJumps,
    /// The future that drives the operation is dropped; the process continues.
    Dropped,
    /// The process is killed just before the call.
    KilledBefore,
    /// The process is killed just after the call.
    KilledAfter,
}

impl Fault {
    pub(crate) const ALL: [Self; 7] = [
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::NoAnswer,
        Self::ClockJumps,
        Self::Dropped,
        Self::KilledBefore,
        Self::KilledAfter,
    ];

    /// Whether the fault stops the driving of the operation.
    pub(crate) fn ends_the_drive(self) -> bool {
        matches!(self, Self::Dropped | Self::KilledBefore | Self::KilledAfter)
    }
}

/// A fault at an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The call that the fault strikes.
    pub(crate) address: Address,
    pub(crate) fault: Fault,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.fault, self.address)
    }
}

/// How to recover an operation that has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Recovery {
    Retry,
    /// Roll back; retry after the point of no return.
    Rollback,
    /// Fail the operation, then terminate the instance.
    FailAndTerminate,
}

impl Recovery {
    pub(crate) const ALL: [Self; 3] = [Self::Retry, Self::Rollback, Self::FailAndTerminate];
}

/// How a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// The runtime of the call is dropped.
    Dropped,
    /// A separate process gets SIGKILL.
    Signal,
}

/// A generator of pseudo-random numbers, from a seed.
#[derive(Debug, Clone)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    /// A generator for one purpose; each purpose has its own sequence.
    pub(crate) fn new(seed: u64, what: &str) -> Self {
        let mixed = what
            .bytes()
            .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(mixed)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    /// One of `of`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
