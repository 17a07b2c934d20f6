//! Another number of replicas: which pods go, and the call that sets the number.
//!
//! The cluster decides which pods go, but prefers those of a low deletion cost among the pods that are ready. Marked are
//! pods that the record does not name, since a rollback must leave those of before, and then the last ones of the record,
//! which is what hooks were told. A pod that does not exist yet cannot be marked, so that those that the workload has still to
//! create come first. A `StatefulSet` deletes its last ones, whatever they cost.

use crate::apply::ApplyMode;
use crate::catalog::{Target, core};
use crate::client::Session;
use crate::diagnostics::is_pod_of;
use crate::errors::FORBIDDEN;
use crate::identifiers::segment;
use crate::labels::{self, FIELD_MANAGER};
use crate::object::{find, merge};
use crate::owned::pods;
use crate::replicas::{replicas, stated_replicas, vdu_of};
use crate::requested;
use crate::resolved::ResolvedObject;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_core::ports::{Backoff, Convergence, Expired, PortError, VimCall};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Below any cost that a vendor would choose.
const SURPLUS: &str = "-2147483647";
/// How long a workload may take to create the pods that it lacks; what it cannot create, a quota may forbid. And the interval
/// between two looks.
const CREATION_TIME: Duration = Duration::from_secs(5);
const CREATION_INTERVAL: Duration = Duration::from_millis(250);

/// Sets the replicas of the workloads whose number differs, and returns the workloads that lose pods: by this call, or by
/// an earlier one that was interrupted.
///
/// # Errors
///
/// A call failed. If we may not mark pods, the cluster's choice stands.
pub(crate) async fn scale<'a>(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (stages, how): (&'a [Vec<ResolvedObject>], ApplyMode<'_>),
    change: &Convergence<'_>,
) -> Result<Vec<&'a Target>, PortError> {
    let mut shrinking = Vec::new();
    for resolved in stages.iter().flatten() {
        let target = &resolved.target;
        let desired = stated_replicas(&resolved.item.object);
        let Some(desired) = desired.filter(|_| resolved.autoscaler.is_none()) else {
            continue;
        };
        let Some(workload) = find(session, target).await? else {
            continue;
        };
        let is_ours = labels::is_ours(&workload.metadata, cx.ownership);
        if !is_ours && !how.knows(&workload.metadata) {
            continue; // it is refused when it is applied
        }
        let now = replicas(&workload.data);
        let pods = pods_of(cx, session, target).await?;
        if now > desired || loses_vnfcs(target, change) || pods.iter().any(is_going) {
            shrinking.push(target);
        }
        if now > desired && target.resource.kind != "StatefulSet" {
            let keep = usize::try_from(desired).unwrap_or(usize::MAX);
            let pods = all_created(cx, session, (target, now), pods).await?;
            mark(cx, session, (target, pods), (keep, change)).await?;
        }
        if now != desired && resolved.has_scale {
            set_replicas(cx, session, target, desired).await?;
        }
    }
    Ok(shrinking)
}

/// Sets the number of replicas through the subresource `scale`. Without permission, the manifest sets it.
async fn set_replicas(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    target: &Target,
    desired: u64,
) -> Result<(), PortError> {
    let action = format!("scale {target} to {desired} replicas");
    let how = &PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let change = &Patch::Merge(json!({"spec": {"replicas": desired}}));
    let name = &segment(&target.name);
    let scaled = session
        .call(&action, |client| async move {
            target.api(client).patch_scale(name, how, change).await
        })
        .await;
    match scaled {
        Err(error) if error.code() == &FORBIDDEN => {
            let text = format!("{target} is scaled by its manifest: {error}");
            cx.watcher.log("info", "kubernetes", &text);
            Ok(())
        }
        scaled => scaled
            .map(drop)
            .map_err(|error| error.on(target.to_string())),
    }
}

