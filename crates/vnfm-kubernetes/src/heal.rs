//! Deletes the pods of a change: those to replace by their UID, so that a successor of the same name is never deleted. With
//! storage, claims that only those pods mount are deleted too.
//!
//! A pod whose node does not respond never terminates by itself:
//!
//! | the node | an interchangeable pod | a pod with an identity (of a `StatefulSet`, or bare) |
//! |---|---|---|
//! | was deleted, or is tainted `out-of-service` | is force-deleted | is force-deleted |
//! | is not Ready | is force-deleted after its grace period | is kept, as it may still run: see [`HANGING`] |
//! | is Ready, or we may not read it | is waited for | is waited for |

use crate::catalog::{Target, core};
use crate::claims::{self, mounted};
use crate::client::Session;
use crate::cluster_api::{MACHINE, has_machines, machine_resource, workload};
use crate::diagnostics::{controller, is_pod_of};
use crate::errors::{self, HANGING, NOT_READY, STILL_THERE};
use crate::identifiers::segment;
use crate::labels;
use crate::object;
use crate::owned::pods;
use crate::replicas::desired_pods;
use crate::resolved::ResolvedObject;
use crate::rollout::{self, check_stage, with_diagnostics};
use crate::status::{condition_is, text};
use crate::surplus::{pod_target, pods_of};
use crate::virtual_machines::GROUP;
use crate::watch::{Feed, ObjectCache, Verdict, WaitEnd, uid, watch_until};
use jiff::SignedDuration;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::{Convergence, PortError, Recorded, Replacement, VimCall};

/// How long after a pod's grace period its node is checked.
const GRACE_MARGIN: SignedDuration = SignedDuration::from_secs(2);
/// Seconds of grace that the API server gives a pod that states none.
const DEFAULT_GRACE: i64 = 30;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A pod that is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DoomedPod {
    pub(crate) target: Target,
    pub(crate) uid: String,
}

impl DoomedPod {
    /// This pod, not a successor of the same name.
    pub(crate) fn new(pod: &DynamicObject) -> Self {
        Self {
            target: pod_target(pod),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
        }
    }
}

/// Deletes the pods to replace, and waits until they are deleted.
///
/// # Errors
///
/// The API server's error, or what was incomplete at the deadline; the same call resumes.
pub(crate) async fn delete_replaced(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, stages): (&str, &[Vec<ResolvedObject>]),
    change: &Convergence<'_>,
) -> Result<Vec<DoomedPod>, PortError> {
    let mut doomed = requested_pods(change.current, &change.replace, namespace);
    doomed.extend(failed_bare_pods(session, stages).await?);
    let grace = delete_pods(cx, session, &doomed, change.replace.with_storage).await?;
    wait_until_deleted(cx, session, &doomed, grace).await?;
    Ok(doomed)
}

/// Waits until the pods that `workloads` lose are deleted.
///
/// # Errors
///
/// Those of [`delete_replaced`], which waits in the same way.
pub(crate) async fn wait_for_surplus(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    workloads: &[&Target],
) -> Result<(), PortError> {
    let (mut doomed, mut grace) = (Vec::new(), DEFAULT_GRACE);
    for workload in workloads {
        for pod in pods_of(cx, session, workload).await? {
            if pod.metadata.deletion_timestamp.is_some() {
                let stated = pod.metadata.deletion_grace_period_seconds;
                grace = grace.max(stated.unwrap_or_default());
                doomed.push(DoomedPod::new(&pod));
            }
        }
    }
    wait_until_deleted(cx, session, &doomed, SignedDuration::from_secs(grace)).await
}

/// The pods of the VNFCs that the request names.
fn requested_pods(
    current: Option<&Recorded>,
    replace: &Replacement,
    namespace: &str,
) -> Vec<DoomedPod> {
    let all = current
        .into_iter()
        .flat_map(|recorded| &recorded.inventory.vnfc_resource_info);
    let replaced = all.filter(|vnfc| replace.vnfcs.contains(&vnfc.id));
    replaced
        .map(|vnfc| {
            let stated = |name: &str| vnfc.metadata.get(name).and_then(Value::as_str);
            let resource = vnfc.compute_resource.vim_level_resource_type.as_deref();
            DoomedPod {
                target: Target {
                    resource: match resource {
                        Some(MACHINE) => machine_resource(),
                        _ => core("Pod", "pods"),
                    },
                    namespace: Some(stated("namespace").unwrap_or(namespace).to_owned()),
                    name: vnfc.compute_resource.resource_id.clone(),
                },
                uid: stated("uid").unwrap_or(&vnfc.id).to_owned(),
            }
        })
        .collect()
}

