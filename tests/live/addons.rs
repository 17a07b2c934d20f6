//! The catalogue of add-ons on a real API server, with simulated nodes whose pods only seem to run.
//!
//! ```text
//! each entry, with its defaults ─┐
//! the manifests of the sample   ─┼─► server-side apply, unknown fields refused ─► healthy or not ─► deleted
//! ```
//! What runs for real is elsewhere: metrics-server, local-path and `CoreDNS` in `samples.rs`, on real hosts; the standard CNI
//! plug-ins below, copied by the script of their entry. kube-vip's static pod is only checked by the API server: its address
//! would be one of the host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize as _;
use serde_json::{Value, json};
use vnfm_tests::live::{neighbour, program};
use vnfm_tests::programs::until;
use vnfm_tests::sources::root;
use vnfm_tests::testbed::LONG;

/// Entries of the catalogue whose objects become healthy with simulated nodes: metrics-server has an `APIService` that needs pods
/// that respond, and kubeadm's `CoreDNS` runs on nodes with the label of their operating system only.
const HEALTHY: &[&str] = &[
    "cni-plugins",
    "multus",
    "node-feature-discovery",
    "local-path",
    "ingress",
];
/// Kinds with a rollout.
const WORKLOADS: &[&str] = &["Deployment", "DaemonSet"];
/// Where Debian has the standard CNI plug-ins.
const PLUGINS: &str = "/usr/lib/cni";

/// The API server of the real systems.
struct Plane {
    kubeconfig: PathBuf,
    programs: PathBuf,
}

impl Plane {
    fn find() -> Option<Self> {
        let kubeconfig = neighbour("VNFM_LIVE_KUBECONFIG")?;
        let programs = neighbour("VNFM_LIVE_ASSETS")?;
        Some(Self {
            kubeconfig,
            programs,
        })
    }

