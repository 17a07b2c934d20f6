//! Hosts, tested through their shell.

use super::host::Host;
use super::shell::Shell;
use super::stdio::{Input, Output};
use super::{HostSpec, Hosts, User};
use crate::faults::{Fault, Faults, Rule};
use crate::kubernetes::Clusters;
use crate::ledger::Ledger;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

const NETWORK: &str = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: cni, namespace: kube-system}, \
    spec: {selector: {matchLabels: {app: cni}}, template: {metadata: {labels: {app: cni}}, spec: {containers: \
    [{name: cni, image: cni}]}}}}";

/// Hosts without the other services, in an unused loopback /24.
struct Room {
    hosts: Hosts,
    books: Arc<Ledger>,
    faults: Arc<Faults>,
    net: [u8; 2],
}

impl Room {
    async fn new() -> Self {
        loop {
            let random = *uuid::Uuid::new_v4().as_bytes();
            let net = [1 + random[0] % 254, 1 + random[1] % 254];
            // The API servers of this test listen on port 6443 of these addresses; if it is taken, try another block.
            if TcpListener::bind((Ipv4Addr::new(127, net[0], net[1], 1), 6443))
                .await
                .is_err()
            {
                continue;
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let (books, faults) = (Ledger::new(), Faults::new());
            let clusters = Arc::new(Clusters::new(books.clone(), faults.clone()));
            let hosts = Hosts::new(books.clone(), faults.clone(), clusters, port);
            return Self {
                hosts,
                books,
                faults,
                net,
            };
        }
    }

    async fn boot(&self, name: &str, last: u8) -> Arc<Host> {
        let address = IpAddr::V4(Ipv4Addr::new(127, self.net[0], self.net[1], last));
        let user = User {
            name: "ubuntu".into(),
            password: Some("secret".into()),
            authorized_keys: vec![],
        };
        let spec = HostSpec {
            server_id: name.into(),
            name: name.into(),
            address,
            users: vec![user],
        };
        self.hosts.boot(spec).await.unwrap();
        self.hosts.host(name).unwrap()
    }
}

async fn as_root(host: &Arc<Host>, line: &str) -> Output {
    Shell::new(host.clone(), "root")
        .script(line, &mut Input::empty())
        .await
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.out).into_owned()
}

#[tokio::test]
async fn a_new_host_waits_until_its_address_is_released() {
    let room = Room::new().await;
    room.boot("m1", 1).await;
    let (successor, ()) = tokio::join!(room.boot("m2", 1), room.hosts.destroy("m1"));
    assert!(successor.is_on());
    assert_eq!(room.hosts.running(), ["m2"]);
}

#[tokio::test]
async fn a_shell_runs_commands_with_pipes_connectors_and_permissions() {
    let room = Room::new().await;
    let host = room.boot("m1", 1).await;
    let line =
        "echo one > /tmp/x && cat /tmp/x | wc -c; false || echo 'so it is'; test -f /nowhere";
    let output = as_root(&host, line).await;
    assert_eq!((text(&output).as_str(), output.code), ("4\nso it is\n", 1));
    let unknown = as_root(&host, "frobnicate --all").await;
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (127, "sh: 1: frobnicate: not found\n")
    );
    let mut shell = Shell::new(host.clone(), "ubuntu");
    let denied = shell.script("echo x > /etc/x", &mut Input::empty()).await;
    assert!(denied.err.contains("Permission denied"), "{denied:?}");
    let root = shell
        .script("sudo -n -- sh -c 'whoami'", &mut Input::empty())
        .await;
    assert_eq!(text(&root), "root\n");
    assert!(
        room.books
            .calls_named("host.exec")
            .iter()
            .any(|call| call.subject == "m1: frobnicate --all")
    );
}

#[tokio::test]
async fn kubeadm_creates_a_cluster_and_joins_and_replaces_workers() {
    let room = Room::new().await;
    let (master, worker) = (room.boot("m1", 1).await, room.boot("w1", 2).await);
    let early = as_root(&master, "kubeadm init").await;
    assert!(
        early.err.contains("ip_forward contents are not set to 1"),
        "{early:?}"
    );
    for host in [&master, &worker] {
        as_root(host, "sysctl -qw net.ipv4.ip_forward=1").await;
    }
    let init = as_root(&master, "kubeadm init --pod-network-cidr=10.244.0.0/16").await;
    assert_eq!(init.code, 0, "{init:?}");
    let again = as_root(&master, "kubeadm init").await;
    assert!(
        again.err.contains("kube-apiserver.yaml already exists"),
        "{again:?}"
    );

    join_worker(&master, &worker).await;
    replace_worker(&room, &master, &worker).await;
    assert!(
        room.books.violations().is_empty(),
        "{:?}",
        room.books.violations()
    );
}

