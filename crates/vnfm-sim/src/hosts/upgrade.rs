//! `kubeadm upgrade`, `kubeadm certs`, the kubelet's restart, and `vnfm-kubernetes`, the script that drivers install for
//! upgrades. On a real host that is a shell script; here the same commands have the same effects.
//!
//! | state | where it is |
//! |---|---|
//! | version of a program | content of `/usr/bin/PROGRAM`; empty: [`VERSION`] |
//! | version of the control plane | the image in its manifests, and `kubeadm-config` of the cluster |
//! | version of the kubelet | `nodeInfo` of the node, once the kubelet was restarted |
//! | version of etcd | the image in its manifest; that of its data: `manifests.rs` |
//!
//! A step that a real cluster does not survive is a violation: a skipped minor version, a kubelet newer than the control
//! plane, a kubelet replaced below running pods.

use super::host::{Host, KUBELET};
use super::kubeadm::{ADMIN, VERSION, endpoint_of};
use super::manifests::{MANIFESTS, manifest, minor, start_etcd, stopped};
use super::shell::Shell;
use super::stdio::{Output, lines};
use crate::kubernetes::Cluster;
use serde_json::{Value, json};
use std::sync::Arc;

const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
const COMPONENTS: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];
const PROGRAMS: [&str; 3] = ["kubeadm", "kubelet", "kubectl"];
/// The configuration of kubelets, which kubeadm writes in the format of its version.
const KUBELET_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
/// Where `vnfm-kubernetes keep` puts its copies.
pub(super) const COPIES: &str = "/var/lib/vnfm/kubernetes";
/// When the certificates expire, before and after their renewal.
const EXPIRY: &str = "/etc/kubernetes/pki/expiry";
/// What [`EXPIRY`] has if the certificates have expired.
const EXPIRED: &str = "2001-01-01T00:00:00Z";
const FIRST_EXPIRY: &str = "2027-01-01T00:00:00Z";
const RENEWED_EXPIRY: &str = "2028-01-01T00:00:00Z";

/// The version of an installed program.
pub(super) fn program_version(host: &Host, program: &str) -> String {
    let content = host.disk().text(&format!("/usr/bin/{program}"));
    let content = content.filter(|version| !version.is_empty());
    content.unwrap_or_else(|| VERSION.to_owned())
}

/// Writes the static pods of a control plane in the version of kubeadm.
pub(super) fn write_manifests(host: &Host, has_etcd: bool) {
    let version = program_version(host, "kubeadm");
    let mut disk = host.disk();
    for component in COMPONENTS {
        let tag = match component {
            "etcd" if !has_etcd => continue,
            "etcd" => format!("3.{}.0-0", minor(&version).saturating_sub(30)),
            _ => version.clone(),
        };
        let text = format!("kind: Pod\nimage: registry.k8s.io/{component}:{tag}\n");
        disk.write(&manifest(component), text, 0o600);
    }
}

/// As `kubeadm upgrade` does.
fn replace_manifests(host: &Host) {
    let has_etcd = host.disk().is_file(&manifest("etcd"));
    write_manifests(host, has_etcd);
    start_etcd(host);
}

/// As `kubeadm init` does.
pub(super) fn start_control_plane(host: &Host, cluster: &Cluster, has_etcd: bool) {
    write_manifests(host, has_etcd);
    record_version(cluster, &program_version(host, "kubeadm"));
}

fn record_version(cluster: &Cluster, version: &str) {
    let config = format!("kind: ClusterConfiguration\nkubernetesVersion: {version}\n");
    cluster.merge(
        CONFIG,
        &json!({ "data": { "ClusterConfiguration": config } }),
    );
    let kubelets = format!("kind: KubeletConfiguration\n# {version}\n");
    cluster.merge(KUBELET_CONFIG, &json!({ "data": { "kubelet": kubelets } }));
}

