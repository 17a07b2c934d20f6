//! One path for every change of an instance: create, heal, another size, another target.
//!
//! ```text
//! delete   the pods to replace, and wait until they are deleted
//! scale    workloads to their number of replicas; before that, marks the pods that a smaller size does not need
//! apply    every manifest in order, each stage ready before the next; overwrites foreign changes to our fields
//! switch   Services that select other pods than before, once these are ready
//! wait     until every workload has its desired number of Ready pods, none of them a replaced one
//! prune    releases and objects that the record has and the target has no more, last stage first
//! ```
//! Idempotent: what to replace comes from the record from before the operation. A creation has no record: it overwrites
//! nothing, and has nothing to replace or prune.

use crate::apply::{self, ApplyMode, namespace_state};
use crate::catalog::Target;
use crate::charts::ChartRelease;
use crate::client::Session;
use crate::delete::{Handle, delete_objects};
use crate::errors::TERMINATING;
use crate::heal::{delete_replaced, wait_for_surplus, wait_until_complete};
use crate::helm_releases::uninstall;
use crate::object::find;
use crate::resolved::{NamespaceState, ResolvedObject};
use crate::surplus::scale;
use std::collections::BTreeSet;
use vnfm_core::ports::{Backoff, Convergence, Expired, PortError, VimCall};

/// Makes the objects in `namespace` those of `stages`; `before` is the handle of the record.
///
/// # Errors
///
/// The API server's error, or what was incomplete at the deadline; the same call resumes.
pub(crate) async fn converge(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, stages, charts): (&str, &[Vec<ResolvedObject>], &[ChartRelease]),
    (before, change): (&Handle, &Convergence<'_>),
) -> Result<Handle, PortError> {
    if change.current.is_none() {
        let how = ApplyMode {
            charts,
            ..ApplyMode::default()
        };
        let uids = apply::apply_stages(cx, session, namespace, stages, how).await?;
        return Ok(Handle::new(namespace, stages, &uids).with_releases(charts));
    }
    let state = wait_for_namespace_deletion(cx, session, namespace).await?;
    let replaced = delete_replaced(cx, session, (namespace, stages), change).await?;
    let objects = before.objects.iter();
    let known: BTreeSet<String> = objects.filter_map(|made| made.uid.clone()).collect();
    let last = if change.other.is_some() {
        services_to_switch(session, stages).await?
    } else {
        Vec::new()
    };
    let how = ApplyMode {
        restores: true,
        namespace: Some(state),
        known_uids: Some(&known),
        last: &last,
        charts,
    };
    let shrinking = scale(cx, session, (stages, how), change).await?;
    let uids = apply::apply_stages(cx, session, namespace, stages, how).await?;
    wait_until_complete(cx, session, stages, &replaced).await?;
    wait_for_surplus(cx, session, &shrinking).await?;
    let handle = Handle::new(namespace, stages, &uids).with_releases(charts);
    prune(cx, session, &handle.lacking(before)).await?;
    Ok(handle)
}

/// Uninstalls releases and deletes objects, last ones first.
async fn prune(cx: &VimCall<'_>, session: &Session<'_>, lacking: &Handle) -> Result<(), PortError> {
    for release in lacking.releases.iter().rev() {
        uninstall(cx, session, release, &lacking.namespace).await?;
    }
    for stage in lacking.deletion_order() {
        delete_objects(cx, session, &stage, None).await?;
    }
    Ok(())
}

/// The existing Services that are to select other pods than they do.
async fn services_to_switch(
    session: &Session<'_>,
    stages: &[Vec<ResolvedObject>],
) -> Result<Vec<Target>, PortError> {
    let all = stages.iter().flatten();
    let services = all.filter(|one| one.target.resource.kind == "Service");
    let mut found = Vec::new();
    for resolved in services {
        let wanted = &resolved.item.object["spec"]["selector"];
        let live = find(session, &resolved.target).await?;
        if live.is_some_and(|live| live.data["spec"]["selector"] != *wanted) {
            found.push(resolved.target.clone());
        }
    }
    Ok(found)
}

/// Deletes what the objects of another target, which an interrupted call may have applied, have more than `handle`.
///
/// # Errors
///
/// The API server's error, or what blocks a deletion at the deadline.
pub(crate) async fn prune_other(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    handle: &Handle,
    (other, charts): (&[Vec<ResolvedObject>], &[ChartRelease]),
) -> Result<(), PortError> {
    let uids: Vec<_> = other
        .iter()
        .map(|stage| vec![Some(String::new()); stage.len()])
        .collect();
    let other = Handle::new(&handle.namespace, other, &uids).with_releases(charts);
    prune(cx, session, &handle.lacking(&other)).await
}

/// Waits while the namespace is being deleted; returns its state then.
async fn wait_for_namespace_deletion(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
) -> Result<NamespaceState, PortError> {
    let target = Target::namespace(namespace);
    let mut backoff = Backoff::for_call(cx, apply::INTERVAL);
    loop {
        match namespace_state(session, cx.ownership, namespace).await {
            Err(error) if error.code() == &TERMINATING => {}
            state => return state,
        }
        let reason = format!("{target} to be deleted before it is recreated");
        if let Err(Expired) = backoff.pause(&reason).await {
            let (action, detail) = (format!("use {target}"), "it is still being deleted");
            return Err(PortError::new(&TERMINATING, action, detail).on(target.to_string()));
        }
    }
}
