//! A sample of `cargo xtask hostile`: a few hundred cases of every class, on two testbeds in parallel.

use serde_json::Value;
use std::process::Command;

/// How many of all cases are tried here, a share of each class.
const SAMPLE: &str = "330";

#[test]
fn sampled_attacks_do_not_crash_read_or_starve_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("hostile.json");
    // Other tests run concurrently: latencies are meaningless here, but the victim must be served.
    let output = Command::new(env!("CARGO_BIN_EXE_vnfm-hostile"))
        .args([
            "--sample",
            SAMPLE,
            "--workers",
            "2",
            "--shared-machine",
            "--json",
        ])
        .arg(&report)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    let cases = report["cases"].as_u64().unwrap();
    assert!(
        cases >= 300,
        "only {cases} cases: the machine does not learn what there is"
    );
    let classes = report["classes"].as_object().unwrap();
    assert!(
        classes.len() >= 15,
        "a class is missing: {:?}",
        classes.keys()
    );
}
