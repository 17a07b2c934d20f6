//! `vnfm-ca`, the script that drivers install for the rotation of the CA. On a real host that is a shell script; here the same
//! commands have the same effects on the certificate that the API server shows and on what nodes trust.
//!
//! A rotation that would lock a node out is a violation: certificates by a CA that a node does not trust, or the end of trust
//! in a CA while a kubelet has a certificate by it.

use super::host::Host;
use super::kubeadm::{ADMIN, CA};
use super::shell::Shell;
use super::stdio::Output;
use super::upgrade::{certs, cluster};
use std::sync::Arc;

const NEW: &str = "/etc/kubernetes/pki/vnfm-ca/ca.crt";
const SIGNED: &str = "/etc/kubernetes/pki/vnfm-ca/signed";
const OLD: &str = "/etc/kubernetes/pki/vnfm-old-ca.crt";
const TRUSTED: &str = "/etc/kubernetes/pki/vnfm-new-ca.crt";
const ETCD: &str = "/etc/kubernetes/manifests/etcd.yaml";
/// The CA that has signed the kubelet's certificate; absent: the first one.
const KUBELET_CA: &str = "/var/lib/kubelet/pki/ca";

pub(super) fn vnfm_ca(shell: &Shell, words: &[&str]) -> Output {
    let host = &shell.host;
    if !shell.is_root() {
        return Output::fail(1, "vnfm-ca: permission denied\n");
    }
    let result = match words {
        ["create"] => create(host),
        ["export" | "certificate"] => host.disk().text(NEW).ok_or_else(missing),
        ["import", file] => copy(host, file, NEW),
        ["trust", file] => trust(host, file),
        ["sign"] => sign(host),
        ["kubelet", _] => kubelet(host),
        ["keep", which] => {
            keep(host, which);
            Ok(String::new())
        }
        ["publish"] => Ok(String::new()),
        _ => Err(
            "usage: vnfm-ca create|export|import|certificate|trust|sign|kubelet|keep|publish …\n"
                .to_owned(),
        ),
    };
    result.map_or_else(|error| Output::fail(3, error), Output::ok)
}

fn missing() -> String {
    "there is no new CA\n".to_owned()
}

fn copy(host: &Host, from: &str, to: &str) -> Result<String, String> {
    let mut disk = host.disk();
    let text = disk.text(from).ok_or_else(missing)?;
    disk.write(to, text, 0o600);
    Ok(String::new())
}

fn create(host: &Host) -> Result<String, String> {
    if !host.disk().is_file(NEW) {
        let cluster = cluster(host).ok_or("no cluster\n")?;
        let pem = cluster.next_ca().map_err(|error| format!("{error}\n"))?;
        host.disk().write(NEW, pem, 0o600);
    }
    Ok(String::new())
}

fn trust(host: &Host, file: &str) -> Result<String, String> {
    copy(host, file, TRUSTED)?;
    let mut disk = host.disk();
    let new = disk.text(TRUSTED).unwrap_or_default();
    let known = disk.text(CA).unwrap_or_default();
    if !disk.is_file(OLD) {
        disk.write(OLD, known.clone(), 0o644);
    }
    if !known.contains(&new) {
        disk.write(CA, known + &new, 0o644);
    }
    Ok(String::new())
}

/// The hosts of the same cluster.
fn hosts(host: &Host) -> Vec<Arc<Host>> {
    let Some(own) = cluster(host) else {
        return Vec::new();
    };
    let all: Vec<_> = host.lan.hosts().values().cloned().collect();
    let is_one = |other: &Arc<Host>| cluster(other).is_some_and(|one| Arc::ptr_eq(&one, &own));
    all.into_iter().filter(is_one).collect()
}

fn violate(host: &Host, message: String) {
    host.lan.books.record_violation(message);
}

fn sign(host: &Host) -> Result<String, String> {
    if host.disk().is_file(SIGNED) {
        return Ok(String::new());
    }
    let new = host.disk().text(NEW).ok_or_else(missing)?;
    for other in hosts(host) {
        if !other.disk().text(CA).unwrap_or_default().contains(&new) {
            let name = &other.spec().name;
            violate(host, format!("`{name}` does not trust the CA that signs"));
        }
        if other.disk().is_file(ETCD) && !restarted(&other) {
            let name = &other.spec().name;
            let message =
                format!("etcd of `{name}` does not trust etcd's new CA yet: not restarted");
            violate(host, message);
        }
    }
    let cluster = cluster(host).ok_or("no cluster\n")?;
    cluster
        .use_next_ca()
        .map_err(|error| format!("{error}\n"))?;
    certs(host, &["renew", "all"])?;
    let mut disk = host.disk();
    let old = disk.text(OLD).unwrap_or_default();
    disk.write(CA, new + &old, 0o644);
    disk.write(SIGNED, "", 0o600);
    Ok(String::new())
}

/// Whether etcd of a control-plane node has been restarted with this rotation's CAs.
fn restarted(host: &Host) -> bool {
    let address = host.spec().address.to_string();
    let label = cluster(host).and_then(|cluster| {
        let nodes = cluster.object("/api/v1/nodes")?;
        let mut nodes = nodes["items"].as_array()?.iter();
        let node = nodes.find(|node| node["status"]["addresses"][0]["address"] == address)?;
        let name = node["metadata"]["name"].as_str()?;
        let pod = cluster.object(&format!("/api/v1/namespaces/kube-system/pods/etcd-{name}"))?;
        let label = pod["metadata"]["labels"]["vnfm.dev/restarted"].as_str()?;
        Some(label.to_owned())
    });
    label.is_some_and(|label| label.ends_with("-trust") || label.ends_with("-sign"))
}

fn kubelet(host: &Host) -> Result<String, String> {
    for other in hosts(host) {
        let disk = other.disk();
        if disk.is_file(ADMIN) && !disk.is_file(SIGNED) {
            return Err(
                "the old CA has signed certificatesigningrequest/vnfm-kubelet\n".to_owned(),
            );
        }
    }
    copy(host, TRUSTED, KUBELET_CA)
}

fn keep(host: &Host, which: &str) {
    let kept = if which == "new" { TRUSTED } else { OLD };
    let Some(ca) = host.disk().text(kept) else {
        return;
    };
    let has_old = |other: &Host| {
        other
            .disk()
            .text(KUBELET_CA)
            .is_none_or(|by| !ca.contains(&by))
    };
    for other in hosts(host) {
        if which == "new" && has_old(&other) {
            let name = &other.spec().name;
            violate(
                host,
                format!("the kubelet of `{name}` has a certificate by the old CA"),
            );
        }
    }
    let mut disk = host.disk();
    disk.write(CA, ca, 0o644);
    for path in [NEW, SIGNED, OLD, TRUSTED] {
        disk.remove(path);
    }
}
