//! The sample with a chart by Helm 3 and Helm 4, with a server that is killed once in each operation; and the story `charts`.

use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::demo::demo_report;
use vnfm_tests::helm_cluster::{GENERATIONS, HelmCluster};
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{Testbed, VIM};

const TIMEOUT: Duration = Duration::from_mins(2);
const NAME: &str = "web";
const SAMPLE: &str = "cnf-chart";
const DEPLOYED: [&str; 1] = ["web web-1.0.0 deployed"];

/// Waits until an operation runs, kills the server, and waits until the operation is completed.
fn kill_during(testbed: &mut Testbed, op: &str) {
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    until("the operation to run", TIMEOUT, || {
        let now = testbed.server.get(&path);
        (now["operationState"] != "STARTING").then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(op, "COMPLETED");
}

fn vnfcs(testbed: &Testbed) -> usize {
    let instance = testbed.server.ctl(&["vnf", "show", NAME]);
    let info = &instance["instantiatedVnfInfo"]["vnfcResourceInfo"];
    info.as_array().map_or(0, Vec::len)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn a_chart_is_installed_scaled_and_uninstalled_although_the_server_is_killed() {
    for helm in GENERATIONS {
        let Some(cluster) = HelmCluster::find(helm) else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        cluster.configure(folder.path());
        let mut testbed = Testbed::on_cluster(folder, &cluster.kubeconfig);
        let package = testbed.onboard(SAMPLE);
        let words = ["vnf", "create", "--package", &package, "--name", NAME];
        let created = testbed.server.ctl(&words);
        let namespace = format!("vnf-{}", text(&created["id"]));
        let vim = testbed.server.ctl(&["vim", "show", VIM]);
        let request = testbed.request(SAMPLE, text(&vim["id"]));
        let op = testbed.instantiate(NAME, &request);
        kill_during(&mut testbed, &op);
        assert_eq!(vnfcs(&testbed), 2);
        assert_eq!(cluster.releases(&namespace), DEPLOYED);
        let page = ["get", "configmap", "page", "-n", &namespace, "-o", "json"];
        let page = cluster.kubectl(&page);
        assert!(page.contains("hello from the request"), "{page}");

        let scale = ["vnf", "scale", NAME, "--aspect", "web", "--out"];
        let begun = testbed.server.ctl(&scale);
        kill_during(&mut testbed, text(&begun["vnfLcmOpOccId"]));
        assert_eq!(vnfcs(&testbed), 3);
        assert_eq!(cluster.releases(&namespace), DEPLOYED);

        let op = testbed.terminate(NAME);
        kill_during(&mut testbed, &op);
        let left = cluster.kubectl(&["get", "namespace", &namespace, "--ignore-not-found"]);
        assert_eq!(
            left, "",
            "the namespace is gone, with the Secrets of the release"
        );
        testbed.server.ctl(&["vnf", "delete", NAME]);
        testbed.finish();
    }
}

#[test]
fn the_story_of_charts_is_played_and_nothing_is_left() {
    if HelmCluster::find(GENERATIONS[0]).is_none() {
        return;
    }
    let report = demo_report(&["--real", "--story", "charts"], "tosca").unwrap();
    assert_eq!(report["ok"], true, "{report:#}");
    assert_eq!(report["left_behind"], json!([]));
}
