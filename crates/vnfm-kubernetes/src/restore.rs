//! The return to a stored state: the claims get the data of their `VolumeSnapshot`s.
//!
//! ```text
//! stored_claims ─ the cluster still has everything
//! stop ────────── no workload has pods
//! restore ─────── no pod mounts a claim ─ claims: delete, wait, make again from the VolumeSnapshot
//! ```
//! An interrupted return begins again: whatever of it exists, each claim is deleted and made again, because pods that ran in
//! between may have written to it. A claim that the snapshot does not know stays as it is.

use crate::catalog::{Catalog, SNAPSHOT_API, Target};
use crate::claims::{self, mounted, pauses};
use crate::client::Session;
use crate::driver::namespaces;
use crate::errors::{CONFLICT, FOREIGN, SNAPSHOT_GONE, STILL_THERE};
use crate::heal::delete;
use crate::labels::{self, SNAPSHOT};
use crate::object::find;
use crate::owned::pods;
use crate::planned::planned_stages;
use crate::power::{started, stop_stages};
use crate::status::text;
use crate::stopped::is_deleted;
use crate::stored_claims::{StoredClaim, StoredClaims, create, is_ready};
use kube::api::DynamicObject;
use std::collections::BTreeSet;
use vnfm_core::ports::{
    Allocation, Expired, PlannedResource, PortError, ResourceAction, ResourcePlan, Reversion, Stop,
    VimCall,
};

/// What makes a plan replace a resource.
const CAUSE: &str = "vnfSnapshotInfoId";

/// The claims of a snapshot; refused if the cluster has lost one of its `VolumeSnapshot`s, or the instance is now in other
/// namespaces.
///
/// # Errors
///
/// `Refused`, naming what is lost.
pub(crate) async fn stored_claims(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    reversion: &Reversion<'_>,
) -> Result<StoredClaims, PortError> {
    let stored = StoredClaims::read(&reversion.stored.handle)?;
    if stored.claims.is_empty() {
        return Ok(stored);
    }
    let catalog = Catalog::new(session, std::iter::empty());
    let Some(kind) = catalog.find(SNAPSHOT_API, "VolumeSnapshot").await? else {
        let what =
            format!("`VolumeSnapshot` of `{SNAPSHOT_API}`, which the cluster does not serve");
        return Err(lost(&what));
    };
    let places = namespaces(&target_stages(cx, session, reversion).await?);
    for StoredClaim {
        claim,
        volume_snapshot,
    } in &stored.claims
    {
        if !places.contains(&claim.namespace) {
            return Err(lost(&format!(
                "{}, which is in another namespace than the instance now",
                claim.target()
            )));
        }
        let target = Target {
            resource: kind.resource.clone(),
            namespace: Some(claim.namespace.clone()),
            name: volume_snapshot.clone(),
        };
        let found = find(session, &target).await?;
        let is_whole = |found: &DynamicObject| {
            is_ready(found)
                && found.metadata.deletion_timestamp.is_none()
                && labels::is_ours(&found.metadata, cx.ownership)
                && labels::label_of(&found.metadata, SNAPSHOT).is_some_and(|id| id == reversion.id)
        };
        if !found.is_some_and(|found| is_whole(&found)) {
            return Err(lost(&target.to_string()));
        }
    }
    Ok(stored)
}

fn lost(what: &str) -> PortError {
    let text = format!("the snapshot needs {what}");
    PortError::new(&SNAPSHOT_GONE, "find what the snapshot has stored", text)
}

async fn target_stages(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    reversion: &Reversion<'_>,
) -> Result<Vec<Vec<crate::resolved::ResolvedObject>>, PortError> {
    let (target, handle) = (started(reversion.target), &reversion.current.handle);
    planned_stages(cx, session, &target, handle).await
}

/// Takes the pods from all workloads of the VNF: of the deployment before and, as an earlier attempt may have applied
/// them, of the target.
///
/// # Errors
///
/// The API server's error, or which pod has not ended at the deadline.
pub(crate) async fn stop(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    reversion: &Reversion<'_>,
) -> Result<(), PortError> {
    let flavour = |allocation: &Allocation| allocation.deployment.flavour_id.clone();
    let stages = target_stages(cx, session, reversion).await?;
    stop_stages(cx, session, &stages, Stop::Forceful).await?;
    if flavour(reversion.before) != flavour(reversion.target) {
        let (before, handle) = (started(reversion.before), &reversion.current.handle);
        let stages = planned_stages(cx, session, &before, handle).await?;
        stop_stages(cx, session, &stages, Stop::Forceful).await?;
    }
    Ok(())
}

