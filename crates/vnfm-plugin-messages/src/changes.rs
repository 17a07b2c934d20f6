//! What only the request of some operations has: what is created, healed, scaled, stopped, stored, or changed.

use crate::Object;
use crate::inventory::Vnfc;
#[cfg(feature = "schemars")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What an instantiation creates, so that `instantiate_start` can refuse it before there is a server:
///
/// ```
/// use vnfm_plugin_sdk::Instantiation;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({ "vnfcsToCreate": {"master": 3, "worker": 2} });
/// let instantiation: Instantiation = from_value(json).unwrap();
/// assert_eq!(instantiation.vnfcs_to_create["master"], 3);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "What an instantiation creates.")
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Instantiation {
    /// How many VNFCs are created, by VDU; known before they exist.
    pub vnfcs_to_create: BTreeMap<String, u32>,
}

/// What a heal request asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(bound = "V: JsonSchema + Default + Serialize")
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Heal<V = Vnfc> {
    /// The VNFCs to heal, as they were before the heal; in `heal_end` the inventory has the new ones.
    pub vnfcs: Vec<V>,
    /// `cause` of the heal request: a reason in free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// `healScript` of the heal request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal_script: Option<String>,
    /// True if volumes are recreated as well.
    pub all: bool,
}

/// The change of size of a scaling. A hook that takes VNFCs out of service does so in `…_start`, while they still run:
///
/// ```
/// use vnfm_plugin_sdk::Scale;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({
///     "type": "SCALE_IN", "aspectId": "load", "numberOfSteps": 1,
///     "levelsBefore": {"load": 2}, "levels": {"load": 1},
///     "vnfcsToRemove": [{"id": "web-2", "vduId": "web", "computeResource": {"resourceId": "server-2"}}]
/// });
/// let scale: Scale = from_value(json).unwrap();
/// assert_eq!(scale.levels["load"], 1);
/// assert_eq!(scale.vnfcs_to_remove[0].id, "web-2");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(
        bound = "V: JsonSchema + Default + Serialize",
        description = "The change of size of a scaling."
    )
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Scale<V = Vnfc> {
    /// `SCALE_OUT` or `SCALE_IN`; absent if the VNF is scaled to a level.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Scaling aspect of the request; absent if the VNF is scaled to a level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aspect_id: Option<String>,
    /// Number of scaling steps, from 1; absent if the VNF is scaled to a level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_steps: Option<u32>,
    /// Scale level of each aspect before the scaling.
    pub levels_before: BTreeMap<String, u32>,
    /// Scale level of each aspect after it.
    pub levels: BTreeMap<String, u32>,
    /// The VNFCs that are removed, as they were before: they still run in the `…_start` hook.
    pub vnfcs_to_remove: Vec<V>,
    /// How many VNFCs are added, by VDU; known before they exist. Empty from an older host.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vnfcs_to_add: BTreeMap<String, u32>,
    /// The VNFCs that were added; empty in the `…_start` hook.
    pub vnfcs_added: Vec<V>,
}

/// What an `operate` request starts or stops. `operate_start` takes a VNF out of service before it is stopped, and
/// `operate_end` puts it into service after it was started:
///
/// ```
/// use vnfm_plugin_sdk::Operate;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({
///     "changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 60,
///     "vnfcs": [{"id": "web-2", "vduId": "web", "computeResource": {"resourceId": "server-2"}}]
/// });
/// let operate: Operate = from_value(json).unwrap();
/// assert!(operate.stops() && operate.graceful_stop_timeout == Some(60));
/// assert_eq!(operate.vnfcs[0].id, "web-2");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(
        bound = "V: JsonSchema + Default + Serialize",
        description = "What an `operate` request starts or stops."
    )
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Operate<V = Vnfc> {
    /// `STARTED` or `STOPPED`: the state to reach.
    pub change_state_to: String,
    /// `FORCEFUL` or `GRACEFUL`; absent if VNFCs are started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_type: Option<String>,
    /// Seconds until a graceful stop becomes forceful; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graceful_stop_timeout: Option<u32>,
    /// The VNFCs to start or stop, as they were before; empty if stopped VNFCs do not exist, as on Kubernetes.
    pub vnfcs: Vec<V>,
}

impl<V> Operate<V> {
    /// Whether VNFCs are stopped, not started.
    pub fn stops(&self) -> bool {
        self.change_state_to == "STOPPED"
    }
}

