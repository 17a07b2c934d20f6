//! What a node joins with: a token, the hash of the CA, and its labels and taints.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::kubernetes::Cluster;

/// Labels and taints that the kubelet registers the node with.
pub(super) fn register(cluster: &Cluster, node: &str, document: Option<&Value>) {
    let registration = document.map(|document| document["nodeRegistration"].clone());
    let registration = registration.unwrap_or_default();
    let mut change = serde_json::json!({ "metadata": { "labels": {} }, "spec": {} });
    let arguments = registration["kubeletExtraArgs"].as_array();
    for argument in arguments.into_iter().flatten() {
        if argument["name"] == "node-labels" {
            let labels = argument["value"].as_str().unwrap_or_default().split(',');
            for (key, value) in labels.filter_map(|label| label.split_once('=')) {
                change["metadata"]["labels"][key] = value.into();
            }
        }
    }
    if registration["taints"].is_array() {
        change["spec"]["taints"] = registration["taints"].clone();
    }
    cluster.merge(&format!("/api/v1/nodes/{node}"), &change);
}

pub(super) fn join_command(endpoint: &str, token: &str, ca: &str) -> String {
    let hash = ca_hash(ca).unwrap_or_default();
    format!("kubeadm join {endpoint} --token {token} --discovery-token-ca-cert-hash {hash} \n")
}

/// `sha256:…` of the CA's public key, as joins pin it.
pub(super) fn ca_hash(pem: &str) -> Option<String> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Some(format!(
        "sha256:{}",
        hex::encode(Sha256::digest(certificate.tbs_certificate.subject_pki.raw))
    ))
}

pub(super) fn random_token() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{}.{}", &random[..6], &random[6..22])
}
