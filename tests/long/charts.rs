//! Ten crashes of the server in each operation that makes helm act, five with each generation of helm, on a real control plane:
//! afterwards the release is deployed, record and pods agree, and a namespace that is not ours is as it was.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::crash_points::CrashPlan;
use vnfm_tests::helm_cluster::{GENERATIONS, HelmCluster};
use vnfm_tests::programs::until;
use vnfm_tests::sources::root;
use vnfm_tests::testbed::{Testbed, VIM};
use vnfm_tests::upgrades;

/// Crashes with each generation of helm.
const DEATHS: usize = 5;
/// The minimum number of crash points of each operation.
const COURSE: [usize; 3] = [3; 3];
const NAME: &str = "web";
const FIRST: &str = "cnf-chart";
const NEXT: &str = "cnf-chart-2";
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server with one helm program, an instance, and a namespace of another user for its objects.
struct Scenario {
    testbed: Testbed,
    cluster: HelmCluster,
    namespace: String,
    /// What the namespace contained before the instance came.
    before: BTreeSet<String>,
    request: Value,
}

impl Scenario {
    fn begin(helm: &str, test: &str) -> Option<Self> {
        let cluster = HelmCluster::find(helm)?;
        let folder = tempfile::tempdir().unwrap();
        cluster.configure(folder.path());
        let testbed = Testbed::on_cluster(folder, &cluster.kubeconfig);
        let namespace = format!("{test}-{helm}-{}", std::process::id());
        cluster.kubectl(&["create", "namespace", &namespace]);
        // They are created by controllers.
        let before = until("the namespace has its own objects", TIMEOUT, || {
            let contents = cluster.contents(&namespace);
            (contents.len() == 2).then_some(contents)
        });
        let package = testbed.onboard(FIRST);
        testbed.onboard(NEXT);
        let words = ["vnf", "create", "--package", &package, "--name", NAME];
        testbed.server.ctl(&words);
        let vim = testbed.server.ctl(&["vim", "show", VIM]);
        let mut request = testbed.request(FIRST, vim["id"].as_str().unwrap());
        request["additionalParams"]["namespace"] = json!(namespace);
        Some(Self {
            testbed,
            cluster,
            namespace,
            before,
            request,
        })
    }

    /// The same, instantiated.
    fn instantiated(helm: &str, test: &str) -> Option<Self> {
        let scenario = Self::begin(helm, test)?;
        let op = scenario.testbed.instantiate(NAME, &scenario.request);
        scenario.testbed.wait_for_state(&op, "COMPLETED");
        Some(scenario)
    }

    /// The release is deployed, no revision is pending, and the pods are those of the record.
    fn assert_deployed(&self, chart: &str, pods: usize) {
        let (cluster, namespace) = (&self.cluster, &self.namespace);
        let expected = format!("web {chart} deployed");
        assert_eq!(cluster.releases(namespace), [expected]);
        let revisions = cluster.revisions(namespace);
        let pending = revisions
            .iter()
            .find(|status| status.starts_with("pending-"));
        assert_eq!(pending, None, "{revisions:?}");
        let instance = self.testbed.server.ctl(&["vnf", "show", NAME]);
        let vnfcs = instance["instantiatedVnfInfo"]["vnfcResourceInfo"].as_array();
        let id = |vnfc: &Value| {
            vnfc["computeResource"]["resourceId"]
                .as_str()
                .map(str::to_owned)
        };
        let recorded: BTreeSet<String> = vnfcs.unwrap().iter().filter_map(id).collect();
        assert_eq!(recorded.len(), pods, "{instance:#}");
        until("the pods are those of the record", TIMEOUT, || {
            (cluster.web_pods(namespace) == recorded).then_some(())
        });
    }

    /// The namespace is as it was; deleted pods and Jobs end a moment later.
    fn assert_as_before(&self) {
        let mut left = BTreeSet::new();
        let is_clean = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until("the namespace is as it was", TIMEOUT, || {
                left = &self.cluster.contents(&self.namespace) - &self.before;
                left.is_empty().then_some(())
            });
        }));
        assert!(is_clean.is_ok(), "left behind: {left:#?}");
    }

    fn end(self) {
        self.testbed.terminate_and_delete(NAME);
        self.forget();
    }

    /// Checks that nothing is left of a terminated and deleted instance.
    fn forget(self) {
        self.assert_as_before();
        self.testbed.finish();
        let delete = ["delete", "namespace", &self.namespace, "--wait=false"];
        self.cluster.kubectl(&delete);
    }

    /// Begins a task with these words; its operation.
    fn ask(testbed: &Testbed, task: &str, words: &[&str]) -> String {
        let begun = testbed.server.ctl(&[&["vnf", task, NAME], words].concat());
        begun["vnfLcmOpOccId"].as_str().unwrap().to_owned()
    }
}

fn crashes() -> CrashPlan {
    CrashPlan::draw_for(DEATHS, &COURSE)
}

