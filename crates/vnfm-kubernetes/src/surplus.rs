//! Fewer replicas: which pods go.
//!
//! The cluster decides, but prefers pods of a low deletion cost among those that are ready. Pods that the record does not
//! name go first, since a rollback must leave those of before; then the youngest. A `StatefulSet` deletes its last ones.

use crate::apply::{find, merge};
use crate::catalog::{Target, core};
use crate::client::Session;
use crate::diagnostics::is_pod_of;
use crate::errors::FORBIDDEN;
use crate::labels;
use crate::owned::pods;
use crate::replicas::{has_replicas, replicas};
use crate::resolved::ResolvedObject;
use kube::api::DynamicObject;
use serde_json::json;
use std::collections::BTreeSet;
use vnfm_core::ports::{Convergence, PortError, VimCall};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Marks the pods to delete, and returns the workloads that lose some.
///
/// # Errors
///
/// A call failed. If we may not mark pods, the cluster's choice stands.
pub(crate) async fn mark_surplus<'a>(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    stages: &'a [Vec<ResolvedObject>],
    change: &Convergence<'_>,
) -> Result<Vec<&'a Target>, PortError> {
    let mut shrinking = Vec::new();
    for resolved in stages.iter().flatten() {
        let target = &resolved.target;
        let states_replicas = resolved.item.object.pointer("/spec/replicas").is_some();
        if !states_replicas || !has_replicas(&target.resource.kind) {
            continue;
        }
        let Some(workload) = find(session, target).await? else {
            continue;
        };
        let (now, desired) = (replicas(&workload.data), replicas(&resolved.item.object));
        if now > desired {
            let keep = usize::try_from(desired).unwrap_or(usize::MAX);
            mark(cx, session, target, (keep, change)).await?;
            shrinking.push(target);
        }
    }
    Ok(shrinking)
}

/// Marks the pods of a workload beyond `keep`.
async fn mark(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    workload: &Target,
    (keep, change): (usize, &Convergence<'_>),
) -> Result<(), PortError> {
    if workload.resource.kind == "StatefulSet" {
        return Ok(());
    }
    let recorded = change.current.iter();
    let recorded: BTreeSet<&str> = recorded
        .flat_map(|current| &current.inventory.vnfc_resource_info)
        .map(|vnfc| vnfc.compute_resource.resource_id.as_str())
        .collect();
    let mut all = pods_of(cx, session, workload).await?;
    all.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    all.sort_by_key(|pod| {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let created = pod.metadata.creation_timestamp.clone().map(|time| time.0);
        (
            recorded.contains(name.as_str()),
            std::cmp::Reverse(created),
            name,
        )
    });
    let cost = json!({"metadata": {"annotations": {DELETION_COST: "-1"}}});
    let surplus = all.len().saturating_sub(keep);
    for pod in all.into_iter().take(surplus) {
        let target = pod_target(&pod);
        let action = format!("mark {target} as surplus");
        match merge(session, &target, &action, &cost).await {
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