/// Deletes each claim and makes it again with the data of its `VolumeSnapshot`.
///
/// # Errors
///
/// `Refused` if a claim of that name is not ours; which pod mounts a claim, or which claim still exists, at the deadline.
pub(crate) async fn restore(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    claims: &[StoredClaim],
) -> Result<(), PortError> {
    let mut backoff = pauses(cx);
    while let Some(reason) = mounting(session, claims).await? {
        if let Err(Expired) = backoff.pause(&reason).await {
            return Err(not_returned(reason));
        }
    }
    let mut old = BTreeSet::new();
    for one in claims {
        let found = find(session, &one.claim.target()).await?;
        old.extend(found.and_then(|claim| claim.metadata.uid));
    }
    let mut backoff = pauses(cx);
    loop {
        let mut waiting = None;
        for one in claims {
            waiting = step(cx, session, one, &old).await?.or(waiting);
        }
        let Some(reason) = waiting else {
            return Ok(());
        };
        if let Err(Expired) = backoff.pause(&reason).await {
            return Err(not_returned(reason));
        }
    }
}

fn not_returned(reason: String) -> PortError {
    PortError::new(&STILL_THERE, "return to the snapshot", reason)
}

/// What a pod must do before claims can be deleted, if one mounts them: a scheduled one, also of others.
async fn mounting(
    session: &Session<'_>,
    claims: &[StoredClaim],
) -> Result<Option<String>, PortError> {
    let places: BTreeSet<&str> = claims.iter().map(|one| &*one.claim.namespace).collect();
    for namespace in places {
        for pod in pods(session, namespace, "").await? {
            let has_ended = matches!(text(&pod.data, "/status/phase"), "Succeeded" | "Failed");
            if has_ended || text(&pod.data, "/spec/nodeName").is_empty() {
                continue;
            }
            let mounts: BTreeSet<&str> = mounted(&pod.data).collect();
            let is_mounted = |one: &&StoredClaim| {
                one.claim.namespace == namespace && mounts.contains(&*one.claim.name)
            };
            if let Some(one) = claims.iter().find(is_mounted) {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let claim = one.claim.target();
                return Ok(Some(format!("pod `{name}` to end, which mounts {claim}")));
            }
        }
    }
    Ok(None)
}

/// Takes the next step with a claim; `None` once it is made again. `old` has the UIDs of claims to be deleted.
async fn step(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    one: &StoredClaim,
    old: &BTreeSet<String>,
) -> Result<Option<String>, PortError> {
    let target = one.claim.target();
    let Some(found) = find(session, &target).await? else {
        let snapshot = &one.volume_snapshot;
        let again = one.claim.restored_from(snapshot, &cx.ownership.op_id);
        return match create(session, &target, again).await {
            // The response of an earlier attempt was lost.
            Err(error) if error.code() == &CONFLICT => Ok(Some(format!("{target} to be made"))),
            created => created.map(|()| None),
        };
    };
    if !labels::is_ours(&found.metadata, cx.ownership) {
        let owner = labels::owner_description(&found.metadata, cx.ownership);
        let text = format!("{target} exists and was not changed: {owner}");
        return Err(PortError::new(&FOREIGN, "return to the snapshot", text).on(target.to_string()));
    }
    let uid = found.metadata.uid.clone().unwrap_or_default();
    let source = text(&found.data, "/spec/dataSource/name");
    let is_deleted = found.metadata.deletion_timestamp.is_some();
    if !old.contains(&uid) && source == one.volume_snapshot && !is_deleted {
        return Ok(None);
    }
    if !is_deleted {
        delete(session, &target, &uid, None).await?;
    }
    Ok(Some(format!("{target} to be deleted")))
}

/// Marks what is replaced although its manifest stays: pods and claims.
///
/// # Errors
///
/// A claim could not be read.
pub(crate) async fn mark_restored(
    session: &Session<'_>,
    planned: &mut ResourcePlan,
    claims: &[StoredClaim],
) -> Result<(), PortError> {
    let is_replaced = |row: &&mut PlannedResource| {
        row.action == ResourceAction::Keep && (row.vdu.is_some() || is_deleted(&row.kind))
    };
    for row in planned.resources.iter_mut().filter(is_replaced) {
        row.action = ResourceAction::Replace;
        row.because.push(CAUSE.to_owned());
    }
    let kind = claims::resource().kind;
    for one in claims {
        let name = format!("{}/{}", one.claim.namespace, one.claim.name);
        let is_same = |row: &PlannedResource| row.kind == kind && row.name == name;
        planned.resources.retain(|row| !is_same(row));
        let action = match find(session, &one.claim.target()).await? {
            Some(_) => ResourceAction::Replace,
            None => ResourceAction::Create,
        };
        let row = PlannedResource::new(&*kind, name, action);
        planned.resources.push(row.because(vec![CAUSE.to_owned()]));
    }
    Ok(())
}
