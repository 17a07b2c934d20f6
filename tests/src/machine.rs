//! What the fault machine and the hostile one share: what cases have cost, and how a run ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// What cases of one kind have cost.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Cost {
    cases: u32,
    failed: u32,
    /// All together, in seconds.
    seconds: f64,
    /// The longest one, in seconds.
    longest: f64,
}

/// What cases have cost, by their kind.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(transparent)]
pub struct Costs(BTreeMap<String, Cost>);

impl Costs {
    /// A case has ended.
    pub fn add(&mut self, kind: &str, took: Duration, failed: bool) {
        let (seconds, of_kind) = (
            took.as_secs_f64(),
            self.0.entry(kind.to_owned()).or_default(),
        );
        of_kind.cases += 1;
        of_kind.failed += u32::from(failed);
        of_kind.seconds += seconds;
        of_kind.longest = of_kind.longest.max(seconds);
    }

    /// Adds those of another run.
    pub fn extend(&mut self, others: Self) {
        for (kind, other) in others.0 {
            let of_kind = self.0.entry(kind).or_default();
            of_kind.cases += other.cases;
            of_kind.failed += other.failed;
            of_kind.seconds += other.seconds;
            of_kind.longest = of_kind.longest.max(other.longest);
        }
    }

    /// A line for each kind, for people.
    pub fn lines(&self) -> String {
        let line = |(kind, cost): (&String, &Cost)| {
            let each = cost.seconds / f64::from(cost.cases.max(1));
            format!(
                "{kind:12} {:5} cases, {:4} failed, {:6.1} s, {each:.2} s each, {:.1} s at most\n",
                cost.cases, cost.failed, cost.seconds, cost.longest
            )
        };
        self.0.iter().map(line).collect()
    }
}

/// Says now and then how far a run has come.
pub fn say(cases: usize, failed: usize) {
    if cases.is_multiple_of(100) {
        eprintln!("{cases} cases, {failed} failed");
    }
}

/// Writes a report where it was asked for.
///
/// # Errors
/// Where it cannot be written.
pub fn write(report: &impl Serialize, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, serde_json::to_string_pretty(report)?)
        .with_context(|| format!("cannot write `{}`", file.display()))
}

/// How a machine ends: well where every case held.
pub fn ended(outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Costs;
    use std::time::Duration;

    #[test]
    fn costs_of_two_runs_add_up() {
        let (mut one, mut other) = (Costs::default(), Costs::default());
        one.add("door", Duration::from_secs(1), false);
        other.add("door", Duration::from_secs(3), true);
        one.extend(other);
        assert_eq!(
            one.lines(),
            "door             2 cases,    1 failed,    4.0 s, 2.00 s each, 3.0 s at most\n"
        );
    }
}
