//! `vnfm-etcd` itself, in the machine's own shell, with programs in place of etcd's: what a crash in the middle of a restore
//! leaves, and the end of a static pod.

use crate::root::Root;
use std::process::Output;

const SCRIPT: &str = include_str!("../../src/vnfm-etcd.sh");
const PASSPHRASE: &str = "a passphrase for the test";
const OLD: &str = "registry.k8s.io/etcd:3.6.0-0";
const NEW: &str = "registry.k8s.io/etcd:3.7.0-0";

/// A control-plane node.
struct Node(Root);

impl Node {
    fn new() -> Self {
        let root = Root::new("vnfm-etcd");
        let data = root.path("var/lib/etcd");
        let manifest = format!(
            "spec:\n  containers:\n  - command:\n    - etcd\n    - --name=m1\n    - --data-dir={}\n    image: {OLD}\n",
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
        root.write("members", "1, started, m1\n");
        // `ctr run … etcdctl … member list`, `… etcdctl … snapshot save FILE` and `… etcdutl snapshot restore FILE … --data-dir FOLDER …`
        root.program(
            "ctr",
            "case \"$*\" in *'member list') exec cat \"${0%/*}/../members\" ;; esac\n\
             while [ \"$1\" != snapshot ]; do shift; done\n\
             case $2 in\n\
             save) printf 'THE-CA-OF-THIS-CLUSTER and the data' >\"$3.part\"\n\
             { cat \"$3.part\"; printf %s \"$(sha256sum <\"$3.part\" | cut -c1-64)\" | xxd -r -p; } >\"$3\"; rm \"$3.part\" ;;\n\
             restore) from=$3; while [ \"$1\" != --data-dir ]; do shift; done\n\
             mkdir -p \"$2/member/snap\"; cp \"$from\" \"$2/member/snap/db\" ;;\n\
             esac",
        );
        root.program("pgrep", "exit 1");
        root.script("vnfm-etcd", SCRIPT, &["/etc/kubernetes", "/var/lib/vnfm"]);
        Self(root)
    }

    fn run(&self, words: &[&str]) -> Output {
        self.0.sh(&[&["vnfm-etcd"], words].concat())
    }

    fn ok(&self, words: &[&str]) -> String {
        self.0.sh_ok(&[&["vnfm-etcd"], words].concat())
    }

    /// What a database in etcd's folder has, without the checksum.
    fn data(&self, member: &str) -> String {
        let content =
            std::fs::read(self.0.path(&format!("var/lib/etcd/{member}/snap/db"))).unwrap();
        let text = String::from_utf8_lossy(&content).into_owned();
        text.chars().take(35).collect()
    }

    fn passphrase(&self) -> String {
        self.0.path("passphrase").display().to_string()
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
    let node = Node::new();
    node.ok(&["save", "one", &node.passphrase(), "5"]);
    assert!(node.ok(&["list"]).starts_with("one "));
    assert!(node.unpack("one").status.success());
    assert_eq!(node.data("member"), "what etcd has", "it still runs");
    // The old data are away, and then the host loses power.
    let first = node
        .0
        .path("var/lib/etcd/vnfm-new/member")
        .display()
        .to_string();
    node.0.program(
        "mv",
        &format!("[ \"$1\" != '{first}' ] || {{ kill -9 $PPID; exit 1; }}; exec /bin/mv \"$@\""),
    );
    assert!(!node.run(&["restore", "id-1"]).status.success());
    assert!(!node.0.is_there("var/lib/etcd/member") && node.0.is_there("var/lib/etcd/vnfm-before"));
    // The data are in place, and then it loses power again.
    node.0.program("mv", "exec /bin/mv \"$@\"");
    node.0.program("touch", "kill -9 $PPID");
    assert!(node.unpack("one").status.success());
    assert!(!node.run(&["restore", "id-1"]).status.success());
    node.0.program("touch", "exec /usr/bin/touch \"$@\"");
    assert!(node.unpack("one").status.success());
    for _ in 0..2 {
        node.ok(&["restore", "id-1"]);
        assert_eq!(node.data("member"), SAVED);
        assert_eq!(node.data("vnfm-before"), "what etcd has");
        assert!(!node.0.is_there("var/lib/etcd/vnfm-new"));
        for pod in ["etcd", "kube-apiserver"] {
            assert!(
                node.0
                    .is_there(&format!("etc/kubernetes/manifests/{pod}.yaml"))
            );
        }
    }
}

#[test]
fn what_cannot_be_unpacked_stops_nothing() {
    let node = Node::new();
    node.ok(&["save", "one", &node.passphrase(), "5"]);
    node.0.write("passphrase", "another passphrase\n");
    let other = node.unpack("one");
    assert_eq!(other.status.code(), Some(3));
    assert!(
        String::from_utf8_lossy(&other.stderr)
            .contains("the passphrase is not that of the snapshot one")
    );
    node.0.write("passphrase", &format!("{PASSPHRASE}\n"));
    node.0.write(
        "etc/kubernetes/pki/ca.crt",
        "-----BEGIN CERTIFICATE-----\nANOTHER-CA\n",
    );
    assert_eq!(node.unpack("one").status.code(), Some(5));
    assert!(node.0.is_there("etc/kubernetes/manifests/etcd.yaml"));
    let left = std::fs::read_dir(node.0.path("var/lib/vnfm/etcd")).unwrap();
    assert_eq!(left.count(), 1, "nothing decrypted is left");
}

#[test]
fn a_static_pod_stops_when_its_process_has_ended() {
    let node = Node::new();
    // The process is seen twice, then it has ended.
    node.0.program(
        "pgrep",
        "echo x >>\"${0%/*}/looks\"; [ \"$(wc -l <\"${0%/*}/looks\")\" -le 2 ]",
    );
    node.0.program("sleep", "exit 0");
    node.0.program("pkill", "echo \"$@\" >>\"${0%/*}/killed\"");
    node.ok(&["stop", "kube-apiserver"]);
    assert!(
        node.0
            .is_there("etc/kubernetes/vnfm-stopped/kube-apiserver.yaml")
    );
    assert!(
        !node
            .0
            .is_there("etc/kubernetes/manifests/kube-apiserver.yaml")
    );
    assert!(!node.0.is_there("bin/killed"));
    // One that does not end is killed after five looks, if it is the API server.
    node.0.program("pgrep", "[ ! -e \"${0%/*}/killed\" ]");
    node.ok(&["stop", "kube-apiserver"]);
    let killed = std::fs::read_to_string(node.0.path("bin/killed")).unwrap();
    assert_eq!(killed, "-KILL -x kube-apiserver\n");
    std::fs::remove_file(node.0.path("bin/killed")).unwrap();
    let stuck = node.run(&["stop", "etcd"]);
    assert_eq!(stuck.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&stuck.stderr).contains("etcd does not stop"));
    assert!(!node.0.is_there("bin/killed"), "etcd is never killed");
}

impl Node {
    fn manifest(pod: &str) -> String {
        format!("etc/kubernetes/manifests/{pod}.yaml")
    }