/// Bare pods of the manifests that failed: only we recreate them.
async fn failed_bare_pods(
    session: &Session<'_>,
    stages: &[Vec<ResolvedObject>],
) -> Result<Vec<DoomedPod>, PortError> {
    let mut found = Vec::new();
    for resolved in stages.iter().flatten() {
        let target = &resolved.target;
        if target.resource != core("Pod", "pods") {
            continue;
        }
        if let Some(pod) = object::find(session, target).await?
            && text(&pod.data, "/status/phase") == "Failed"
        {
            let uid = pod.metadata.uid.unwrap_or_default();
            found.push(DoomedPod {
                target: target.clone(),
                uid,
            });
        }
    }
    Ok(found)
}

/// Deletes those of the pods that still exist; returns the longest grace period among them.
async fn delete_pods(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    doomed: &[DoomedPod],
    with_storage: bool,
) -> Result<SignedDuration, PortError> {
    let mut longest = 0;
    for one in doomed {
        let Some(pod) = object::find(session, &one.target).await? else {
            continue;
        };
        if pod.metadata.uid.as_deref() != Some(&one.uid) {
            continue;
        }
        if with_storage {
            delete_claims(cx, session, doomed, &pod).await?;
        }
        let stated = pod
            .data
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64);
        longest = longest.max(stated.unwrap_or(DEFAULT_GRACE));
        cx.watcher
            .log("info", "kubernetes", &format!("replacing {}", one.target));
        delete(session, &one.target, &one.uid, None).await?;
    }
    Ok(SignedDuration::from_secs(longest))
}

/// Deletes an object by its UID. One that is missing or has a successor of the same name is skipped.
pub(crate) async fn delete(
    session: &Session<'_>,
    target: &Target,
    uid: &str,
    grace: Option<u32>,
) -> Result<(), PortError> {
    let params = DeleteParams {
        grace_period_seconds: grace,
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        }),
        ..DeleteParams::background()
    };
    let (params, name) = (&params, &segment(&target.name));
    let deleted = session
        .find(&format!("delete {target}"), |client| async move {
            target.api(client).delete(name, params).await
        })
        .await;
    match deleted {
        Err(error) if error.code() == &errors::CONFLICT => Ok(()),
        deleted => deleted
            .map(drop)
            .map_err(|error| error.on(target.to_string())),
    }
}

/// Deletes our claims that the pod mounts, unless a pod that is kept mounts them too.
async fn delete_claims(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    doomed: &[DoomedPod],
    pod: &DynamicObject,
) -> Result<(), PortError> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let all = pods(session, &namespace, "").await?;
    let stays = |other: &&DynamicObject| {
        doomed
            .iter()
            .all(|one| other.metadata.uid.as_deref() != Some(&one.uid))
    };
    for claim in mounted(&pod.data) {
        let target = claims::target(&namespace, claim);
        let mut others = all.iter().filter(stays);
        if let Some(other) = others.find(|other| mounted(&other.data).any(|one| one == claim)) {
            let other = other.metadata.name.as_deref().unwrap_or_default();
            let text = format!("{target} is kept: pod `{other}` also mounts it");
            cx.watcher.log("info", "kubernetes", &text);
            continue;
        }
        let Some(metadata) = object::find_metadata(session, &target).await? else {
            continue;
        };
        if labels::is_ours(&metadata, cx.ownership) {
            cx.watcher
                .log("info", "kubernetes", &format!("replacing {target}"));
            delete(
                session,
                &target,
                metadata.uid.as_deref().unwrap_or_default(),
                None,
            )
            .await?;
        }
    }
    Ok(())
}

/// Waits until the pods are deleted; after their grace period, handles those on dead nodes.
pub(crate) async fn wait_until_deleted(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    doomed: &[DoomedPod],
    grace: SignedDuration,
) -> Result<(), PortError> {
    if doomed.is_empty() {
        return Ok(());
    }
    let mut feeds: Vec<Feed> = Vec::new();
    for one in doomed {
        let selector = labels::selector(cx.ownership);
        let target = &one.target;
        let feed = Feed::labelled(&target.resource, target.namespace.as_deref(), &selector);
        if !feeds.contains(&feed) {
            feeds.push(feed);
        }
    }
    let first_deadline = (cx.clock.now() + grace + GRACE_MARGIN).min(cx.deadline);
    let first = VimCall {
        deadline: first_deadline,
        ..*cx
    };
    let WaitEnd::Expired { cache, reason } =
        watch_until(&first, session, &feeds, |s| check_deleted(s, doomed)).await?
    else {
        return Ok(());
    };
    if cx.clock.now() >= cx.deadline {
        return Err(still_there(&cache, doomed, reason));
    }
    for (one, pod) in remaining(&cache, doomed) {
        force_delete_if_node_is_dead(cx, session, one, pod).await?;
    }
    match watch_until(cx, session, &feeds, |cache| check_deleted(cache, doomed)).await? {
        WaitEnd::Done(()) => Ok(()),
        WaitEnd::Expired { cache, reason } => Err(still_there(&cache, doomed, reason)),
    }
}

