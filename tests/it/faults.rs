//! The fault machine, as far as it runs with the other tests; `cargo xtask faults` runs all of it.

use serde_json::Value;
use std::process::Command;

/// Of so many single faults one is tried here, chosen by the seed.
const SHARE: &str = "10";

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
fn every_operation_ends_well_whatever_single_call_goes_wrong() {
    let report = machine(&["--share", SHARE]);
    let cases = report["cases"].as_u64().unwrap();
    assert!(cases >= 200, "only {cases} cases: the machine does not learn what operations do");
}

#[test]
fn two_faults_in_one_operation_and_many_instances_at_once_end_well() {
    let report = machine(&["--skip-single", "--seconds", "60"]);
    let cases = report["cases"].as_u64().unwrap();
    assert!(cases >= 4, "only {cases} cases in a minute");
}
