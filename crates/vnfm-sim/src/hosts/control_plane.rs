//! What kubeadm does for a control plane of several nodes: its shared address, its certificates, and the join of a node.

use super::host::Host;
use super::joining::random_token;
use super::kubeadm::{ADMIN, Configuration, endpoint_of_host};
use super::upgrade::write_manifests;
use crate::kubernetes::Cluster;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::sync::Arc;

/// The address of a control plane of several nodes: that of the configuration, if it is not the host's own. keepalived and
/// HAProxy must serve it, if they are configured.
pub(super) fn shared_endpoint(
    host: &Host,
    wanted: &Configuration,
) -> Result<Option<SocketAddr>, String> {
    let endpoint = wanted.setting("ClusterConfiguration", "/controlPlaneEndpoint");
    let endpoint = endpoint.and_then(|text| text.parse::<SocketAddr>().ok());
    let shared = endpoint.filter(|endpoint| endpoint.ip() != host.spec().address);
    let Some(shared) = shared else {
        return Ok(None);
    };
    let configured = host.disk().text("/etc/keepalived/keepalived.conf");
    let runs = |unit: &str| host.settings().active.contains(unit);
    let is_served = configured.is_none_or(|text| {
        text.contains(&format!(" {}\n", shared.ip())) && runs("keepalived") && runs("haproxy")
    });
    if is_served {
        return Ok(Some(shared));
    }
    Err(format!(
        "error execution phase wait-control-plane: dial tcp {shared}: connect: no route to host\n"
    ))
}

/// The files of an external etcd that the configuration names, which must be there; none for etcd on the control-plane nodes.
pub(super) fn files_of_etcd(host: &Host, wanted: &Configuration) -> Result<Vec<String>, String> {
    let path = |name: &&str| {
        let pointer = format!("/etcd/external/{name}");
        wanted.setting("ClusterConfiguration", &pointer)
    };
    let names = ["caFile", "certFile", "keyFile"];
    let paths: Vec<_> = names.iter().filter_map(path).collect();
    match paths.iter().find(|path| !host.disk().is_file(path)) {
        None => Ok(paths),
        Some(path) => Err(format!(
            "error execution phase preflight: [ERROR ExternalEtcdVersion]: couldn't load external etcd's certificate and key pair: open {path}: no such file or directory\n"
        )),
    }
}

/// Stores the certificates, encrypted with the key of the configuration; here only the key's hash.
pub(super) fn upload_certs(host: &Arc<Host>, args: &[&str]) -> Result<String, String> {
    let wanted = Configuration::read(host, args)?;
    let key = wanted.setting("InitConfiguration", "/certificateKey");
    let key = key.ok_or("certificateKey: Required value\n")?;
    let files = files_of_etcd(host, &wanted)?;
    // kubeadm talks to the API server of the node in its configuration, and retries for minutes.
    let local = wanted.setting("InitConfiguration", "/localAPIEndpoint/advertiseAddress");
    if local.as_deref() != Some(host.spec().address.to_string().as_str()) {
        return Err(format!(
            "error execution phase upload-certs: dial tcp {}:6443: connect: connection refused\n",
            local.unwrap_or_default()
        ));
    }
    let plane = endpoint_of_host(host)
        .and_then(|endpoint| host.lan.control_planes().get(&endpoint).cloned())
        .ok_or("the API server does not answer\n")?;
    let token = random_token();
    plane.bootstrap_token_add(&token);
    let owner = format!(
        "bootstrap-token-{}",
        token.split('.').next().unwrap_or_default()
    );
    let path = format!("/api/v1/namespaces/kube-system/secrets/{owner}");
    let uid = plane.object(&path).unwrap_or_default()["metadata"]["uid"].clone();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "kubeadm-certs", "namespace": "kube-system",
        "annotations": { "key": key_hash(&key), "files": files.join(" ") },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Secret", "name": owner, "uid": uid, "controller": true,
            "blockOwnerDeletion": true }] } });
    plane
        .apply(&secret.to_string())
        .map_err(|error| format!("error execution phase upload-certs: {error:#}\n"))?;
    Ok("[upload-certs] Storing the certificates in Secret \"kubeadm-certs\"\n".into())
}

fn key_hash(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

/// Makes a joining host part of the control plane.
pub(super) fn join(
    host: &Arc<Host>,
    (endpoint, plane): (&str, &Cluster),
    (node, key): (&str, &str),
) -> Result<(), String> {
    let certificates = plane.object("/api/v1/namespaces/kube-system/secrets/kubeadm-certs");
    let certificates = certificates.ok_or(
        "error execution phase control-plane-prepare/download-certs: error downloading certs: error downloading the secret: Secret \"kubeadm-certs\" was not found in the \"kube-system\" Namespace\n",
    )?;
    if certificates["metadata"]["annotations"]["key"] != key_hash(key).as_str() {
        return Err(
            "error execution phase control-plane-prepare/download-certs: error decoding secret data with provided key: cipher: message authentication failed\n"
                .into(),
        );
    }
    {
        let mut disk = host.disk();
        let config = format!("apiVersion: v1\nkind: Config\nserver: https://{endpoint}\n");
        disk.write(ADMIN, config, 0o600);
        let files = certificates["metadata"]["annotations"]["files"].as_str();
        for path in files.into_iter().flat_map(str::split_whitespace) {
            disk.write(path, "-----BEGIN\n", 0o600);
        }
    }
    let is_stacked = host.lan.is_stacked(endpoint);
    write_manifests(host, is_stacked);
    plane.add_control_plane_node(node, &host.spec().address.to_string());
    if is_stacked {
        host.lan.add_member(endpoint, (node, host));
    }
    Ok(())
}
