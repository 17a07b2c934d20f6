//! A cluster after its instantiation, on real hosts: certificates and login are renewed, a snapshot of etcd is restored, and a new
//! package upgrades Kubernetes to a release of the next minor version, as `tests/stack/kubernetes/next.sh` builds it. A client of
//! VNF-B's Service sees no failure.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, b_namespace};
use vnfm_tests::live::neighbour;
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;
use vnfm_tests::sources::{b_with_budget, copy, root};
use vnfm_tests::testbed::{CLUSTER, Testbed, VNF_A, VNF_B};

use vnfm_tests::host::Host;
use vnfm_tests::service_client::Client;

pub(crate) const HOSTS: [&str; 3] = ["masterNode", "workernode-0", "workernode-1"];
/// The VNFD of [`next_release`].
const NEXT_VNFD: &str = "3f0c7a52-6d1e-4b8e-9a57-c2b1d8e4f60a";
/// How long an action may take.
pub(crate) const LIMIT: Duration = Duration::from_mins(15);
pub(crate) const PASSPHRASE: &str = "a passphrase for the test";

/// What `next.sh` makes.
pub(crate) fn next_version() -> Option<PathBuf> {
    let assets = neighbour("VNFM_LIVE_ASSETS")?;
    let next = assets.with_file_name("kubernetes-next");
    let script = root().join("tests/stack/kubernetes/next.sh");
    let made = Command::new(script)
        .args([&assets, &next])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    Some(next)
}

/// The request of `operate` for an action on the cluster.
pub(crate) fn action_request(action: &str, params: &Value) -> Value {
    let mut all = json!({ "cluster_action": action });
    let own = params.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(own);
    json!({ "changeStateTo": "STARTED", "additionalParams": all })
}

/// VNF-A with VNF-B on it.
pub(crate) struct Scenario {
    /// The hosts of its nodes.
    pub(crate) hosts: &'static [&'static str],
    pub(crate) real: Real,
    pub(crate) testbed: Testbed,
    pub(crate) inside: ClusterShell,
}

impl Scenario {
    pub(crate) fn begin() -> Option<Self> {
        let real = Real::find()?;
        let testbed = real.testbed();
        Some(Self::on(real, testbed))
    }

    /// Installs the cluster and VNF-B.
    pub(crate) fn on(real: Real, testbed: Testbed) -> Self {
        let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
        testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
        let cluster = testbed.assert_a_up(3);
        // Both pods may be on one worker when it is drained.
        let folder = tempfile::tempdir().unwrap();
        testbed.instantiate_b_from(&b_with_budget(folder.path(), 1), &cluster);
        let inside = ClusterShell::connect(&testbed);
        Self {
            hosts: &HOSTS,
            real,
            testbed,
            inside,
        }
    }

    /// Gives the hosts the images of the next minor version; the folder of the package of VNF-A that has it.
    pub(crate) fn offer_next_version(&self, next: &Path, folder: &Path) -> String {
        for host in HOSTS {
            self.give_images(host, next);
        }
        package(next, folder)
    }

    /// Gives a host the images of the next minor version, by its role.
    pub(crate) fn give_images(&self, host: &str, next: &Path) {
        let is_worker = host.starts_with("workernode");
        let images = if is_worker { "images/worker" } else { "images" };
        self.import(host, &next.join(images));
        // The hosts share the machine's programs, and have no records of what is installed.
        let records = "mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers; touch /var/lib/dpkg/status";
        Host::new(&self.real, host).inside(records);
    }

    /// Runs an operation while VNF-B is requested; no request may fail. Its occurrence.
    pub(crate) fn without_failures(&self, what: &str, task: &str, body: &Value) -> Value {
        let client = Client::start(&self.real, &self.testbed, &self.inside);
        let began = Instant::now();
        let op = self.testbed.begin(VNF_A, task, body);
        let end = self.testbed.server.ended(&op, LIMIT);
        assert_eq!(end["operationState"], "COMPLETED", "{end:#}");
        let seconds = began.elapsed().as_secs_f64();
        let (served, failed) = client.end();
        println!("{what}: {seconds:.1} s, {served} requests of VNF-B served");
        assert_eq!(failed, "", "failed requests during {what}");
        self.testbed.server.ctl(&["vnf", "show", VNF_A])
    }

    fn act(&self, action: &str, params: &Value) -> Value {
        self.without_failures(action, "operate", &action_request(action, params))
    }

