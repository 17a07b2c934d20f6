//! What on a cluster carries our labels: every kind that can be listed and deleted is asked, metadata alone.
//!
//! Not counted: what another object of the list makes and takes along (it has a controller), and Endpoints, which
//! copy the labels of their Service.

use crate::catalog::{Catalog, Kind, Target, api};
use crate::client::Session;
use crate::errors;
use crate::labels;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta};
use kube::core::ObjectMeta;
use std::collections::BTreeSet;
use vnfm_core::ports::{OwnedResource, PortError};

/// Lists at once.
const TOGETHER: usize = 8;

/// Every object that `selector` selects, in one namespace or in all.
///
/// # Errors
///
/// Where the API server cannot be asked. A kind that we may not list is left out.
pub(crate) async fn sweep(
    session: &Session<'_>,
    catalog: &Catalog<'_>,
    selector: &str,
    namespace: Option<&str>,
) -> Result<Vec<(Target, ObjectMeta)>, PortError> {
    let kinds = catalog.all().await?;
    let mut lists = Vec::new();
    for kind in &kinds {
        if counts(kind) && (namespace.is_none() || kind.namespaced) {
            lists.push(list(session, kind, selector, namespace).boxed());
        }
    }
    let lists: Vec<Vec<(Target, ObjectMeta)>> = futures::stream::iter(lists)
        .buffered(TOGETHER)
        .try_collect()
        .await?;
    let mut seen = BTreeSet::new();
    let mut found: Vec<(Target, ObjectMeta)> = lists.into_iter().flatten().collect();
    found.retain(|(_, metadata)| {
        !is_made_by_another(metadata) && metadata.uid.clone().is_none_or(|uid| seen.insert(uid))
    });
    Ok(found)
}

fn counts(kind: &Kind) -> bool {
    !matches!(kind.resource.kind.as_str(), "Event" | "Endpoints")
}

fn is_made_by_another(metadata: &ObjectMeta) -> bool {
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
    let doing = format!("list what is ours of `{}`", kind.resource.kind);
    let params = ListParams::default().labels(selector);
    let params = &params;
    let listed = session
        .find(&doing, |client: Client| async move {
            let all: Api<PartialObjectMeta<DynamicObject>> = api(client, &kind.resource, namespace);
            all.list(params).await
        })
        .await;
    let listed = match listed {
        Err(error) if error.code() == &errors::FORBIDDEN || error.code() == &errors::REJECTED => {
            tracing::debug!(kind = kind.resource.kind, %error, "a kind is left out");
            None
        }
        listed => listed?,
    };
    let place = |metadata: ObjectMeta| {
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
        .map(|object| place(object.metadata))
        .collect())
}

/// What the installation owns on the cluster: its namespaces, and what it has in those of others.
///
/// # Errors
///
/// Where the API server cannot be asked.
pub(crate) async fn owned(
    session: &Session<'_>,
    installation: &str,
) -> Result<Vec<OwnedResource>, PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    let found = sweep(
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
    let outside = |target: &Target| {
        target
            .namespace
            .as_ref()
            .is_none_or(|namespace| !namespaces.contains(namespace))
    };
    let mut owned: Vec<OwnedResource> = found
        .into_iter()
        .filter(|(target, _)| outside(target))
        .map(|(target, metadata)| OwnedResource {
            id: metadata.uid.clone().unwrap_or_default(),
            name: target.namespace.as_ref().map_or_else(
                || target.name.clone(),
                |namespace| format!("{namespace}/{}", target.name),
            ),
            instance_id: labels::of(&metadata, labels::INSTANCE).cloned(),
            kind: target.resource.kind,
        })
        .collect();
    owned.sort_by(|a, b| {
        (a.kind != "Namespace", &a.kind, &a.name).cmp(&(b.kind != "Namespace", &b.kind, &b.name))
    });
    Ok(owned)
}
