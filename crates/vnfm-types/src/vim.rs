//! VIM connections (SOL003 4.4.1.6) and the record of our VIM registry.

use crate::{KeyValuePairs, VimPolicy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The registered spelling of OpenStack's VIM type.
pub const OPENSTACK: &str = "ETSINFV.OPENSTACK_KEYSTONE.V_3";
/// The registered spelling of Kubernetes' VIM type.
pub const KUBERNETES: &str = "ETSINFV.KUBERNETES.V_1";
/// The registered spelling of Helm's VIM type.
pub const HELM: &str = "ETSINFV.HELM.V_3";

/// `VimConnectionInfo`. In a request, `vimId` alone names a registered VIM.
///
/// OpenStack: `interfaceInfo {endpoint, trustedCertificates[], skipCertificateVerification}`,
/// `accessInfo {username, password, project, projectDomain, userDomain, region, interface}` or
/// `{applicationCredentialId, applicationCredentialSecret}`. Kubernetes: `interfaceInfo {endpoint,
/// ssl_ca_cert}`, `accessInfo {bearer_token | client_certificate + client_key}`,
/// `extra {namespace, ssl_ca_cert_hash}`; `certificate_key` is a secret and lies in `accessInfo`.
///
/// `Debug` hides `accessInfo`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimConnectionInfo {
    /// Identifier of the VIM in our registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_id: Option<String>,
    /// Which kind of VIM, such as [`OPENSTACK`].
    #[serde(default)]
    pub vim_type: String,
    /// Where and how to reach it; no secrets.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub interface_info: KeyValuePairs,
    /// Who we are there; secrets. Sealed when accepted, never returned.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub access_info: KeyValuePairs,
    /// What else the driver should know; no secrets.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extra: KeyValuePairs,
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
    /// Identifier; `UUIDv5(instance id, name)` where a hook registered it.
    pub id: String,
    /// Name, unique per tenant.
    pub name: String,
    /// Kind of VIM.
    pub vim_type: String,
    /// Where and how to reach it.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub interface_info: KeyValuePairs,
    /// What else the driver should know.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extra: KeyValuePairs,
    /// The instance whose hook registered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_by: Option<String>,
    /// What identifies the VIM behind all its addresses: for Kubernetes the UID of `kube-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// True where every tenant may use it and see it; only its owner changes it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// What instances on it may be made of, as its owner says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<VimPolicy>>,
    /// When the credential or the certificate that ends first ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Where the key lies that seals its login, if not in the key file: `barbican_key`.
    #[serde(rename = "key_type", default, skip_serializing_if = "Option::is_none")]
    pub key_type: Option<String>,
    /// Under which id that key is kept there.
    #[serde(
        rename = "secret_uuid",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub secret_uuid: Option<String>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
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
