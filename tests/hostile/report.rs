//! The report of a run, as text and as JSON.

use std::time::Duration;

use serde::Serialize;
use vnfm_tests::machine::{self, Costs};

/// A case that failed, and why.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failure {
    /// Repeats the case, together with its number.
    pub(crate) seed: u64,
    pub(crate) case: usize,
    pub(crate) class: String,
    /// Description of the case, for people.
    pub(crate) what: String,
    /// The property that was violated, and how.
    pub(crate) why: String,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) cases: usize,
    pub(crate) seconds: f64,
    pub(crate) failed: Vec<Failure>,
    /// Cases, failures and durations by class.
    pub(crate) classes: Costs,
    /// Largest memory growth of a server after it was warm, in percent.
    pub(crate) growth_percent: u64,
}

impl Report {
    pub(crate) fn add(&mut self, class: &str, took: Duration, failure: Option<Failure>) {
        self.classes.add(class, took, failure.is_some());
        self.cases += 1;
        if let Some(failure) = failure {
            self.fail(failure);
        }
        machine::say(self.cases, self.failed.len());
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        let why: String = failure.why.chars().take(700).collect();
        eprintln!(
            "FAILED {} {} ({}): {why}",
            failure.case, failure.class, failure.what
        );
        self.failed.push(failure);
    }
}
