//! What a run found, for people and as JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

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
    pub(crate) classes: BTreeMap<String, Class>,
    /// The most that a server has held after it was warm, in percent of what it held then.
    pub(crate) growth_percent: u64,
}

/// The cases of one class.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(crate) struct Class {
    cases: usize,
    failed: usize,
    seconds: f64,
    longest: f64,
}

impl Report {
    /// A case has ended.
    pub(crate) fn add(&mut self, class: &str, took: Duration, failure: Option<Failure>) {
        let (seconds, of_class) =
            (took.as_secs_f64(), self.classes.entry(class.to_owned()).or_default());
        of_class.cases += 1;
        of_class.seconds += seconds;
        of_class.longest = of_class.longest.max(seconds);
        self.cases += 1;
        if let Some(failure) = failure {
            of_class.failed += 1;
            self.fail(failure);
        }
        if self.cases.is_multiple_of(100) {
            eprintln!("{} cases, {} failed", self.cases, self.failed.len());
        }
    }

    /// Something did not hold.
    pub(crate) fn fail(&mut self, failure: Failure) {
        let why: String = failure.why.chars().take(700).collect();
        eprintln!("FAILED {} {} ({}): {why}", failure.case, failure.class, failure.what);
        self.failed.push(failure);
    }

    /// What each class has cost, for people.
    pub(crate) fn costs(&self) -> String {
        let line = |(name, class): (&String, &Class)| {
            format!(
                "{name:12} {:5} cases, {:4} failed, {:6.1} s, {:.1} s at most\n",
                class.cases, class.failed, class.seconds, class.longest
            )
        };
        self.classes.iter().map(line).collect()
    }

    /// Writes it where it was asked for.
    pub(crate) fn write(&self, file: Option<&Path>) -> Result<()> {
        let Some(file) = file else { return Ok(()) };
        std::fs::write(file, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write `{}`", file.display()))
    }
}