/// Joins `w1` once, and waits until both nodes are Ready.
async fn join_worker(master: &Arc<Host>, worker: &Arc<Host>) {
    let join = text(&as_root(master, "kubeadm token create --print-join-command").await);
    let wrong = as_root(worker, &join.replace("sha256:", "sha256:0")).await;
    assert!(
        wrong.err.contains("none of the public keys are pinned"),
        "{wrong:?}"
    );
    let joined = as_root(worker, &join).await;
    assert_eq!(joined.code, 0, "{joined:?}");
    let again = as_root(worker, &join).await;
    assert!(
        again.err.contains("kubelet.conf already exists"),
        "{again:?}"
    );

    let kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf";
    let early = format!("{kubectl} wait --for=condition=Ready node/m1 --timeout=0s");
    let early = as_root(master, &early).await;
    assert!(
        early.err.contains("timed out"),
        "no network, no ready node: {early:?}"
    );
    let applied = as_root(master, &format!("echo '{NETWORK}' | {kubectl} apply -f -")).await;
    assert_eq!(applied.code, 0, "{applied:?}");
    let ready = as_root(
        master,
        &format!("{kubectl} wait --for=condition=Ready node/m1 node/w1"),
    )
    .await;
    assert_eq!(
        text(&ready),
        "node/m1 condition met\nnode/w1 condition met\n",
        "{ready:?}"
    );
}

/// Resets and rejoins `w1`, then gives its name to another host once it is silent.
async fn replace_worker(room: &Room, master: &Arc<Host>, worker: &Arc<Host>) {
    let join = text(&as_root(master, "kubeadm token create --print-join-command").await);
    let kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf";
    as_root(worker, "kubeadm reset -f").await;
    assert_eq!(
        as_root(worker, &join).await.code,
        0,
        "after a reset a host can join again"
    );
    let twin = room.boot("w2", 9).await;
    as_root(&twin, "sysctl -qw net.ipv4.ip_forward=1").await;
    let second = format!("kubeadm reset -f && {} --node-name w1", join.trim());
    let wait = format!("{kubectl} wait --for=condition=Ready node/w1 --timeout");
    assert_eq!(as_root(master, &format!("{wait}=9s")).await.code, 0);
    let taken = as_root(&twin, &second).await;
    assert!(
        taken.err.contains("already exists in the cluster"),
        "{taken:?}"
    );
    room.hosts.power_off("w1");
    while as_root(master, &format!("{wait}=0s")).await.code == 0 {
        tokio::task::yield_now().await;
    }
    let replaced = as_root(&twin, &second).await;
    assert_eq!(
        replaced.code, 0,
        "a silent node's name is free: {replaced:?}"
    );
    room.hosts.power_on("w1").await.unwrap();
    as_root(worker, "sysctl -qw net.ipv4.ip_forward=1").await;
    room.hosts.destroy("m1").await;
    let refused = as_root(worker, &format!("kubeadm reset -f && {join}")).await;
    assert!(refused.err.contains("connection refused"), "{refused:?}");
}