fn still_there(cache: &ObjectCache, doomed: &[DoomedPod], reason: String) -> PortError {
    let object = remaining(cache, doomed)
        .next()
        .map(|(one, _)| one.target.to_string());
    let object = object.unwrap_or_default();
    PortError::new(&STILL_THERE, format!("delete {object}"), reason).on(object)
}

fn remaining<'a>(
    cache: &'a ObjectCache,
    doomed: &'a [DoomedPod],
) -> impl Iterator<Item = (&'a DoomedPod, &'a Value)> {
    doomed.iter().filter_map(|one| {
        let target = &one.target;
        let pod = cache.get(&target.resource, target.namespace.as_deref(), &target.name)?;
        (uid(pod) == one.uid).then_some((one, pod))
    })
}

fn check_deleted(cache: &ObjectCache, doomed: &[DoomedPod]) -> Verdict<()> {
    let mut left = remaining(cache, doomed);
    let Some((one, pod)) = left.next() else {
        return Verdict::Done(());
    };
    let node = text(pod, "/spec/nodeName");
    let place = match node {
        "" => String::new(),
        node => format!(" from node `{node}`"),
    };
    let more = left.count();
    let more = if more == 0 {
        String::new()
    } else {
        format!("; and {more} more")
    };
    Verdict::NotYet(format!("{} to be deleted{place}{more}", one.target))
}

/// Handles a pod that outlives its grace period, by the table at the top.
async fn force_delete_if_node_is_dead(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    one: &DoomedPod,
    pod: &Value,
) -> Result<(), PortError> {
    if one.target.resource.kind == MACHINE {
        return Ok(()); // Cluster API drains its node and deletes it
    }
    let node = text(pod, "/spec/nodeName");
    let target = Target {
        resource: core("Node", "nodes"),
        namespace: None,
        name: node.to_owned(),
    };
    let found = match object::find(session, &target).await {
        Err(error) if error.code() == &errors::FORBIDDEN => return Ok(()),
        found => found?,
    };
    let state = match &found {
        None => "was deleted",
        Some(node) if is_out_of_service(&node.data) => "is out of service",
        Some(node) if condition_is(&node.data, "Ready", "True") => return Ok(()),
        Some(_) if has_identity(pod) => {
            let text = format!("node `{node}` is not Ready, and the pod may still run there");
            return Err(PortError::new(&HANGING, format!("replace {}", one.target), text)
                .on(one.target.to_string())
                .hint(format!("delete node `{node}` if it is off, or `kubectl taint node {node} {OUT_OF_SERVICE}=nodeshutdown:NoExecute`; then retry")));
        }
        Some(_) => "is not Ready",
    };
    let text = format!("force-deleting {}: node `{node}` {state}", one.target);
    cx.watcher.log("warn", "kubernetes", &text);
    delete(session, &one.target, &one.uid, Some(0)).await
}

fn is_out_of_service(node: &Value) -> bool {
    let taints = node
        .pointer("/spec/taints")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    taints
        .into_iter()
        .any(|taint| text(taint, "/key") == OUT_OF_SERVICE)
        && !condition_is(node, "Ready", "True")
}

/// Whether the pod is not interchangeable, so that two of it must never run at once.
fn has_identity(pod: &Value) -> bool {
    !matches!(
        controller(pod),
        Some((
            "ReplicaSet" | "DaemonSet" | "Job" | "ReplicationController",
            _
        ))
    )
}

