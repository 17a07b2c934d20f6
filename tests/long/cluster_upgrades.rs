//! Upgrades by parameter on real hosts, from a repository on each of them: a control plane that is rolled back, a worker that
//! returns to its version, and workers that are upgraded two at a time. A client of VNF-B's Service sees no failure.
//!
//! A program fails on one host because its archive in the repository of that host is damaged.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::host::Host;
use vnfm_tests::programs::until;
use vnfm_tests::service_client::Client;
use vnfm_tests::testbed::{VNF_A, VNF_B};

use crate::cluster_actions::{LIMIT, Scenario, next_version};
use crate::control_planes::completes;

const NODES: [&str; 4] = ["masternode", "workernode-0", "workernode-1", "workernode-2"];
const REPOSITORY: &str = "/var/tmp/repository";
/// Makes the archives in [`REPOSITORY`] the only packages that the host knows.
const INDEX: &str = "
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers /var/lib/apt/lists/partial \
    /var/cache/apt/archives/partial /var/log/apt
touch /var/lib/dpkg/status
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/*
echo 'deb [trusted=yes] file:/var/tmp/repository ./' >/etc/apt/sources.list
cd /var/tmp/repository
for archive in *.deb; do
    dpkg-deb -f $archive
    echo \"Filename: ./$archive\"
    echo \"Size: $(stat -c %s $archive)\"
    echo \"SHA256: $(sha256sum $archive | cut -d' ' -f1)\"
    echo
done >Packages
";

impl Scenario {
    /// Gives all hosts a repository with the next minor version.
    fn offer_repository(&self, next: &Path) {
        for name in NODES {
            self.offer_archives(next, name);
            let images = if name == NODES[0] {
                "images"
            } else {
                "images/worker"
            };
            self.import(name, &next.join(images));
            Host::new(&self.real, name).inside(INDEX);
        }
    }

    /// Copies the archives to the repository of a host.
    fn offer_archives(&self, next: &Path, name: &str) {
        let host = Host::new(&self.real, name);
        let folder = host.root().join(REPOSITORY.trim_start_matches('/'));
        std::fs::create_dir_all(&folder).unwrap();
        for archive in std::fs::read_dir(next.join("archives")).unwrap() {
            let archive = archive.unwrap();
            std::fs::copy(archive.path(), folder.join(archive.file_name())).unwrap();
        }
    }

    fn damage_kubelet_of(&self, name: &str) {
        let damage = format!("truncate -s 1000 {REPOSITORY}/kubelet_*.deb");
        Host::new(&self.real, name).inside(&damage);
    }

    /// Requests the upgrade, which must fail on this host; the operation.
    fn upgrade_fails(&self, version: &str, on: &str) -> String {
        let words = [
            "cluster",
            "upgrade",
            VNF_A,
            "--to",
            version,
            "--parallel",
            "2",
        ];
        let begun = self.testbed.server.ctl(&words);
        let op = begun["vnfLcmOpOccId"].as_str().unwrap().to_owned();
        let end = self.testbed.server.ended(&op, LIMIT);
        assert_eq!(end["operationState"], "FAILED_TEMP", "{end:#}");
        let error = &end["error"];
        assert_eq!(error["code"], "packages-failed", "{error:#}");
        assert!(error.to_string().contains(on), "{error:#}");
        op
    }

    /// The version of each node's kubelet.
    fn kubelets(&self) -> BTreeMap<String, String> {
        let shown = self.inside.kubectl(
            "get nodes -o jsonpath='{range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}{\"\\n\"}{end}'",
        );
        let shown = shown.unwrap_or_default();
        let pairs = shown.lines().filter_map(|line| line.split_once(' '));
        pairs
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .collect()
    }

    fn assert_kubelets(&self, expected: [&str; 4]) {
        let expected = NODES.into_iter().zip(expected);
        let expected: BTreeMap<_, _> = expected
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .collect();
        assert_eq!(self.kubelets(), expected);
    }

    /// What the API server says that it is, and the image of etcd that runs.
    fn control_plane(&self) -> (String, String) {
        let image = "-n kube-system get pods -l component=etcd -o jsonpath='{.items[*].spec.containers[*].image}'";
        until("the API server responds", Duration::from_mins(2), || {
            let version = self.inside.kubectl("get --raw /version")?;
            let version: Value = serde_json::from_str(&version).unwrap();
            let image = self.inside.kubectl(image)?;
            let tag = image.trim().rsplit(':').next().unwrap().to_owned();
            Some((version["gitVersion"].as_str().unwrap().to_owned(), tag))
        })
    }

    /// Retries an operation to its good end; the most nodes that took no pods at one time.
    fn most_drained_during_retry(&self, op: &str) -> usize {
        self.testbed.server.ctl(&["op", "retry", op]);
        let cordoned =
            "get nodes -o jsonpath='{.items[?(@.spec.unschedulable==true)].metadata.name}'";
        let mut most = 0;
        until("the end of the upgrade", LIMIT, || {
            let shown = self.inside.kubectl(cordoned).unwrap_or_default();
            most = most.max(shown.split_whitespace().count());
            let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
            let now = self.testbed.server.get(&path);
            let state = now["operationState"].as_str().unwrap().to_owned();
            assert!(state == "PROCESSING" || state == "COMPLETED", "{now:#}");
            (state == "COMPLETED").then_some(())
        });
        most
    }
}

#[test]
fn an_upgrade_is_rolled_back_or_goes_on_two_workers_at_a_time() {
    let (Some(next), Some(scenario)) = (next_version(), Scenario::begin()) else {
        return;
    };
    let version = std::fs::read_to_string(next.join("version")).unwrap();
    let version = version.trim();
    completes(
        &scenario.testbed,
        &scenario.testbed.scale_workers("--out", 1),
    );
    scenario.offer_repository(&next);
    let old = scenario.kubelets()[NODES[0]].clone();
    let before = scenario.control_plane();
    println!("{before:?}, {:?}", scenario.kubelets());
    let client = Client::start(&scenario.real, &scenario.testbed, &scenario.inside);

    roll_back(&scenario, version, &before);
    scenario.assert_kubelets([old.as_str(); 4]);

    scenario.offer_archives(&next, NODES[0]);
    scenario.damage_kubelet_of(NODES[2]);
    let began = Instant::now();
    let op = scenario.upgrade_fails(version, NODES[2]);
    println!(
        "`{}` failed after {:.1} s",
        NODES[2],
        began.elapsed().as_secs_f64()
    );
    scenario.assert_kubelets([version, version, &old, &old]);
    scenario
        .inside
        .wait_until_ready(NODES[2], true, Duration::from_mins(1));
    let refused = scenario
        .testbed
        .server
        .run(&["op", "rollback", &op, "--watch"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("which cannot be undone"),
        "{refused:?}"
    );

    scenario.offer_archives(&next, NODES[2]);
    let began = Instant::now();
    let most = scenario.most_drained_during_retry(&op);
    println!(
        "two workers in {:.1} s, {most} drained at one time",
        began.elapsed().as_secs_f64()
    );
    assert_eq!(most, 2);
    scenario.assert_kubelets([version; 4]);
    assert_eq!(scenario.control_plane().0, version);
    let (served, failed) = client.end();
    println!("{served} requests of VNF-B served");
    assert_eq!(failed, "");
    scenario.inside.assert_b_recorded(&scenario.testbed, 2);
    scenario.end();
}

/// The control plane is new and its kubelet fails: a rollback brings back what the node had, and the data of etcd.
fn roll_back(scenario: &Scenario, version: &str, before: &(String, String)) {
    note(&scenario.inside, "before");
    scenario.damage_kubelet_of(NODES[0]);
    let began = Instant::now();
    let op = scenario.upgrade_fails(version, NODES[0]);
    println!(
        "the kubelet of the control plane failed after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let new = scenario.control_plane();
    println!("{new:?}");
    assert!(
        new.0 == version && new.1 != before.1,
        "etcd is another, too: {new:?}"
    );
    note(&scenario.inside, "after");
    let began = Instant::now();
    let undone = scenario
        .testbed
        .server
        .run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    println!("rolled back in {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(&scenario.control_plane(), before);
    let noted = scenario
        .inside
        .kubectl("get configmap note -o jsonpath='{.data.text}'");
    assert_eq!(noted.as_deref(), Some("before"), "the data of the snapshot");
    for node in NODES {
        scenario
            .inside
            .wait_until_ready(node, true, Duration::from_mins(2));
    }
    scenario.inside.assert_b_recorded(&scenario.testbed, 2);
    scenario.testbed.server.ctl(&["vnf", "show", VNF_B]);
}

fn note(inside: &ClusterShell, text: &str) {
    inside.apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "note", "namespace": "default" }, "data": { "text": text } }));
}
