//! The report of a run, as text and as JSON.

use serde::Serialize;
use std::time::Duration;
use vnfm_tests::machine::{self, Costs};

/// A case that failed, and why.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failure {
    /// The operation and its package.
    pub(crate) operation: String,
    /// The step of the fault.
    pub(crate) step: String,
    /// Fault and address, and how it was recovered.
    pub(crate) fault: String,
    /// The invariant that was violated, and how.
    pub(crate) why: String,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Seed to repeat the run with.
    pub(crate) seed: u64,
    /// Number of cases whose fault struck.
    pub(crate) cases: usize,
    /// Duration of the run in seconds.
    pub(crate) seconds: f64,
    pub(crate) failed: Vec<Failure>,
    /// Cases whose call did not recur: the number of polls varies.
    pub(crate) missed: usize,
    /// Durations by kind of fault.
    pub(crate) kinds: Costs,
    /// Calls of pairs and crowds, in order.
    #[serde(skip)]
    pub(crate) journal: Vec<String>,
}

impl Report {
    /// A report in which no case has run.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// Adds a case that passed.
    pub(crate) fn hold(&mut self, kind: &str, took: Duration) {
        self.kinds.add(kind, took, false);
        self.cases += 1;
        machine::say(self.cases, self.failed.len());
    }

    /// Adds a case whose call did not recur.
    pub(crate) fn miss(&mut self, what: &str) {
        self.missed += 1;
        if std::env::var_os("VNFM_FAULTS_MISSED").is_some() {
            eprintln!("missed: {what}");
        }
    }

    /// Adds a case that failed.
    pub(crate) fn fail(&mut self, failure: Failure) {
        eprintln!(
            "FAILED {} at `{}` ({}): {}",
            failure.operation, failure.step, failure.fault, failure.why
        );
        self.cases += 1;
        self.failed.push(failure);
    }

    /// Adds the cases of another report.
    pub(crate) fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.seconds += other.seconds;
        self.failed.extend(other.failed);
        self.missed += other.missed;
        self.journal.extend(other.journal);
        self.kinds.extend(other.kinds);
    }
}
