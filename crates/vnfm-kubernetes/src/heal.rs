//! Healing: the pods meant go and come again, and what of the manifests is missing or was edited comes back.
//!
//! ```text
//! end    each pod meant, by its UID; one that is gone, or has a successor under its name, is left alone
//! gone   until none of them is there
//! make   every manifest in order, by force where it is about our fields; each stage ready before the next
//! whole  until every workload has as many Ready pods as it wants, and none of those meant
//! ```
//! Twice is once: the UIDs are those of the record from before the operation, so that a successor is never meant.
//! With storage the claims that only those pods mount go as well, and are made again.
//!
//! A pod whose node does not answer never ends by itself:
//!
//! | the node | a pod that any other stands in for | a pod with an identity (of a `StatefulSet`, or bare) |
//! |---|---|---|
//! | was deleted, or is tainted `out-of-service` | is taken out by force | is taken out by force |
//! | is not Ready | is taken out by force when its grace is over | stays, for it may still run: [`HANGING`] says what to do |
//! | is Ready, or may not be looked at | is waited for | is waited for |

use crate::apply::{self, How, Placed, namespace_state};
use crate::catalog::{Target, core};
use crate::client::Session;
use crate::delete::Handle;
use crate::errors::{self, HANGING, NOT_READY, STILL_THERE, TERMINATING};
use crate::labels;
use crate::names::segment;
use crate::ready::{condition_is, text};
use crate::rollout::{self, judge, with_trouble};
use crate::trouble::{belongs, controller};
use crate::watch::{End, Feed, Scene, Verdict, uid, until};
use jiff::SignedDuration;
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_core::ports::{PortError, Repair, VimCall, Waited, wait};

/// What a pod gets beyond its grace before its node is looked at.
const MARGIN: SignedDuration = SignedDuration::from_secs(2);
/// What the API server gives a pod that states nothing.
const GRACE: i64 = 30;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A pod that is to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meant {
    target: Target,
    uid: String,
}

/// Heals, and returns the UIDs of the manifests' objects, in order.
///
/// # Errors
///
/// With the API server's words, or what was not whole at the deadline; the same call again goes on.
pub(crate) async fn heal(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, stages): (&str, &[Vec<Placed>]),
    (handle, repair): (&Handle, &Repair),
) -> Result<Vec<Vec<Option<String>>>, PortError> {
    free_namespace(cx, session, namespace).await?;
    let mut meant = named(repair, namespace);
    meant.extend(failed(session, stages).await?);
    let grace = end(cx, session, &meant, repair.with_storage).await?;
    wait_gone(cx, session, &meant, grace).await?;
    let known: BTreeSet<String> = handle
        .objects
        .iter()
        .filter_map(|made| made.uid.clone())
        .collect();
    let how = How {
        heal: true,
        known: Some(&known),
    };
    let uids = apply::make(cx, session, namespace, stages, how).await?;
    wait_whole(cx, session, stages, &meant).await?;
    Ok(uids)
}

/// Waits until a namespace that somebody deleted is gone.
async fn free_namespace(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
) -> Result<(), PortError> {
    let looked = || async {
        match namespace_state(session, cx.ownership, namespace).await {
            Err(error) if error.code() == &TERMINATING => Ok(Waited::NotYet(format!(
                "namespace `{namespace}` to go, which is made anew then"
            ))),
            state => state.map(|_| Waited::Done(())),
        }
    };
    let seen = |reason: &str| cx.watcher.waiting(reason);
    let free = wait(
        cx.clock,
        cx.deadline,
        Duration::from_millis(200),
        seen,
        looked,
    )
    .await?;
    free.ok_or_else(|| {
        let target = Target::of_namespace(namespace);
        PortError::new(
            &TERMINATING,
            format!("use {target}"),
            "it is still being deleted",
        )
        .on(target.to_string())
    })
}

/// The pods that the request is about.
fn named(repair: &Repair, namespace: &str) -> Vec<Meant> {
    let all = repair.inventory.vnfc_resource_info.iter();
    let wanted = all.filter(|vnfc| repair.vnfcs.contains(&vnfc.id));
    wanted
        .map(|vnfc| {
            let stated = |name: &str| vnfc.metadata.get(name).and_then(Value::as_str);
            Meant {
                target: Target {
                    resource: core("Pod", "pods"),
                    namespace: Some(stated("namespace").unwrap_or(namespace).to_owned()),
                    name: vnfc.compute_resource.resource_id.clone(),
                },
                uid: stated("uid").unwrap_or(&vnfc.id).to_owned(),
            }
        })
        .collect()
}

/// Bare pods of the manifests that failed: nobody but us makes them again.
async fn failed(session: &Session<'_>, stages: &[Vec<Placed>]) -> Result<Vec<Meant>, PortError> {
    let mut found = Vec::new();
    for placed in stages.iter().flatten() {
        let target = &placed.target;
        if target.resource != core("Pod", "pods") {
            continue;
        }
        if let Some(pod) = get(session, target).await?
            && text(&pod.data, "/status/phase") == "Failed"
        {
            let uid = pod.metadata.uid.unwrap_or_default();
            found.push(Meant {
                target: target.clone(),
                uid,
            });
        }
    }
    Ok(found)
}

