//! `vnfm-etcd`, the script that drivers install for snapshots of etcd. On a real host that is a shell script; here the same
//! commands have the same effects: a snapshot is a file with the cluster's objects, its CA and the passphrase's hash, and a
//! second line with the SHA-256 of the first.

use super::host::Host;
use super::kubeadm::CA;
use super::manifests::{DATA_VERSION, manifest, running_version, start_etcd, stopped, version_in};
use super::shell::Shell;
use super::stdio::{Output, lines};
use super::upgrade::{COPIES, cluster};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const SNAPSHOTS: &str = "/var/lib/vnfm/etcd";
const RESTORED: &str = "/var/lib/etcd/vnfm-restored";
const UNPACKED: &str = "/var/lib/etcd/vnfm-new";
/// Names of snapshots differ, as the times of real ones do.
const TIMES: &str = "/var/lib/vnfm/times";

fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

pub(super) fn vnfm_etcd(shell: &Shell, words: &[&str]) -> Output {
    let host = &shell.host;
    if !shell.is_root() {
        return Output::fail(1, "vnfm-etcd: permission denied\n");
    }
    let result = match words {
        ["name"] => Ok(name(host)),
        ["save", name, passphrase, keep] => {
            save(host, (name, passphrase), keep.parse().unwrap_or(1))
        }
        ["list"] => Ok(list(host)),
        ["unpack", name, passphrase, ..] => return unpack(host, (name, passphrase)),
        ["stop", pod] => {
            host.disk().write(&stopped(pod), "", 0o600);
            host.lan.update_quorum(None);
            Ok(String::new())
        }
        ["restore", id] => restore(host, id),
        ["copy"] => copy(host),
        ["back", words @ ..] => back(host, words == ["applied"]),
        _ => Err("usage: vnfm-etcd name|save|list|unpack|restore|copy|back|stop …\n".to_owned()),
    };
    result.map_or_else(|error| Output::fail(3, error), Output::ok)
}

fn name(host: &Host) -> String {
    let mut disk = host.disk();
    let time = disk.read(TIMES).map_or(0, |times| times.len());
    disk.write(TIMES, "x".repeat(time + 1), 0o600);
    let ca = hash(&disk.read(CA).unwrap_or_default());
    format!("{}-20261128T12{time:04}Z\n", &ca[..12])
}

fn files(host: &Host) -> Vec<String> {
    let paths = host.disk().paths();
    paths
        .into_iter()
        .filter(|path| path.starts_with(SNAPSHOTS))
        .collect()
}

fn save(host: &Host, (name, passphrase): (&str, &str), keep: usize) -> Result<String, String> {
    let path = format!("{SNAPSHOTS}/{name}.db.enc");
    let secret = host.disk().read(passphrase).ok_or("no passphrase file\n")?;
    if !host.disk().is_file(&path) {
        let cluster = cluster(host).ok_or("etcd does not respond\n")?;
        let ca = host.disk().text(CA);
        let content =
            json!({ "passphrase": hash(&secret), "objects": cluster.snapshot(), "ca": ca });
        let content = content.to_string();
        let sealed = format!("{content}\n{}", hash(content.as_bytes()));
        host.disk().write(&path, sealed, 0o600);
    }
    let all = files(host);
    for old in &all[..all.len().saturating_sub(keep)] {
        host.disk().remove(old);
    }
    Ok(String::new())
}

fn list(host: &Host) -> String {
    let shown = files(host).into_iter().filter_map(|path| {
        let name = path.rsplit('/').next()?.strip_suffix(".db.enc")?;
        let content = host.disk().read(&path)?;
        Some(format!("{name} {} {}\n", content.len(), hash(&content)))
    });
    lines(shown)
}