/// Waits until every workload has its pods; its own status may be outdated. That of a machine counts only if it was read
/// after the machine's pod was ready: until then it may be that of the machine before.
pub(crate) async fn wait_until_complete(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    stages: &[Vec<ResolvedObject>],
    doomed: &[DoomedPod],
) -> Result<(), PortError> {
    let watched: Vec<&ResolvedObject> = stages
        .iter()
        .flatten()
        .filter(|one| rollout::makes_pods(&one.target) || has_machines(&one.target.resource))
        .collect();
    if watched.is_empty() {
        return Ok(());
    }
    let feeds = rollout::feeds(&watched, cx.ownership);
    let none = BTreeSet::new();
    let check = |cache: &ObjectCache| match (
        check_stage(cache, &watched, &none),
        incomplete_workload(cache, &watched, doomed),
    ) {
        (Verdict::Done(()), Some((target, reason))) => {
            Verdict::NotYet(format!("{target}: {reason}"))
        }
        (verdict, _) => verdict,
    };
    let mut kinds = watched.iter().map(|one| &one.target.resource);
    let rounds = 1 + usize::from(kinds.any(|kind| kind.group == GROUP));
    for _ in 0..rounds {
        if let WaitEnd::Expired { cache, reason } = watch_until(cx, session, &feeds, check).await? {
            let (object, reason) = match incomplete_workload(&cache, &watched, doomed) {
                Some((target, reason)) => {
                    (target.to_string(), with_diagnostics(&cache, target, reason))
                }
                None => ("the VNF".to_owned(), reason),
            };
            let text = format!("at the deadline: {reason}");
            return Err(PortError::new(&NOT_READY, format!("heal {object}"), text).on(object));
        }
    }
    Ok(())
}

/// The first workload with fewer Ready pods or machines than desired.
fn incomplete_workload<'a>(
    cache: &ObjectCache,
    watched: &[&'a ResolvedObject],
    doomed: &[DoomedPod],
) -> Option<(&'a Target, String)> {
    watched.iter().find_map(|resolved| {
        let target = &resolved.target;
        let namespace = target.namespace.as_deref();
        let object = cache.get(&target.resource, namespace, &target.name)?;
        let desired = desired_pods(object)?;
        let (kind, name) = (target.resource.kind.as_str(), target.name.as_str());
        let (members, word) = if has_machines(&target.resource) {
            (machine_resource(), "machines")
        } else {
            (core("Pod", "pods"), "pods")
        };
        let is_member =
            |pod: &Value| workload(pod) == Some((kind, name)) || is_pod_of(pod, kind, name);
        let works = |pod: &&Value| {
            text(pod, "/metadata/namespace") == namespace.unwrap_or_default()
                && is_member(pod)
                && pod.pointer("/metadata/deletionTimestamp").is_none()
                && condition_is(pod, "Ready", "True")
                && doomed.iter().all(|one| one.uid != uid(pod))
        };
        let there = cache.objects(&members).filter(works).count() as u64;
        (there < desired).then(|| (target, format!("{there} of {desired} {word} are ready")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vnfm_core::ports::Inventory;
    use vnfm_types::{ResourceHandle, VnfcResourceInfo};

    #[test]
    fn requested_pods_are_read_from_the_record() {
        let vnfc = |id: &str, name: &str, metadata: Value| VnfcResourceInfo {
            id: id.to_owned(),
            compute_resource: ResourceHandle {
                resource_id: name.to_owned(),
                ..ResourceHandle::default()
            },
            metadata: metadata.as_object().cloned().unwrap_or_default(),
            ..VnfcResourceInfo::default()
        };
        let vnfc_resource_info = vec![
            vnfc("u-1", "web-1", json!({"namespace": "b", "uid": "u-1"})),
            vnfc("u-2", "web-2", json!({})),
            vnfc("u-3", "web-3", json!({})),
        ];
        let current = Recorded {
            inventory: Inventory {
                vnfc_resource_info,
                ..Inventory::default()
            },
            ..Recorded::default()
        };
        let replace = Replacement {
            vnfcs: vec!["u-1".to_owned(), "u-3".to_owned()],
            with_storage: false,
        };
        let found: Vec<(String, String, String)> = requested_pods(Some(&current), &replace, "a")
            .into_iter()
            .map(|one| (one.target.namespace.unwrap(), one.target.name, one.uid))
            .collect();
        let own = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(found, [own("b", "web-1", "u-1"), own("a", "web-3", "u-3")]);
    }

    #[test]
    fn interchangeable_pods_and_nodes_out_of_service_are_recognised() {
        let owned_by = |kind: &str| json!({"metadata": {"ownerReferences": [{"kind": kind, "name": "a", "controller": true}]}});
        assert!(!has_identity(&owned_by("ReplicaSet")) && !has_identity(&owned_by("DaemonSet")));
        assert!(has_identity(&owned_by("StatefulSet")) && has_identity(&owned_by("Wonder")));
        assert!(has_identity(&json!({"metadata": {}})));
        let node = |ready: &str, taint: &str| json!({"spec": {"taints": [{"key": taint}]}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        assert!(is_out_of_service(&node("Unknown", OUT_OF_SERVICE)));
        assert!(
            !is_out_of_service(&node("True", OUT_OF_SERVICE)),
            "it still works"
        );
        assert!(!is_out_of_service(&node(
            "Unknown",
            "node.kubernetes.io/unreachable"
        )));
    }
}
