//! Deletes the stages in reverse, each completely before the next, in each the clusters of Cluster API first; then our
//! namespace; then volumes that its claims held.
//!
//! Objects that are not ours remain: nothing is deleted by its name alone, always by its UID. A handle that was lost in a
//! crash is recomputed from the package. In a namespace that is not ours, everything that still carries our labels
//! afterwards (a `StatefulSet`'s claims) is deleted as well. What belongs to VNF snapshots remains, with its namespace.

use crate::catalog::{Catalog, Target, api, core};
use crate::charts::ChartRelease;
use crate::claims::{self, claims_of};
use crate::client::Session;
use crate::cluster_api;
use crate::deletion::{delete, has_dependents};
use crate::deletion_blockers::{blockers, finalizers, namespace_is_held};
use crate::errors::{self, FINALIZER, STILL_THERE};
use crate::identifiers::segment;
use crate::kept_namespace::{keep, snapshot_in};
use crate::labels;
use crate::object::{find_metadata, merge};
use crate::owned::list_labelled;
use crate::resolved::ResolvedObject;
use crate::watch::{Feed, ObjectCache, Verdict, WaitEnd, uid, watch_until};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::{PortError, VimCall};

/// The objects of an instance: returned by `converge`, passed to `release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Handle {
    /// Name of the VNF's namespace.
    pub(crate) namespace: String,
    /// In the order of creation.
    pub(crate) objects: Vec<CreatedObject>,
    /// Names of its helm releases, in the order of installation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) releases: Vec<String>,
}

/// An object that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatedObject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<String>,
    pub(crate) stage: usize,
    /// False for a namespace that existed before.
    #[serde(rename = "madeByUs")]
    pub(crate) is_ours: bool,
}

impl Handle {
    /// Combines the objects with their UIDs; one without UID is not ours.
    pub(crate) fn new(
        namespace: &str,
        stages: &[Vec<ResolvedObject>],
        uids: &[Vec<Option<String>>],
    ) -> Self {
        let mut objects = Vec::new();
        for (stage, (resolved, uids)) in stages.iter().zip(uids).enumerate() {
            for (resolved, uid) in resolved.iter().zip(uids) {
                objects.push(created_object(&resolved.target, stage, uid.clone()));
            }
        }
        Self {
            namespace: namespace.to_owned(),
            objects,
            releases: Vec::new(),
        }
    }

    /// The same handle with helm releases.
    pub(crate) fn with_releases(mut self, charts: &[ChartRelease]) -> Self {
        self.releases = charts.iter().map(|chart| chart.name.clone()).collect();
        self
    }

    /// The objects of an earlier handle that this one lacks, except the VNF's namespace.
    pub(crate) fn lacking(&self, before: &Self) -> Self {
        let is_same = |old: &CreatedObject, new: &CreatedObject| {
            (&old.kind, &old.namespace, &old.name) == (&new.kind, &new.namespace, &new.name)
                && group(&old.api_version) == group(&new.api_version)
        };
        let own = Target::namespace(&self.namespace);
        let mut objects = before.objects.clone();
        objects
            .retain(|old| old.target() != own && !self.objects.iter().any(|new| is_same(old, new)));
        let mut releases = before.releases.clone();
        releases.retain(|old| !self.releases.contains(old));
        Self {
            namespace: self.namespace.clone(),
            objects,
            releases,
        }
    }

