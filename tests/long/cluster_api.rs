//! VNF-A by Cluster API: its real controllers on the real API server, which is the management cluster. The machines are those
//! of its development provider and exist in memory.
//!
//! The API server of such a cluster serves neither `/version` nor server-side apply, so a second real control plane takes its
//! place for VNF-B. It has the CA of the cluster: the kubeconfig that Cluster API made logs in there.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use vnfm_tests::helm_cluster::{GENERATIONS, HelmCluster};
use vnfm_tests::live::neighbour;
use vnfm_tests::programs::allow_plugin;
use vnfm_tests::sources::root;
use vnfm_tests::testbed::{Testbed, VNF_A, VNF_B};

const SAMPLE: &str = "vnf-a-cluster-api";
const PROGRAMS: [&str; 4] = ["core", "bootstrap", "control-plane", "infrastructure"];
/// Ports that a control plane uses, from its first one on.
const PORTS: u16 = 5;

#[test]
fn a_cluster_of_cluster_api_is_a_vim_scales_heals_and_goes() {
    let Some(programs) = neighbour("VNFM_LIVE_CLUSTER_API") else {
        return;
    };
    let Some(management) = HelmCluster::find(GENERATIONS[0]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(plane) = ControlPlane::start(&folder.path().join("plane")) else {
        return;
    };
    let controllers = Controllers::start(&management, &programs, folder.path());
    let package = package(folder.path(), &plane);
    let data = tempfile::tempdir().unwrap();
    allow_plugin(data.path(), "libcluster_api.so");
    let testbed = Testbed::on_cluster(data, &management.kubeconfig);

    let (id, mut request) = testbed.create_a(&package);
    request["additionalParams"]["cluster_api"]["endpoint"] = json!(plane.url);
    let op = testbed.instantiate(VNF_A, &request);
    testbed.wait_for_state(&op, "COMPLETED");
    let namespace = format!("vnf-{id}");
    assert_machines(&testbed, &management, &namespace, 2);

    let vim = testbed.server.ctl(&["vim", "show", "edge"]);
    testbed.instantiate_b(vim["id"].as_str().unwrap());
    let b = testbed.server.ctl(&["vnf", "show", VNF_B]);
    let pods = plane.cluster.web_pods(&format!("vnf-{}", text(&b["id"])));
    assert_eq!(pods.len(), 2, "{pods:?}");

    let words = ["vnf", "scale", VNF_A, "--aspect", "workers", "--out"];
    let op = testbed.server.ctl(&words);
    testbed.wait_for_state(text(&op["vnfLcmOpOccId"]), "COMPLETED");
    let lost = assert_machines(&testbed, &management, &namespace, 3);
    testbed.wait_for_state(&testbed.heal(&[&lost], &[]), "COMPLETED");
    let other = assert_machines(&testbed, &management, &namespace, 3);
    assert_ne!(lost, other, "the machine was replaced");

    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    let left = management.kubectl(&["get", "clusters,machines", "-A", "-o", "name"]);
    assert_eq!(left, "");
    testbed.finish();
    drop(controllers);
}

/// The VNFCs are the machines, with this number of workers; the id of the first worker.
fn assert_machines(
    testbed: &Testbed,
    management: &HelmCluster,
    namespace: &str,
    workers: usize,
) -> String {
    let shown = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let info = &shown["instantiatedVnfInfo"]["vnfcResourceInfo"];
    let vnfcs = info.as_array().unwrap();
    let of_vdu = |vdu: &str| vnfcs.iter().filter(|vnfc| vnfc["vduId"] == vdu).count();
    let found = (of_vdu("controlPlane"), of_vdu("worker"));
    assert_eq!(found, (1, workers), "{info:#}");
    let name = |vnfc: &Value| {
        format!(
            "machine.cluster.x-k8s.io/{}",
            text(&vnfc["computeResource"]["resourceId"])
        )
    };
    let mut recorded: Vec<String> = vnfcs.iter().map(name).collect();
    recorded.sort();
    let get = ["get", "machines", "-n", namespace, "-o", "name"];
    let existing = management.kubectl(&get);
    let mut existing: Vec<&str> = existing.lines().collect();
    existing.sort_unstable();
    assert_eq!(recorded, existing);
    let mut workers = vnfcs.iter().filter(|vnfc| vnfc["vduId"] == "worker");
    text(&workers.next().unwrap()["id"]).to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The sample, and the CA of the control plane as that of the cluster.
fn package(folder: &Path, plane: &ControlPlane) -> String {
    let from = root().join("vnfd-samples").join(SAMPLE);
    let copied = Command::new("cp").arg("-r").arg(from).arg(folder).status();
    assert!(copied.unwrap().success());
    let package = folder.join(SAMPLE);
    let pem = |name: &str| fs::read_to_string(plane.state.join("pki").join(name)).unwrap();
    let authority = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "edge-ca", "labels": {"cluster.x-k8s.io/cluster-name": "edge"}},
        "stringData": {"tls.crt": pem("ca.crt"), "tls.key": pem("ca.key")}});
    let file = package.join("Files/kubernetes/infrastructure.yaml");
    let objects = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{authority}\n---\n{objects}")).unwrap();
    package.to_str().unwrap().to_owned()
}

