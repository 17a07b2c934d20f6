//! `vnfm-etcd` itself, in the machine's own shell, with programs in place of etcd's: what a crash in the middle of a restore
//! leaves, and the end of a static pod.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const SCRIPT: &str = include_str!("../../src/vnfm-etcd.sh");
const PASSPHRASE: &str = "a passphrase for the test";

/// A folder as the root of a control-plane node.
struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Root {
    fn new() -> Self {
        let root = Self(std::env::temp_dir().join(format!("vnfm-etcd-{}", uuid::Uuid::new_v4())));
        let data = root.path("var/lib/etcd");
        let manifest = format!(
            "spec:\n  containers:\n  - command:\n    - etcd\n    - --data-dir={}\n    image: registry.k8s.io/etcd:3.6.0-0\n",
            data.display()
        );
        for pod in ["etcd", "kube-apiserver"] {
            root.write(&format!("etc/kubernetes/manifests/{pod}.yaml"), &manifest);
        }
        root.write(
            "etc/kubernetes/pki/ca.crt",
            "-----BEGIN CERTIFICATE-----\nTHE-CA-OF-THIS-CLUSTER\n",
        );
        root.write("var/lib/etcd/member/snap/db", "what etcd has");
        root.write("passphrase", &format!("{PASSPHRASE}\n"));
        // `ctr run … etcdctl … snapshot save FILE` and `… etcdutl snapshot restore FILE … --data-dir FOLDER …`
        root.program(
            "ctr",
            "while [ \"$1\" != snapshot ]; do shift; done\n\
             case $2 in\n\
             save) printf 'THE-CA-OF-THIS-CLUSTER and the data' >\"$3.part\"\n\
             { cat \"$3.part\"; printf %s \"$(sha256sum <\"$3.part\" | cut -c1-64)\" | xxd -r -p; } >\"$3\"; rm \"$3.part\" ;;\n\
             restore) from=$3; while [ \"$1\" != --data-dir ]; do shift; done\n\
             mkdir -p \"$2/member/snap\"; cp \"$from\" \"$2/member/snap/db\" ;;\n\
             esac",
        );
        root.program("pgrep", "exit 1");
        let script = ["/etc/kubernetes", "/var/lib/vnfm"]
            .iter()
            .fold(SCRIPT.to_owned(), |text, path| {
                text.replace(path, &format!("{}{path}", root.0.display()))
            });
        root.write("vnfm-etcd", &script);
        root
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, name: &str, lines: &str) {
        let path = format!("bin/{name}");
        let _ = std::fs::remove_file(self.path(&path));
        self.write(&path, &format!("#!/bin/sh\n{lines}\n"));
        std::fs::set_permissions(self.path(&path), PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new("sh");
        let script = self.path("vnfm-etcd");
        command.arg(script).args(words).env("PATH", path);
        command.output().unwrap()
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn is_there(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// What a database in etcd's folder has, without the checksum.
    fn data(&self, member: &str) -> String {
        let content = std::fs::read(self.path(&format!("var/lib/etcd/{member}/snap/db"))).unwrap();
        let text = String::from_utf8_lossy(&content).into_owned();
        text.chars().take(35).collect()
    }

    fn passphrase(&self) -> String {
        self.path("passphrase").display().to_string()
    }

    fn unpack(&self, name: &str) -> Output {
        self.run(&[
            "unpack",
            name,
            &self.passphrase(),
            "m1",
            "https://10.0.0.1:2380",
        ])
    }
}

const SAVED: &str = "THE-CA-OF-THIS-CLUSTER and the data";

#[test]
fn a_restore_that_was_interrupted_keeps_the_data_from_before_it() {
    let root = Root::new();
    root.ok(&["save", "one", &root.passphrase(), "5"]);
    assert!(root.ok(&["list"]).starts_with("one "));
    assert!(root.unpack("one").status.success());
    assert_eq!(root.data("member"), "what etcd has", "it still runs");
    // The old data are away, and then the host loses power.
    let first = root
        .path("var/lib/etcd/vnfm-new/member")
        .display()
        .to_string();
    root.program(
        "mv",
        &format!("[ \"$1\" != '{first}' ] || {{ kill -9 $PPID; exit 1; }}; exec /bin/mv \"$@\""),
    );
    assert!(!root.run(&["restore", "id-1"]).status.success());
    assert!(!root.is_there("var/lib/etcd/member") && root.is_there("var/lib/etcd/vnfm-before"));
    // The data are in place, and then it loses power again.
    root.program("mv", "exec /bin/mv \"$@\"");
    root.program("touch", "kill -9 $PPID");
    assert!(root.unpack("one").status.success());
    assert!(!root.run(&["restore", "id-1"]).status.success());
    root.program("touch", "exec /usr/bin/touch \"$@\"");
    assert!(root.unpack("one").status.success());
    for _ in 0..2 {
        root.ok(&["restore", "id-1"]);
        assert_eq!(root.data("member"), SAVED);
        assert_eq!(root.data("vnfm-before"), "what etcd has");
        assert!(!root.is_there("var/lib/etcd/vnfm-new"));
        for pod in ["etcd", "kube-apiserver"] {
            assert!(root.is_there(&format!("etc/kubernetes/manifests/{pod}.yaml")));
        }
    }
}

#[test]
fn what_cannot_be_unpacked_stops_nothing() {
    let root = Root::new();
    root.ok(&["save", "one", &root.passphrase(), "5"]);
    root.write("passphrase", "another passphrase\n");
    let other = root.unpack("one");
    assert_eq!(other.status.code(), Some(3));
    assert!(
        String::from_utf8_lossy(&other.stderr)
            .contains("the passphrase is not that of the snapshot one")
    );
    root.write("passphrase", &format!("{PASSPHRASE}\n"));
    root.write(
        "etc/kubernetes/pki/ca.crt",
        "-----BEGIN CERTIFICATE-----\nANOTHER-CA\n",
    );
    assert_eq!(root.unpack("one").status.code(), Some(5));
    assert!(root.is_there("etc/kubernetes/manifests/etcd.yaml"));
    let left = std::fs::read_dir(root.path("var/lib/vnfm/etcd")).unwrap();
    assert_eq!(left.count(), 1, "nothing decrypted is left");
}

#[test]
fn a_static_pod_stops_when_its_process_has_ended() {
    let root = Root::new();
    // The process is seen twice, then it has ended.
    root.program(
        "pgrep",
        "echo x >>\"${0%/*}/looks\"; [ \"$(wc -l <\"${0%/*}/looks\")\" -le 2 ]",
    );
    root.program("sleep", "exit 0");
    root.program("pkill", "echo \"$@\" >>\"${0%/*}/killed\"");
    root.ok(&["stop", "kube-apiserver"]);
    assert!(root.is_there("etc/kubernetes/vnfm-stopped/kube-apiserver.yaml"));
    assert!(!root.is_there("etc/kubernetes/manifests/kube-apiserver.yaml"));
    assert!(!root.is_there("bin/killed"));
    // One that does not end is killed after five looks, if it is the API server.
    root.program("pgrep", "[ ! -e \"${0%/*}/killed\" ]");
    root.ok(&["stop", "kube-apiserver"]);
    let killed = std::fs::read_to_string(root.path("bin/killed")).unwrap();
    assert_eq!(killed, "-KILL -x kube-apiserver\n");
    std::fs::remove_file(root.path("bin/killed")).unwrap();
    let stuck = root.run(&["stop", "etcd"]);
    assert_eq!(stuck.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&stuck.stderr).contains("etcd does not stop"));
    assert!(!root.is_there("bin/killed"), "etcd is never killed");
}
