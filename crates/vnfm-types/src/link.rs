//! Shared virtual links: networks on a VIM that outlive the instances on them. Our own API.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The network that a tenant wants. Which members a link needs depends on the kind of VIM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkSpec {
    /// Unique within the tenant; also the name of the network on the VIM.
    pub name: String,
    /// A registered VIM; a request may give its name instead of its id.
    pub vim_id: String,
    /// OpenStack: the subnets, at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<LinkSubnet>,
    /// Kubernetes: an existing namespace that belongs to no instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Kubernetes: `spec.config` of the `NetworkAttachmentDefinition`, a CNI network configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni_config: Option<Map<String, Value>>,
}

/// A subnet of a shared virtual link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkSubnet {
    /// Such as `10.10.0.0/24` or `fd00:10::/64`.
    pub cidr: String,
    /// Absent: the first address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ip: Option<String>,
    /// Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp_enabled: Option<bool>,
}

/// A shared virtual link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedLink {
    /// UUID that the VNFM assigns.
    pub id: String,
    /// Whether instances can use it.
    pub state: LinkState,
    /// The network on the VIM, as `extVirtualLinks[].resourceId` names it; absent until it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
    /// When it was requested.
    pub created_at: Timestamp,
    /// Name, VIM and network settings of the request that created it.
    #[serde(flatten)]
    pub spec: LinkSpec,
    /// Ids of the VNF instances that use it. Computed by the store, never written.
    #[serde(default)]
    pub used_by: Vec<String>,
}

/// The state of a shared virtual link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LinkState {
    /// Requested; the VIM may or may not have it.
    #[default]
    Creating,
    /// Exists on the VIM.
    Available,
    /// Its deletion has begun; no instance can use it any more.
    Deleting,
}

impl LinkState {
    /// Its spelling in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Available => "AVAILABLE",
            Self::Deleting => "DELETING",
        }
    }
}