    /// Gives a host the images that it would pull from a registry.
    pub(crate) fn import(&self, host: &str, images: &Path) {
        let host = Host::new(&self.real, host);
        let folder = host.root().join("var/tmp/images");
        std::fs::create_dir_all(&folder).unwrap();
        for image in std::fs::read_dir(images).unwrap() {
            let path = image.unwrap().path();
            if path.extension().is_some_and(|end| end == "tar") {
                std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
            }
        }
        host.inside(
            "for tar in /var/tmp/images/*.tar; do ctr -n k8s.io images import $tar >/dev/null; done; rm -r /var/tmp/images",
        );
    }

    pub(crate) fn end(self) {
        self.testbed.terminate_and_delete(VNF_B);
        self.testbed.terminate_and_delete(VNF_A);
        self.testbed.finish();
        self.real.wait_until_clean();
    }
}

#[test]
fn certificates_and_login_are_renewed_and_a_snapshot_is_restored() {
    let (Some(next), Some(scenario)) = (next_version(), Scenario::begin()) else {
        return;
    };
    let expiry = |instance: &Value| instance["metadata"]["certificateExpiry"].clone();
    let before = scenario.act("check", &json!({}));
    println!("{:#}", before["metadata"]);
    assert_eq!(
        before["metadata"]["kubeletVersions"]
            .as_object()
            .unwrap()
            .len(),
        3
    );
    let after = scenario.act("renew_certificates", &json!({}));
    let master = expiry(&before)
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    for certificate in ["apiserver", "etcd-server", "admin.conf", "scheduler.conf"] {
        let [old, new] =
            [&before, &after].map(|instance| expiry(instance)[&master][certificate].clone());
        assert!(
            old.as_str().unwrap() < new.as_str().unwrap(),
            "{certificate}: {old}, {new}"
        );
    }
    let served = "openssl s_client -connect 127.0.0.1:6443 </dev/null 2>/dev/null | openssl x509 -noout -startdate -enddate";
    println!(
        "the API server presents {}",
        Host::new(&scenario.real, HOSTS[0]).inside(served)
    );

    renew_login(&scenario);
    back_up_and_restore(&scenario, &next, &master);
    scenario.end();
}

fn renew_login(scenario: &Scenario) {
    let secrets = "get secret -n kube-system -o name";
    scenario.act("renew_login", &json!({}));
    assert!(
        scenario
            .inside
            .kubectl(secrets)
            .unwrap()
            .contains("secret/vnfm-token\n")
    );
    scenario.testbed.server.ctl(&["vim", "check", CLUSTER]);
    scenario.act("check", &json!({}));
    let left = scenario.inside.kubectl(secrets).unwrap();
    assert!(
        !left.contains("secret/vnfm-token\n") && left.contains("secret/vnfm-token-2\n"),
        "{left}"
    );
    scenario.testbed.server.ctl(&["vim", "check", CLUSTER]);
}

#[test]
fn the_ca_is_replaced_while_pods_run() {
    let Some(scenario) = Scenario::begin() else {
        return;
    };
    rotate_ca(&scenario);
    scenario.testbed.use_kubeconfig();
    scenario.end();
}

/// Replaces the CA: every node trusts the new one alone, and pods that start afterwards reach the API server.
fn rotate_ca(scenario: &Scenario) {
    let ca = |host| Host::new(&scenario.real, host).inside("cat /etc/kubernetes/pki/ca.crt");
    refuse_other_clocks(scenario);
    let old = ca(HOSTS[0]);
    let inner = |path: &str| {
        let path = format!("cat /etc/kubernetes/pki/{path}");
        Host::new(&scenario.real, HOSTS[0]).inside(&path)
    };
    let others = ["etcd/ca.crt", "front-proxy-ca.crt"];
    let before = others.map(inner);
    scenario.act("rotate_ca", &json!({}));
    for (path, old) in others.into_iter().zip(before) {
        let new = inner(path);
        let is_alone = new.matches("BEGIN CERTIFICATE").count() == 1;
        assert!(new != old && is_alone, "{path}: {new}");
    }
    let issued = "cd /etc/kubernetes/pki
        openssl verify -CAfile etcd/ca.crt etcd/server.crt etcd/peer.crt apiserver-etcd-client.crt
        openssl verify -CAfile front-proxy-ca.crt front-proxy-client.crt
        openssl s_client -connect 127.0.0.1:2379 -CAfile etcd/ca.crt </dev/null 2>/dev/null | openssl x509 -noout -issuer";
    let issued = Host::new(&scenario.real, HOSTS[0]).inside(issued);
    println!("{issued}");
    assert!(
        issued.contains("etcd-ca-") && !issued.contains("error"),
        "{issued}"
    );
    let new = ca(HOSTS[0]);
    assert!(new != old && new.matches("BEGIN CERTIFICATE").count() == 1);
    let issuer = "openssl x509 -noout -issuer -in /var/lib/kubelet/pki/kubelet-client-current.pem";
    for host in HOSTS {
        assert_eq!(ca(host), new, "{host}");
        let issuer = Host::new(&scenario.real, host).inside(issuer);
        assert!(issuer.contains("kubernetes-"), "{host}: {issuer}");
        let (node, soon) = (host.to_lowercase(), Duration::from_mins(1));
        scenario.inside.wait_until_ready(&node, true, soon);
    }
    scenario.testbed.server.ctl(&["vim", "check", CLUSTER]);
    let vim = scenario.testbed.server.ctl(&["vim", "show", CLUSTER]);
    assert_eq!(
        vim["interfaceInfo"]["ssl_ca_cert"].as_str().unwrap().trim(),
        new.trim()
    );
    let restart = "-n kube-system rollout restart deployment/coredns";
    let status = "-n kube-system rollout status deployment/coredns --timeout=55s";
    assert!(scenario.inside.kubectl(restart).is_some());
    assert!(
        scenario.inside.kubectl(status).is_some(),
        "a new pod trusts the API server"
    );
}

