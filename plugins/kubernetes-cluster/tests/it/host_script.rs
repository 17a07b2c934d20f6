//! `vnfm-kubernetes` itself, in the machine's own shell, on files as kubeadm writes them; the simulated hosts only imitate it.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

const SCRIPT: &str = include_str!("../../src/vnfm-kubernetes.sh");
const MANIFEST: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    kubeadm.kubernetes.io/x: y\n  labels:\n    \
component: NAME\n    tier: control-plane\n  name: NAME\nspec:\n  containers:\n  - command:\n    - NAME\n    \
image: registry.k8s.io/NAME:v1.36.2\n    imagePullPolicy: IfNotPresent\n";

/// A folder as the root of a host.
struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Root {
    fn new() -> Self {
        let root =
            Self(std::env::temp_dir().join(format!("vnfm-kubernetes-{}", uuid::Uuid::new_v4())));
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
        let script = ["/etc/kubernetes", "/var/lib/vnfm", "/var/lib/kubelet"]
            .iter()
            .fold(SCRIPT.to_owned(), |text, path| {
                text.replace(path, &format!("{}{path}", root.0.display()))
            });
        root.write("vnfm-kubernetes", &script);
        root
    }

    /// A process that the host takes for its API server.
    fn api_server(&self) -> Child {
        let child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        self.program("pgrep", &format!("echo {}", child.id()));
        child
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn program(&self, name: &str, line: &str) {
        let path = format!("bin/{name}");
        // A new file, as package managers write it: one that runs cannot be written.
        let _ = std::fs::remove_file(self.path(&path));
        self.write(&path, &format!("#!/bin/sh\n{line}\n"));
        std::fs::set_permissions(self.path(&path), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// As a package of this version does.
    fn install(&self, version: &str) {
        self.program("kubeadm", &format!("echo {version}"));
        self.program("kubelet", &format!("echo Kubernetes {version}"));
        self.program("kubectl", "true");
    }

    fn run(&self, words: &[&str]) -> Output {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new("sh");
        command
            .arg(self.path("vnfm-kubernetes"))
            .args(words)
            .env("PATH", path);
        command.output().unwrap()
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn is_there(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }
}

#[test]
fn versions_are_those_of_programs_and_manifests() {
    let root = Root::new();
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
    let root = Root::new();
    let before = root.ok(&["versions"]);
    root.ok(&["programs"]);
    assert!(
        !root.is_there("bin/units"),
        "nothing was copied yet, so that nothing is put back"
    );
    root.ok(&["keep"]);
    root.install("v1.37.0");
    root.write("var/lib/kubelet/config.yaml", "kind: New\n");
    let manifest = "etc/kubernetes/manifests/kube-apiserver.yaml";
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
    let root = Root::new();
    let (etcd, scheduler) = (
        "etc/kubernetes/manifests/etcd.yaml",
        "etc/kubernetes/manifests/kube-scheduler.yaml",
    );
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
    let root = Root::new();
    let names = "kube-controller-manager\nkube-scheduler\nkube-apiserver\n";
    assert_eq!(root.ok(&["components"]), names);
    let manifest = "etc/kubernetes/manifests/kube-scheduler.yaml";
    let before = root.read(manifest);
    for id in ["abc234", "xyz567"] {
        root.ok(&["restart", "kube-scheduler", id]);
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
    let failed = root.run(&["restart", "kube-scheduler", "abc234"]);
    assert!(!failed.status.success());
    assert_eq!(
        root.read(manifest),
        "kind: Pod\n",
        "what cannot be labelled stays"
    );
}

#[test]
fn an_api_server_that_does_not_end_is_killed_once_per_restart() {
    let root = Root::new();
    root.program("sleep", "exit 0");
    let mut old = root.api_server();
    root.ok(&["restart", "kube-apiserver", "abc234"]);
    assert_eq!(old.wait().unwrap().signal(), Some(9));
    let mut new = root.api_server();
    root.ok(&["restart", "kube-apiserver", "abc234"]);
    assert!(new.try_wait().unwrap().is_none(), "it has been restarted");
    root.ok(&["restart", "kube-scheduler", "abc234"]);
    assert!(new.try_wait().unwrap().is_none(), "another component");
    new.kill().unwrap();
    new.wait().unwrap();
}
