//! `vnfm-kubernetes` itself, in the machine's own shell, on files as kubeadm writes them; the simulated hosts only imitate it.

use crate::root::Root;
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output};

const SCRIPT: &str = include_str!("../../src/vnfm-kubernetes.sh");
const MANIFEST: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    kubeadm.kubernetes.io/x: y\n  labels:\n    \
component: NAME\n    tier: control-plane\n  name: NAME\nspec:\n  containers:\n  - command:\n    - NAME\n    \
- --listen-metrics-urls=http://127.0.0.1:2381\n    image: registry.k8s.io/NAME:v1.36.2\n    imagePullPolicy: IfNotPresent\n";
const API: &str = "etc/kubernetes/manifests/kube-apiserver.yaml";
const STOPPED: &str = "etc/kubernetes/vnfm-stopped";
const ETCD: &str = "etc/kubernetes/manifests/etcd.yaml";
const SCHEDULER: &str = "etc/kubernetes/manifests/kube-scheduler.yaml";
const LABEL: &str = "vnfm.dev/restarted: \"abc234\"";

/// A control-plane node with the script.
struct Host(Root);

impl Deref for Host {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.0
    }
}

impl Host {
    /// A node of a cluster whose etcd is elsewhere.
    fn new() -> Self {
        let root = Self(Root::new("vnfm-kubernetes"));
        for name in [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
        ] {
            root.write(
                &format!("etc/kubernetes/manifests/{name}.yaml"),
                &MANIFEST.replace("NAME", name),
            );
        }
        root.write(
            "var/lib/kubelet/config.yaml",
            "kind: KubeletConfiguration\n",
        );
        root.install("v1.36.2");
        root.program("systemctl", "echo \"$@\" >>\"${0%/*}/units\"");
        root.program("sleep", "exit 0");
        let folders = ["/etc/kubernetes", "/var/lib/vnfm", "/var/lib/kubelet"];
        root.script("vnfm-kubernetes", SCRIPT, &folders);
        root
    }

    /// With an etcd that ends as soon as the kubelet restarts it; `kubectl`, which asks whether it answers, runs this.
    fn with_etcd(kubectl: &str) -> Self {
        let host = Self::new();
        host.write(ETCD, &MANIFEST.replace("NAME", "etcd"));
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        host.program(
            "pgrep",
            &format!("[ \"$3\" != etcd ] || echo {}", ended.id()),
        );
        host.program("kubectl", kubectl);
        host
    }

