//! A login to the VIM for programs that run inside the VNF, such as a cloud controller manager.

use crate::Secret;
#[cfg(feature = "schemars")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a login for programs inside the VNF may do.
///
/// ```
/// use vnfm_plugin_sdk::{AccessRule, CredentialRequest};
///
/// let mut wanted = CredentialRequest::new("cloud-provider");
/// wanted.roles = vec!["member".into(), "load-balancer_member".into()];
/// wanted.access_rules = vec![AccessRule::new("load-balancer", "GET", "/v2.0/lbaas/**")];
/// assert_eq!(wanted.expires_at, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct CredentialRequest {
    /// Its name, unique within the VNF instance: a DNS label (RFC 1123).
    pub name: String,
    /// Names of its roles in the project; empty: the roles of the VIM's user.
    pub roles: Vec<String>,
    /// The requests that it may send; empty: those that its roles allow.
    pub access_rules: Vec<AccessRule>,
    /// When it expires (RFC 3339); absent: it is valid as long as the VNF instance exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

impl CredentialRequest {
    /// A login with the roles of the VIM's user that does not expire.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }
}

/// An API request that a login may send (Keystone: access rule of an application credential).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AccessRule {
    /// Type of the service in the catalog, such as `load-balancer`.
    pub service: String,
    /// HTTP method.
    pub method: String,
    /// Path of the API; `*` stands for one segment, `**` for any number, `{name}` for an id.
    pub path: String,
}

impl AccessRule {
    /// The rule that allows `method` on `path` of `service`.
    pub fn new(
        service: impl Into<String>,
        method: impl Into<String>,
        path: impl Into<String>,
    ) -> Self {
        Self {
            service: service.into(),
            method: method.into(),
            path: path.into(),
        }
    }
}

/// A Keystone application credential for programs inside the VNF, and how they reach the cloud.
///
/// ```
/// use vnfm_plugin_sdk::Credential;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({
///     "authUrl": "https://cloud:5000/v3", "projectId": "p", "id": "c", "secret": "never printed", "tag": "vnf-1"
/// });
/// let made: Credential = from_value(json).unwrap();
/// assert!(!format!("{made:?}").contains("never printed"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Credential {
    /// URL of Keystone, with its version.
    pub auth_url: String,
    /// Region of the VIM; absent if its catalog has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Interface of the endpoints in the catalog: `public`, `internal` or `admin`.
    pub interface: String,
    /// Certificate authorities of the VIM, in PEM; empty: those of the system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted_certificates: Vec<String>,
    /// The project that it is for.
    pub project_id: String,
    /// Id of the application credential.
    pub id: String,
    /// Secret of the application credential.
    pub secret: Secret,
    /// Marks what the programs create on the VIM, as a tag or as the name of the cluster: the engine deletes what has it when
    /// the VNF instance is terminated.
    pub tag: String,
}
