//! Cinder volumes whose metadata name them as retained ones: those of this installation, and those that can be used.

use crate::cinder;
use crate::errors::{VOLUME_FOREIGN, VOLUME_LOST};
use crate::inventory::VOLUME;
use crate::keystone_login::Cloud;
use crate::snapshots::INSTALLATION;
use vnfm_core::ports::{Convergence, OwnedResource, PortError};

/// The member of a volume's metadata that names the retained volume.
pub(crate) const RETAINED: &str = "vnfm_volume";

/// Refuses a new instance with volumes that no longer exist, or that are others than those that were retained.
pub(crate) async fn check_reusable(
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
) -> Result<(), PortError> {
    if change.current.is_some() {
        return Ok(());
    }
    for volume in &change.target.deployment.reused_volumes {
        let id = &volume.resource_id;
        let found = cinder::volume(cloud, id).await?.ok_or_else(|| lost(id))?;
        check_named(&found, &volume.id, "use the volumes")?;
    }
    Ok(())
}

/// Refuses a volume whose metadata do not name it.
pub(crate) fn check_named(
    found: &cinder::Volume,
    volume: &String,
    action: &str,
) -> Result<(), PortError> {
    if found.metadata.get(RETAINED) == Some(volume) {
        return Ok(());
    }
    let what = format!("its metadata do not name it as `{volume}`");
    Err(PortError::new(&VOLUME_FOREIGN, action, what).on(&found.id))
}

/// The error for a volume that does not exist.
pub(crate) fn lost(id: &str) -> PortError {
    let what = format!("volume `{id}` no longer exists");
    PortError::new(&VOLUME_LOST, "find the volumes", what).on(id)
}

/// Every retained volume of this installation.
pub(crate) async fn owned(
    cloud: &Cloud<'_>,
    installation: &str,
) -> Result<Vec<OwnedResource>, PortError> {
    let all = cinder::volumes(cloud).await?.into_iter();
    let ours = all.filter_map(|mut volume| {
        let is_ours = volume.metadata.get(INSTALLATION)? == installation;
        let volume_id = volume.metadata.remove(RETAINED).filter(|_| is_ours)?;
        Some(OwnedResource {
            kind: VOLUME.into(),
            id: volume.id,
            name: volume.name.unwrap_or_default(),
            instance_id: None,
            snapshot_id: None,
            link_id: None,
            volume_id: Some(volume_id),
        })
    });
    Ok(ours.collect())
}