fn recorded_version(cluster: &Cluster) -> String {
    let config = cluster.object(CONFIG).unwrap_or_default();
    let config = config["data"]["ClusterConfiguration"]
        .as_str()
        .unwrap_or_default();
    let version = config
        .split("kubernetesVersion: ")
        .nth(1)
        .unwrap_or(VERSION);
    version.lines().next().unwrap_or_default().to_owned()
}

/// The cluster of a control-plane node or of a worker.
pub(super) fn cluster(host: &Host) -> Option<Arc<Cluster>> {
    let path = if host.disk().is_file(ADMIN) {
        ADMIN
    } else {
        KUBELET
    };
    let config = host.disk().text(path)?;
    let endpoint = endpoint_of(&host.lan, &config)?;
    host.lan.control_planes().get(&endpoint).cloned()
}

/// The node of the host.
fn node(host: &Host, cluster: &Cluster) -> Option<Value> {
    let address = host.spec().address.to_string();
    let nodes = cluster.object("/api/v1/nodes")?;
    let nodes = nodes["items"].as_array()?;
    let is_it = |node: &&Value| node["status"]["addresses"][0]["address"] == address.as_str();
    nodes.iter().find(is_it).cloned()
}

/// `kubeadm upgrade apply --yes VERSION | node`.
pub(super) fn upgrade(host: &Host, args: &[&str]) -> Result<String, String> {
    let cluster = cluster(host).ok_or("[upgrade] FATAL: the API server does not answer\n")?;
    let own = program_version(host, "kubeadm");
    let plain = args.iter().copied().filter(|arg| !arg.starts_with('-'));
    let plain: Vec<_> = plain.collect();
    let has_control_plane = host.disk().is_file(&manifest("kube-apiserver"));
    match plain.as_slice() {
        ["apply", to] if has_control_plane => {
            if own != *to {
                return Err(format!(
                    "[upgrade/version] FATAL: Specified version to upgrade to \"{to}\" is higher than the kubeadm version \"{own}\"\n"
                ));
            }
            let from = recorded_version(&cluster);
            if minor(to) > minor(&from) + 1 || minor(to) < minor(&from) {
                host.lan
                    .books
                    .record_violation(format!("`kubeadm upgrade apply` from {from} to {to}"));
                return Err(format!("[upgrade/version] FATAL: \"{to}\" is too high\n"));
            }
            replace_manifests(host);
            record_version(&cluster, to);
            Ok(format!(
                "[upgrade] SUCCESS! A control plane node of your cluster was upgraded to \"{to}\".\n"
            ))
        }
        ["node"] => {
            let to = recorded_version(&cluster);
            if own != to {
                host.lan.books.record_violation(format!(
                    "`kubeadm upgrade node` of {own} in a cluster of {to}"
                ));
            }
            if has_control_plane {
                replace_manifests(host);
            }
            Ok("[upgrade] The node has been upgraded\n".into())
        }
        other => Err(format!(
            "unknown command {other:?} for \"kubeadm upgrade\" (not simulated)\n"
        )),
    }
}

/// What a `kubeadm upgrade apply` leaves that is interrupted before its last steps: the manifests are new, and it has recorded the
/// version.
pub(super) fn write_partial_upgrade(host: &Host) {
    replace_manifests(host);
    if let Some(cluster) = cluster(host) {
        record_version(&cluster, &program_version(host, "kubeadm"));
    }
}

