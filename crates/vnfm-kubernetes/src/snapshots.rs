//! Stores what a VNF has on its claims; `restore` returns to it.
//!
//! ```text
//! create   each claim of the VNF ─ its StorageClass's provisioner ─ VolumeSnapshotClass ─► VolumeSnapshot, readyToUse
//! revert   workloads without pods ─ claims deleted, and made again from their VolumeSnapshot ─ converge to the target
//! delete   the VolumeSnapshots, until none is left ─ the namespace, if it was only kept for them
//! ```
//! A `VolumeSnapshot` carries our labels, and that of the VNF snapshot: so an interrupted call finds it, and no operation on
//! the instance deletes it. It needs its namespace: a terminated instance leaves that behind ([`crate::kept_namespace`]).
//!
//! A VNF without claims has no other state than its record, and needs no cluster with volume snapshots.

use crate::catalog::{Catalog, SNAPSHOT_API, Target};
use crate::claims::{mounted, pauses};
use crate::client::Session;
use crate::creation::Creation;
use crate::driver::{KubernetesDriver, unserializable};
use crate::errors::{FINALIZER, FORBIDDEN, STILL_THERE};
use crate::heal::delete;
use crate::kept_namespace::give_up;
use crate::kinds::Kind;
use crate::labels::{self, INSTALLATION, SNAPSHOT};
use crate::owned::{objects, pods};
use crate::restore;
use crate::stored_claims::{StoredClaim, StoredClaims};
use async_trait::async_trait;
use kube::api::DynamicObject;
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::{
    Convergence, Expired, InfraDriver as _, PlannedResource, PortError, Recorded, ResourceAction,
    ResourceChange, ResourcePlan, Reversion, SnapshotSource, Snapshots, StoredSnapshot, VimCall,
};
use vnfm_types::{ResourceHandle, StorageSnapshot, VnfcSnapshotInfo};

#[async_trait]
impl Snapshots for KubernetesDriver {
    async fn check_source(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<(), PortError> {
        let session = self.session(cx)?;
        Creation::read(cx, &session, source).await.map(drop)
    }

    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        let session = self.session(cx)?;
        let Some(creation) = Creation::read(cx, &session, source).await? else {
            let text = "the VNF has no claims: its snapshot has the record of the instance only";
            cx.watcher.log("info", "kubernetes", text);
            return stored(&StoredClaims::default(), Vec::new());
        };
        let claims = creation.complete().await?;
        let vnfcs = vnfcs(cx, &session, source, &claims).await?;
        stored(&StoredClaims { claims }, vnfcs)
    }

    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        let session = self.session(cx)?;
        let StoredClaims { claims } = restore::stored_claims(cx, &session, reversion).await?;
        if !claims.is_empty() {
            restore::stop(cx, &session, reversion).await?;
            restore::restore(cx, &session, &claims).await?;
        }
        self.converge(cx, &reversion.convergence(), &Value::Null)
            .await
    }

    async fn delete(&self, cx: &VimCall<'_>, id: &str, handle: &Value) -> Result<(), PortError> {
        let session = self.session(cx)?;
        let catalog = Catalog::new(&session, std::iter::empty());
        if let Some(kind) = catalog.find(SNAPSHOT_API, "VolumeSnapshot").await? {
            delete_all(cx, &session, (&kind, id), handle).await?;
        }
        give_up(cx, &session, id).await
    }

    async fn plan_create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let session = self.session(cx)?;
        let creation = Creation::read(cx, &session, source).await?;
        let unchanged = Convergence::update(source.current, source.what);
        let unchanged = ResourceChange::Converge(&unchanged);
        let mut planned = self.plan(cx, &unchanged).await?;
        for claim in creation.iter().flat_map(|creation| &creation.claims) {
            let name = format!(
                "{}/{}",
                claim.recipe.namespace,
                claim.volume_snapshot(source.id)
            );
            let row = PlannedResource::new("VolumeSnapshot", name, ResourceAction::Create);
            planned.resources.push(row);
        }
        Ok(planned)
    }

    async fn plan_revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let session = self.session(cx)?;
        let StoredClaims { claims } = restore::stored_claims(cx, &session, reversion).await?;
        let change = reversion.convergence();
        let mut planned = self.plan(cx, &ResourceChange::Converge(&change)).await?;
        if !claims.is_empty() {
            restore::mark_restored(&session, &mut planned, &claims).await?;
        }
        Ok(planned)
    }
}

fn stored(
    claims: &StoredClaims,
    vnfcs: Vec<VnfcSnapshotInfo>,
) -> Result<StoredSnapshot, PortError> {
    let handle = serde_json::to_value(claims).map_err(|error| unserializable(&error))?;
    Ok(StoredSnapshot { handle, vnfcs })
}

