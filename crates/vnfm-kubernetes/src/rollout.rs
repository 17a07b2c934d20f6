//! Waiting until a stage is ready: its objects, their pods and the warnings about them, followed by watch.

use crate::apply::Placed;
use crate::catalog::{Target, core};
use crate::client::Session;
use crate::errors::{FAILED, NOT_READY, VANISHED};
use crate::labels;
use crate::ready::{Readiness, gave_up, readiness};
use crate::trouble;
use crate::watch::{End, Feed, Scene, Verdict, until};
use std::collections::BTreeSet;
use vnfm_core::ports::{Ownership, PortError, VimCall};

/// Waits until every object of a stage is ready.
pub(crate) async fn wait_ready(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    stage: &[&Placed],
) -> Result<(), PortError> {
    let watched: Vec<&Placed> = stage
        .iter()
        .copied()
        .filter(|placed| placed.watchable)
        .collect();
    if watched.is_empty() {
        return Ok(());
    }
    let mut stale = None;
    let ready = |scene: &Scene| {
        let stale = stale.get_or_insert_with(|| given_up(scene, &watched));
        judge(scene, &watched, stale)
    };
    match until(cx, session, &feeds(&watched, cx.ownership), ready).await? {
        End::Done(()) => Ok(()),
        End::Late { scene, reason } => {
            let late = watched
                .iter()
                .find_map(|placed| Some((&placed.target, unready(&scene, placed)?)));
            let (what, text) = late.map_or(("the VNF".to_owned(), reason), |(target, why)| {
                (target.to_string(), why)
            });
            Err(PortError::new(
                &NOT_READY,
                format!("wait until {what} is ready"),
                format!("at the deadline: {text}"),
            )
            .on(what))
        }
    }
}

pub(crate) fn feeds(watched: &[&Placed], owner: &Ownership) -> Vec<Feed> {
    let selector = labels::selector(owner);
    let mut feeds: Vec<Feed> = Vec::new();
    let mut add = |feed: Feed| {
        if !feeds.contains(&feed) {
            feeds.push(feed);
        }
    };
    for placed in watched {
        let target = &placed.target;
        add(Feed::labelled(
            &target.resource,
            target.namespace.as_deref(),
            &selector,
        ));
        if let Some(namespace) = target
            .namespace
            .as_deref()
            .filter(|_| makes_pods(&placed.target))
        {
            add(Feed::labelled(
                &core("Pod", "pods"),
                Some(namespace),
                &selector,
            ));
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
    matches!(target.resource.group.as_str(), "apps" | "batch")
        || matches!(
            target.resource.kind.as_str(),
            "Pod" | "PersistentVolumeClaim"
        )
}

/// Deployments that gave up before we began to wait: what they wait for may come all the same after a retry.
fn given_up(scene: &Scene, watched: &[&Placed]) -> BTreeSet<String> {
    let objects = watched.iter().filter_map(|placed| {
        let target = &placed.target;
        scene.get(&target.resource, target.namespace.as_deref(), &target.name)
    });
    objects.filter_map(gave_up).collect()
}

/// Whether all of a stage is ready; a failure that is as old as one of `stale` is waited out.
pub(crate) fn judge(scene: &Scene, watched: &[&Placed], stale: &BTreeSet<String>) -> Verdict<()> {
    let mut waiting = Vec::new();
    for placed in watched {
        let target = &placed.target;
        let Some(object) = scene.get(&target.resource, target.namespace.as_deref(), &target.name)
        else {
            let text = format!("{target} is gone: somebody deleted it, or took our labels away");
            return Verdict::Failed(
                PortError::new(&VANISHED, format!("wait until {target} is ready"), text)
                    .on(target.to_string()),
            );
        };
        let stale = gave_up(object).is_some_and(|when| stale.contains(&when));
        if let (Readiness::Failed(reason), false) = (readiness(object), stale) {
            let reason = with_trouble(scene, target, reason);
            return Verdict::Failed(
                PortError::new(&FAILED, format!("wait until {target} is ready"), reason)
                    .on(target.to_string()),
            );
        }
        waiting.extend(unready(scene, placed).map(|reason| format!("{target}: {reason}")));
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

/// Why an object is not ready yet; `None` if it is.
fn unready(scene: &Scene, placed: &Placed) -> Option<String> {
    let target = &placed.target;
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let object = scene.get(&target.resource, target.namespace.as_deref(), &target.name)?;
    match readiness(object) {
        Readiness::Ready => None,
        // Many classes bind a claim when its first pod comes, which may be in a later stage.
        Readiness::NotYet(_)
            if target.resource.kind == "PersistentVolumeClaim"
                && !trouble::is_used(scene, namespace, &target.name) =>
        {
            None
        }
        Readiness::NotYet(reason) | Readiness::Failed(reason) => {
            Some(with_trouble(scene, target, reason))
        }
    }
}

pub(crate) fn with_trouble(scene: &Scene, target: &Target, reason: String) -> String {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    match trouble::of_workload(scene, &target.resource.kind, namespace, &target.name) {
        Some(more) if !more.contains(&reason) => format!("{reason} ({more})"),
        Some(more) => more,
        None => reason,
    }
}