/// `kubeadm certs check-expiration -o json | renew all`.
pub(super) fn certs(host: &Host, args: &[&str]) -> Result<String, String> {
    match args {
        ["check-expiration", "-o", "json"] => {
            let date = host
                .disk()
                .text(EXPIRY)
                .unwrap_or_else(|| FIRST_EXPIRY.to_owned());
            let certificate = |name: &str, date: &str| {
                let residual = if date == EXPIRED { -1 } else { 1 };
                json!({ "name": name, "expirationDate": date, "residualTime": residual,
                "externallyManaged": false, "missing": false })
            };
            let printed = json!({ "kind": "CertificateExpirationInfo",
                "certificates": [certificate("admin.conf", &date), certificate("apiserver", &date)],
                "certificateAuthorities": [certificate("ca", "2036-01-01T00:00:00Z")] });
            Ok(format!("{printed}\n"))
        }
        ["renew", "all"] => {
            host.disk().write(EXPIRY, RENEWED_EXPIRY, 0o600);
            Ok(
                "Done renewing certificates. You must restart the kube-apiserver and the others\n"
                    .into(),
            )
        }
        other => Err(format!(
            "unknown command {other:?} for \"kubeadm certs\" (not simulated)\n"
        )),
    }
}

/// Lets the certificates on a host expire.
pub(super) fn expire_certificates(host: &Host) {
    host.disk().write(EXPIRY, EXPIRED, 0o600);
}

/// Whether the certificates on a host have expired.
pub(super) fn has_expired_certificates(host: &Host) -> bool {
    host.disk().text(EXPIRY).as_deref() == Some(EXPIRED)
}

/// A node that has joined has the version of its kubelet.
pub(super) fn kubelet_joined(host: &Host, cluster: &Cluster) {
    let name = node(host, cluster).map(|node| node["metadata"]["name"].clone());
    if let Some(name) = name.as_ref().and_then(Value::as_str) {
        cluster.set_kubelet_version(name, &program_version(host, "kubelet"));
    }
}

/// The kubelet reports the version of its program when it starts.
pub(super) fn kubelet_restarted(host: &Host) {
    if !host.disk().is_file(KUBELET) {
        return;
    }
    let Some(cluster) = cluster(host) else {
        return;
    };
    let Some(node) = node(host, &cluster) else {
        return;
    };
    let (version, name) = (
        program_version(host, "kubelet"),
        node["metadata"]["name"].as_str().unwrap_or_default(),
    );
    if node["status"]["nodeInfo"]["kubeletVersion"] == version.as_str() {
        return;
    }
    if node["spec"]["unschedulable"] != true {
        host.lan.books.record_violation(format!(
            "the kubelet of `{name}` was replaced while the node takes pods"
        ));
    }
    if minor(&version) > minor(&recorded_version(&cluster)) {
        host.lan.books.record_violation(format!(
            "the kubelet of `{name}` is newer than the control plane"
        ));
    }
    cluster.set_kubelet_version(name, &version);
}

pub(super) fn vnfm_kubernetes(shell: &Shell, words: &[&str]) -> Output {
    let host = &shell.host;
    if !shell.is_root() {
        return Output::fail(1, "vnfm-kubernetes: permission denied\n");
    }
    match words {
        ["versions"] => Output::ok(versions(host)),
        ["keep"] => keep(host),
        ["programs"] => {
            put_back(host, "programs", "/usr/bin");
            kubelet_restarted(host);
            Output::default()
        }
        ["manifests"] => {
            put_back(host, "manifests", MANIFESTS);
            start_etcd(host);
            Output::default()
        }
        ["drop"] => {
            host.disk().remove(COPIES);
            Output::default()
        }
        ["components"] => {
            let disk = host.disk();
            let there = COMPONENTS
                .iter()
                .filter(|name| disk.is_file(&manifest(name)));
            Output::ok(lines(there.map(|name| format!("{name}\n"))))
        }
        ["restarted", id] => Output::ok(restarted(host, id)),
        ["restart", id, components @ ..] => restart(host, id, components),
        ["renew", id, components @ ..] => match certs(host, &["renew", "all"]) {
            Ok(_) => restart(host, id, components),
            Err(error) => Output::fail(1, error),
        },
        ["resume"] => {
            resume(host);
            Output::default()
        }
        _ => Output::fail(
            2,
            "usage: vnfm-kubernetes versions|keep|programs|manifests|drop|components|restarted|restart|renew|resume …\n",
        ),
    }
}

