//! The whole story in the simulated world, with both packages, by the built programs.

use vnfm_tests::story::{play, steps};

/// Longest in seconds, once the programs are built.
const LONGEST: f64 = 15.0;

fn holds(package: &str) {
    let report = play(&[], package).unwrap();
    assert_eq!(report["world"], "simulated");
    assert_eq!(report["ok"], true);
    assert_eq!(report["left_behind"], serde_json::json!([]));
    let refused = steps(&report).iter().any(|step| step.contains("refused"));
    assert!(refused, "VNF-A was not protected while VNF-B lived on it: {report}");
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds < LONGEST, "{seconds} s: {report}");
}

#[test]
fn vnf_a_from_tosca_carries_vnf_b_and_both_go_without_a_trace() {
    holds("tosca");
}

#[test]
fn vnf_a_from_base_hot_carries_vnf_b_and_both_go_without_a_trace() {
    holds("base-hot");
}
