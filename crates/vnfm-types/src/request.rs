//! Request bodies of the supported tasks (SOL003 5.5.2).

use crate::{
    CancelMode, ExtManagedVirtualLinkData, ExtVirtualLinkData, KeyValuePairs, ScaleInfo,
    VimConnectionInfo, VnfOperationalState,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// `CreateVnfRequest` (5.5.2.3): creates a record, but no resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateVnfRequest {
    /// `descriptor_id` of an onboarded VNFD.
    pub vnfd_id: String,
    /// Display name of the instance; need not be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// Free text for people, not interpreted by the VNFM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_description: Option<String>,
    /// Initial metadata, in free form.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

impl CreateVnfRequest {
    /// An instance of this VNFD, without a name.
    pub fn new(vnfd_id: impl Into<String>) -> Self {
        Self {
            vnfd_id: vnfd_id.into(),
            ..Self::default()
        }
    }
}

/// `InstantiateVnfRequest` (5.5.2.4). `Debug` hides its parameters.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstantiateVnfRequest {
    /// A deployment flavour of the VNFD.
    pub flavour_id: String,
    /// An instantiation level of the flavour; default: the flavour's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiation_level_id: Option<String>,
    /// Scale level of some aspects, instead of an instantiation level (SOL003 V4); the others have that of the default level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_scale_level_info: Vec<ScaleInfo>,
    /// External virtual links and the CPs to connect to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Internal virtual links that the NFVO or the tenant has created and manages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_links: Vec<ExtManagedVirtualLinkData>,
    /// VIMs by a key that the rest of the request refers to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Language of the VNF, if it supports several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub localization_language: Option<String>,
    /// Parameters for hooks and for the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// Initial values of modifiable extensions.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// Initial values of configurable properties.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
}

impl InstantiateVnfRequest {
    /// An instantiation of this flavour; a VIM is needed too.
    pub fn new(flavour_id: impl Into<String>) -> Self {
        Self {
            flavour_id: flavour_id.into(),
            ..Self::default()
        }
    }

    /// Puts it on a registered VIM, under the key `vim1`.
    #[must_use]
    pub fn on_vim(mut self, vim_id: impl Into<String>) -> Self {
        let vim = VimConnectionInfo {
            vim_id: Some(vim_id.into()),
            ..VimConnectionInfo::default()
        };
        self.vim_connection_info.insert("vim1".into(), vim.into());
        self
    }

    /// Adds a parameter for hooks and driver.
    #[must_use]
    pub fn param(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.additional_params.insert(name.into(), value.into());
        self
    }
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

/// How a VNF is shut down before its resources are deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TerminationType {
    /// Delete the resources at once.
    #[default]
    Forceful,
    /// Take the VNF out of service first, up to the timeout.
    Graceful,
}

/// `TerminateVnfRequest` (5.5.2.8): how to delete the resources of an instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateVnfRequest {
    /// Whether to shut the VNF down first.
    pub termination_type: TerminationType,
    /// Seconds to wait for a graceful shutdown; absent: without limit. Only with `GRACEFUL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graceful_termination_timeout: Option<u32>,
    /// Parameters for hooks and for the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
}

impl TerminateVnfRequest {
    /// Deletes the resources at once.
    pub fn forceful() -> Self {
        Self {
            termination_type: TerminationType::Forceful,
            ..Self::default()
        }
    }
}

/// `HealVnfRequest` (5.5.2.9), with `vnfcInstanceId` and `healScript` as SOL002 5.5.2.9 spells them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealVnfRequest {
    /// The VNFCs to heal, by the `id` of their `vnfcResourceInfo`; absent or empty: all VNFCs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfc_instance_id: Vec<String>,
    /// Reason, for people and hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Parameters for hooks and the driver, overriding those of the instantiation; `all: true` also replaces volumes.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// A script chosen by the vendor, for hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal_script: Option<String>,
}

/// The direction of a scaling (5.5.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ScaleType {
    /// Adds VNFCs.
    ScaleOut,
    /// Removes VNFCs.
    ScaleIn,
}

impl ScaleType {
    /// As in JSON: `SCALE_OUT` or `SCALE_IN`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ScaleOut => "SCALE_OUT",
            Self::ScaleIn => "SCALE_IN",
        }
    }
}

/// `ScaleVnfRequest` (5.5.2.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleVnfRequest {
    /// Direction of the scaling.
    #[serde(rename = "type")]
    pub type_: ScaleType,
    /// Scaling aspect of the VNFD.
    pub aspect_id: String,
    /// Number of scaling steps, from 1; default 1.
    #[serde(default = "one_step")]
    pub number_of_steps: u32,
    /// Parameters for hooks, overriding those of the instantiation.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
}

const fn one_step() -> u32 {
    1
}

