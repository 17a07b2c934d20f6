//! Software of the nodes of VNF-A on real hosts: a new package patches it node by node while VNF-B is requested, and a failed
//! patch leaves the worker with what it had. Ten hosts are installed and patched in the time that is allowed for a site.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::host::Host;
use vnfm_tests::node_software::{agent, package, params, proxy};
use vnfm_tests::real::Real;
use vnfm_tests::service_client::Client;
use vnfm_tests::sources::b_with_budget;
use vnfm_tests::testbed::{Testbed, VNF_A, VNF_B};
use vnfm_tests::upgrades::change;

/// How long the first installation or a patch of a site of ten hosts may take.
const SITE_LIMIT: Duration = Duration::from_mins(10);
const RELEASES: [(&str, &str); 2] = [("vnf-a-k8s-cluster", "1.0"), ("vnf-a-k8s-cluster-2", "1.1")];
/// What makes `large` a level of nine workers.
const NINE: [(&str, &str); 4] = [
    ("max_number_of_instances: 6", "max_number_of_instances: 9"),
    ("max_scale_level: 4", "max_scale_level: 7"),
    (
        "large: {description: Four workers, scale_info: {workers: {scale_level: 2}}}",
        "large: {description: Nine workers, scale_info: {workers: {scale_level: 7}}}",
    ),
    (
        "large: {number_of_instances: 4}",
        "large: {number_of_instances: 9}",
    ),
];

fn worker(number: usize) -> String {
    format!("workernode-{number}")
}

fn widen(package: &str) {
    let path = Path::new(package).join("Definitions/vnf-a.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let wide = NINE.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    std::fs::write(path, wide).unwrap();
}

/// VNF-A with software 1.0 at this level, whose next release is onboarded; how long it took.
fn instantiate(testbed: &Testbed, folder: &Path, level: &str) -> Duration {
    let packages = RELEASES.map(|(sample, version)| package(sample, folder, version));
    for package in &packages {
        widen(package);
    }
    let (_, mut request) = testbed.create_a(&packages[0]);
    request["instantiationLevelId"] = json!(level);
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    installation["node_software"] = json!([agent("1.0"), proxy("1.0")]);
    testbed.onboard(&packages[1]);
    ends(testbed, &testbed.instantiate(VNF_A, &request), "COMPLETED").0
}

/// Waits until an operation ends in this state; how long it took, and its progress.
fn ends(testbed: &Testbed, op: &str, state: &str) -> (Duration, Value) {
    let began = Instant::now();
    let end = testbed.server.ended(op, SITE_LIMIT);
    assert_eq!(end["operationState"], state, "{end:#}");
    (began.elapsed(), end)
}

fn patch(testbed: &Testbed, parallel: u32) -> String {
    let mut body = change("vnf-a-k8s-cluster");
    let own = params(&[agent("1.1"), proxy("1.1")])
        .as_object()
        .unwrap()
        .clone();
    let all = body["additionalParams"].as_object_mut().unwrap();
    all.extend(own);
    all.insert("parallel_upgrades".to_owned(), json!(parallel));
    testbed.begin(VNF_A, "change_vnfpkg", &body)
}

/// The version that a program on a host prints.
fn printed(real: &Real, host: &str, program: &str) -> String {
    let line = format!("/usr/local/bin/{program} || echo none");
    Host::new(real, host).inside(&line).trim().to_owned()
}

fn assert_versions(real: &Real, workers: usize, version: &str) {
    assert_eq!(printed(real, "masterNode", "edge-agent"), version);
    for number in 0..workers {
        for program in ["edge-agent", "edge-proxy"] {
            assert_eq!(
                printed(real, &worker(number), program),
                version,
                "{number} {program}"
            );
        }
    }
}

fn end(real: &Real, testbed: &Testbed) {
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn nodes_are_patched_while_vnf_b_serves() {
    let Some(real) = Real::find() else { return };
    let (testbed, folder) = (real.testbed(), tempfile::tempdir().unwrap());
    instantiate(&testbed, folder.path(), "small");
    assert_versions(&real, 2, "1.0");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b_from(&b_with_budget(folder.path(), 1), &cluster);
    let inside = ClusterShell::connect(&testbed);

    let host = Host::new(&real, "workernode-1");
    host.inside("touch /etc/edge-proxy-not-1.1");
    let client = Client::start(&real, &testbed, &inside);
    let op = patch(&testbed, 1);
    let (_, stopped) = ends(&testbed, &op, "FAILED_TEMP");
    println!("{:#}", stopped["error"]);
    testbed.assert_explains(
        &op,
        &stopped["error"],
        &["workernode-1", "this host takes no 1.1"],
    );
    assert_eq!(printed(&real, "workernode-0", "edge-agent"), "1.1");
    assert_eq!(
        printed(&real, "workernode-1", "edge-agent"),
        "1.0",
        "it returned"
    );
    host.inside("rm /etc/edge-proxy-not-1.1");
    let began = Instant::now();
    let retried = testbed.server.run(&["op", "retry", &op]);
    assert_eq!(retried.code, 0, "{retried:?}");
    ends(&testbed, &op, "COMPLETED");
    let (served, failed) = client.end();
    println!(
        "retried in {:.1?}, {served} requests of VNF-B served",
        began.elapsed()
    );
    assert_eq!(failed, "", "failed requests during the patch");
    assert_versions(&real, 2, "1.1");
    for node in ["masternode", "workernode-0", "workernode-1"] {
        inside.wait_until_ready(node, true, Duration::from_secs(30));
    }
    inside.assert_b_recorded(&testbed, 2);
    let shown = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let (agent, both) = (
        json!({ "edge-agent": "1.1" }),
        json!({ "edge-agent": "1.1", "edge-proxy": "1.1" }),
    );
    let expected = json!({ "masternode": agent, "workernode-0": both, "workernode-1": both });
    assert_eq!(shown["metadata"]["nodeSoftware"], expected);
    end(&real, &testbed);
}

#[test]
fn a_site_of_ten_hosts_is_installed_and_patched_in_time() {
    let Some(real) = Real::find() else { return };
    let (testbed, folder) = (real.testbed(), tempfile::tempdir().unwrap());
    let installed = instantiate(&testbed, folder.path(), "large");
    println!("ten hosts installed in {installed:.1?}");
    assert_versions(&real, 9, "1.0");
    let cluster = testbed.assert_a_up(10);
    testbed.instantiate_b_from(&b_with_budget(folder.path(), 1), &cluster);
    let inside = ClusterShell::connect(&testbed);
    let client = Client::start(&real, &testbed, &inside);
    let (patched, _) = ends(&testbed, &patch(&testbed, 3), "COMPLETED");
    let (served, failed) = client.end();
    println!("ten hosts patched in {patched:.1?}, {served} requests of VNF-B served");
    assert_eq!(failed, "", "failed requests during the patch");
    assert_versions(&real, 9, "1.1");
    assert!(installed < SITE_LIMIT && patched < SITE_LIMIT);
    end(&real, &testbed);
}