/// A host whose clock is five minutes behind: the rotation is refused, and nothing has changed. Hosts share the machine's clock, so
/// that a program in front of `date` shows another time.
fn refuse_other_clocks(scenario: &Scenario) {
    let host = Host::new(&scenario.real, HOSTS[1]);
    let shown = "#!/bin/sh\nexec /bin/date -d '-300 seconds' \"$@\"\n";
    host.run_script_with_input(
        "cat >/usr/local/bin/date; chmod 755 /usr/local/bin/date",
        shown,
    );
    let (op, error) = scenario.fails(&json!({ "cluster_action": "rotate_ca" }), "");
    assert_eq!(error["code"], "clocks-differ", "{error:#}");
    let detail = error["detail"].as_str().unwrap();
    println!("{detail}");
    assert!(detail.contains(&HOSTS[1].to_lowercase()), "{detail}");
    assert!(detail.contains("s behind the VNFM"), "{detail}");
    scenario
        .testbed
        .server
        .run(&["op", "rollback", &op, "--watch"]);
    host.inside("rm /usr/local/bin/date");
}

impl Scenario {
    /// Runs an action that must fail; its operation, and its error.
    fn fails(&self, params: &Value, what: &str) -> (String, Value) {
        let body = json!({ "changeStateTo": "STARTED", "additionalParams": params });
        let op = self.testbed.begin(VNF_A, "operate", &body);
        let end = self.testbed.server.ended(&op, LIMIT);
        assert_eq!(end["operationState"], "FAILED_TEMP", "{what}: {end:#}");
        (op, end["error"].clone())
    }

    /// The snapshots with the server.
    pub(crate) fn stored(&self) -> Vec<String> {
        let listed = self.testbed.server.ctl(&["cluster", "backups", VNF_A]);
        let listed = listed.as_array().unwrap().iter();
        let names = listed.map(|one| one["snapshot"].as_str().unwrap().to_owned());
        names.collect()
    }

    /// Saves the snapshot to a folder, loses it on the host, and tries to restore what is not it.
    fn refuse_damaged(&self, name: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let server = &self.testbed.server;
        server.ctl(&["cluster", "backups", VNF_A, "--save", name, "--out", path]);
        let content = std::fs::read(folder.path().join(format!("{name}.db.enc"))).unwrap();
        println!("a snapshot of {} bytes", content.len());
        let host = Host::new(&self.real, HOSTS[0]);
        host.inside("rm -r /var/lib/vnfm/etcd");
        let etcd = "pgrep -x etcd";
        let before = host.inside(etcd);
        let mut altered = content.clone();
        altered[content.len() / 2] ^= 1;
        let half = &content[..content.len() / 2 / 16 * 16];
        for (number, content) in [(1, &altered[..]), (2, half), (3, b"none")] {
            let damaged = format!("{}-20260101T00000{number}Z", &name[..12]);
            let file = folder.path().join(format!("{damaged}.db.enc"));
            std::fs::write(&file, content).unwrap();
            let words = [
                "cluster",
                "restore",
                VNF_A,
                "--from",
                file.to_str().unwrap(),
                "--watch",
            ];
            let refused = server.run_with_input(&words, PASSPHRASE);
            println!("{}", refused.stderr);
            assert!(refused.code != 0, "{refused:?}");
            let ops = server.ctl(&["op", "list"]);
            let mut ops = ops.as_array().unwrap().iter();
            let failed = ops
                .find(|op| op["operationState"] == "FAILED_TEMP")
                .unwrap();
            let failed = failed["id"].as_str().unwrap();
            let undone = server.run(&["op", "rollback", failed, "--watch"]);
            assert_eq!(undone.code, 0, "{undone:?}");
        }
        assert_eq!(host.inside(etcd), before, "etcd was not touched");
    }
}

