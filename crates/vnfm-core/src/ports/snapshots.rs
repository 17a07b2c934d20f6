//! Snapshots of VNFCs and volumes: what only some VIMs can do. A driver that can offers it by
//! [`InfraDriver::snapshots`](super::InfraDriver::snapshots).
//!
//! | rule | mandatory |
//! |---|---|
//! | `check_source` refuses by name what cannot be stored, and changes nothing | yes |
//! | `create` is idempotent: it adopts what an interrupted call for the same snapshot created | yes |
//! | `create` changes nothing about the instance | yes |
//! | resources are tagged with installation, instance and snapshot, and `owned` lists them with the snapshot | yes |
//! | `revert` is idempotent; afterwards VNFCs and volumes have what they had, and the target's number and states | yes |
//! | a VNFC that exists before and after keeps its id and addresses | unless the VIM replaces it to give it its volumes |
//! | `delete` needs no handle, succeeds if nothing exists, and touches nothing else | yes |
//! | snapshots outlive a `release` of the instance; `owned` lists what stays for them with the snapshot | unless the VIM keeps volumes as long as they have snapshots: then `release` is `Refused`, and deletes nothing |

use super::{Allocation, Convergence, Inventory, PortError, Recorded, ResourcePlan, VimCall};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vnfm_types::{VnfcResourceInfo, VnfcSnapshotInfo};

/// Stores and restores the state of VNFCs and volumes.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Checks whether `create` can store everything that the instance has.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the VNFC or volume that cannot be stored.
    async fn check_source(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<(), PortError>;

    /// Stores every VNFC and volume, and waits until all of it is complete.
    ///
    /// # Errors
    ///
    /// With the VIM's message; calling again continues, `delete` removes what was created.
    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError>;

    /// Gives the instance the target's size, and its VNFCs and volumes what the snapshot has of them; waits until all of
    /// them work.
    ///
    /// # Errors
    ///
    /// With the VIM's message, or what the snapshot lacks; calling again continues.
    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError>;

    /// Deletes everything that is tagged with this snapshot, and waits until it is deleted. `handle` is null if `create` was
    /// interrupted.
    ///
    /// # Errors
    ///
    /// With the VIM's message; calling again continues.
    async fn delete(&self, cx: &VimCall<'_>, id: &str, handle: &Value) -> Result<(), PortError>;

    /// What `create` would create, and that it changes nothing else.
    ///
    /// # Errors
    ///
    /// As `check_source`.
    async fn plan_create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError>;

    /// What `revert` would do to each resource.
    ///
    /// # Errors
    ///
    /// `Refused` if the VIM no longer has what the snapshot refers to.
    async fn plan_revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError>;
}

/// The instance whose VNFCs and volumes a snapshot stores.
#[derive(Clone, Copy)]
pub struct SnapshotSource<'a> {
    /// `id` of the snapshot; resources are tagged with it.
    pub id: &'a str,
    /// The resources of the instance as recorded.
    pub current: &'a Recorded,
    /// Its package and deployment.
    pub what: &'a Allocation,
}

/// What a driver reports of a snapshot that it has stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoredSnapshot {
    /// The driver's own data, for `revert` and `delete`. No secrets.
    pub handle: Value,
    /// What was stored of each VNFC, without times.
    pub vnfcs: Vec<VnfcSnapshotInfo>,
}

/// A return to a stored state.
#[derive(Clone, Copy)]
pub struct Reversion<'a> {
    /// `id` of the snapshot.
    pub id: &'a str,
    /// The instance's resources at that time.
    pub then: &'a Inventory,
    /// What was stored of them.
    pub stored: &'a StoredSnapshot,
    /// The record from before this operation, however often it was interrupted.
    pub current: &'a Recorded,
    /// The deployment at that time.
    pub target: &'a Allocation,
    /// The deployment from before this operation.
    pub before: &'a Allocation,
}

impl<'a> Reversion<'a> {
    /// The change from the deployment before to that of the snapshot, without what is stored.
    pub fn convergence(&self) -> Convergence<'a> {
        Convergence::update(self.current, self.target).coming_from(self.before)
    }
}

/// Each VNFC that exists `now`, with the one that it was `then`: itself, or the next one of its VDU that does not exist any
/// more. A VNFC without counterpart is left out.
pub fn counterparts<'a>(
    then: &'a [VnfcResourceInfo],
    now: &'a [VnfcResourceInfo],
) -> Vec<(&'a VnfcResourceInfo, &'a VnfcResourceInfo)> {
    let exists = |id: &String| now.iter().any(|vnfc| vnfc.id == *id);
    let mut lost: Vec<_> = then.iter().filter(|vnfc| !exists(&vnfc.id)).collect();
    let pair = |vnfc: &'a VnfcResourceInfo| {
        let same = then.iter().find(|one| one.id == vnfc.id);
        let counterpart = same.or_else(|| {
            let at = lost.iter().position(|one| one.vdu_id == vnfc.vdu_id)?;
            Some(lost.remove(at))
        });
        counterpart.map(|then| (vnfc, then))
    };
    now.iter().filter_map(pair).collect()
}