fn assert_all_died(crashes: &CrashPlan) {
    let crashed_at = crashes.crashed_at.join("\n");
    println!("{} retries; died at\n{crashed_at}", crashes.retried);
    assert_eq!(crashes.crashed_at.len(), DEATHS);
}

#[test]
fn ten_crashes_while_a_chart_is_installed_and_ten_while_it_is_uninstalled() {
    for helm in GENERATIONS {
        let Some(mut scenario) = Scenario::begin(helm, "install") else {
            return;
        };
        let [mut installing, mut uninstalling] = [crashes(), crashes()];
        while !installing.is_over() || !uninstalling.is_over() {
            let request = scenario.request.clone();
            let instantiate = |testbed: &Testbed| testbed.instantiate(NAME, &request);
            installing.run_operation(&mut scenario.testbed, instantiate);
            scenario.assert_deployed("web-1.0.0", 2);
            let terminate = |testbed: &Testbed| testbed.terminate(NAME);
            uninstalling.run_operation(&mut scenario.testbed, terminate);
            scenario.assert_as_before();
        }
        assert_all_died(&installing);
        assert_all_died(&uninstalling);
        scenario.testbed.server.ctl(&["vnf", "delete", NAME]);
        scenario.forget();
    }
}

#[test]
fn ten_crashes_while_a_chart_is_scaled() {
    for helm in GENERATIONS {
        let Some(mut scenario) = Scenario::instantiated(helm, "scale") else {
            return;
        };
        let mut crashes = crashes();
        while !crashes.is_over() {
            for (direction, pods) in [("--out", 3), ("--in", 2)] {
                crashes.run_operation(&mut scenario.testbed, |testbed| {
                    Scenario::ask(testbed, "scale", &["--aspect", "web", direction])
                });
                scenario.assert_deployed("web-1.0.0", pods);
            }
        }
        assert_all_died(&crashes);
        scenario.end();
    }
}

#[test]
fn ten_crashes_while_a_chart_is_upgraded() {
    for helm in GENERATIONS {
        let Some(mut scenario) = Scenario::instantiated(helm, "upgrade") else {
            return;
        };
        let mut crashes = crashes();
        while !crashes.is_over() {
            for (from, chart) in [(FIRST, "web-2.0.0"), (NEXT, "web-1.0.0")] {
                crashes.run_operation(&mut scenario.testbed, |testbed| {
                    upgrades::begin(testbed, NAME, from)
                });
                scenario.assert_deployed(chart, 2);
            }
        }
        assert_all_died(&crashes);
        scenario.end();
    }
}

#[test]
fn ten_crashes_while_a_chart_is_healed() {
    for helm in GENERATIONS {
        let Some(mut scenario) = Scenario::instantiated(helm, "heal") else {
            return;
        };
        let mut crashes = crashes();
        while !crashes.is_over() {
            // Without a difference helm would not upgrade.
            let foreign = r#"{"data": {"index.html": "foreign"}}"#;
            let place = ["--namespace", &scenario.namespace, "--type", "merge"];
            let patch = ["patch", "configmap", "page", "--patch", foreign];
            scenario.cluster.kubectl(&[&patch[..], &place].concat());
            let instance = scenario.testbed.server.ctl(&["vnf", "show", NAME]);
            let vnfc = instance["instantiatedVnfInfo"]["vnfcResourceInfo"][0]["id"].clone();
            crashes.run_operation(&mut scenario.testbed, |testbed| {
                Scenario::ask(testbed, "heal", &["--vnfc", vnfc.as_str().unwrap()])
            });
            scenario.assert_deployed("web-1.0.0", 2);
            let get = ["get", "configmap", "page", "--output", "json"];
            let page = scenario.cluster.kubectl(&[&get[..], &place[..2]].concat());
            assert!(page.contains("hello from the request"), "{page}");
        }
        assert_all_died(&crashes);
        scenario.end();
    }
}

#[test]
fn ten_crashes_while_a_failed_upgrade_is_rolled_back() {
    let request = root().join("vnfd-samples/cnf-chart/requests/change_vnfpkg_failing.json");
    let request: Value = serde_json::from_slice(&std::fs::read(request).unwrap()).unwrap();
    for helm in GENERATIONS {
        let Some(mut scenario) = Scenario::instantiated(helm, "rollback") else {
            return;
        };
        let mut crashes = crashes();
        while !crashes.is_over() {
            let op = scenario.testbed.begin(NAME, "change_vnfpkg", &request);
            let failed = scenario.testbed.wait_for_state(&op, "FAILED_TEMP");
            let detail = failed["error"]["detail"].as_str().unwrap();
            assert!(detail.contains("hooks failed"), "{failed:#}");
            crashes.run_rollback(&mut scenario.testbed, &op);
            scenario.assert_deployed("web-1.0.0", 2);
        }
        assert_all_died(&crashes);
        scenario.end();
    }
}