    /// Runs kubectl with these objects as its input.
    fn run(&self, words: &str, objects: &[Value]) -> Output {
        let mut command = Command::new(self.programs.join("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        // A stream, as the plugin writes it: kubectl checks the fields of a `List` itself instead of asking the API server.
        let input: Vec<_> = objects.iter().map(Value::to_string).collect();
        output(command.args(words.split(' ')), &input.join("\n---\n"))
    }

    /// The same, which must succeed.
    fn kubectl(&self, words: &str, objects: &[Value]) -> String {
        let output = self.run(words, objects);
        assert!(output.status.success(), "kubectl {words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, objects: &[Value]) {
        let words = "apply --server-side --force-conflicts --validate=strict -f -";
        self.kubectl(words, objects);
    }
}

/// Objects on the API server, which are deleted at the end of the test.
struct Applied<'a> {
    plane: &'a Plane,
    objects: Vec<Value>,
}

impl<'a> Applied<'a> {
    /// Applies namespaces and definitions, then the others, as the plugin does.
    fn new(plane: &'a Plane, objects: Vec<Value>) -> Self {
        let applied = Self { plane, objects };
        let first = |object: &&Value| {
            ["Namespace", "CustomResourceDefinition"].contains(&object["kind"].as_str().unwrap())
        };
        let (first, others): (Vec<_>, Vec<_>) = applied.objects.iter().partition(first);
        let cloned = |all: Vec<&Value>| all.into_iter().cloned().collect::<Vec<_>>();
        let definitions: Vec<_> = first
            .iter()
            .filter(|one| one["kind"] != "Namespace")
            .collect();
        let definitions = cloned(definitions.into_iter().copied().collect());
        if !first.is_empty() {
            plane.apply(&cloned(first));
        }
        if !definitions.is_empty() {
            plane.kubectl(
                "wait --for=condition=Established --timeout=60s -f -",
                &definitions,
            );
        }
        plane.apply(&cloned(others));
        applied
    }

    fn workloads(&self) -> Vec<Value> {
        let is_workload = |object: &&Value| WORKLOADS.iter().any(|kind| object["kind"] == *kind);
        self.objects.iter().filter(is_workload).cloned().collect()
    }

    /// Deletes the objects; nothing of them is left.
    fn remove(self) {
        let objects = self.objects.clone();
        let plane = self.plane;
        drop(self);
        until("the objects are gone", LONG, || {
            let left = plane.kubectl("get --ignore-not-found -o name -f -", &objects);
            left.is_empty().then_some(())
        });
    }
}

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        let words = "delete --ignore-not-found --wait=true --timeout=120s -f -";
        let output = self.plane.run(words, &self.objects);
        if !output.status.success() {
            eprintln!("not deleted: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// Runs a command with this input.
fn output(command: &mut Command, input: &str) -> Output {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, input.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    command.stdin(Stdio::from(file)).output().unwrap()
}

/// The catalogue with its defaults, and the values that have none.
fn catalogue() -> Vec<(String, Vec<Value>)> {
    let entries = kubernetes_cluster::catalogue::CATALOGUE.iter();
    let addons = entries.map(|entry| match entry.name {
        "cni-plugins" => {
            json!({ "name": entry.name, "values": { "IMAGE": "localhost/cni-plugins:1" } })
        }
        name => json!({ "name": name }),
    });
    kubernetes_cluster::catalogue_objects(addons.collect()).unwrap()
}

/// The objects of the manifests of a folder.
fn manifests(folder: &Path) -> Vec<(String, Vec<Value>)> {
    let files = fs::read_dir(folder).unwrap();
    let all = files.map(|file| {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let objects =
            serde_yaml::Deserializer::from_str(&text).map(|one| Value::deserialize(one).unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        (name.to_owned(), objects.collect())
    });
    all.collect()
}

/// `CoreDNS` as kubeadm installs it.
fn kubeadm_coredns(plane: &Plane) -> Vec<Value> {
    let mut kubeadm = Command::new(plane.programs.join("kubeadm"));
    kubeadm.args(["init", "phase", "addon", "coredns", "--print-manifest"]);
    let version = plane.kubectl("version -o json", &[]);
    let version: Value = serde_json::from_str(&version).unwrap();
    let version = version["clientVersion"]["gitVersion"].as_str().unwrap();
    let printed = output(kubeadm.args(["--kubernetes-version", version]), "");
    assert!(printed.status.success(), "{printed:?}");
    let text = String::from_utf8(printed.stdout).unwrap();
    let objects = serde_yaml::Deserializer::from_str(&text);
    let objects = objects.map(|one| Value::deserialize(one).unwrap());
    objects.filter(Value::is_object).collect()
}

#[test]
fn every_manifest_of_the_catalogue_is_applied_strictly_and_removed() {
    let Some(plane) = Plane::find() else { return };
    let coredns = kubeadm_coredns(&plane);
    plane.kubectl("create --field-manager=kubeadm -f -", &coredns);
    let coredns = Applied {
        plane: &plane,
        objects: coredns,
    };
    for (name, objects) in catalogue() {
        let kinds: Vec<_> = objects
            .iter()
            .filter_map(|one| one["kind"].as_str())
            .collect();
        println!("{name}: applied {}", kinds.join(", "));
        let applied = Applied::new(&plane, objects);
        if HEALTHY.contains(&name.as_str()) {
            for workload in applied.workloads() {
                plane.kubectl("rollout status --timeout=120s -f -", &[workload]);
            }
            println!("{name}: healthy on simulated nodes");
        }
        applied.remove();
    }
    coredns.remove();
}

#[test]
fn the_manifests_of_the_sample_are_applied_strictly_and_removed() {
    let Some(plane) = Plane::find() else { return };
    let folder = "vnfd-samples/vnf-a-cloud-integration/Files/kubernetes/addons";
    let all = manifests(&root().join(folder));
    assert_eq!(all.len(), 2);
    for (name, objects) in all {
        Applied::new(&plane, objects).remove();
        println!("{name}: applied");
    }
}

#[test]
fn an_api_server_accepts_the_static_pod_of_kube_vip() {
    let Some(plane) = Plane::find() else { return };
    let path = root().join("plugins/kubernetes-cluster/tests/it/kube-vip.json");
    let pod: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let words = "apply --server-side --validate=strict --dry-run=server -o name -f -";
    assert_eq!(
        plane.kubectl(words, std::slice::from_ref(&pod)),
        "pod/kube-vip\n"
    );
    let mut wrong = pod;
    wrong["spec"]["containers"][0]["arg"] = json!([]);
    let refused = plane.run(words, &[wrong]);
    let reason = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && reason.contains("arg"),
        "{reason}"
    );
}

/// The container that copies the plug-ins, on this machine: Debian's plug-ins into an empty folder.
fn copy_plugins(folder: &Path) {
    let all = catalogue();
    let (_, objects) = all.iter().find(|(name, _)| name == "cni-plugins").unwrap();
    let pod = &objects[0]["spec"]["template"]["spec"];
    let command: Vec<String> =
        serde_json::from_value(pod["initContainers"][0]["command"].clone()).unwrap();
    let mut copy = Command::new(&command[0]);
    copy.args(&command[1..])
        .env("IMAGE_PATH", PLUGINS)
        .env("NODE_PATH", folder);
    let copied = output(&mut copy, "");
    assert!(copied.status.success(), "{copied:?}");
}

/// Gives a namespace an interface by macvlan and host-local, and takes it away, in namespaces of its own.
const ATTACH: &str = r#"set -e
mount -t tmpfs none /run; mkdir -p /run/netns
ip netns add pod; ip link add uplink type bridge; ip link set uplink up
export CNI_CONTAINERID=1 CNI_NETNS=/run/netns/pod CNI_IFNAME=net1
call() { echo "$CONFIG" | CNI_COMMAND=$1 "$CNI_PATH/macvlan" >/dev/null; }
call ADD; ip netns exec pod ip -o -4 addr show net1
call DEL; ip netns exec pod ip -o link"#;

#[test]
fn the_standard_cni_plugins_are_copied_and_attach_a_second_interface() {
    if program("/usr/lib/cni/macvlan", "containernetworking-plugins").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A second copy replaces what the first one wrote.
    copy_plugins(folder.path());
    copy_plugins(folder.path());
    let names = |path: &Path| {
        let files = fs::read_dir(path)
            .unwrap()
            .map(|file| file.unwrap().file_name());
        files.collect::<std::collections::BTreeSet<_>>()
    };
    let plugins = names(Path::new(PLUGINS));
    assert_eq!(names(folder.path()), plugins);
    println!("cni-plugins: copied {plugins:?}");
    for name in &plugins {
        let path = folder.path().join(name);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o755
        );
        let mut version = Command::new(&path);
        version
            .env("CNI_COMMAND", "VERSION")
            .env("CNI_PATH", folder.path());
        let version = output(&mut version, r#"{"cniVersion":"1.0.0"}"#);
        assert!(version.status.success(), "{name:?}: {version:?}");
    }
    let config = json!({ "cniVersion": "1.0.0", "name": "second", "type": "macvlan", "master": "uplink",
        "ipam": { "type": "host-local", "ranges": [[{ "subnet": "198.51.100.0/24" }]], "dataDir": "/run/addresses" } });
    let mut attach = Command::new("unshare");
    attach.args(["--net", "--mount", "sh", "-c", ATTACH]);
    attach
        .env("CNI_PATH", folder.path())
        .env("CONFIG", config.to_string());
    let attached = output(&mut attach, "");
    let text = String::from_utf8_lossy(&attached.stdout);
    assert!(attached.status.success(), "{attached:?}");
    assert!(text.contains("net1    inet 198.51.100.2/24"), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.contains("net1")).count(),
        1,
        "{text}"
    );
    println!("cni-plugins: macvlan and host-local attached a second interface");
}