    /// A node with the copies of an upgrade, of which both static pods then have the new version and etcd other data.
    fn upgraded(members: &str, image: &str) -> Self {
        let node = Self::new();
        node.0.write("members", members);
        for pod in ["etcd", "kube-apiserver"] {
            let old = node.read(&Self::manifest(pod));
            let copy = format!("var/lib/vnfm/kubernetes/manifests/{pod}.yaml");
            node.0.write(&copy, &old);
        }
        node.ok(&["copy"]);
        for pod in ["etcd", "kube-apiserver"] {
            let path = Self::manifest(pod);
            let new = node.read(&path).replace(OLD, image) + "# new\n";
            node.0.write(&path, &new);
        }
        node.0
            .write("var/lib/etcd/member/snap/db", "what the new one has");
        node.ok(&["copy"]);
        node
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.path(path)).unwrap()
    }

    fn is_new(&self, pod: &str) -> bool {
        self.read(&Self::manifest(pod)).ends_with("# new\n")
    }

    fn assert_back(&self) {
        assert_eq!(self.data("member"), SAVED);
        assert_eq!(self.data("vnfm-before"), "what the new one has");
        for pod in ["etcd", "kube-apiserver"] {
            assert!(!self.is_new(pod), "{pod}");
            let stopped = format!("etc/kubernetes/vnfm-stopped/{pod}.yaml");
            assert!(!self.0.is_there(&stopped), "{pod}");
        }
        for left in [
            "etcd/vnfm-new",
            "etcd/vnfm-away-upgrade",
            "vnfm/kubernetes/etcd.db",
        ] {
            assert!(!self.0.is_there(&format!("var/lib/{left}")), "{left}");
        }
    }
}

const ONE: &str = "1, started, m1\n";
const THREE: &str = "1, started, m1\n2, started, m2\n3, started, m3\n";

#[test]
fn the_only_member_of_an_etcd_that_was_upgraded_gets_its_data_back() {
    let node = Node::upgraded(ONE, NEW);
    for _ in 0..2 {
        node.ok(&["back"]);
        node.assert_back();
    }
}

#[test]
fn data_come_back_also_to_the_same_etcd_if_the_upgrade_was_applied() {
    let node = Node::upgraded(ONE, OLD);
    node.ok(&["back"]);
    assert_eq!(node.data("member"), "what the new one has");
    assert!(!node.is_new("etcd"));
    let node = Node::upgraded(ONE, OLD);
    node.ok(&["back", "applied"]);
    node.assert_back();
}

#[test]
fn one_member_of_three_gets_its_manifest_and_keeps_its_data() {
    let node = Node::upgraded(THREE, NEW);
    node.ok(&["back", "applied"]);
    assert_eq!(node.data("member"), "what the new one has");
    assert!(!node.is_new("etcd"));
    assert!(!node.is_new("kube-apiserver"));
    assert!(!node.0.is_there("var/lib/vnfm/kubernetes/etcd.db"));
}

#[test]
fn a_return_of_etcd_that_was_interrupted_is_completed() {
    let node = Node::upgraded(ONE, NEW);
    let kill = "kill -9 $PPID";
    // After the old data are away, after the copied ones are in place, and after the first manifest.
    let copied = node.0.path("var/lib/etcd/vnfm-new/member");
    let first = format!(
        "[ \"$1\" != '{}' ] || {{ {kill}; exit 1; }}; exec /bin/mv \"$@\"",
        copied.display()
    );
    for (program, lines) in [("mv", &*first), ("touch", kill), ("cp", kill)] {
        node.0.program(program, lines);
        assert!(!node.run(&["back"]).status.success(), "{program}");
        node.0
            .program(program, &format!("exec /bin/{program} \"$@\""));
    }
    node.ok(&["back"]);
    node.assert_back();
}

#[test]
fn nothing_comes_back_without_a_copy() {
    let node = Node::new();
    node.ok(&["back", "applied"]);
    assert_eq!(node.data("member"), "what etcd has");
    // etcd of another party
    std::fs::remove_file(node.0.path(&Node::manifest("etcd"))).unwrap();
    node.ok(&["copy"]);
    assert!(!node.0.is_there("var/lib/vnfm/kubernetes/etcd.db"));
}
