//! Shared by the fault machine and the hostile machine: durations of cases, reports and exit codes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Number and duration of the cases of one kind.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Cost {
    cases: u32,
    failed: u32,
    /// Total duration of the cases, in seconds.
    seconds: f64,
    /// The longest one, in seconds.
    longest: f64,
}

/// Number and duration of cases, by kind.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(transparent)]
pub struct Costs(BTreeMap<String, Cost>);

impl Costs {
    /// Adds the result of one case.
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

    /// Adds the results of another run.
    pub fn extend(&mut self, others: Self) {
        for (kind, other) in others.0 {
            let of_kind = self.0.entry(kind).or_default();
            of_kind.cases += other.cases;
            of_kind.failed += other.failed;
            of_kind.seconds += other.seconds;
            of_kind.longest = of_kind.longest.max(other.longest);
        }
    }

    /// A line for each kind.
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

/// Prints the progress after every 100 cases.
pub fn say(cases: usize, failed: usize) {
    if cases.is_multiple_of(100) {
        eprintln!("{cases} cases, {failed} failed");
    }
}

/// Writes the report, if a file is given.
///
/// # Errors
/// If it cannot be written.
pub fn write(report: &impl Serialize, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, serde_json::to_string_pretty(report)?)
        .with_context(|| format!("cannot write `{}`", file.display()))
}

/// The exit code: success if every case passed.
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
