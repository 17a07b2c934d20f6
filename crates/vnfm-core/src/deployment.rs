//! The desired state of an instance.
//!
//! ```text
//! InstantiateVnfRequest ── Deployment::requested ──┐
//! VNFD's flavour ── set_levels ────────────────────┼──► target of the operation ── COMPLETED ──► of the instance
//! Grant ── Approved::apply ────────────────────────┘
//! ```
//! Each operation that changes an instance has a `before` (the deployment so far; none before instantiation) and a `target`
//! (the deployment from then on; none after termination). Drivers get the target; a rollback returns to `before`. The
//! store seals a deployment: its parameters and VIM connections may hold secrets.

use crate::ports::Granted;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_descriptor::{Flavour, LevelError, ScaleError, ScaledSize, ScalingAspect};
use vnfm_types::{
    AspectId, ExtManagedVirtualLinkData, ExtVirtualLinkData, FlavourId, InstantiateVnfRequest,
    KeyValuePairs, PackageId, ScaleInfo, Secret, VduId, VimConnectionInfo, VnfOperationalState,
    VnfcResourceInfo,
};

/// The desired state of an instance. Holds secrets, which `Debug` hides.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deployment {
    /// Id of the onboarded package.
    pub vnf_pkg_id: PackageId,
    /// A flavour of its VNFD.
    pub flavour_id: FlavourId,
    /// Requested instantiation level; `None`: the flavour's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instantiation_level_id: Option<String>,
    /// Scale level of each aspect, from 0.
    pub scale_levels: BTreeMap<AspectId, u32>,
    /// Number of VNFCs of each VDU.
    pub vdu_instances: BTreeMap<VduId, u32>,
    /// External virtual links with the connection points on them.
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Internal virtual links that the NFVO or the tenant manages.
    pub ext_managed_virtual_links: Vec<ExtManagedVirtualLinkData>,
    /// The VIM, by its key in the instance's `vimConnectionInfo`; with a login unless the VIM is registered.
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// `additionalParams` of the instantiation, with those of the grant and of later changes.
    pub additional_params: KeyValuePairs,
    /// Id of the operation that last changed `additional_params`; empty: the instantiation. It stands for their values, which
    /// may be secret, where a driver compares deployments.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub params_changed_by: String,
    /// `localizationLanguage` of the request; absent: the VNF's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub localization_language: Option<String>,
    /// The NFVO's decisions about resources; empty if the local policy grants.
    pub placement: Granted,
    /// What the driver's `preview` found on the VIM (flavors, images, networks), in the driver's own format.
    /// Later previews keep to it, so an operation to another flavour or package clears it first.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub resolved: Value,
    /// The plugin that serves each hook: `name@version` by `implementation` of the VNFD.
    pub plugins: BTreeMap<String, String>,
    /// The secrets of the logins to the VIM that programs inside the VNF have, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, Secret>,
    /// The namespaces to which the role was limited that chose the package; empty: it was not limited to any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub role_namespaces: Vec<String>,
    /// Retained volumes in place of new ones, in the order of the VNFCs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reused_volumes: Vec<ReusedVolume>,
    /// Whether the VNFCs should run; `STOPPED`: none of them, also not those that come later.
    pub vnf_state: VnfOperationalState,
    /// Of a `STARTED` VNF, the VNFCs that should not run, by the `id` of their `vnfcResourceInfo`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub stopped_vnfcs: BTreeSet<String>,
}

/// A retained volume that takes the place of a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReusedVolume {
    /// Id of the retained volume.
    pub id: String,
    /// As [`resource_id`](vnfm_types::RetainedVolume::resource_id).
    pub resource_id: String,
    /// The storage of the VNFD whose volume it is.
    pub virtual_storage_desc_id: String,
}

impl Deployment {
    /// The deployment that `request` asks for. Call [`Self::set_levels`] afterwards.
    pub fn requested(vnf_pkg_id: &str, request: InstantiateVnfRequest) -> Self {
        Self {
            vnf_pkg_id: vnf_pkg_id.into(),
            flavour_id: request.flavour_id.into(),
            instantiation_level_id: request.instantiation_level_id,
            placement: Granted::default().with_links(&request.ext_managed_virtual_links),
            ext_virtual_links: request.ext_virtual_links,
            ext_managed_virtual_links: request.ext_managed_virtual_links,
            vim_connection_info: request.vim_connection_info,
            additional_params: request.additional_params,
            localization_language: request.localization_language,
            ..Self::default()
        }
    }

