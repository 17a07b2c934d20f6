//! Runs a tier with `cargo test`, for machines without nextest, and adds up its summary lines.

use anyhow::{Result, bail};

use super::{Count, Tier, cargo_for, junit::SKIPPED};
use crate::paths;
use crate::process::{self, Output};

/// Runs a tier; failed tests are repeated once, as with nextest.
///
/// # Errors
/// If cargo cannot be started, or fails before it runs a test.
pub(crate) fn run(tier: Tier) -> Result<Count> {
    let (mut count, succeeded) = once(tier, &[])?;
    // cargo counts a test that prints `skipped:` as passed
    count.passed = count.passed.saturating_sub(count.why.len());
    count.skipped += count.why.len();
    if !succeeded && count.failed == 0 {
        bail!("`cargo test` failed, but no test did; its output is above");
    }
    if !count.failures.is_empty() {
        println!("repeating: {}", count.failures.join(", "));
        let (again, _) = once(tier, &count.failures)?;
        merge_repeated(&mut count, &again);
    }
    Ok(count)
}

/// Runs the tests with these names, or all; returns the results, and whether cargo succeeded.
fn once(tier: Tier, names: &[String]) -> Result<(Count, bool)> {
    let mut command = cargo_for(&[tier], &["test", "--no-fail-fast"]);
    if let Some(program) = tier.program() {
        command.args(["--test", program, "--", "--test-threads=1"]);
    } else {
        command.args(["--lib", "--bins", "--examples"]);
        for name in paths::test_programs()?
            .iter()
            .filter(|name| Tier::of_program(name) == tier)
        {
            command.args(["--test", name]);
        }
        command.arg("--");
    }
    command.arg("--show-output");
    if !names.is_empty() {
        command.arg("--exact").args(names);
    }
    let mut count = Count::default();
    let status = process::follow(&mut command, |output, line| {
        if output == Output::Data {
            count_line(&mut count, line);
        }
        println!("{line}");
    })?;
    Ok((count, status.success()))
}

/// Counts the failed tests that passed when repeated as passed, and lists them as unsteady.
fn merge_repeated(count: &mut Count, again: &Count) {
    if again.passed == 0 && again.failed == 0 {
        return;
    }
    let failed = std::mem::take(&mut count.failures);
    let (failures, unsteady): (Vec<_>, Vec<_>) = failed
        .into_iter()
        .partition(|name| again.failures.contains(name));
    let passed = unsteady.len().min(count.failed);
    count.failed -= passed;
    count.passed += passed;
    count.failures = failures;
    count.unsteady = unsteady;
}

fn count_line(count: &mut Count, line: &str) {
    if let Some(reason) = line.trim().strip_prefix(SKIPPED) {
        count.why.push(reason.to_owned());
    } else if let Some(name) = line
        .strip_prefix("test ")
        .and_then(|line| line.strip_suffix(" ... FAILED"))
    {
        count.failures.push(name.to_owned());
    } else if let Some(summary) = line.strip_prefix("test result: ") {
        let number = |word: &str| {
            let part = summary
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word));
            part.and_then(|part| part.trim().parse().ok()).unwrap_or(0)
        };
        count.passed += number("passed");
        count.failed += number("failed");
        count.skipped += number("ignored");
    }
}

/// Number of tests in the output of `--list`.
pub(crate) fn listed(list: &str) -> usize {
    list.lines().filter(|line| line.ends_with(": test")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_add_up() {
        let mut count = Count::default();
        for line in [
            "test a ... ok",
            "test b::c ... FAILED",
            "skipped: no sshd here",
            "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 4 filtered out; finished in 0.1s",
            "test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        ] {
            count_line(&mut count, line);
        }
        assert_eq!((count.passed, count.failed, count.skipped), (13, 1, 2));
        assert_eq!(count.failures, ["b::c"]);
        assert_eq!(count.why, ["no sshd here"]);
    }

    #[test]
    fn a_test_that_passes_when_repeated_is_unsteady() {
        let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut count = Count {
            passed: 3,
            failed: 2,
            failures: names(&["a", "b"]),
            ..Count::default()
        };
        let again = Count {
            passed: 1,
            failed: 1,
            failures: names(&["b"]),
            ..Count::default()
        };
        merge_repeated(&mut count, &again);
        assert_eq!((count.passed, count.failed), (4, 1));
        assert_eq!(
            (count.failures, count.unsteady),
            (names(&["b"]), names(&["a"]))
        );
        let mut count = Count {
            failed: 1,
            failures: names(&["a"]),
            ..Count::default()
        };
        merge_repeated(&mut count, &Count::default());
        assert_eq!(count.failed, 1, "it was not repeated");
    }

    #[test]
    fn a_list_is_counted() {
        assert_eq!(listed("a::b: test\nc: test\n\n2 tests, 0 benchmarks"), 2);
    }
}
