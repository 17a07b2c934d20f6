//! Objects on a cluster that carry our labels, of every kind that can be listed and deleted; reads only their metadata.
//!
//! Not counted: objects with a controller, which are created and deleted by it, and Endpoints, which copy
//! the labels of their Service.

use crate::catalog::{Catalog, Target, api, core};
use crate::client::Session;
use crate::errors;
use crate::kinds::Kind;
use crate::labels;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::core::ObjectMeta;
use std::collections::BTreeSet;
use vnfm_core::ports::{OwnedResource, PortError};

/// How many lists run concurrently.
const CONCURRENT_LISTS: usize = 8;

/// Lists every object that matches `selector`, in one namespace or in all.
///
/// # Errors
///
/// A call failed. A kind that we may not list is omitted.
pub(crate) async fn list_labelled(
    session: &Session<'_>,
    catalog: &Catalog<'_>,
    selector: &str,
    namespace: Option<&str>,
) -> Result<Vec<(Target, ObjectMeta)>, PortError> {
    let kinds = catalog.all().await?;
    let mut lists = Vec::new();
    for kind in &kinds {
        if is_counted(kind) && (namespace.is_none() || kind.namespaced) {
            lists.push(list(session, kind, selector, namespace).boxed());
        }
    }
    let lists: Vec<Vec<(Target, ObjectMeta)>> = futures::stream::iter(lists)
        .buffered(CONCURRENT_LISTS)
        .try_collect()
        .await?;
    let mut seen = BTreeSet::new();
    let mut found: Vec<(Target, ObjectMeta)> = lists.into_iter().flatten().collect();
    found.retain(|(_, metadata)| {
        !has_controller(metadata) && metadata.uid.clone().is_none_or(|uid| seen.insert(uid))
    });
    Ok(found)
}

fn is_counted(kind: &Kind) -> bool {
    !matches!(kind.resource.kind.as_str(), "Event" | "Endpoints")
}

fn has_controller(metadata: &ObjectMeta) -> bool {
    metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true))
}

async fn list(
    session: &Session<'_>,
    kind: &Kind,
    selector: &str,
    namespace: Option<&str>,
) -> Result<Vec<(Target, ObjectMeta)>, PortError> {
    let action = format!("list our objects of kind `{}`", kind.resource.kind);
    let params = ListParams::default().labels(selector);
    let params = &params;
    let listed = session
        .find(&action, |client: Client| async move {
            let all: Api<PartialObjectMeta<DynamicObject>> = api(client, &kind.resource, namespace);
            all.list(params).await
        })
        .await;
    let listed = match listed {
        Err(error) if error.code() == &errors::FORBIDDEN || error.code() == &errors::REJECTED => {
            tracing::debug!(kind = kind.resource.kind, %error, "kind omitted");
            None
        }
        listed => listed?,
    };
    let with_target = |metadata: ObjectMeta| {
        let target = Target {
            resource: kind.resource.clone(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
        };
        (target, metadata)
    };
    Ok(listed
        .into_iter()
        .flatten()
        .map(|object| with_target(object.metadata))
        .collect())
}

/// The pods of a namespace that match `selector`, those that are being deleted too.
///
/// # Errors
///
/// The pods could not be listed.
pub(crate) async fn pods(
    session: &Session<'_>,
    namespace: &str,
    selector: &str,
) -> Result<Vec<DynamicObject>, PortError> {
    objects(session, &core("Pod", "pods"), Some(namespace), selector).await
}

/// The objects of a kind that match `selector`, in one namespace or in all.
///
/// # Errors
///
/// The list could not be read.
pub(crate) async fn objects(
    session: &Session<'_>,
    resource: &ApiResource,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<DynamicObject>, PortError> {
    let place = namespace.map(|name| format!(" in namespace `{name}`"));
    let place = place.unwrap_or_default();
    let action = format!("list the objects of kind `{}`{place}", resource.kind);
    let params = &ListParams::default().labels(selector);
    let listed = session
        .call(&action, |client| async move {
            api::<DynamicObject>(client, resource, namespace)
                .list(params)
                .await
        })
        .await?;
    Ok(listed.items)
}

/// The metadata of the objects of a kind that match `selector` in one namespace; a namespace that does not exist has none.
///
/// # Errors
///
/// The list could not be read.
pub(crate) async fn labelled_metadata(
    session: &Session<'_>,
    resource: &ApiResource,
    namespace: &str,
    selector: &str,
) -> Result<Vec<ObjectMeta>, PortError> {
    let action = format!(
        "list the objects of kind `{}` in namespace `{namespace}`",
        resource.kind
    );
    let params = &ListParams::default().labels(selector);
    let listed = session
        .call(&action, |client| async move {
            api::<PartialObjectMeta<DynamicObject>>(client, resource, Some(namespace))
                .list(params)
                .await
        })
        .await?;
    Ok(listed.into_iter().map(|object| object.metadata).collect())
}

/// What the installation owns on the cluster: its namespaces, its objects in other namespaces, and what belongs to VNF
/// snapshots, shared virtual links and retained volumes, wherever it is.
///
/// # Errors
///
/// A list of objects could not be read.
pub(crate) async fn owned(
    session: &Session<'_>,
    installation: &str,
) -> Result<Vec<OwnedResource>, PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    let found = list_labelled(
        session,
        &catalog,
        &format!("{}={installation}", labels::INSTALLATION),
        None,
    )
    .await?;
    let is_namespace =
        |target: &Target| target.resource.kind == "Namespace" && target.resource.group.is_empty();
    let namespaces: BTreeSet<String> = found
        .iter()
        .filter(|(target, _)| is_namespace(target))
        .map(|(target, _)| target.name.clone())
        .collect();
    let is_listed = |target: &Target, metadata: &ObjectMeta| {
        labels::label_of(metadata, labels::SNAPSHOT).is_some()
            || labels::label_of(metadata, labels::LINK).is_some()
            || target
                .namespace
                .as_ref()
                .is_none_or(|namespace| !namespaces.contains(namespace))
    };
    let mut owned: Vec<OwnedResource> = found
        .into_iter()
        .filter(|(target, metadata)| is_listed(target, metadata))
        .map(|(target, metadata)| resource(target, &metadata))
        .collect();
    owned.sort_by(|a, b| {
        (a.kind != "Namespace", &a.kind, &a.name).cmp(&(b.kind != "Namespace", &b.kind, &b.name))
    });
    Ok(owned)
}

fn resource(target: Target, metadata: &ObjectMeta) -> OwnedResource {
    OwnedResource {
        id: metadata.uid.clone().unwrap_or_default(),
        name: target.namespace.as_ref().map_or_else(
            || target.name.clone(),
            |namespace| format!("{namespace}/{}", target.name),
        ),
        instance_id: labels::label_of(metadata, labels::INSTANCE).cloned(),
        snapshot_id: labels::label_of(metadata, labels::SNAPSHOT).cloned(),
        link_id: labels::label_of(metadata, labels::LINK).cloned(),
        volume_id: labels::label_of(metadata, labels::VOLUME).cloned(),
        kind: target.resource.kind,
    }
}
