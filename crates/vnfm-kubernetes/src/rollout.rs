//! Waits until the objects of a stage are ready; watches them, their pods and the warning events about them.

use crate::catalog::{Target, core};
use crate::claims;
use crate::client::Session;
use crate::cluster_api::{has_machines, machine_resource};
use crate::diagnostics;
use crate::errors::{FAILED, NOT_READY, VANISHED};
use crate::labels;
use crate::ready::{progress_failure, readiness};
use crate::resolved::ResolvedObject;
use crate::status::Readiness;
use crate::virtual_machines::GROUP;
use crate::watch::{Feed, ObjectCache, Verdict, WaitEnd, typed_json, watch_until};
use kube::api::DynamicObject;
use std::collections::BTreeSet;
use vnfm_core::ports::{Ownership, PortError, VimCall};

/// Waits for the objects of a stage, which come as they were last read. Watches nothing if these are ready already; objects
/// whose kind cannot be watched count as ready.
pub(crate) async fn wait_until_ready(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    stage: Vec<(&ResolvedObject, Option<DynamicObject>)>,
) -> Result<(), PortError> {
    let watched: Vec<&ResolvedObject> = stage
        .into_iter()
        .filter(|(resolved, _)| resolved.watchable)
        .filter(|(resolved, object)| !is_ready(&resolved.target, object.as_ref()))
        .map(|(resolved, _)| resolved)
        .collect();
    if watched.is_empty() {
        return Ok(());
    }
    let mut stale = None;
    let ready = |cache: &ObjectCache| {
        let stale = stale.get_or_insert_with(|| failed_before(cache, &watched));
        check_stage(cache, &watched, stale)
    };
    match watch_until(cx, session, &feeds(&watched, cx.ownership), ready).await? {
        WaitEnd::Done(()) => Ok(()),
        WaitEnd::Expired { cache, reason } => {
            let late = watched
                .iter()
                .find_map(|resolved| Some((&resolved.target, pending_reason(&cache, resolved)?)));
            let (object, text) = late.map_or(("the VNF".to_owned(), reason), |(target, reason)| {
                (target.to_string(), reason)
            });
            Err(PortError::new(
                &NOT_READY,
                format!("wait until {object} is ready"),
                format!("at the deadline: {text}"),
            )
            .on(object))
        }
    }
}

fn is_ready(target: &Target, object: Option<&DynamicObject>) -> bool {
    let Some(object) = object else { return false };
    let object = typed_json(Some(&target.resource), object.clone());
    readiness(&object) == Readiness::Ready
}

pub(crate) fn feeds(watched: &[&ResolvedObject], owner: &Ownership) -> Vec<Feed> {
    let selector = labels::selector(owner);
    let mut feeds: Vec<Feed> = Vec::new();
    let mut add = |feed: Feed| {
        if !feeds.contains(&feed) {
            feeds.push(feed);
        }
    };
    for resolved in watched {
        let target = &resolved.target;
        add(Feed::labelled(
            &target.resource,
            target.namespace.as_deref(),
            &selector,
        ));
        if has_machines(&target.resource) {
            let namespace = target.namespace.as_deref();
            add(Feed::labelled(&machine_resource(), namespace, &selector));
        }
        if let Some(namespace) = target
            .namespace
            .as_deref()
            .filter(|_| makes_pods(&resolved.target))
        {
            add(Feed::labelled(
                &core("Pod", "pods"),
                Some(namespace),
                &selector,
            ));
            if target.resource.kind == "StatefulSet" {
                let claims = claims::resource();
                add(Feed::labelled(&claims, Some(namespace), &selector));
            }
            add(Feed {
                resource: core("Event", "events"),
                namespace: Some(namespace.to_owned()),
                labels: None,
                fields: Some("type=Warning".to_owned()),
            });
        }
    }
    feeds
}

pub(crate) fn makes_pods(target: &Target) -> bool {
    matches!(target.resource.group.as_str(), "apps" | "batch" | GROUP)
        || matches!(
            target.resource.kind.as_str(),
            "Pod" | "PersistentVolumeClaim"
        )
}

/// Deployments that had exceeded their progress deadline before this wait began: after a retry they may still succeed.
fn failed_before(cache: &ObjectCache, watched: &[&ResolvedObject]) -> BTreeSet<String> {
    let objects = watched.iter().filter_map(|resolved| {
        let target = &resolved.target;
        cache.get(&target.resource, target.namespace.as_deref(), &target.name)
    });
    objects.filter_map(progress_failure).collect()
}

/// Whether all objects of a stage are ready; a failure listed in `stale` does not end the wait.
pub(crate) fn check_stage(
    cache: &ObjectCache,
    watched: &[&ResolvedObject],
    stale: &BTreeSet<String>,
) -> Verdict<()> {
    let mut waiting = Vec::new();
    for resolved in watched {
        let target = &resolved.target;
        let Some(object) = cache.get(&target.resource, target.namespace.as_deref(), &target.name)
        else {
            let text = format!("{target} is missing: it was deleted, or lost our labels");
            return Verdict::Failed(
                PortError::new(&VANISHED, format!("wait until {target} is ready"), text)
                    .on(target.to_string()),
            );
        };
        let stale = progress_failure(object).is_some_and(|when| stale.contains(&when));
        if let (Readiness::Failed(reason), false) = (readiness(object), stale) {
            let reason = with_diagnostics(cache, target, reason);
            return Verdict::Failed(
                PortError::new(&FAILED, format!("wait until {target} is ready"), reason)
                    .on(target.to_string()),
            );
        }
        waiting.extend(pending_reason(cache, resolved).map(|reason| format!("{target}: {reason}")));
    }
    match waiting.len() {
        0 => Verdict::Done(()),
        1 | 2 => Verdict::NotYet(waiting.join("; ")),
        more => Verdict::NotYet(format!(
            "{}; {}; and {} more",
            waiting[0],
            waiting[1],
            more - 2
        )),
    }
}

/// Why an object is not ready yet; `None` if it is ready.
fn pending_reason(cache: &ObjectCache, resolved: &ResolvedObject) -> Option<String> {
    let target = &resolved.target;
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let object = cache.get(&target.resource, target.namespace.as_deref(), &target.name)?;
    match readiness(object) {
        Readiness::Ready => None,
        // Many storage classes bind a claim only when its first pod is scheduled, which may happen in a later stage.
        Readiness::NotYet(_)
            if target.resource.kind == "PersistentVolumeClaim"
                && !diagnostics::is_mounted(cache, namespace, &target.name) =>
        {
            None
        }
        Readiness::NotYet(reason) | Readiness::Failed(reason) => {
            Some(with_diagnostics(cache, target, reason))
        }
    }
}

pub(crate) fn with_diagnostics(cache: &ObjectCache, target: &Target, reason: String) -> String {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    match diagnostics::workload_problem(cache, &target.resource.kind, namespace, &target.name) {
        Some(more) if !more.contains(&reason) => format!("{reason} ({more})"),
        Some(more) => more,
        None => reason,
    }
}