#[tokio::test]
async fn a_join_by_discovery_file_reports_the_real_kubeadms_errors() {
    let room = Room::new().await;
    let (master, worker) = (room.boot("m1", 1).await, room.boot("w1", 2).await);
    for host in [&master, &worker] {
        as_root(host, "sysctl -qw net.ipv4.ip_forward=1").await;
    }
    assert_eq!(as_root(&master, "kubeadm init").await.code, 0);
    let join = text(&as_root(&master, "kubeadm token create --print-join-command").await);
    let token = join.split_whitespace().nth(4).unwrap();
    let ca = master.disk().text("/etc/kubernetes/pki/ca.crt").unwrap();
    let joined = async |last: u8, ca: &str, token: &str| {
        let server = format!("https://127.{}.{}.{last}:6443", room.net[0], room.net[1]);
        let ca = STANDARD.encode(ca);
        let known = json!({"clusters": [{"name": "", "cluster": {"server": server, "certificate-authority-data": ca}}]});
        let discovery =
            json!({"file": {"kubeConfigPath": "/run/d.conf"}, "tlsBootstrapToken": token});
        let wanted = json!({"kind": "JoinConfiguration", "discovery": discovery});
        worker
            .disk()
            .write("/run/join.yaml", wanted.to_string(), 0o600);
        let absent = as_root(&worker, "kubeadm join --config /run/join.yaml").await;
        assert!(
            absent
                .err
                .contains("not a valid HTTPS URL or a file on disk"),
            "{absent:?}"
        );
        worker.disk().write("/run/d.conf", known.to_string(), 0o600);
        as_root(
            &worker,
            "kubeadm join --config /run/join.yaml; rm /run/d.conf",
        )
        .await
    };
    for (last, ca, token, words) in [
        (7, ca.as_str(), token, "connect: connection refused"),
        (
            1,
            "another",
            token,
            "x509: certificate signed by unknown authority",
        ),
        (
            1,
            &ca,
            "abcdef.0000000000000000",
            "failed to get config map: Unauthorized",
        ),
    ] {
        let refused = joined(last, ca, token).await;
        assert!(refused.err.contains(words), "{refused:?}");
    }
    let ended = joined(1, &ca, token).await;
    assert!(
        text(&ended).contains("This node has joined the cluster"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_concurrent_kubeadm_is_a_violation() {
    let room = Room::new().await;
    let host = room.boot("m1", 1).await;
    as_root(&host, "sysctl -qw net.ipv4.ip_forward=1").await;
    room.faults
        .add(Rule::new("host.exec", Fault::Delay { delay_ms: 200 }).on("kubeadm init"));
    let (first, second) = tokio::join!(
        as_root(&host, "kubeadm init"),
        as_root(&host, "kubeadm reset -f")
    );
    assert_eq!((first.code, second.code), (0, 1));
    assert_eq!(room.books.violations().len(), 1);
}

#[tokio::test]
async fn a_step_outlives_the_connection_that_started_it() {
    let room = Room::new().await;
    let host = room.boot("m1", 1).await;
    as_root(&host, "echo runner > /run/vnfm/vnfm-step").await;
    let step = "/run/vnfm/vnfm-step";
    assert_eq!(
        text(&as_root(&host, &format!("{step} wait slow 0")).await),
        "absent\n"
    );
    room.faults
        .add(Rule::new("host.exec", Fault::Delay { delay_ms: 100 }).on("m1: echo done"));
    let started = as_root(&host, &format!("{step} start i slow -- echo done")).await;
    assert_eq!(text(&started), "started\n");
    assert_eq!(
        text(&as_root(&host, &format!("{step} start i slow -- echo done")).await),
        "running\n"
    );
    assert_eq!(
        text(&as_root(&host, &format!("{step} wait slow 0")).await),
        "running\n"
    );
    let line = format!("{step} wait slow 60");
    let waited = tokio::time::timeout(Duration::from_secs(10), as_root(&host, &line));
    assert_eq!(text(&waited.await.unwrap()), "done 0\n");
    assert_eq!(
        text(&as_root(&host, &format!("{step} out slow")).await),
        "done\n"
    );
    assert!(text(&as_root(&host, &format!("{step} facts")).await).contains("\nmissing=\n"));
}

#[tokio::test]
async fn power_and_packages() {
    let room = Room::new().await;
    room.faults.add(Rule::new(
        "host.packages",
        Fault::Exit {
            exit: 1,
            stderr: String::new(),
        },
    ));
    let host = room.boot("m1", 1).await;
    assert_eq!(as_root(&host, "kubeadm version").await.code, 127);
    assert_eq!(as_root(&host, "apt-get install -y kubeadm").await.code, 100);
    as_root(&host, "echo deb > /etc/apt/sources.list.d/kubernetes.list").await;
    assert_eq!(
        as_root(&host, "apt-get install -y kubeadm && kubeadm version")
            .await
            .code,
        0
    );
    as_root(&host, "echo x > /run/x; echo y > /root/y").await;
    assert_eq!(room.hosts.running(), ["m1"]);
    room.hosts.power_off("m1");
    assert!(room.hosts.running().is_empty());
    room.hosts.power_on("m1").await.unwrap();
    assert_eq!(as_root(&host, "test -e /run/x").await.code, 1);
    assert_eq!(as_root(&host, "test -e /root/y").await.code, 0);
    assert!(
        room.hosts
            .console_log("m1")
            .contains("BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA")
    );
    room.hosts.destroy("m1").await;
    assert!(room.books.left_behind().is_empty() && room.hosts.console_log("m1").is_empty());
}
