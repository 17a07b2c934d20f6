//! The same by `cargo test`, for machines without nextest: its summary lines are added up.

use anyhow::{Result, bail};

use super::{Count, Tier, cargo_for, junit::SKIPPED};
use crate::places;
use crate::process::{self, Output};

/// Runs a tier.
///
/// # Errors
/// When cargo cannot be started, or fails before it runs a test.
pub(crate) fn run(tier: Tier) -> Result<Count> {
    let mut command = cargo_for(&[tier], &["test", "--no-fail-fast"]);
    let programs = places::test_programs()?;
    match tier {
        Tier::Simulated => {
            command.args(["--lib", "--bins", "--examples"]);
            for name in programs.iter().filter(|name| name.as_str() != "live") {
                command.args(["--test", name]);
            }
            command.arg("--");
        }
        Tier::Real => {
            command.args(["--test", "live", "--", "--test-threads=1"]);
        }
    }
    command.arg("--show-output");
    let mut count = Count::default();
    let status = process::follow(&mut command, |output, line| {
        if output == Output::Data {
            hear(&mut count, line);
        }
        println!("{line}");
    })?;
    // a test that says `skipped:` has passed as far as cargo knows
    count.passed = count.passed.saturating_sub(count.why.len());
    count.skipped += count.why.len();
    if !status.success() && count.failed == 0 {
        bail!("`cargo test` failed before a test did; its words are above");
    }
    Ok(count)
}

fn hear(count: &mut Count, line: &str) {
    if let Some(reason) = line.trim().strip_prefix(SKIPPED) {
        count.why.push(reason.to_owned());
    } else if let Some(name) =
        line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"))
    {
        count.failures.push(name.to_owned());
    } else if let Some(summary) = line.strip_prefix("test result: ") {
        let number = |word: &str| {
            let part = summary.split([';', '.']).find_map(|part| part.trim().strip_suffix(word));
            part.and_then(|part| part.trim().parse().ok()).unwrap_or(0)
        };
        count.passed += number("passed");
        count.failed += number("failed");
        count.skipped += number("ignored");
    }
}

/// How many tests a `--list` names.
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
            hear(&mut count, line);
        }
        assert_eq!((count.passed, count.failed, count.skipped), (13, 1, 2));
        assert_eq!(count.failures, ["b::c"]);
        assert_eq!(count.why, ["no sshd here"]);
    }

    #[test]
    fn a_list_is_counted() {
        assert_eq!(listed("a::b: test\nc: test\n\n2 tests, 0 benchmarks"), 2);
    }
}
