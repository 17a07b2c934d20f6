//! A sample of the fault machine; `cargo xtask faults` runs all of it.

use serde_json::Value;
use std::process::Command;

/// One of this many single faults is tried here, chosen by the seed.
const SHARE: &str = "12";
/// A piece of the first seed in which several instances work at once.
const CROWD: &str = "22";

/// Runs the machine with these arguments; its report.
fn machine(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("faults.json");
    let output = Command::new(env!("CARGO_BIN_EXE_vnfm-faults"))
        .args(arguments)
        .arg("--json")
        .arg(&report)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap()
}

#[test]
fn operations_recover_from_every_single_fault() {
    let report = machine(&["--share", SHARE]);
    let cases = report["cases"].as_u64().unwrap();
    assert!(
        cases >= 200,
        "only {cases} cases: the machine does not learn what operations do"
    );
}

#[test]
fn administrative_tasks_recover_from_a_kill_at_any_point() {
    let report = machine(&["--administrative", "--share", "4"]);
    let cases = report["cases"].as_u64().unwrap();
    assert!(
        cases >= 26,
        "only {cases} cases: acts and files are missing"
    );
}

#[test]
fn operations_begun_by_an_earlier_version_are_resumed() {
    // The earlier version is this one: what is tried is that it is the other program that begins and is killed.
    let report = machine(&["--from", env!("CARGO_BIN_EXE_vnfm-faults"), "--share", "60"]);
    let cases = report["cases"].as_u64().unwrap();
    assert!(cases >= 10, "only {cases} cases");
    let mute = Command::new(env!("CARGO_BIN_EXE_vnfm-faults"))
        .args(["--from", "true", "--share", "600"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&mute.stderr);
    assert!(
        !mute.status.success() && words.contains("a child that was to be killed said"),
        "{words}"
    );
}

#[test]
fn operations_recover_from_pairs_of_faults_and_from_faults_under_concurrency() {
    let report = machine(&["--skip-single", "--seconds", "60"]);
    let cases = report["cases"].as_u64().unwrap();
    assert!(cases >= 4, "only {cases} cases in a minute");
}

/// The calls of a piece, sorted, because independent calls may be reordered.
fn calls_of(piece: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    machine(&["--piece", piece, "--journal", journal.to_str().unwrap()]);
    let text = std::fs::read_to_string(&journal).unwrap();
    let mut calls: Vec<_> = text.lines().map(str::to_owned).collect();
    calls.sort();
    calls
}

#[test]
fn a_concurrent_run_is_reproducible_by_its_seed() {
    let (calls, again) = (calls_of(CROWD), calls_of(CROWD));
    assert!(calls.len() > 100, "that is no crowd: {calls:?}");
    assert_eq!(calls, again);
}
