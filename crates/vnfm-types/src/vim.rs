//! VIM connections (SOL003 4.4.1.6) and the record of our VIM registry.

use crate::{KeyValuePairs, VimPolicy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The vimType of OpenStack in the registry of ETSI NFV.
pub const OPENSTACK: &str = "ETSINFV.OPENSTACK_KEYSTONE.V_3";
/// The vimType of Kubernetes in the registry of ETSI NFV.
pub const KUBERNETES: &str = "ETSINFV.KUBERNETES.V_1";
/// The vimType of Helm in the registry of ETSI NFV.
pub const HELM: &str = "ETSINFV.HELM.V_3";
/// Our vimType of an inventory of bare hosts; ETSI NFV registers none.
pub const HOSTS: &str = "VNFM.HOSTS.V_1";

/// `VimConnectionInfo`. In a request, `vimId` alone names a registered VIM.
///
/// OpenStack: `interfaceInfo {endpoint, trustedCertificates[], skipCertificateVerification}`,
/// `accessInfo {username, password, project, projectDomain, userDomain, region, interface}` or
/// `{applicationCredentialId, applicationCredentialSecret}`. Kubernetes: `interfaceInfo {endpoint,
/// ssl_ca_cert}`, `accessInfo {bearer_token | client_certificate + client_key}`,
/// `extra {namespace, ssl_ca_cert_hash}`; the registry for images of packages: `interfaceInfo {registry, registry_prefix,
/// registry_ca_cert, registry_token_hosts[]}`, `accessInfo {registry_username, registry_password}`; `certificate_key` is a secret and belongs in `accessInfo`.
///
/// `Debug` prints neither `accessInfo` nor `extra`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimConnectionInfo {
    /// Id of the VIM in our registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_id: Option<String>,
    /// The kind of VIM, such as [`OPENSTACK`].
    #[serde(default)]
    pub vim_type: String,
    /// Endpoint and how to trust it; no secrets.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub interface_info: KeyValuePairs,
    /// Login with secrets. Sealed when accepted, never returned.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub access_info: KeyValuePairs,
    /// Further options for the driver; no secrets.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extra: KeyValuePairs,
}

impl VimConnectionInfo {
    /// A VIM of this kind, without endpoint and login.
    pub fn new(vim_type: impl Into<String>) -> Self {
        Self {
            vim_type: vim_type.into(),
            ..Self::default()
        }
    }

    /// Adds a member of `interfaceInfo`, such as `endpoint`.
    #[must_use]
    pub fn interface(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.interface_info.insert(name.into(), value.into());
        self
    }

    /// Adds a member of `accessInfo`, such as `password`.
    #[must_use]
    pub fn access(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.access_info.insert(name.into(), value.into());
        self
    }
}

impl fmt::Debug for VimConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VimConnectionInfo")
            .field("vim_id", &self.vim_id)
            .field("vim_type", &self.vim_type)
            .field("interface_info", &self.interface_info)
            .finish_non_exhaustive()
    }
}

/// A VIM in our registry, as our own API shows it: without secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vim {
    /// A UUID; `UUIDv5(instance id, name)` if a hook registered it.
    pub id: String,
    /// Display name, unique per tenant.
    pub name: String,
    /// Its type in the registered spelling.
    pub vim_type: String,
    /// Endpoint and how to trust it.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub interface_info: KeyValuePairs,
    /// Further options for the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extra: KeyValuePairs,
    /// The instance whose hook registered it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_by: Option<String>,
    /// Identifies the VIM across all its addresses: for Kubernetes the UID of `kube-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// True if every tenant may see and use it; only its owner can change it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// Limits set by its owner on what instances may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<VimPolicy>>,
    /// When the first credential or certificate expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Where the key that seals its login is stored, if not in the key file: `barbican_key`.
    #[serde(rename = "key_type", default, skip_serializing_if = "Option::is_none")]
    pub key_type: Option<String>,
    /// Id of that key at the key provider.
    #[serde(
        rename = "secret_uuid",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub secret_uuid: Option<String>,
    /// Time at which it was registered, UTC.
    pub created_at: Timestamp,
    /// Time of the last change, UTC.
    pub updated_at: Timestamp,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "signature required by serde"
)]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use crate::InstantiateVnfRequest;

    #[test]
    fn debug_shows_no_secret() {
        let request = r#"{"flavourId": "simple", "additionalParams": {"password": "hunter2"},
            "vimConnectionInfo": {"vim1": {"vimType": "t", "accessInfo": {"token": "hunter2"}}}}"#;
        let request: InstantiateVnfRequest = serde_json::from_str(request).unwrap();
        let shown = format!("{request:?}");
        assert!(
            shown.contains("simple") && shown.contains("vim1"),
            "{shown}"
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