    /// A process that the host takes for its API server.
    fn api_server(&self) -> Child {
        let child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        self.program("pgrep", &format!("echo {}", child.id()));
        child
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// As a package of this version does.
    fn install(&self, version: &str) {
        self.program("kubeadm", &format!("echo {version}"));
        self.program("kubelet", &format!("echo Kubernetes {version}"));
        self.program("kubectl", "true");
    }

    fn run(&self, words: &[&str]) -> Output {
        self.sh(&[&["vnfm-kubernetes"], words].concat())
    }

    fn ok(&self, words: &[&str]) -> String {
        self.sh_ok(&[&["vnfm-kubernetes"], words].concat())
    }

    /// Restarts all components with a label.
    fn restart(&self) -> Output {
        let components = self.ok(&["components"]);
        let components: Vec<_> = components.split_whitespace().collect();
        self.run(&[&["restart", "abc234"], &components[..]].concat())
    }
}

#[test]
fn versions_are_those_of_programs_and_manifests() {
    let root = Host::new();
    let versions = "kubeadm=v1.36.2\nkubelet=v1.36.2\nkube-apiserver=v1.36.2\nkube-controller-manager=v1.36.2\n\
                    kube-scheduler=v1.36.2\n";
    assert_eq!(root.ok(&["versions"]), versions);
    std::fs::remove_dir_all(root.path("etc/kubernetes/manifests")).unwrap();
    assert_eq!(
        root.ok(&["versions"]),
        "kubeadm=v1.36.2\nkubelet=v1.36.2\n",
        "a worker"
    );
    assert_eq!(root.ok(&["components"]), "");
}

#[test]
fn what_was_copied_is_put_back() {
    let root = Host::new();
    let before = root.ok(&["versions"]);
    root.ok(&["programs"]);
    assert!(
        !root.is_there("bin/units"),
        "nothing was copied yet, so that nothing is put back"
    );
    root.ok(&["keep"]);
    root.install("v1.37.0");
    root.write("var/lib/kubelet/config.yaml", "kind: New\n");
    let manifest = API;
    let old = root.read(manifest);
    root.write(manifest, &old.replace("v1.36.2", "v1.37.0"));
    root.ok(&["keep"]);
    assert_ne!(
        root.ok(&["versions"]),
        before,
        "a second copy does not replace the first"
    );
    root.ok(&["manifests"]);
    root.ok(&["programs"]);
    assert_eq!(root.ok(&["versions"]), before);
    assert_eq!(
        root.read("var/lib/kubelet/config.yaml"),
        "kind: KubeletConfiguration\n"
    );
    assert_eq!(root.read(manifest), old);
    assert_eq!(root.read("bin/units"), "daemon-reload\nrestart kubelet\n");
    root.ok(&["drop"]);
    assert!(!root.is_there("var/lib/vnfm/kubernetes"));
}

#[test]
fn an_etcd_that_was_upgraded_stays() {
    let root = Host::new();
    let (etcd, scheduler) = (ETCD, SCHEDULER);
    root.write(etcd, &MANIFEST.replace("NAME", "etcd"));
    let [old_etcd, old_scheduler] = [etcd, scheduler].map(|path| root.read(path));
    root.ok(&["keep"]);
    let new = |old: &str| old.replace("v1.36.2", "v1.37.0");
    root.write(etcd, &new(&old_etcd));
    root.write(scheduler, &new(&old_scheduler));
    root.ok(&["manifests"]);
    assert_eq!(root.read(etcd), new(&old_etcd), "its data are new");
    assert_eq!(root.read(scheduler), old_scheduler);
    root.write(etcd, &old_etcd.replace("- etcd", "- etcd\n    - --new"));
    root.ok(&["manifests"]);
    assert_eq!(root.read(etcd), old_etcd, "the same version");
    std::fs::remove_file(root.path(etcd)).unwrap();
    root.ok(&["manifests"]);
    assert_eq!(root.read(etcd), old_etcd, "no other one is there");
}

#[test]
fn a_static_pod_gets_one_label_per_restart() {
    let root = Host::new();
    let names = "kube-apiserver\nkube-controller-manager\nkube-scheduler\n";
    assert_eq!(root.ok(&["components"]), names);
    let manifest = SCHEDULER;
    let before = root.read(manifest);
    for id in ["abc234", "xyz567"] {
        root.ok(&["restart", id, "kube-scheduler"]);
        let label =
            format!("  labels:\n    vnfm.dev/restarted: \"{id}\"\n    component: kube-scheduler\n");
        assert!(
            root.read(manifest).contains(&label),
            "{}",
            root.read(manifest)
        );
        assert_eq!(
            root.read(manifest).lines().count(),
            before.lines().count() + 1
        );
    }
    root.write(manifest, "kind: Pod\n");
    let failed = root.run(&["restart", "abc234", "kube-scheduler"]);
    assert!(!failed.status.success());
    assert_eq!(
        root.read(manifest),
        "kind: Pod\n",
        "what cannot be labelled stays"
    );
}

#[test]
fn an_api_server_that_does_not_end_is_killed_once_per_restart() {
    let root = Host::new();
    let mut old = root.api_server();
    root.ok(&["restart", "abc234", "kube-apiserver"]);
    assert_eq!(old.wait().unwrap().signal(), Some(9));
    let mut new = root.api_server();
    root.ok(&["restart", "abc234", "kube-apiserver"]);
    assert!(new.try_wait().unwrap().is_none(), "it has been restarted");
    root.ok(&["restart", "abc234", "kube-scheduler"]);
    assert!(new.try_wait().unwrap().is_none(), "another component");
    new.kill().unwrap();
    new.wait().unwrap();
}

#[test]
fn the_api_server_is_stopped_while_etcd_restarts() {
    let host = Host::with_etcd(
        "case $* in *2381*) ls \"${0%/*}/../etc/kubernetes/manifests\" >\"${0%/*}/meanwhile\" ;; esac
echo \"$@\" >>\"${0%/*}/asked\"",
    );
    assert!(host.restart().status.success());
    let meanwhile = "etcd.yaml\nkube-controller-manager.yaml\nkube-scheduler.yaml\n";
    assert_eq!(host.read("bin/meanwhile"), meanwhile);
    assert!(
        host.read("bin/asked")
            .contains("--server=http://127.0.0.1:2381")
    );
    let all = "etcd\nkube-apiserver\nkube-controller-manager\nkube-scheduler\n";
    assert_eq!(host.ok(&["restarted", "abc234"]), all);
    assert_eq!(host.ok(&["restarted", "xyz567"]), "");
    let left = std::fs::read_dir(host.path(STOPPED)).unwrap().count();
    assert_eq!(left, 0);
    host.program("kubectl", "exit 1");
    assert!(
        host.restart().status.success(),
        "nothing is restarted twice"
    );
    assert_eq!(host.read("bin/units"), "restart kubelet\n");
}

#[test]
fn an_interrupted_restart_goes_on() {
    for moved in [&["kube-apiserver"][..], &["kube-apiserver", "etcd"]] {
        let host = Host::with_etcd("true");
        for name in moved {
            let stopped = format!("{STOPPED}/{name}.yaml");
            let manifest = format!("etc/kubernetes/manifests/{name}.yaml");
            host.write(&stopped, &host.read(&manifest));
            std::fs::remove_file(host.path(&manifest)).unwrap();
        }
        let others = host.ok(&["components"]);
        assert!(!others.contains("apiserver"), "`vnfm-etcd stop` did that");
        host.ok(&["resume"]);
        assert!(!host.is_there(API));
        let marker = format!("{STOPPED}/restarting");
        host.write(&marker, "");
        assert!(host.restart().status.success());
        assert!(host.read(API).contains(LABEL));
        assert!(host.read(ETCD).contains(LABEL));
        host.write(&format!("{STOPPED}/kube-apiserver.yaml"), &host.read(API));
        std::fs::remove_file(host.path(API)).unwrap();
        host.write(&marker, "");
        host.ok(&["resume"]);
        assert!(host.is_there(API) && !host.is_there(&marker));
    }
}

#[test]
fn an_api_server_starts_again_if_etcd_does_not_answer() {
    let host = Host::with_etcd("exit 1");
    let before = host.read(API);
    let output = host.restart();
    assert_eq!(output.status.code(), Some(4));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("etcd does not answer"), "{error}");
    assert_eq!(host.read(API), before);
}

#[test]
fn nothing_stops_if_a_manifest_cannot_be_labelled() {
    let host = Host::with_etcd("true");
    host.write(SCHEDULER, "kind: Pod\n");
    let before = [API, ETCD].map(|path| host.read(path));
    assert_eq!(host.restart().status.code(), Some(3));
    assert_eq!([API, ETCD].map(|path| host.read(path)), before);
}