async fn get(session: &Session<'_>, target: &Target) -> Result<Option<DynamicObject>, PortError> {
    if !target.can_exist() {
        return Ok(None);
    }
    let (doing, name) = (format!("look at {target}"), &segment(&target.name));
    let found = session
        .find(&doing, |client| async move {
            target.api(client).get(name).await
        })
        .await;
    found.map_err(|error| error.on(target.to_string()))
}

/// Deletes the pods that are meant and still there; the longest grace that one of them gets.
async fn end(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    meant: &[Meant],
    with_storage: bool,
) -> Result<SignedDuration, PortError> {
    let mut longest = 0;
    for one in meant {
        let Some(pod) = get(session, &one.target).await? else {
            continue;
        };
        if pod.metadata.uid.as_deref() != Some(&one.uid) {
            continue;
        }
        if with_storage {
            end_claims(cx, session, meant, &pod).await?;
        }
        let stated = pod
            .data
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64);
        longest = longest.max(stated.unwrap_or(GRACE));
        cx.watcher
            .log("info", "kubernetes", &format!("{} is replaced", one.target));
        delete(session, &one.target, &one.uid, None).await?;
    }
    Ok(SignedDuration::from_secs(longest))
}

/// Deletes an object by its UID. One that is gone, or has a successor under its name, is left alone.
async fn delete(
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

/// Deletes the claims of ours that a pod mounts and that no pod mounts which stays.
async fn end_claims(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    meant: &[Meant],
    pod: &DynamicObject,
) -> Result<(), PortError> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let (resource, listed) = (&core("Pod", "pods"), &ListParams::default());
    let all = session
        .call(
            &format!("list the pods in namespace `{namespace}`"),
            |client| {
                let api = crate::catalog::api::<DynamicObject>(client, resource, Some(&namespace));
                async move { api.list(listed).await }
            },
        )
        .await?;
    let stays = |other: &&DynamicObject| {
        meant
            .iter()
            .all(|one| other.metadata.uid.as_deref() != Some(&one.uid))
    };
    for claim in claims(&pod.data) {
        let target = Target {
            resource: core("PersistentVolumeClaim", "persistentvolumeclaims"),
            namespace: Some(namespace.clone()),
            name: claim.to_owned(),
        };
        let mut others = all.items.iter().filter(stays);
        if let Some(other) = others.find(|other| claims(&other.data).any(|one| one == claim)) {
            let other = other.metadata.name.as_deref().unwrap_or_default();
            let text = format!("{target} stays: pod `{other}` mounts it too");
            cx.watcher.log("info", "kubernetes", &text);
            continue;
        }
        let Some(metadata) = apply::look(session, &target).await? else {
            continue;
        };
        if labels::is_ours(&metadata, cx.ownership) {
            cx.watcher
                .log("info", "kubernetes", &format!("{target} is replaced"));
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

/// Names of the claims that a pod mounts.
fn claims(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod
        .pointer("/spec/volumes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    volumes
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

/// Waits until the pods are gone; those that hang on a dead node are taken out, or said.
async fn wait_gone(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    meant: &[Meant],
    grace: SignedDuration,
) -> Result<(), PortError> {
    if meant.is_empty() {
        return Ok(());
    }
    let mut feeds: Vec<Feed> = Vec::new();
    for one in meant {
        let selector = labels::selector(cx.ownership);
        let target = &one.target;
        let feed = Feed::labelled(&target.resource, target.namespace.as_deref(), &selector);
        if !feeds.contains(&feed) {
            feeds.push(feed);
        }
    }
    let patient_until = (cx.clock.now() + grace + MARGIN).min(cx.deadline);
    let first = VimCall {
        deadline: patient_until,
        ..*cx
    };
    let End::Late { scene, .. } = until(&first, session, &feeds, |s| judge_gone(s, meant)).await?
    else {
        return Ok(());
    };
    for (one, pod) in left(&scene, meant) {
        take_out(cx, session, one, pod).await?;
    }
    match until(cx, session, &feeds, |scene| judge_gone(scene, meant)).await? {
        End::Done(()) => Ok(()),
        End::Late { scene, reason } => {
            let what = left(&scene, meant)
                .next()
                .map(|(one, _)| one.target.to_string());
            let what = what.unwrap_or_default();
            Err(PortError::new(&STILL_THERE, format!("replace {what}"), reason).on(what))
        }
    }
}

fn left<'a>(scene: &'a Scene, meant: &'a [Meant]) -> impl Iterator<Item = (&'a Meant, &'a Value)> {
    meant.iter().filter_map(|one| {
        let target = &one.target;
        let pod = scene.get(&target.resource, target.namespace.as_deref(), &target.name)?;
        (uid(pod) == one.uid).then_some((one, pod))
    })
}

fn judge_gone(scene: &Scene, meant: &[Meant]) -> Verdict<()> {
    let mut left = left(scene, meant);
    let Some((one, pod)) = left.next() else {
        return Verdict::Done(());
    };
    let node = text(pod, "/spec/nodeName");
    let more = left.count();
    let more = if more == 0 {
        String::new()
    } else {
        format!("; and {more} more")
    };
    Verdict::NotYet(format!("{} to go from node `{node}`{more}", one.target))
}

/// What becomes of a pod that does not go though its grace is over: the table at the top.
async fn take_out(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    one: &Meant,
    pod: &Value,
) -> Result<(), PortError> {
    let node = text(pod, "/spec/nodeName");
    let target = Target {
        resource: core("Node", "nodes"),
        namespace: None,
        name: node.to_owned(),
    };
    let found = match get(session, &target).await {
        Err(error) if error.code() == &errors::FORBIDDEN => return Ok(()),
        found => found?,
    };
    let state = match &found {
        None => "is gone",
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
    let text = format!(
        "{} is taken out by force: node `{node}` {state}",
        one.target
    );
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

/// Whether no other pod can stand in for it: two of them at once would be one too many.
fn has_identity(pod: &Value) -> bool {
    !matches!(
        controller(pod),
        Some((
            "ReplicaSet" | "DaemonSet" | "Job" | "ReplicationController",
            _
        ))
    )
}

/// Waits until every workload has its pods: what it says of itself may be from before.
pub(crate) async fn wait_whole(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    stages: &[Vec<Placed>],
    meant: &[Meant],
) -> Result<(), PortError> {
    let watched: Vec<&Placed> = stages
        .iter()
        .flatten()
        .filter(|placed| rollout::makes_pods(&placed.target))
        .collect();
    if watched.is_empty() {
        return Ok(());
    }
    let feeds = rollout::feeds(&watched, cx.ownership);
    let none = BTreeSet::new();
    let whole = |scene: &Scene| match (
        judge(scene, &watched, &none),
        lacking(scene, &watched, meant),
    ) {
        (Verdict::Done(()), Some((target, why))) => Verdict::NotYet(format!("{target}: {why}")),
        (verdict, _) => verdict,
    };
    match until(cx, session, &feeds, whole).await? {
        End::Done(()) => Ok(()),
        End::Late { scene, reason } => {
            let (what, why) = match lacking(&scene, &watched, meant) {
                Some((target, why)) => (target.to_string(), with_trouble(&scene, target, why)),
                None => ("the VNF".to_owned(), reason),
            };
            let text = format!("at the deadline: {why}");
            Err(PortError::new(&NOT_READY, format!("heal {what}"), text).on(what))
        }
    }
}

/// The first workload that has fewer Ready pods than it wants.
fn lacking<'a>(
    scene: &Scene,
    watched: &[&'a Placed],
    meant: &[Meant],
) -> Option<(&'a Target, String)> {
    watched.iter().find_map(|placed| {
        let target = &placed.target;
        let namespace = target.namespace.as_deref();
        let object = scene.get(&target.resource, namespace, &target.name)?;
        let place = match target.resource.kind.as_str() {
            "Deployment" | "StatefulSet" | "ReplicaSet" => "/spec/replicas",
            "DaemonSet" => "/status/desiredNumberScheduled",
            _ => return None,
        };
        let wanted = object.pointer(place).and_then(Value::as_u64).unwrap_or(1);
        let works = |pod: &&Value| {
            text(pod, "/metadata/namespace") == namespace.unwrap_or_default()
                && belongs(pod, &target.resource.kind, &target.name)
                && pod.pointer("/metadata/deletionTimestamp").is_none()
                && condition_is(pod, "Ready", "True")
                && meant.iter().all(|one| one.uid != uid(pod))
        };
        let there = scene.all("Pod").filter(works).count() as u64;
        (there < wanted).then(|| (target, format!("{there} of {wanted} pods are ready")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vnfm_core::ports::Inventory;
    use vnfm_types::{ResourceHandle, VnfcResourceInfo};

    #[test]
    fn the_pods_meant_are_those_of_the_record() {
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
        let repair = Repair {
            inventory: Inventory {
                vnfc_resource_info,
                ..Inventory::default()
            },
            vnfcs: vec!["u-1".to_owned(), "u-3".to_owned()],
            ..Repair::default()
        };
        let found: Vec<(String, String, String)> = named(&repair, "a")
            .into_iter()
            .map(|one| (one.target.namespace.unwrap(), one.target.name, one.uid))
            .collect();
        let own = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(found, [own("b", "web-1", "u-1"), own("a", "web-3", "u-3")]);
    }

    #[test]
    fn who_may_be_taken_out_by_force() {
        let of = |kind: &str| json!({"metadata": {"ownerReferences": [{"kind": kind, "name": "a", "controller": true}]}});
        assert!(!has_identity(&of("ReplicaSet")) && !has_identity(&of("DaemonSet")));
        assert!(has_identity(&of("StatefulSet")) && has_identity(&of("Wonder")));
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