    /// The stages, last one first, each in reverse.
    pub(crate) fn deletion_order(&self) -> Vec<Vec<Target>> {
        let mut stages: Vec<Vec<Target>> = Vec::new();
        let mut last = None;
        for made in self.objects.iter().rev().filter(|made| made.is_ours) {
            if last != Some(made.stage) {
                stages.push(Vec::new());
                last = Some(made.stage);
            }
            stages
                .last_mut()
                .into_iter()
                .for_each(|stage| stage.push(made.target()));
        }
        stages
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn created_object(target: &Target, stage: usize, uid: Option<String>) -> CreatedObject {
    CreatedObject {
        api_version: target.resource.api_version.clone(),
        kind: target.resource.kind.clone(),
        plural: target.resource.plural.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        is_ours: uid.is_some(),
        uid,
        stage,
    }
}

impl CreatedObject {
    fn target(&self) -> Target {
        let (group, version) = self
            .api_version
            .split_once('/')
            .unwrap_or(("", &self.api_version));
        let gvk = GroupVersionKind::gvk(group, version, &self.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &self.plural);
        Target {
            resource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// Deletes `stages` in order, then the namespace if it is ours, else our remaining objects in it; then the volumes.
///
/// # Errors
///
/// The API server's error, or what blocks a deletion at the deadline.
pub(crate) async fn delete_stages(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
    stages: &[Vec<Target>],
    grace: Option<u32>,
) -> Result<(), PortError> {
    let own = Target::namespace(namespace);
    let total = stages.len() + 1;
    for (done, stage) in stages.iter().enumerate() {
        let stage: Vec<Target> = stage
            .iter()
            .filter(|target| **target != own && !is_volume(target))
            .cloned()
            .collect();
        let (clusters, others): (Vec<Target>, Vec<Target>) = stage
            .into_iter()
            .partition(|target| cluster_api::is_cluster(&target.resource));
        delete_objects(cx, session, &clusters, grace).await?;
        delete_objects(cx, session, &others, grace).await?;
        let percent = u8::try_from((done + 1) * 100 / total).unwrap_or(100);
        cx.watcher
            .progress(percent, &format!("{} of {total} stages deleted", done + 1));
    }
    delete_rest(cx, session, &own, grace).await?;
    delete_claims(cx, session, &own, stages).await?;
    let volumes = stages.iter().flatten().filter(|target| is_volume(target));
    let volumes: Vec<Target> = volumes.cloned().collect();
    delete_objects(cx, session, &volumes, grace).await
}

/// Deletes the claims that `StatefulSet`s made in namespaces other than the VNF's own.
async fn delete_claims(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    own: &Target,
    stages: &[Vec<Target>],
) -> Result<(), PortError> {
    let sets = stages.iter().flatten();
    let sets = sets.filter(|target| target.resource.kind == "StatefulSet");
    let namespaces = sets.filter_map(|target| target.namespace.clone());
    let namespaces: BTreeSet<String> = namespaces.filter(|name| *name != own.name).collect();
    let claims = match claims_of(cx, session, &namespaces).await {
        Err(error) if error.code() == &errors::FORBIDDEN => {
            let text = format!("claims of stateful sets are not looked for: {error}");
            cx.watcher.log("warn", "kubernetes", &text);
            return Ok(());
        }
        claims => claims?,
    };
    let claims = claims.into_iter().map(|claim| claim.metadata);
    let targets: Vec<Target> = claims
        .map(|claim| {
            let namespace = claim.namespace.unwrap_or_default();
            claims::target(&namespace, &claim.name.unwrap_or_default())
        })
        .collect();
    delete_objects(cx, session, &targets, None).await
}

/// Whether it is a `PersistentVolume`, which a claim that a `StatefulSet` made keeps from being deleted.
fn is_volume(target: &Target) -> bool {
    target.resource.group.is_empty() && target.resource.kind == "PersistentVolume"
}

/// Deletes the namespace if it is ours, else our remaining objects in it.
async fn delete_rest(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    own: &Target,
    grace: Option<u32>,
) -> Result<(), PortError> {
    let namespace = own.name.as_str();
    match find_metadata(session, own).await {
        Ok(Some(metadata)) if labels::is_ours(&metadata, cx.ownership) => {
            delete_namespace(cx, session, own, grace).await
        }
        Ok(Some(_)) => delete_leftovers(cx, session, namespace, grace).await,
        Ok(None) => Ok(()),
        Err(error) if error.code() == &errors::FORBIDDEN => {
            delete_leftovers(cx, session, namespace, grace).await
        }
        Err(error) => Err(error),
    }
}

/// Deletes our namespace. If other instances use it, hands it over to one of them; if a VNF snapshot is in it, keeps it.
async fn delete_namespace(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    own: &Target,
    grace: Option<u32>,
) -> Result<(), PortError> {
    if own.name != format!("vnf-{}", cx.ownership.instance_id)
        && let Some(new_owner) = other_instance(cx, session, &own.name).await?
    {
        cx.watcher.log(
            "info",
            "kubernetes",
            &format!("{own} is kept: instance `{new_owner}` uses it and owns it now"),
        );
        return hand_over(session, own, &new_owner).await;
    }
    if let Some(snapshot) = snapshot_in(cx, session, &own.name).await? {
        let text = format!("{own} is kept: VNF snapshot `{snapshot}` is in it");
        cx.watcher.log("info", "kubernetes", &text);
        delete_leftovers(cx, session, &own.name, grace).await?;
        return keep(session, own, &snapshot).await;
    }
    delete_objects(cx, session, std::slice::from_ref(own), None).await
}

async fn other_instance(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
) -> Result<Option<String>, PortError> {
    let owner = cx.ownership;
    let others = format!(
        "{}={},{}!={},!{}",
        labels::INSTALLATION,
        owner.installation_id,
        labels::INSTANCE,
        owner.instance_id,
        labels::SNAPSHOT
    );
    let found = list_labelled(
        session,
        &Catalog::new(session, std::iter::empty()),
        &others,
        Some(namespace),
    )
    .await?;
    Ok(found
        .iter()
        .find_map(|(_, metadata)| labels::label_of(metadata, labels::INSTANCE).cloned()))
}

async fn hand_over(session: &Session<'_>, own: &Target, new_owner: &str) -> Result<(), PortError> {
    let change = serde_json::json!({"metadata": {"labels": {labels::INSTANCE: new_owner}}});
    let action = format!("hand {own} over to instance `{new_owner}`");
    merge(session, own, &action, &change).await
}

async fn delete_leftovers(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
    grace: Option<u32>,
) -> Result<(), PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    let found = list_labelled(
        session,
        &catalog,
        &labels::selector(cx.ownership),
        Some(namespace),
    )
    .await?;
    let targets: Vec<Target> = found.into_iter().map(|(target, _)| target).collect();
    for target in &targets {
        cx.watcher
            .log("info", "kubernetes", &format!("deleting leftover {target}"));
    }
    delete_objects(cx, session, &targets, grace).await
}

/// Deletes those of `targets` that exist and are ours, and waits for their deletion.
pub(crate) async fn delete_objects(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    targets: &[Target],
    grace: Option<u32>,
) -> Result<(), PortError> {
    let mut deleting = Vec::new();
    for target in targets {
        let Some(metadata) = find_metadata(session, target).await? else {
            continue;
        };
        if !labels::is_ours(&metadata, cx.ownership) {
            let text = format!(
                "{target} is kept: {}",
                labels::owner_description(&metadata, cx.ownership)
            );
            cx.watcher.log("warn", "kubernetes", &text);
            continue;
        }
        let uid = metadata.uid.unwrap_or_default();
        delete(session, target, &uid).await?;
        deleting.push((target.clone(), uid));
    }
    if let Some(grace) = grace {
        shorten_grace(cx, session, &deleting, grace).await?;
    }
    wait_until_deleted(cx, session, &deleting).await
}

/// Gives the pods of deleted workloads `grace` seconds to terminate, instead of what their templates state.
async fn shorten_grace(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    deleting: &[(Target, String)],
    grace: u32,
) -> Result<(), PortError> {
    let mut namespaces: Vec<&str> = deleting
        .iter()
        .filter(|(target, _)| has_dependents(target))
        .filter_map(|(target, _)| target.namespace.as_deref())
        .collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let of_instance = ListParams::default().labels(&labels::selector(cx.ownership));
    for namespace in namespaces {
        let (params, listed) = (&DeleteParams::default().grace_period(grace), &of_instance);
        session
            .call(
                &format!("delete the pods in namespace `{namespace}`"),
                |client| async move {
                    let pods: Api<DynamicObject> =
                        api(client, &core("Pod", "pods"), Some(namespace));
                    for pod in pods.list(listed).await?.items {
                        let name = segment(&pod.metadata.name.unwrap_or_default());
                        match pods.delete(&name, params).await {
                            Err(error) if errors::status(&error) != 404 => return Err(error),
                            _ => {}
                        }
                    }
                    Ok(())
                },
            )
            .await?;
    }
    Ok(())
}

async fn wait_until_deleted(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    deleting: &[(Target, String)],
) -> Result<(), PortError> {
    if deleting.is_empty() {
        return Ok(());
    }
    let selector = labels::selector(cx.ownership);
    let mut feeds: Vec<Feed> = Vec::new();
    for (target, _) in deleting {
        let feed = Feed::labelled(&target.resource, target.namespace.as_deref(), &selector);
        if !feeds.contains(&feed) {
            feeds.push(feed);
        }
    }
    match watch_until(cx, session, &feeds, |cache| check_deleted(cache, deleting)).await? {
        WaitEnd::Done(()) => Ok(()),
        WaitEnd::Expired { cache, reason } => Err(deadline_error(&cache, deleting, reason)),
    }
}

fn check_deleted(cache: &ObjectCache, deleting: &[(Target, String)]) -> Verdict<()> {
    let left: Vec<String> = remaining(cache, deleting)
        .map(|(target, object)| format!("{target} to be deleted{}", blockers(object)))
        .collect();
    match left.len() {
        0 => Verdict::Done(()),
        1 | 2 => Verdict::NotYet(left.join("; ")),
        more => Verdict::NotYet(format!("{}; {}; and {} more", left[0], left[1], more - 2)),
    }
}

fn remaining<'a>(
    cache: &'a ObjectCache,
    deleting: &'a [(Target, String)],
) -> impl Iterator<Item = (&'a Target, &'a Value)> {
    deleting.iter().filter_map(|(target, uid_then)| {
        let object = cache.get(&target.resource, target.namespace.as_deref(), &target.name)?;
        (uid(object) == uid_then).then_some((target, object))
    })
}

fn deadline_error(cache: &ObjectCache, deleting: &[(Target, String)], reason: String) -> PortError {
    let Some((target, object)) = remaining(cache, deleting).next() else {
        return PortError::new(&STILL_THERE, "delete the objects", reason);
    };
    let finalizers = finalizers(object);
    let action = format!("delete {target}");
    let code = if finalizers.is_empty() && !namespace_is_held(object) {
        &STILL_THERE
    } else {
        &FINALIZER
    };
    PortError::new(
        code,
        action,
        format!("it still exists at the deadline{}", blockers(object)),
    )
    .on(target.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, stage: usize, is_ours: bool) -> CreatedObject {
        let target = Target {
            resource: core("ConfigMap", "configmaps"),
            namespace: Some("a".into()),
            name: name.into(),
        };
        CreatedObject {
            is_ours,
            ..created_object(&target, stage, Some("u".into()))
        }
    }

    #[test]
    fn stages_are_deleted_in_reverse_without_foreign_objects() {
        let objects = vec![
            object("a", 0, false),
            object("b", 0, true),
            object("c", 1, true),
            object("d", 1, true),
        ];
        let handle = Handle {
            releases: Vec::new(),
            namespace: "a".into(),
            objects,
        };
        let names: Vec<Vec<String>> = handle
            .deletion_order()
            .into_iter()
            .map(|stage| stage.into_iter().map(|target| target.name).collect())
            .collect();
        assert_eq!(
            names,
            [vec!["d".to_owned(), "c".to_owned()], vec!["b".to_owned()]]
        );
        let written = serde_json::to_value(&handle).unwrap();
        assert_eq!(serde_json::from_value::<Handle>(written).unwrap(), handle);
    }

    #[test]
    fn what_the_target_has_no_more_is_pruned_last_stage_first() {
        let handle = |objects: Vec<CreatedObject>| Handle {
            releases: Vec::new(),
            namespace: "a".into(),
            objects,
        };
        let own = created_object(&Target::namespace("a"), 0, Some("u".into()));
        let mut upgraded = object("b", 0, true);
        upgraded.api_version = "v2".into();
        let before = handle(vec![
            own,
            object("foreign", 0, false),
            object("b", 0, true),
            object("c", 1, true),
            object("d", 2, true),
        ]);
        let now = handle(vec![upgraded]);
        let names: Vec<Vec<String>> = now
            .lacking(&before)
            .deletion_order()
            .into_iter()
            .map(|stage| stage.into_iter().map(|target| target.name).collect())
            .collect();
        assert_eq!(names, [vec!["d".to_owned()], vec!["c".to_owned()]]);
        assert_eq!(before.lacking(&before).objects, []);
    }
}
