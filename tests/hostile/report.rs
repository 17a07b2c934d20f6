//! What a run found, for people and as JSON.

use std::time::Duration;

use serde::Serialize;
use vnfm_tests::machine::{self, Costs};

/// A case that did not hold.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failure {
    /// With what it can be run again, together with its number.
    pub(crate) seed: u64,
    /// Its number.
    pub(crate) case: usize,
    /// Its class.
    pub(crate) class: String,
    /// What was done.
    pub(crate) what: String,
    /// What did not hold.
    pub(crate) why: String,
}

/// A run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) cases: usize,
    pub(crate) seconds: f64,
    pub(crate) failed: Vec<Failure>,
    /// Cases and failures of each class, and what they have cost in seconds.
    pub(crate) classes: Costs,
    /// The most that a server has held after it was warm, in percent of what it held then.
    pub(crate) growth_percent: u64,
}

impl Report {
    /// A case has ended.
    pub(crate) fn add(&mut self, class: &str, took: Duration, failure: Option<Failure>) {
        self.classes.add(class, took, failure.is_some());
        self.cases += 1;
        if let Some(failure) = failure {
            self.fail(failure);
        }
        machine::say(self.cases, self.failed.len());
    }

    /// Something did not hold.
    pub(crate) fn fail(&mut self, failure: Failure) {
        let why: String = failure.why.chars().take(700).collect();
        eprintln!(
            "FAILED {} {} ({}): {why}",
            failure.case, failure.class, failure.what
        );
        self.failed.push(failure);
    }
}
