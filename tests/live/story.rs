//! The whole story on real OpenStack, real hosts with kubeadm and real Kubernetes, with both packages.

use vnfm_tests::live::neighbour;
use vnfm_tests::story::{play, steps};

fn holds(package: &str) {
    if neighbour("VNFM_LIVE_OPENSTACK").is_none() || neighbour("VNFM_LIVE_HOSTS").is_none() {
        return;
    }
    let report = play(&["--real"], package).unwrap();
    assert_eq!(report["world"], "real");
    assert_eq!(report["ok"], true);
    assert_eq!(report["left_behind"], serde_json::json!([]));
    assert!(steps(&report).iter().any(|step| step.contains("refused")), "{report}");
    println!("{}", serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn vnf_a_from_tosca_carries_vnf_b_and_both_go_without_a_trace() {
    holds("tosca");
}

#[test]
fn vnf_a_from_base_hot_carries_vnf_b_and_both_go_without_a_trace() {
    holds("base-hot");
}
