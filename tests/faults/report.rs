//! What a run found, for people and as JSON.

use serde::Serialize;
use std::time::Duration;
use vnfm_tests::machine::{self, Costs};

/// A case that did not hold.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failure {
    /// The operation, and of what.
    pub(crate) operation: String,
    /// The step.
    pub(crate) step: String,
    /// What went wrong, where, and how it was to end.
    pub(crate) fault: String,
    /// What did not hold.
    pub(crate) why: String,
}

/// A run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// What it can be run again with.
    pub(crate) seed: u64,
    /// Cases whose fault struck.
    pub(crate) cases: usize,
    /// How long it took.
    pub(crate) seconds: f64,
    /// Cases that did not hold.
    pub(crate) failed: Vec<Failure>,
    /// Cases whose call did not come this time: looks at what is waited for vary in number.
    pub(crate) missed: usize,
    /// What cases of each kind of fault have cost.
    pub(crate) kinds: Costs,
    /// What was called in pairs and crowds, in order.
    #[serde(skip)]
    pub(crate) journal: Vec<String>,
}

impl Report {
    /// An empty one.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// A case of this kind held.
    pub(crate) fn hold(&mut self, kind: &str, took: Duration) {
        self.kinds.add(kind, took, false);
        self.cases += 1;
        machine::say(self.cases, self.failed.len());
    }

    /// A case's call did not come.
    pub(crate) fn miss(&mut self, what: &str) {
        self.missed += 1;
        if std::env::var_os("VNFM_FAULTS_MISSED").is_some() {
            eprintln!("missed: {what}");
        }
    }

    /// A case did not hold.
    pub(crate) fn fail(&mut self, failure: Failure) {
        eprintln!(
            "FAILED {} at `{}` ({}): {}",
            failure.operation, failure.step, failure.fault, failure.why
        );
        self.cases += 1;
        self.failed.push(failure);
    }

    /// Adds what another run found.
    pub(crate) fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.seconds += other.seconds;
        self.failed.extend(other.failed);
        self.missed += other.missed;
        self.journal.extend(other.journal);
        self.kinds.extend(other.kinds);
    }
}