/// `ScaleVnfToLevelRequest` (5.5.2.6); either `instantiationLevelId` or `scaleInfo`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleVnfToLevelRequest {
    /// An instantiation level of the current flavour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiation_level_id: Option<String>,
    /// Scale level of each aspect to change; the others keep theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_info: Option<Vec<ScaleInfo>>,
    /// Parameters for hooks, overriding those of the instantiation.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
}

/// `StopType` (5.5.4.4): how VNFCs are stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StopType {
    /// Stop at once.
    #[default]
    Forceful,
    /// Take the VNF out of service first, up to the timeout.
    Graceful,
}

impl StopType {
    /// As in JSON: `FORCEFUL` or `GRACEFUL`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forceful => "FORCEFUL",
            Self::Graceful => "GRACEFUL",
        }
    }
}

/// `OperateVnfRequest` (5.5.2.10), with `vnfcInstanceId` as SOL002 5.5.2.10 spells it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperateVnfRequest {
    /// The VNFCs to start or stop, by the `id` of their `vnfcResourceInfo`; absent or empty: all VNFCs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfc_instance_id: Vec<String>,
    /// The state to reach.
    pub change_state_to: VnfOperationalState,
    /// Only with `STOPPED`; absent: forceful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_type: Option<StopType>,
    /// Seconds after which a graceful stop becomes forceful; absent: never. Only with `GRACEFUL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graceful_stop_timeout: Option<u32>,
    /// Parameters for hooks, overriding those of the instantiation.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
}

/// `ChangeVnfFlavourRequest` (5.5.2.7). `Debug` hides its parameters.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeVnfFlavourRequest {
    /// A deployment flavour of the VNFD, also the present one.
    pub new_flavour_id: String,
    /// An instantiation level of the new flavour; default: the flavour's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiation_level_id: Option<String>,
    /// External virtual links to change or add; others stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Internal virtual links that the NFVO or the tenant has created and manages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_links: Vec<ExtManagedVirtualLinkData>,
    /// The VIM of the instance; it cannot be another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Parameters for hooks and for the driver, over those that the instance has.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// New values of modifiable extensions.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// New values of configurable properties.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
}

impl fmt::Debug for ChangeVnfFlavourRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeVnfFlavourRequest")
            .field("new_flavour_id", &self.new_flavour_id)
            .field("instantiation_level_id", &self.instantiation_level_id)
            .finish_non_exhaustive()
    }
}

/// `ChangeCurrentVnfPkgRequest` (5.5.2.11a). `Debug` hides its parameters.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeCurrentVnfPkgRequest {
    /// `descriptor_id` of the VNFD of an onboarded package.
    pub vnfd_id: String,
    /// External virtual links to change or add; others stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Internal virtual links that the NFVO or the tenant has created and manages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_links: Vec<ExtManagedVirtualLinkData>,
    /// The VIM of the instance; it cannot be another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Parameters for hooks and for the driver, over those that the instance has.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// New values of modifiable extensions.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// New values of configurable properties.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
}

impl fmt::Debug for ChangeCurrentVnfPkgRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeCurrentVnfPkgRequest")
            .field("vnfd_id", &self.vnfd_id)
            .finish_non_exhaustive()
    }
}

/// `ChangeExtVnfConnectivityRequest` (5.5.2.11). `Debug` hides its parameters.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeExtVnfConnectivityRequest {
    /// External virtual links to change or add, each with the CPs to connect or, with a null configuration, to disconnect;
    /// other links and CPs stay.
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// The VIM of the instance; it cannot be another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Parameters for hooks, overriding those of the instantiation.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
}

impl fmt::Debug for ChangeExtVnfConnectivityRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.ext_virtual_links.iter().map(|link| &link.id);
        f.debug_struct("ChangeExtVnfConnectivityRequest")
            .field("ext_virtual_links", &ids.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// `VnfInfoModificationRequest` (5.5.2.12), a merge patch (RFC 7396): an absent member is unchanged, `Some(None)` is a null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInfoModificationRequest {
    /// New instance name; null removes it.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub vnf_instance_name: Option<Option<String>>,
    /// New description; null removes it.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub vnf_instance_description: Option<Option<String>>,
    /// New values of configurable properties; a null removes one.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub vnf_configurable_properties: Option<Option<KeyValuePairs>>,
    /// New metadata; a null removes a member.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub metadata: Option<Option<KeyValuePairs>>,
    /// New values of modifiable extensions; a null removes one.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub extensions: Option<Option<KeyValuePairs>>,
    /// Patches of VIM connections by key; a null removes one.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub vim_connection_info: Option<Option<KeyValuePairs>>,
    /// The VNFD; must not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_id: Option<String>,
}

/// Distinguishes a null from an absent member.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
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
    /// Whether to finish or drop the running step.
    pub cancel_mode: CancelMode,
}
