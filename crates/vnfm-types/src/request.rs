//! Request bodies of the tasks that exist (SOL003 5.5.2).

use crate::{
    CancelMode, ExtManagedVirtualLinkData, ExtVirtualLinkData, KeyValuePairs, VimConnectionInfo,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// `CreateVnfRequest` (5.5.2.3).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateVnfRequest {
    /// The VNFD to make an instance of.
    pub vnfd_id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_description: Option<String>,
    /// Free metadata.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `InstantiateVnfRequest` (5.5.2.4). `Debug` hides its parameters.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstantiateVnfRequest {
    /// Deployment flavour of the VNFD.
    pub flavour_id: String,
    /// Instantiation level of the flavour; its default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiation_level_id: Option<String>,
    /// External virtual links and the CPs to connect to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Internal virtual links that others have made, and manage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_links: Vec<ExtManagedVirtualLinkData>,
    /// VIMs by a key that the rest of the request refers to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Language of the VNF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub localization_language: Option<String>,
    /// Parameters for hooks and for the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// Values of modifiable extensions.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// Values of configurable properties.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
}

impl fmt::Debug for InstantiateVnfRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstantiateVnfRequest")
            .field("flavour_id", &self.flavour_id)
            .field("instantiation_level_id", &self.instantiation_level_id)
            .field("vim_connection_info", &self.vim_connection_info)
            .finish_non_exhaustive()
    }
}

/// How a VNF is shut down before its resources go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TerminationType {
    /// At once.
    #[default]
    Forceful,
    /// After it was taken out of service, or after the time-out.
    Graceful,
}

/// `TerminateVnfRequest` (5.5.2.8).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateVnfRequest {
    /// Forceful or graceful.
    pub termination_type: TerminationType,
    /// Seconds to wait for a graceful shutdown; absent means without limit. Only with `GRACEFUL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graceful_termination_timeout: Option<u32>,
    /// Parameters for hooks and for the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
}

/// `HealVnfRequest` (5.5.2.9), with `vnfcInstanceId` and `healScript` as SOL002 5.5.2.9 spells them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealVnfRequest {
    /// The VNFCs to heal, by the `id` of their `vnfcResourceInfo`; absent or empty: the whole VNF.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfc_instance_id: Vec<String>,
    /// Why, for people and hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Parameters for hooks and for the driver, over those of the instantiation; `all: true` heals volumes too.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// A script of the vendor's choice, for hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal_script: Option<String>,
}

/// `VnfInfoModificationRequest` (5.5.2.12), a merge patch (RFC 7396): what is absent stays, `Some(None)` is a null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInfoModificationRequest {
    /// A name for people.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    pub vnf_instance_name: Option<Option<String>>,
    /// A description for people.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    pub vnf_instance_description: Option<Option<String>>,
    /// Values of configurable properties; a null takes one away.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    pub vnf_configurable_properties: Option<Option<KeyValuePairs>>,
    /// Free metadata; a null takes a member away.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    pub metadata: Option<Option<KeyValuePairs>>,
    /// Values of modifiable extensions; a null takes one away.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    pub extensions: Option<Option<KeyValuePairs>>,
    /// Patches of VIM connections, by key; a null takes one away.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    pub vim_connection_info: Option<Option<KeyValuePairs>>,
    /// The VNFD; it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_id: Option<String>,
}

/// What is there, be it null.
fn there<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// `CancelMode` (5.5.2.14), the body of the cancel task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequest {
    /// Let the running step finish, or drop it.
    pub cancel_mode: CancelMode,
}
