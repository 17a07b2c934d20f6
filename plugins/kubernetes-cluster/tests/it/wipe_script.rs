//! `wipe-host.sh`, which an inventory of bare hosts may have as `wipeCommand`: nothing that the plugin writes stays on a host.

use crate::root::Root;
use std::collections::BTreeSet;
use std::path::Path;

const SCRIPT: &str = include_str!("../../wipe-host.sh");
const FOLDERS: [&str; 5] = ["/etc/", "/var/l", "/opt/", "/root/", "/run/"];
const LEASE: &str = "var/lib/vnfm/lease";
const LOCK: &str = "var/lib/vnfm/lease.lock";
/// What the plugin writes below paths that its sources do not name in full, and what pods leave.
const OTHERS: [&str; 7] = [
    "/etc/systemd/system/containerd.service.d/90-vnfm-proxy.conf",
    "/etc/systemd/system/kubelet.service.d/90-vnfm-proxy.conf",
    "/opt/local-path-provisioner/pvc-1_default_data/secret",
    "/var/lib/vnfm/owner",
    "/var/lib/vnfm/unfinished",
    "/var/lib/etcd/member/snap/db",
    "/var/log/pods/default_web/0.log",
];
/// Paths in the sources that are not the plugin's: those of packages and pods, and those that tests have.
const NOT_OURS: [&str; 8] = [
    "/etc/containerd/config.toml",
    "/run/containerd/containerd.sock",
    "/run/haproxy.pid",
    "/etc/cloud/ca.crt",
    "/etc/ca.pem",
    "/etc/systemd/system",
    "/opt/cni/bin",
    "/run/a-b_c.deb",
];

/// The paths of hosts in a source.
fn paths(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in ["/etc/", "/var/lib/", "/opt/", "/root/", "/run/"] {
        for (at, _) in text.match_indices(folder) {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            // Part of another path, such as /usr/local/etc.
            if text[..at].ends_with(is_part) {
                continue;
            }
            let path: String = text[at..].chars().take_while(|c| is_part(*c)).collect();
            found.insert(path.trim_end_matches(['/', '.']).to_owned());
        }
    }
    found
}

/// What the plugin writes to hosts, as its sources name it.
fn written() -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all: BTreeSet<_> = OTHERS.map(str::to_owned).into();
    for file in std::fs::read_dir(sources).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        all.extend(paths(&text));
    }
    let is_folder = |path: &String| {
        FOLDERS
            .iter()
            .any(|folder| folder.trim_end_matches('/') == path)
    };
    all.retain(|path| {
        !NOT_OURS.contains(&path.as_str()) && !is_folder(path) && path.matches('/').count() > 1
    });
    all
}

/// A host with programs that note how they were called.
fn host() -> Root {
    let root = Root::new("vnfm-wipe");
    for name in ["systemctl", "kubeadm", "ipvsadm", "ip", "ctr"] {
        root.program(name, &format!("echo {name} \"$@\" >>\"${{0%/*}}/calls\""));
    }
    root.program("iptables-save", "printf '%s\\n' '*nat' ':KUBE-SVC - [0:0]' '-A OUTPUT -j KUBE-SVC' '-A INPUT -j SITE' COMMIT");
    root.program("iptables-restore", "cat >\"${0%/*}/rules\"");
    root.program("ip6tables-save", "true");
    root.script("wipe", SCRIPT, &FOLDERS);
    root.write(LEASE, "installation instance vnfc");
    root.write(LOCK, "");
    root.write("etc/hostname", "node-1");
    root
}

#[test]
fn nothing_that_the_plugin_writes_stays_on_a_host() {
    let written = written();
    assert!(written.len() > 40, "{written:#?}");
    for runs in 1..=2 {
        let host = host();
        for path in &written {
            // One that is a folder on a host is one here, too.
            host.write(&format!("{}/.planted", &path[1..]), "a secret");
        }
        for _ in 0..runs {
            host.sh_ok(&["wipe"]);
        }
        let left: Vec<_> = written
            .iter()
            .filter(|path| host.is_there(&path[1..]))
            .collect();
        let folder = "/var/lib/vnfm".to_owned();
        assert!(left.is_empty() || left == [&folder], "{left:#?}");
        for kept in [LEASE, LOCK, "etc/hostname"] {
            assert!(host.is_there(kept), "{kept}");
        }
        assert!(!host.is_there("var/lib/vnfm/.planted"));
        let rules = std::fs::read_to_string(host.path("bin/rules")).unwrap();
        assert_eq!(rules, "*nat\n-A INPUT -j SITE\nCOMMIT\n");
    }
}

#[test]
fn a_node_that_cannot_be_reset_keeps_its_lease_and_its_data() {
    let host = host();
    host.program("kubeadm", "echo 'a volume is busy' >&2; exit 1");
    host.write("var/lib/etcd/member/snap/db", "data");
    assert!(!host.sh(&["wipe"]).status.success());
    assert!(host.is_there(LEASE) && host.is_there("var/lib/etcd/member/snap/db"));
}

#[test]
fn images_stay_unless_their_removal_is_requested() {
    let host = host();
    host.program(
        "ctr",
        "echo ctr \"$@\" >>\"${0%/*}/calls\"; [ \"$4\" != ls ] || echo registry.example/app:1",
    );
    let calls = || std::fs::read_to_string(host.path("bin/calls")).unwrap();
    host.sh_ok(&["wipe"]);
    assert!(!calls().contains("ctr"), "{}", calls());
    host.sh_ok(&["wipe", "--images"]);
    assert!(
        calls().contains("ctr -n k8s.io images rm registry.example/app:1"),
        "{}",
        calls()
    );
}