/// The content of a snapshot, if the passphrase is the one that it was saved with.
fn decrypt(host: &Host, (name, passphrase): (&str, &str)) -> Result<Value, String> {
    let secret = host.disk().read(passphrase).ok_or("no passphrase file\n")?;
    let content = host
        .disk()
        .text(&format!("{SNAPSHOTS}/{name}.db.enc"))
        .ok_or("no such snapshot\n")?;
    let (content, sum) = content.rsplit_once('\n').unwrap_or((&content, ""));
    if hash(content.as_bytes()) != sum {
        return Err(format!(
            "the snapshot {name} is damaged: it was truncated or changed\n"
        ));
    }
    let content: Value = serde_json::from_str(content).map_err(|error| format!("{error}\n"))?;
    if content["passphrase"] != hash(&secret).as_str() {
        return Err(format!(
            "the passphrase is not that of the snapshot {name}, or the file is damaged\n"
        ));
    }
    Ok(content)
}

/// Unpacks the snapshot, if the passphrase is the snapshot's, and the snapshot this cluster's; etcd's data stay as they are.
fn unpack(host: &Host, (name, passphrase): (&str, &str)) -> Output {
    let ca = host.disk().text(CA);
    match decrypt(host, (name, passphrase)) {
        Ok(content) if content["ca"].as_str() == ca.as_deref() => {
            let objects = content["objects"].to_string();
            host.disk().write(UNPACKED, objects, 0o600);
            Output::default()
        }
        Ok(_) => Output::fail(
            5,
            format!("the snapshot {name} is that of a cluster with another CA\n"),
        ),
        Err(error) => Output::fail(3, error),
    }
}

fn restore(host: &Host, id: &str) -> Result<String, String> {
    for pod in ["kube-apiserver", "etcd"] {
        let manifest = stopped(pod);
        if !host.disk().is_file(&manifest) {
            return Err(format!("{pod} runs\n"));
        }
        host.disk().remove(&manifest);
    }
    host.lan.keep_only_member(host);
    if host.disk().text(RESTORED).as_deref() == Some(id) {
        return Ok(String::new());
    }
    let unpacked = host.disk().text(UNPACKED).ok_or("nothing is unpacked\n")?;
    let objects = serde_json::from_str(&unpacked).map_err(|error| format!("{error}\n"))?;
    cluster(host).ok_or("no cluster\n")?.restore(&objects);
    host.disk().write(RESTORED, id, 0o600);
    Ok(String::new())
}

fn copy_path() -> String {
    format!("{COPIES}/etcd.db")
}

/// The snapshot of an upgrade.
fn copy(host: &Host) -> Result<String, String> {
    let is_there = |path: &str| host.disk().is_file(path);
    if !is_there(&manifest("etcd")) || is_there(&copy_path()) {
        return Ok(String::new());
    }
    let cluster = cluster(host).ok_or("etcd does not respond\n")?;
    let members = host.lan.hosts_of_members(host).len();
    let copy = json!({ "objects": cluster.snapshot(), "members": members });
    host.disk().write(&copy_path(), copy.to_string(), 0o600);
    Ok(String::new())
}

/// etcd has the copied manifest again, and the only member of one that was changed the copied data.
fn back(host: &Host, is_applied: bool) -> Result<String, String> {
    let Some(copy) = host.disk().text(&copy_path()) else {
        return Ok(String::new());
    };
    let copy: Value = serde_json::from_str(&copy).map_err(|error| format!("{error}\n"))?;
    let old = host.disk().text(&format!("{COPIES}/manifests/etcd.yaml"));
    let is_changed = is_applied || running_version(host) != version_in(old.as_deref());
    if copy["members"] == 1 && is_changed {
        let cluster = cluster(host).ok_or("no cluster\n")?;
        cluster.restore(&copy["objects"]);
        host.disk().remove(DATA_VERSION);
    }
    let mut disk = host.disk();
    if let Some(old) = old {
        disk.write(&manifest("etcd"), old, 0o600);
    }
    disk.remove(&copy_path());
    drop(disk);
    start_etcd(host);
    Ok(String::new())
}