/// The controllers of Cluster API and their definitions; both end on drop.
struct Controllers<'a> {
    management: &'a HelmCluster,
    definitions: PathBuf,
    children: Vec<Child>,
}

impl<'a> Controllers<'a> {
    fn start(management: &'a HelmCluster, programs: &Path, folder: &Path) -> Self {
        let definitions = programs.join("crds");
        let mut started = Self {
            management,
            definitions,
            children: Vec::new(),
        };
        let files = ["-f", started.definitions.to_str().unwrap()];
        management.kubectl(&[&["apply", "--server-side"], &files[..]].concat());
        let versions = [
            "cluster.x-k8s.io/v1beta1=v1beta1",
            "cluster.x-k8s.io/v1beta2=v1beta2",
        ];
        management.kubectl(&[&["label", "--overwrite"], &files[..], &versions].concat());
        management.kubectl(&[&["wait", "--for=condition=Established"], &files[..]].concat());
        let names = vec!["localhost".to_owned()];
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        fs::write(folder.join("tls.crt"), own.cert.pem()).unwrap();
        fs::write(folder.join("tls.key"), own.signing_key.serialize_pem()).unwrap();
        let children = PROGRAMS.map(|name| start(&programs.join(name), management, folder));
        started.children.extend(children);
        started
    }
}

impl Drop for Controllers<'_> {
    fn drop(&mut self) {
        let files = self.definitions.to_str().unwrap_or_default();
        let delete = ["delete", "--ignore-not-found", "--timeout=60s", "-f", files];
        let _ = self.management.kubectl_command(&delete).output();
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(program: &Path, management: &HelmCluster, folder: &Path) -> Child {
    let name = program.file_name().unwrap().to_str().unwrap();
    let log = fs::File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(program);
    command
        .arg("--kubeconfig")
        .arg(&management.kubeconfig)
        .args([
            "--diagnostics-address",
            "127.0.0.1:0",
            "--insecure-diagnostics",
        ])
        .args(["--health-addr", "127.0.0.1:0"])
        .args(["--webhook-port", &free_ports(1).to_string()])
        .arg("--webhook-cert-dir")
        .arg(folder);
    for (variable, value) in [
        ("POD_NAMESPACE", "default"),
        ("POD_NAME", name),
        ("POD_UID", "1"),
        ("POD_IP", "127.0.0.1"),
    ] {
        command.env(variable, value);
    }
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// The first of this many free ports in a row.
fn free_ports(count: u16) -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let others =
            (1..count).map(|next| TcpListener::bind(("127.0.0.1", port.checked_add(next)?)).ok());
        if others.collect::<Option<Vec<_>>>().is_some() {
            return port;
        }
    }
}

/// A control plane with simulated nodes, ended on drop.
struct ControlPlane {
    state: PathBuf,
    url: String,
    cluster: HelmCluster,
}

impl ControlPlane {
    fn start(state: &Path) -> Option<Self> {
        let programs = neighbour("VNFM_LIVE_ASSETS")?;
        let port = free_ports(PORTS);
        let kubeconfig = state.join("admin.kubeconfig");
        let plane = Self {
            state: state.to_owned(),
            url: format!("https://127.0.0.1:{port}"),
            cluster: HelmCluster::with_kubeconfig(GENERATIONS[0], kubeconfig)?,
        };
        for script in ["up.sh", "kwok-up.sh"] {
            let output = plane.script(script, &[&programs, state], port);
            assert!(output.0, "{script}: {}", output.1);
        }
        Some(plane)
    }

    /// Whether a script of the stack succeeded, and what it printed.
    fn script(&self, name: &str, arguments: &[&Path], port: u16) -> (bool, String) {
        let log = self.state.with_extension("log");
        let file = fs::File::create(&log).unwrap();
        let ended = Command::new(root().join("tests/stack/kubernetes").join(name))
            .args(arguments)
            .env("K8S_PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status();
        let printed = fs::read_to_string(&log).unwrap_or_default();
        (ended.is_ok_and(|status| status.success()), printed)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let _ = self.script("down.sh", &[&self.state], 0);
    }
}
