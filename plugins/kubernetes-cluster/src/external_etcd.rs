//! An etcd outside of the VNF, which keeps the cluster's data in place of members on the control-plane nodes.
//!
//! kubeadm gets its URLs and the paths of its CA and of the API servers' login. The files are written on the first control-plane
//! node; the others get them with the certificates of the control plane. Each installation has keys of its own,
//! `/vnfm/INSTANCE/ID`, so that several clusters share one etcd, and none finds what an earlier one has left. The operator backs
//! that etcd up, and looks after its members: a control plane has no quorum of its own then, and one node of it is enough. A
//! renewal of certificates writes the login of the request to all nodes if it expires later than theirs: without one in the request,
//! it is that of the installation.

use crate::machine::Machine;
use crate::node::bad;
use crate::params::ExternalEtcd;
use crate::secrets::expiry;
use serde_json::{Value, json};
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "external-etcd";
const FOLDER: &str = "/etc/kubernetes/pki/external-etcd";
/// What the login is called among the certificates of a node.
const LOGIN: &str = "external-etcd-client";

impl ExternalEtcd {
    /// Checks its URLs and certificates.
    ///
    /// # Errors
    ///
    /// `bad-parameters`.
    pub(crate) fn check(&self) -> Result<(), DriverError> {
        let is_url = |url: &String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
            url.strip_prefix("https://")
                .is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain))
        };
        if self.endpoints.is_empty() || !self.endpoints.iter().all(is_url) {
            let detail = "`external_etcd.endpoints` must be the URLs of its members, such as `https://192.0.2.10:2379`";
            return Err(bad(detail.to_owned()));
        }
        let pems = [
            ("ca", self.ca.as_str(), "CERTIFICATE-----"),
            ("certificate", &self.certificate, "CERTIFICATE-----"),
            ("private_key", self.private_key.reveal(), "PRIVATE KEY-----"),
        ];
        match pems.iter().find(|(_, text, kind)| !text.contains(kind)) {
            Some((name, ..)) => Err(bad(format!("`external_etcd.{name}` is not in PEM format"))),
            None => Ok(()),
        }
    }

    /// `etcd` of kubeadm's `ClusterConfiguration`.
    pub(crate) fn section(&self) -> Value {
        json!({ "external": {
            "endpoints": self.endpoints,
            "caFile": format!("{FOLDER}/ca.crt"),
            "certFile": format!("{FOLDER}/client.crt"),
            "keyFile": format!("{FOLDER}/client.key"),
        }})
    }
}

/// Writes CA and login of the external etcd, if there is one.
///
/// # Errors
///
/// If the host cannot be written.
pub(crate) async fn put_login(host: &Machine<'_>) -> Result<(), DriverError> {
    let Some(etcd) = &host.plan.external_etcd else {
        return Ok(());
    };
    for (name, text) in [
        ("ca.crt", etcd.ca.as_str()),
        ("client.crt", &etcd.certificate),
        ("client.key", etcd.private_key.reveal()),
    ] {
        let file = Upload::new(format!("{FOLDER}/{name}"), text);
        host.put(file, PHASE).await?;
    }
    Ok(())
}

/// What the login is called, and when the one on the host expires; `None` without an etcd outside, or if it is not a certificate.
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) async fn login_expiry(
    host: &Machine<'_>,
) -> Result<Option<(String, Value)>, DriverError> {
    if host.plan.external_etcd.is_none() {
        return Ok(None);
    }
    let date = expiry_on(host).await?;
    Ok(date.map(|date| (LOGIN.to_owned(), date.into())))
}

async fn expiry_on(host: &Machine<'_>) -> Result<Option<String>, DriverError> {
    let certificate = host.run(PHASE, &format!("cat {FOLDER}/client.crt")).await?;
    Ok(expiry(&certificate.stdout))
}

/// Writes the login of the request, if there is one that expires later than that on the host.
///
/// # Errors
///
/// If the host cannot be read or written.
pub(crate) async fn renew_login(host: &Machine<'_>) -> Result<(), DriverError> {
    let Some(etcd) = &host.plan.external_etcd else {
        return Ok(());
    };
    // All times are in UTC and of one format, so that their order is that of their texts.
    if expiry(&etcd.certificate) > expiry_on(host).await? {
        put_login(host).await?;
    }
    Ok(())
}

/// Refuses a snapshot of an etcd that is not the VNF's.
pub(crate) fn refuse_snapshot() -> DriverError {
    let detail = "the cluster's data are in the etcd that `external_etcd` names: back it up and restore it there";
    DriverError::new("external-etcd", detail).phase("preflight")
}

#[cfg(test)]
mod tests {
    use crate::params::ExternalEtcd;
    use vnfm_plugin_sdk::Secret;

    #[test]
    fn unusable_urls_and_files_are_refused() {
        let pem = |kind: &str| format!("-----BEGIN {kind}-----\nx\n-----END {kind}-----\n");
        let good = ExternalEtcd {
            endpoints: vec![
                "https://192.0.2.10:2379".into(),
                "https://[fd00::2]:2379".into(),
            ],
            ca: pem("CERTIFICATE"),
            certificate: pem("CERTIFICATE"),
            private_key: Secret::new(pem("PRIVATE KEY")),
        };
        assert!(good.check().is_ok());
        let refused = |change: &dyn Fn(&mut ExternalEtcd)| {
            let mut other = good.clone();
            change(&mut other);
            other.check().unwrap_err().detail.clone()
        };
        for urls in [
            vec![],
            vec!["http://192.0.2.10:2379"],
            vec!["https://a b"],
            vec!["https://"],
        ] {
            let why =
                refused(&|etcd| etcd.endpoints = urls.iter().map(|url| (*url).into()).collect());
            assert!(why.contains("`external_etcd.endpoints`"), "{urls:?}: {why}");
        }
        let why = refused(&|etcd| etcd.private_key = Secret::new("secret"));
        assert!(
            why.contains("`external_etcd.private_key`") && !why.contains("secret"),
            "{why}"
        );
        assert!(refused(&|etcd| etcd.ca.clear()).contains("`external_etcd.ca`"));
    }
}