/// Each VNFC that mounts a stored claim, with what is stored of it.
async fn vnfcs(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    source: &SnapshotSource<'_>,
    claims: &[StoredClaim],
) -> Result<Vec<VnfcSnapshotInfo>, PortError> {
    let places: BTreeSet<&str> = claims.iter().map(|one| &*one.claim.namespace).collect();
    let mut found = Vec::new();
    for namespace in places {
        for pod in pods(session, namespace, &labels::selector(cx.ownership)).await? {
            let mounted: BTreeSet<&str> = mounted(&pod.data).collect();
            let own = claims.iter().filter(|one| {
                one.claim.namespace == namespace && mounted.contains(&*one.claim.name)
            });
            let own: Vec<_> = own.map(|one| storage(cx, one)).collect();
            let vnfcs = &source.current.inventory.vnfc_resource_info;
            let name = pod.metadata.name.as_deref();
            let is_pod = |vnfc: &&vnfm_types::VnfcResourceInfo| {
                Some(&*vnfc.compute_resource.resource_id) == name
            };
            let Some(vnfc) = vnfcs.iter().find(is_pod).filter(|_| !own.is_empty()) else {
                continue;
            };
            found.push(VnfcSnapshotInfo {
                id: vnfc.id.clone(),
                vnfc_instance_id: vnfc.id.clone(),
                vnfc_resource_info_id: Some(vnfc.id.clone()),
                storage_snapshot_resources: own,
                ..VnfcSnapshotInfo::default()
            });
        }
    }
    Ok(found)
}

fn storage(cx: &VimCall<'_>, stored: &StoredClaim) -> StorageSnapshot {
    StorageSnapshot {
        storage_resource_id: stored.claim.name.clone(),
        storage_snapshot_resource: Some(ResourceHandle {
            vim_connection_id: Some(cx.vim.connection_id().to_owned()),
            resource_id: stored.volume_snapshot.clone(),
            vim_level_resource_type: Some("VolumeSnapshot".to_owned()),
            ..ResourceHandle::default()
        }),
    }
}

/// Deletes the `VolumeSnapshot`s of a VNF snapshot, and waits until they are deleted.
async fn delete_all(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (kind, id): (&Kind, &str),
    handle: &Value,
) -> Result<(), PortError> {
    let mut backoff = pauses(cx);
    loop {
        let left = of_snapshot(cx, session, (kind, id), handle).await?;
        for one in left
            .iter()
            .filter(|one| one.metadata.deletion_timestamp.is_none())
        {
            let uid = one.metadata.uid.as_deref().unwrap_or_default();
            delete(session, &target_of(kind, one), uid, None).await?;
        }
        let Some(first) = left.first() else {
            return Ok(());
        };
        let target = target_of(kind, first);
        let finalizers = first.metadata.finalizers.clone().unwrap_or_default();
        let held = match finalizers.as_slice() {
            [] => String::new(),
            all => format!(": finalizer `{}` holds it", all.join("`, `")),
        };
        let reason = format!("{target} to be deleted{held}");
        if let Err(Expired) = backoff.pause(&reason).await {
            let code = if held.is_empty() {
                &STILL_THERE
            } else {
                &FINALIZER
            };
            let text = format!("it still exists at the deadline{held}");
            return Err(
                PortError::new(code, format!("delete {target}"), text).on(target.to_string())
            );
        }
    }
}

fn target_of(kind: &Kind, object: &DynamicObject) -> Target {
    Target {
        resource: kind.resource.clone(),
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}

/// The `VolumeSnapshot`s of a VNF snapshot. If we may list only those of some namespaces: in those of the handle, or in that
/// of the VIM and the default one of the instance.
async fn of_snapshot(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (kind, id): (&Kind, &str),
    handle: &Value,
) -> Result<Vec<DynamicObject>, PortError> {
    let installation = &cx.ownership.installation_id;
    let selector = format!("{INSTALLATION}={installation},{SNAPSHOT}={id}");
    match objects(session, &kind.resource, None, &selector).await {
        Err(error) if error.code() == &FORBIDDEN => {}
        listed => return listed,
    }
    let stored = StoredClaims::read(handle)?.claims;
    let mut places: BTreeSet<String> = stored.into_iter().map(|one| one.claim.namespace).collect();
    if handle.is_null() {
        let own = format!("vnf-{}", cx.ownership.instance_id);
        places.insert(session.namespace().await?.unwrap_or(own));
    }
    let mut found = Vec::new();
    for namespace in places {
        found.extend(objects(session, &kind.resource, Some(&namespace), &selector).await?);
    }
    Ok(found)
}