    /// The retained volume in place of a new one of a storage, by the index of the VNFC, from 0.
    pub fn reused_volume(&self, storage: &str, index: u32) -> Option<&ReusedVolume> {
        let all = self.reused_volumes.iter();
        let mut its = all.filter(|one| one.virtual_storage_desc_id == storage);
        its.nth(usize::try_from(index).ok()?)
    }

    /// Sets scale levels and VNFC counts to those of the instantiation level.
    ///
    /// # Errors
    ///
    /// If the flavour has no such level, or an aspect does not define its step size.
    pub fn set_levels(&mut self, flavour: &Flavour) -> Result<(), LevelError> {
        let level = self.instantiation_level_id.as_deref();
        let counted = |vdu: &String| Ok((vdu.as_str().into(), flavour.instances_of(vdu, level)?));
        self.vdu_instances = flavour
            .vdus
            .keys()
            .map(counted)
            .collect::<Result<_, LevelError>>()?;
        let levels = flavour.scale_levels(level)?;
        self.scale_levels = levels
            .into_iter()
            .map(|(name, at)| (name.into(), at))
            .collect();
        Ok(())
    }

    /// Sets scale levels and VNFC counts to those of `targetScaleLevelInfo`; does nothing if it is empty.
    ///
    /// # Errors
    ///
    /// As [`Flavour::size_of_new`].
    pub fn set_target_levels(
        &mut self,
        flavour: &Flavour,
        levels: &[ScaleInfo],
    ) -> Result<(), ScaleError> {
        if levels.is_empty() {
            return Ok(());
        }
        let levels = levels.iter();
        let levels = levels.map(|info| (info.aspect_id.clone(), info.scale_level));
        self.set_size(flavour.size_of_new(&levels.collect())?);
        Ok(())
    }

    /// Sets scale levels and VNFC counts to those of a scaling.
    pub(crate) fn set_size(&mut self, size: ScaledSize) {
        let instances = size.instances.into_iter();
        self.vdu_instances = instances.map(|(vdu, n)| (vdu.into(), n)).collect();
        let levels = size.levels.into_iter();
        self.scale_levels = levels.map(|(name, at)| (name.into(), at)).collect();
    }

    /// True if its package is another than this one.
    pub(crate) fn leaves_package(&self, vnf_pkg_id: &str) -> bool {
        let own = self.vnf_pkg_id.as_str();
        !own.is_empty() && own != vnf_pkg_id
    }

    /// Desired number of VNFCs of a VDU; 0 for an unknown VDU.
    pub fn instances_of(&self, vdu: &str) -> u32 {
        self.vdu_instances.get(vdu).copied().unwrap_or_default()
    }

    /// Whether this VNFC should run.
    pub fn state_of(&self, vnfc_id: &str) -> VnfOperationalState {
        if self.stopped_vnfcs.contains(vnfc_id) {
            VnfOperationalState::Stopped
        } else {
            self.vnf_state
        }
    }

    /// Whether any VNFC should not run.
    pub fn stops_any(&self) -> bool {
        self.vnf_state == VnfOperationalState::Stopped || !self.stopped_vnfcs.is_empty()
    }

    /// Forgets the states of VNFCs that do not exist any more. The VNF is STOPPED if it has all its VNFCs, and none of them
    /// should run; while one is missing, that one should run once it is back.
    pub(crate) fn settle_states(&mut self, vnfcs: &[VnfcResourceInfo]) {
        let exists = |id: &String| vnfcs.iter().any(|vnfc| vnfc.id == *id);
        self.stopped_vnfcs.retain(exists);
        let wanted: u32 = self.vdu_instances.values().sum();
        let is_complete = !vnfcs.is_empty() && u32::try_from(vnfcs.len()) == Ok(wanted);
        if is_complete && self.stopped_vnfcs.len() == vnfcs.len() {
            self.vnf_state = VnfOperationalState::Stopped;
            self.stopped_vnfcs.clear();
        }
    }

    /// `scaleStatus` (SOL003 5.5.2.2): the current level of each aspect.
    pub fn scale_status(&self) -> Vec<ScaleInfo> {
        let info = |(aspect, level): (&AspectId, &u32)| ScaleInfo {
            aspect_id: aspect.to_string(),
            scale_level: *level,
        };
        self.scale_levels.iter().map(info).collect()
    }
}