/// Whether the record has more VNFCs of the workload's VDU than the target.
fn loses_vnfcs(workload: &Target, change: &Convergence<'_>) -> bool {
    let (Some(current), deployment) = (change.current, &change.target.deployment) else {
        return false;
    };
    let flavour = requested::flavour(change.target);
    let kind = &workload.resource.kind;
    let vdu = flavour
        .as_deref()
        .and_then(|flavour| vdu_of(flavour, kind, &workload.name));
    vdu.is_some_and(|vdu| {
        let all = current.inventory.vnfc_resource_info.iter();
        let recorded = all.filter(|vnfc| vnfc.vdu_id == vdu.name).count();
        recorded as u64 > u64::from(deployment.instances_of(&vdu.name))
    })
}

/// Whether a pod that we marked is being deleted.
fn is_going(pod: &DynamicObject) -> bool {
    pod.metadata.deletion_timestamp.is_some() && is_marked(pod)
}

fn is_marked(pod: &DynamicObject) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.get(DELETION_COST).is_some_and(|cost| cost == SURPLUS))
}

/// The workload's pods once it has created as many as it should have: someone else may have raised its number just now. Without
/// pods, there are none of the record that must stay.
async fn all_created(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (workload, replicas): (&Target, u64),
    mut pods: Vec<DynamicObject>,
) -> Result<Vec<DynamicObject>, PortError> {
    let end = cx.clock.now() + CREATION_TIME;
    let mut backoff = Backoff::new(
        cx.clock,
        cx.watcher,
        end.min(cx.deadline),
        CREATION_INTERVAL,
    );
    loop {
        let stays = |pod: &&DynamicObject| pod.metadata.deletion_timestamp.is_none();
        let created = pods.iter().filter(stays).count();
        if created == 0 || created as u64 >= replicas {
            return Ok(pods);
        }
        let reason = format!("{workload} to create its {replicas} pods, of which {created} exist");
        if let Err(Expired) = backoff.pause(&reason).await {
            return Ok(pods);
        }
        pods = pods_of(cx, session, workload).await?;
    }
}

/// Marks the pods of a workload beyond `keep`, and no others.
async fn mark(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (workload, mut pods): (&Target, Vec<DynamicObject>),
    (keep, change): (usize, &Convergence<'_>),
) -> Result<(), PortError> {
    let recorded = change.current.iter();
    let recorded: BTreeMap<&str, usize> = recorded
        .flat_map(|current| &current.inventory.vnfc_resource_info)
        .enumerate()
        .map(|(position, vnfc)| (vnfc.compute_resource.resource_id.as_str(), position))
        .collect();
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(|pod| {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let position = recorded.get(name.as_str()).copied();
        (position.is_some(), Reverse(position), name)
    });
    let surplus = pods.len().saturating_sub(keep);
    for (position, pod) in pods.iter().enumerate() {
        let goes = position < surplus;
        if goes == is_marked(pod) {
            continue;
        }
        let cost = if goes { json!(SURPLUS) } else { Value::Null };
        let change = json!({"metadata": {"annotations": {DELETION_COST: cost}}});
        let target = pod_target(pod);
        let action = format!("mark {target} as surplus");
        match merge(session, &target, &action, &change).await {
            Err(error) if error.code() == &FORBIDDEN => {
                let text =
                    format!("the cluster chooses which pods of {workload} to delete: {error}");
                cx.watcher.log("warn", "kubernetes", &text);
                return Ok(());
            }
            marked => marked?,
        }
    }
    Ok(())
}

/// The pods of a workload, those that are being deleted too.
pub(crate) async fn pods_of(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    workload: &Target,
) -> Result<Vec<DynamicObject>, PortError> {
    let namespace = workload.namespace.as_deref().unwrap_or_default();
    let mut found = pods(session, namespace, &labels::selector(cx.ownership)).await?;
    found.retain(|pod| {
        let json = serde_json::to_value(pod).unwrap_or_default();
        is_pod_of(&json, &workload.resource.kind, &workload.name)
    });
    Ok(found)
}

/// The pod as the target of a call.
pub(crate) fn pod_target(pod: &DynamicObject) -> Target {
    Target {
        resource: core("Pod", "pods"),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}