fn back_up_and_restore(scenario: &Scenario, next: &Path, master: &str) {
    scenario.import(HOSTS[0], &next.join("images"));
    let note = |text: &str| {
        scenario
            .inside
            .apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "note", "namespace": "default" }, "data": { "text": text } }));
    };
    let noted = || {
        scenario
            .inside
            .kubectl("get configmap note -o jsonpath='{.data.text}'")
    };
    note("before");
    let shown = scenario.act("backup", &json!({ "etcd_passphrase": PASSPHRASE }));
    let snapshots = shown["metadata"]["etcdSnapshots"][master]
        .as_object()
        .unwrap();
    println!("{snapshots:?}");
    let name = snapshots.keys().next().unwrap().clone();
    note("after");
    assert_eq!(scenario.stored(), [name.as_str()]);
    scenario.refuse_damaged(&name);
    scenario.act(
        "restore",
        &json!({ "etcd_passphrase": PASSPHRASE, "etcd_snapshot": name }),
    );
    until("the cluster has its data", Duration::from_mins(1), || {
        noted().filter(|text| text == "before")
    });
    scenario.testbed.server.ctl(&["vim", "check", CLUSTER]);
    for host in HOSTS {
        scenario
            .inside
            .wait_until_ready(&host.to_lowercase(), true, Duration::from_mins(2));
    }
    scenario.inside.assert_b_recorded(&scenario.testbed, 2);
}

/// The request that changes VNF-A to the next release.
pub(crate) fn upgrade_request() -> Value {
    let path = root().join("vnfd-samples/vnf-a-k8s-cluster/requests/change_vnfpkg.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The next release of VNF-A with the archives, in this folder.
fn package(next: &Path, folder: &Path) -> String {
    let package = copy("vnf-a-k8s-cluster-2", folder);
    add_archives(next, &package);
    package.to_str().unwrap().to_owned()
}

/// The next release of another sample of VNF-A with the archives, in this folder.
pub(crate) fn next_release(sample: &str, next: &Path, folder: &Path) -> String {
    let package = copy(sample, folder);
    add_archives(next, &package);
    let types = package.join("Definitions/vnf-a-types.yaml");
    let text = std::fs::read_to_string(&types).unwrap();
    let (_, id) = text.split_once("descriptor_id:").unwrap();
    let (_, id) = id.split_once("valid_values: [").unwrap();
    let id = id.split(']').next().unwrap();
    std::fs::write(&types, text.replace(id, NEXT_VNFD)).unwrap();
    package.to_str().unwrap().to_owned()
}

/// The request that changes VNF-A to [`next_release`].
pub(crate) fn next_release_request() -> Value {
    let mut request = upgrade_request();
    request["vnfdId"] = NEXT_VNFD.into();
    request
}

/// Gives a package the archives of the next minor version.
fn add_archives(next: &Path, package: &Path) {
    let archives = package.join("Files/kubernetes/packages");
    std::fs::create_dir_all(&archives).unwrap();
    for archive in std::fs::read_dir(next.join("archives")).unwrap() {
        let archive = archive.unwrap();
        let name = archive.file_name().into_string().unwrap();
        std::fs::copy(archive.path(), archives.join(&name)).unwrap();
    }
}

#[test]
fn a_new_package_upgrades_kubernetes_by_one_minor_version() {
    let (Some(next), Some(scenario)) = (next_version(), Scenario::begin()) else {
        return;
    };
    let version = std::fs::read_to_string(next.join("version")).unwrap();
    let version = version.trim();
    let folder = tempfile::tempdir().unwrap();
    let package = scenario.offer_next_version(&next, folder.path());
    scenario.testbed.onboard(&package);
    let shown = scenario.without_failures("the upgrade", "change_vnfpkg", &upgrade_request());
    println!("{:#}", shown["metadata"]);
    assert_eq!(shown["metadata"]["kubernetesVersion"], version);
    let kubelets = "get nodes -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}'";
    let kubelets = scenario.inside.kubectl(kubelets).unwrap();
    assert_eq!(kubelets.trim(), [version; 3].join(" "));
    let images = "get pods -n kube-system -l tier=control-plane -o jsonpath='{.items[*].spec.containers[*].image}'";
    let images = scenario.inside.kubectl(images).unwrap();
    assert_eq!(images.matches(version).count(), 3, "{images}");
    let client = format!("get pods -n {} -o name", b_namespace(&scenario.testbed));
    assert_eq!(scenario.inside.kubectl(&client).unwrap().lines().count(), 2);
    scenario.testbed.assert_a_up(3);
    scenario.end();
}
