//! The story as `cargo xtask demo` tells it: built programs, real processes, read by its report.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::sources;

/// Plays the story in a world with one of VNF-A's packages; its report, if it went well to the end.
///
/// # Errors
/// When it broke off or left something behind; what it said is in the error.
pub fn play(world: &[&str], package: &str) -> Result<Value> {
    let file =
        std::env::temp_dir().join(format!("vnfm-story.{}.{package}.json", std::process::id()));
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "demo",
            "--package",
            package,
            "--json",
        ])
        .arg(&file)
        .args(world)
        .current_dir(sources::root())
        .output()
        .context("cannot start `cargo xtask demo`")?;
    let report = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file); // it may never have been written
    ensure!(
        output.status.success(),
        "the story broke off:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&report.context("the story wrote no report")?)
        .context("the report is no JSON")
}

/// The steps of a report, in order.
#[must_use]
pub fn steps(report: &Value) -> Vec<&str> {
    report["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["step"].as_str())
        .collect()
}