/// Metadata member in which `instantiatedVnfInfo` shows [`Deployment::plugins`].
pub(crate) const PLUGINS_MEMBER: &str = "mgmtDrivers";

impl std::fmt::Debug for Deployment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployment")
            .field("vnf_pkg_id", &self.vnf_pkg_id)
            .field("flavour_id", &self.flavour_id)
            .field("vdu_instances", &self.vdu_instances)
            .finish_non_exhaustive()
    }
}

/// `maxScaleLevels` (SOL003 5.5.2.2) of a flavour.
pub(crate) fn max_scale_levels(flavour: &Flavour) -> Vec<ScaleInfo> {
    let info = |(aspect, declared): (&String, &ScalingAspect)| ScaleInfo {
        aspect_id: aspect.clone(),
        scale_level: declared.max_scale_level,
    };
    flavour.scaling_aspects.iter().map(info).collect()
}

#[cfg(test)]
mod tests {
    use super::{Deployment, max_scale_levels};
    use crate::ports::{Allocation, PortError};
    use serde_json::{Value, json};
    use std::path::Path;
    use std::sync::Arc;
    use vnfm_descriptor::{Limits, Package};
    use vnfm_types::VnfOperationalState::{Started, Stopped};
    use vnfm_types::VnfcResourceInfo;

    fn requested(request: Value) -> Result<Allocation, PortError> {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
        let package = Package::open(&samples.join("vnf-levels"), &Limits::default()).unwrap();
        Allocation::requested(
            "p",
            Arc::new(package),
            serde_json::from_value(request).unwrap(),
        )
    }

    #[test]
    fn a_vnf_is_stopped_once_it_has_all_its_vnfcs_and_none_should_run() {
        for (existing, stopped, state) in [
            (&["a", "b"][..], &["a", "b"][..], Stopped),
            (&["a", "b"], &["a", "b", "gone"], Stopped),
            (&["a", "b"], &["a"], Started),
            // The one that is missing should run.
            (&["a"], &["a"], Started),
            (&[], &["a", "b"], Started),
        ] {
            let ids = |all: &[&str]| all.iter().map(|id| (*id).to_owned()).collect();
            let mut deployment = Deployment {
                vdu_instances: [("vdu".into(), 2)].into(),
                stopped_vnfcs: ids(stopped),
                ..Deployment::default()
            };
            let vnfc = |id: &&str| VnfcResourceInfo {
                id: (*id).to_owned(),
                ..VnfcResourceInfo::default()
            };
            let vnfcs: Vec<_> = existing.iter().map(vnfc).collect();
            deployment.settle_states(&vnfcs);
            assert_eq!(deployment.vnf_state, state, "{existing:?} {stopped:?}");
        }
    }

    #[test]
    fn scale_levels_and_vnfc_counts_follow_the_instantiation_level() {
        let what =
            requested(json!({"flavourId": "simple", "instantiationLevelId": "town"})).unwrap();
        let deployment = &what.deployment;
        assert_eq!(
            (
                deployment.instances_of("web"),
                deployment.instances_of("worker")
            ),
            (3, 4)
        );
        assert_eq!(deployment.instances_of("no such VDU"), 0);
        let status = json!(deployment.scale_status());
        assert_eq!(
            status,
            json!([{"aspectId": "clients", "scaleLevel": 1}, {"aspectId": "load", "scaleLevel": 1}])
        );
        let most = json!(max_scale_levels(&what.package.vnfd().flavours["simple"]));
        assert_eq!(
            most,
            json!([{"aspectId": "clients", "scaleLevel": 3}, {"aspectId": "load", "scaleLevel": 2}])
        );
    }

    #[test]
    fn a_level_that_the_flavour_lacks_is_refused_by_name() {
        let request = json!({"flavourId": "simple", "instantiationLevelId": "huge"});
        let error = requested(request).err().unwrap();
        assert!(
            error.to_string().contains("no instantiation level `huge`"),
            "{error}"
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let request = json!({"flavourId": "simple", "additionalParams": {"password": "hunter2"}});
        let debug = format!("{:?}", requested(request).unwrap().deployment);
        assert!(
            debug.contains("simple") && !debug.contains("hunter2"),
            "{debug}"
        );
    }
}