/// A snapshot that is created or restored. `create_snapshot_start` makes the data on disks consistent, and
/// `revert_to_snapshot_end` puts the VNF into service with what it had then:
///
/// ```
/// use vnfm_plugin_sdk::Snapshot;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({"vnfSnapshotInfoId": "s-1", "userDefinedData": {"before": "upgrade"}});
/// let snapshot: Snapshot = from_value(json).unwrap();
/// assert_eq!(snapshot.user_defined_data["before"], "upgrade");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "A snapshot that is created or restored.")
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Snapshot {
    /// `id` of the "Individual VNF snapshot" resource.
    pub vnf_snapshot_info_id: String,
    /// Data of the client for a snapshot that is created.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub user_defined_data: Object,
}

/// A change to another deployment flavour. `change_flavour_start` takes out of service what will go:
///
/// ```
/// use vnfm_plugin_sdk::FlavourChange;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({
///     "flavourIdBefore": "redundant", "flavourId": "simple",
///     "vnfcsToRemove": [{"id": "back-1", "vduId": "back", "computeResource": {"resourceId": "server-2"}}]
/// });
/// let change: FlavourChange = from_value(json).unwrap();
/// assert_eq!((change.flavour_id.as_str(), change.vnfcs_to_remove.len()), ("simple", 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(
        bound = "V: JsonSchema + Default + Serialize",
        description = "A change to another deployment flavour."
    )
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct FlavourChange<V = Vnfc> {
    /// Flavour before the change.
    pub flavour_id_before: String,
    /// Flavour after it.
    pub flavour_id: String,
    /// The VNFCs that do not stay, as they were before: they still run in the `…_start` hook.
    pub vnfcs_to_remove: Vec<V>,
    /// The VNFCs that were added; empty in the `…_start` hook.
    pub vnfcs_added: Vec<V>,
}

/// A change of the external connectivity, with the links as SOL003's `ExtVirtualLinkData` has them:
///
/// ```
/// use vnfm_plugin_sdk::Connectivity;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({
///     "extVirtualLinksBefore": [{"id": "external", "resourceId": "net-1", "extCps": [{"cpdId": "CP1"}]}],
///     "extVirtualLinks": [{"id": "external", "resourceId": "net-2", "extCps": [{"cpdId": "CP1"}]}],
///     "changedCpds": ["CP1"]
/// });
/// let change: Connectivity = from_value(json).unwrap();
/// assert_eq!(change.ext_virtual_links[0]["resourceId"], "net-2");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "A change of the external connectivity.")
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Connectivity {
    /// All external links before the change.
    pub ext_virtual_links_before: Vec<Value>,
    /// All external links after it.
    pub ext_virtual_links: Vec<Value>,
    /// Names of the external CPDs whose link, port or address changes.
    pub changed_cpds: Vec<String>,
}

/// A change to another VNF package. `change_current_package_start` is a hook of the old package, and
/// `change_current_package_end` one of the new package:
///
/// ```
/// use vnfm_plugin_sdk::PackageChange;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({
///     "vnfdIdBefore": "web-1", "vnfdId": "web-2", "modificationQualifier": "up",
///     "vnfSoftwareVersionBefore": "1.0", "vnfSoftwareVersion": "2.0",
///     "vnfcsToChange": [{"id": "web-0", "vduId": "web", "computeResource": {"resourceId": "server-0"}}]
/// });
/// let change: PackageChange = from_value(json).unwrap();
/// assert_eq!((change.vnfd_id.as_str(), change.vnfcs_to_change.len()), ("web-2", 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(
        bound = "V: JsonSchema + Default + Serialize",
        description = "A change to another VNF package."
    )
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PackageChange<V = Vnfc> {
    /// The VNFD before the change.
    pub vnfd_id_before: String,
    /// The VNFD after it.
    pub vnfd_id: String,
    /// Version of the VNF's software before the change.
    pub vnf_software_version_before: String,
    /// Version of the software after it.
    pub vnf_software_version: String,
    /// `up` or `down`, as the `VnfPackageChange` policy states; absent without such a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modification_qualifier: Option<String>,
    /// The VNFCs that are changed or replaced in their place, as they were before; on Kubernetes all that stay.
    pub vnfcs_to_change: Vec<V>,
    /// The VNFCs that do not stay, as they were before: they still run in the `…_start` hook.
    pub vnfcs_to_remove: Vec<V>,
    /// The VNFCs that were added, or replaced others; empty in the `…_start` hook.
    pub vnfcs_added: Vec<V>,
}
