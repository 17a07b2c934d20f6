//! What a notification is about, as far as subscriptions and visibility scopes distinguish it.

use crate::deployment::Deployment;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vnfm_types::VnfInstance;

/// Member of `additionalParams` that names the namespace of an instantiation.
pub(super) const NAMESPACE: &str = "namespace";

/// What subscription filters and visibility scopes match of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventScope {
    /// `vnfdId` of the VNF instance.
    pub vnfd_id: String,
    /// `vnfInstanceName`, if it has one.
    pub vnf_instance_name: Option<String>,
    /// `vnfProvider`, the vendor of the VNF.
    pub vnf_provider: String,
    /// `vnfProductName` of the VNFD.
    pub vnf_product_name: String,
    /// `vnfSoftwareVersion` of the VNFD.
    pub vnf_software_version: String,
    /// `vnfdVersion` of the VNFD.
    pub vnfd_version: String,
    /// Where the instance lives; empty if nowhere. Absent in rows of older versions.
    pub lives: Option<Vec<InstanceLocation>>,
}

/// Where an instance lives, as far as visibility scopes distinguish it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceLocation {
    /// Id of the registered VIM; empty for an inline connection, or if not known yet.
    pub vim_id: String,
    /// The namespace named in the request, if any.
    pub namespace: Option<String>,
}

impl InstanceLocation {
    /// One entry for each VIM of a deployment.
    pub(super) fn all_of(deployment: &Deployment) -> Vec<Self> {
        let namespace = deployment
            .additional_params
            .get(NAMESPACE)
            .and_then(Value::as_str);
        let namespace = namespace.map(ToOwned::to_owned);
        let connections = deployment.vim_connection_info.values();
        let mut vims: Vec<_> = connections
            .map(|vim| vim.vim_id.as_deref().unwrap_or_default())
            .collect();
        if vims.is_empty() {
            vims.push("");
        }
        let home = |vim: &str| Self {
            vim_id: vim.to_owned(),
            namespace: namespace.clone(),
        };
        vims.into_iter().map(home).collect()
    }
}

impl From<&VnfInstance> for EventScope {
    fn from(vnf: &VnfInstance) -> Self {
        Self {
            lives: None,
            vnfd_id: vnf.vnfd_id.clone(),
            vnf_instance_name: vnf.vnf_instance_name.clone(),
            vnf_provider: vnf.vnf_provider.clone(),
            vnf_product_name: vnf.vnf_product_name.clone(),
            vnf_software_version: vnf.vnf_software_version.clone(),
            vnfd_version: vnf.vnfd_version.clone(),
        }
    }
}
