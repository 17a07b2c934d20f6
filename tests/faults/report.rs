//! What a run found, for people and as JSON.

use anyhow::{Context as _, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

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
    pub(crate) kinds: BTreeMap<String, Cost>,
    /// What was called in pairs and crowds, in order.
    #[serde(skip)]
    pub(crate) journal: Vec<String>,
}

/// What cases that held have cost.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(crate) struct Cost {
    /// How many there were.
    cases: u32,
    /// All together, in seconds.
    seconds: f64,
    /// The longest one, in seconds.
    longest: f64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.seconds += other.seconds;
        self.longest = self.longest.max(other.longest);
    }
}

impl Report {
    /// An empty one.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// A case of this kind held.
    pub(crate) fn hold(&mut self, kind: &str, took: Duration) {
        let seconds = took.as_secs_f64();
        let cost = Cost { cases: 1, seconds, longest: seconds };
        self.kinds.entry(kind.to_owned()).or_default().add(cost);
        self.cases += 1;
        if self.cases.is_multiple_of(100) {
            eprintln!("{} cases, {} failed", self.cases, self.failed.len());
        }
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
        for (kind, cost) in other.kinds {
            self.kinds.entry(kind).or_default().add(cost);
        }
    }

    /// What each kind of fault has cost, for people.
    pub(crate) fn costs(&self) -> String {
        let line = |(kind, cost): (&String, &Cost)| {
            let each = cost.seconds / f64::from(cost.cases.max(1));
            format!(
                "{kind:12} {:5} cases, {each:.2} s each, {:.1} s at most\n",
                cost.cases, cost.longest
            )
        };
        self.kinds.iter().map(line).collect()
    }

    /// Writes it where it was asked for.
    pub(crate) fn write(&self, file: Option<&Path>) -> Result<()> {
        let Some(file) = file else { return Ok(()) };
        std::fs::write(file, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write `{}`", file.display()))
    }
}