fn versions(host: &Host) -> String {
    let programs = PROGRAMS[..2]
        .iter()
        .map(|name| format!("{name}={}\n", program_version(host, name)));
    let disk = |component: &str| host.disk().text(&manifest(component));
    let pods = COMPONENTS[1..].iter().filter_map(|name| {
        let text = disk(name)?;
        Some(format!("{name}={}\n", text.trim().rsplit(':').next()?))
    });
    lines(programs.chain(pods))
}

fn keep(host: &Host) -> Output {
    let mut disk = host.disk();
    let complete = format!("{COPIES}/complete");
    if disk.is_file(&complete) {
        return Output::default();
    }
    let programs = PROGRAMS.map(|name| (format!("/usr/bin/{name}"), format!("programs/{name}")));
    let manifests = COMPONENTS.map(|name| (manifest(name), format!("manifests/{name}.yaml")));
    for (path, copy) in programs.into_iter().chain(manifests) {
        if let Some(content) = disk.read(&path) {
            disk.write(&format!("{COPIES}/{copy}"), content, 0o700);
        }
    }
    disk.write(&complete, "", 0o600);
    Output::default()
}

fn put_back(host: &Host, folder: &str, to: &str) {
    let mut disk = host.disk();
    let below = format!("{COPIES}/{folder}/");
    for path in disk.paths() {
        let content = disk.read(&path);
        if let (Some(name), Some(content)) = (path.strip_prefix(&below), content) {
            // Of etcd, `vnfm-etcd back` decides.
            if name == "etcd.yaml" && disk.read(&manifest("etcd")).is_some() {
                continue;
            }
            disk.write(&format!("{to}/{name}"), content, 0o755);
        }
    }
}

/// The components whose mirror pods show this label.
fn restarted(host: &Host, id: &str) -> String {
    let found = cluster(host).and_then(|cluster| Some((node(host, &cluster)?, cluster)));
    let Some((node, cluster)) = found else {
        return String::new();
    };
    let node = node["metadata"]["name"].as_str().unwrap_or_default();
    let has_label = |component: &&&str| {
        let path = format!("/api/v1/namespaces/kube-system/pods/{component}-{node}");
        let pod = cluster.object(&path).unwrap_or_default();
        pod["metadata"]["labels"]["vnfm.dev/restarted"] == id
    };
    let all = COMPONENTS.iter().filter(has_label);
    lines(all.map(|name| format!("{name}\n")))
}

/// The kubelet restarts the static pods; their mirror pods show the label.
fn restart(host: &Host, id: &str, components: &[&str]) -> Output {
    let found = cluster(host).and_then(|cluster| Some((node(host, &cluster)?, cluster)));
    let Some((node, cluster)) = found else {
        return Output::fail(1, "vnfm-kubernetes: the API server does not answer\n");
    };
    let node = node["metadata"]["name"].as_str().unwrap_or_default();
    for component in components {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("{component}-{node}"), "namespace": "kube-system",
                "annotations": { "kubernetes.io/config.mirror": "x" },
                "labels": { "component": component, "tier": "control-plane", "vnfm.dev/restarted": id } },
            "spec": { "nodeName": node, "tolerations": [{ "operator": "Exists" }],
                "containers": [{ "name": component, "image": format!("registry.k8s.io/{component}:v1") }] } });
        if let Err(error) = cluster.apply(&pod.to_string()) {
            return Output::fail(1, format!("{error:#}\n"));
        }
    }
    Output::default()
}

/// Starts what a restart that was interrupted has stopped.
fn resume(host: &Host) {
    let marker = "/etc/kubernetes/vnfm-stopped/restarting";
    if host.disk().is_file(marker) {
        let mut disk = host.disk();
        disk.remove(marker);
        for pod in ["etcd", "kube-apiserver"] {
            disk.remove(&stopped(pod));
        }
        drop(disk);
        host.lan.update_quorum(None);
    }
}
