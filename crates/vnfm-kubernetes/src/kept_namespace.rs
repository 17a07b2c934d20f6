//! A namespace of ours that outlives its instance, because VNF snapshots have their `VolumeSnapshot`s in it.
//!
//! ```text
//! terminate ── a VolumeSnapshot of ours is in it? ─┬─ no: the namespace is deleted
//!                                                  └─ yes: it is kept, with the label of that snapshot
//! instantiate again ── the label is removed
//! the snapshot is deleted ─┬─ another one is in it: the namespace gets its label
//!                          ├─ an object of an instance is in it: the label is removed
//!                          └─ nothing of ours is in it: the namespace is deleted
//! ```
//! So the snapshot accounts for the namespace: neither is an orphan, and nothing of both is left in the end.

use crate::catalog::{Catalog, SNAPSHOT_API, Target};
use crate::claims::pauses;
use crate::client::Session;
use crate::errors::{CONFLICT, FORBIDDEN, STILL_THERE};
use crate::identifiers::segment;
use crate::labels::{INSTALLATION, SNAPSHOT, label_of};
use crate::object::{find_metadata, merge};
use crate::owned::{list_labelled, objects};
use kube::api::{DeleteParams, Preconditions};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use vnfm_core::ports::{Expired, PortError, VimCall};

/// A VNF snapshot of this installation that has something in the namespace.
///
/// # Errors
///
/// The snapshots could not be listed.
pub(crate) async fn snapshot_in(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
) -> Result<Option<String>, PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    let Some(kind) = catalog.find(SNAPSHOT_API, "VolumeSnapshot").await? else {
        return Ok(None);
    };
    let installation = &cx.ownership.installation_id;
    let selector = format!("{INSTALLATION}={installation},{SNAPSHOT}");
    let found = match objects(session, &kind.resource, Some(namespace), &selector).await {
        // A login that may not list them has created none.
        Err(error) if error.code() == &FORBIDDEN => return Ok(None),
        found => found?,
    };
    let first = found.first();
    let id = first.and_then(|one| label_of(&one.metadata, SNAPSHOT));
    Ok(id.cloned())
}

/// Marks a namespace as that of a VNF snapshot.
///
/// # Errors
///
/// The namespace could not be changed.
pub(crate) async fn keep(
    session: &Session<'_>,
    own: &Target,
    snapshot: &str,
) -> Result<(), PortError> {
    let action = format!("keep {own} for VNF snapshot `{snapshot}`");
    mark(session, own, &action, json!(snapshot)).await
}

/// Removes the mark from a namespace that its instance uses again.
///
/// # Errors
///
/// The namespace could not be read or changed.
pub(crate) async fn take_back(session: &Session<'_>, namespace: &str) -> Result<(), PortError> {
    let own = Target::namespace(namespace);
    let found = find_metadata(session, &own).await?;
    if found.is_none_or(|metadata| label_of(&metadata, SNAPSHOT).is_none()) {
        return Ok(());
    }
    mark(session, &own, &format!("use {own} again"), Value::Null).await
}

async fn mark(
    session: &Session<'_>,
    own: &Target,
    action: &str,
    snapshot: Value,
) -> Result<(), PortError> {
    let change = json!({"metadata": {"labels": {SNAPSHOT: snapshot}}});
    merge(session, own, action, &change).await
}

/// Gives up the namespaces that were kept for a VNF snapshot, after its own objects were deleted.
///
/// # Errors
///
/// The API server's error, or what blocks the deletion at the deadline.
pub(crate) async fn give_up(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    snapshot: &str,
) -> Result<(), PortError> {
    let installation = &cx.ownership.installation_id;
    let selector = format!("{INSTALLATION}={installation},{SNAPSHOT}={snapshot}");
    let resource = Target::namespace("").resource;
    let kept = match objects(session, &resource, None, &selector).await {
        // A login that may not list namespaces has created none.
        Err(error) if error.code() == &FORBIDDEN => return Ok(()),
        kept => kept?,
    };
    for namespace in kept {
        let own = Target::namespace(namespace.metadata.name.as_deref().unwrap_or_default());
        if let Some(other) = snapshot_in(cx, session, &own.name).await? {
            keep(session, &own, &other).await?;
        } else if is_used(cx, session, &own.name).await? {
            take_back(session, &own.name).await?;
        } else {
            delete(cx, session, (&own, &namespace.metadata)).await?;
        }
    }
    Ok(())
}

/// Whether an object of this installation is in the namespace.
async fn is_used(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
) -> Result<bool, PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    let ours = format!("{INSTALLATION}={}", cx.ownership.installation_id);
    let found = list_labelled(session, &catalog, &ours, Some(namespace)).await?;
    Ok(!found.is_empty())
}

/// Deletes a namespace as it was read, and waits until it is deleted. One that has changed since is kept: its instance uses
/// it again.
async fn delete(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (own, read): (&Target, &ObjectMeta),
) -> Result<(), PortError> {
    let how = DeleteParams {
        preconditions: Some(Preconditions {
            uid: read.uid.clone(),
            resource_version: read.resource_version.clone(),
        }),
        ..DeleteParams::background()
    };
    let (how, name) = (&how, &segment(&own.name));
    let action = format!("delete {own}");
    let deleted = session
        .find(&action, |client| async move {
            own.api(client).delete(name, how).await
        })
        .await;
    match deleted {
        Err(error) if error.code() == &CONFLICT && read.deletion_timestamp.is_none() => {
            return Ok(());
        }
        Err(error) if error.code() != &CONFLICT => return Err(error),
        _ => {}
    }
    let mut backoff = pauses(cx);
    loop {
        let found = find_metadata(session, own).await?;
        if found.is_none_or(|metadata| metadata.uid != read.uid) {
            return Ok(());
        }
        if let Err(Expired) = backoff.pause(&format!("{own} to be deleted")).await {
            let text = "it still exists at the deadline";
            return Err(PortError::new(&STILL_THERE, action, text).on(own.to_string()));
        }
    }
}
