//! Applies the objects of a plan: server-side apply under our field manager, stage by stage; each stage must be ready
//! before the next one starts. Idempotent: objects that are already ours are adopted.
//!
//! A `Service` that is to select other pods is applied last, once these are ready: it is never without any.
//!
//! An existing object without this instance's labels is refused by name and not changed. The one exception is the
//! namespace: an existing one is used, and kept when the VNF is terminated.

use crate::autoscaled;
use crate::catalog::{Catalog, Target};
use crate::charts::ChartRelease;
use crate::client::Session;
use crate::errors::{self, FOREIGN, KIND, TERMINATING, VANISHED};
use crate::helm_releases::deploy_all;
use crate::identifiers::segment;
use crate::item::Item;
use crate::kept_namespace::take_back;
use crate::kinds::Kind;
use crate::labels::{self, FIELD_MANAGER};
use crate::manifests::Plan;
use crate::object::{find, find_metadata};
use crate::object_policy;
use crate::resolved::{NamespaceState, ResolvedObject};
use crate::rollout::wait_until_ready;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_core::ports::{Backoff, Expired, Ownership, PortError, VimCall};
use vnfm_types::VimPolicy;

/// The interval between looks at what no watch shows.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// Distinguishes a change of an existing instance from a creation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ApplyMode<'a> {
    /// Overwrites foreign changes to our fields, and recreates objects that are being deleted.
    pub(crate) restores: bool,
    /// The state of the namespace, if it has been read.
    pub(crate) namespace: Option<NamespaceState>,
    /// UIDs of objects that are ours whatever their labels say.
    pub(crate) known_uids: Option<&'a BTreeSet<String>>,
    /// Existing objects that stay as they are until everything else is ready.
    pub(crate) last: &'a [Target],
    /// The charts whose objects helm applies, by their stage.
    pub(crate) charts: &'a [ChartRelease],
}

impl ApplyMode<'_> {
    /// Whether the object has one of the known UIDs.
    pub(crate) fn knows(self, metadata: &ObjectMeta) -> bool {
        let uid = metadata.uid.as_ref();
        uid.is_some_and(|uid| self.known_uids.is_some_and(|known| known.contains(uid)))
    }
}

/// Looks up the kind of every object of the plan, and the sizes that autoscalers decide.
///
/// # Errors
///
/// `Refused`, naming file and kind, if the cluster does not serve a kind.
pub(crate) async fn resolve_stages(
    plan: &Plan,
    catalog: &Catalog<'_>,
) -> Result<Vec<Vec<ResolvedObject>>, PortError> {
    let mut stages = Vec::new();
    for (number, stage) in plan.stages.iter().enumerate() {
        let mut resolved = Vec::new();
        let account = plan.account.iter().filter(|_| number == 0);
        for item in account.chain(stage) {
            let kind = catalog
                .find(&item.api_version, &item.kind)
                .await?
                .ok_or_else(|| unknown_kind(item))?;
            resolved.push(resolve(item, &kind, &plan.namespace));
        }
        stages.push(resolved);
    }
    autoscaled::follow(catalog.session, &mut stages).await?;
    Ok(stages)
}

/// `namespace` is used if the kind is namespaced and the manifest names none.
pub(crate) fn resolve(item: &Item, kind: &Kind, namespace: &str) -> ResolvedObject {
    let namespace = kind.namespaced.then(|| {
        item.namespace
            .clone()
            .unwrap_or_else(|| namespace.to_owned())
    });
    let target = Target {
        resource: kind.resource.clone(),
        namespace,
        name: item.name.clone(),
    };
    ResolvedObject {
        item: item.clone(),
        target,
        watchable: kind.can("watch"),
        has_scale: kind.has_scale,
        autoscaler: None,
    }
}

fn unknown_kind(item: &Item) -> PortError {
    let text = format!(
        "the cluster does not serve `{}` of `{}`",
        item.kind, item.api_version
    );
    PortError::new(
        &KIND,
        format!("use `{}` of the package", item.location),
        text,
    )
    .on(format!("{} `{}`", item.kind, item.name))
}

/// The state of namespace `name`; one that we may not read counts as shared.
///
/// # Errors
///
/// `Unavailable` while it is being deleted.
pub(crate) async fn namespace_state(
    session: &Session<'_>,
    owner: &Ownership,
    name: &str,
) -> Result<NamespaceState, PortError> {
    let target = Target::namespace(name);
    let found = match find_metadata(session, &target).await {
        Err(error) if error.code() == &errors::FORBIDDEN => return Ok(NamespaceState::Shared),
        found => found?,
    };
    match found {
        None => Ok(NamespaceState::Absent),
        Some(metadata) if metadata.deletion_timestamp.is_some() => {
            Err(
                PortError::new(&TERMINATING, format!("use {target}"), "it is being deleted")
                    .on(target.to_string()),
            )
        }
        Some(metadata) if labels::is_ours(&metadata, owner) => Ok(NamespaceState::Ours),
        Some(_) => Ok(NamespaceState::Shared),
    }
}

/// The metadata of an object of ours; `None` if it does not exist.
///
/// # Errors
///
/// `Refused` if the object exists but is not ours.
pub(crate) async fn find_ours(
    session: &Session<'_>,
    owner: &Ownership,
    target: &Target,
) -> Result<Option<ObjectMeta>, PortError> {
    let found = find_metadata(session, target).await?;
    if let Some(metadata) = &found {
        check_ours(metadata, owner, target)?;
    }
    Ok(found)
}

fn check_ours(metadata: &ObjectMeta, owner: &Ownership, target: &Target) -> Result<(), PortError> {
    if labels::is_ours(metadata, owner) {
        return Ok(());
    }
    let text = format!(
        "{target} already exists and was not changed: {}",
        labels::owner_description(metadata, owner)
    );
    Err(PortError::new(&FOREIGN, format!("apply {target}"), text).on(target.to_string()))
}

/// Applies all stages and waits for each to be ready. Returns the UIDs in order; `None` for a shared namespace.
///
/// # Errors
///
/// The API server's error; objects created so far remain.
pub(crate) async fn apply_stages(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
    stages: &[Vec<ResolvedObject>],
    how: ApplyMode<'_>,
) -> Result<Vec<Vec<Option<String>>>, PortError> {
    let state = match how.namespace {
        Some(state) => state,
        None => namespace_state(session, cx.ownership, namespace).await?,
    };
    object_policy::permit_namespace(namespace, cx.vim.policy(), Some(state))?;
    if state == NamespaceState::Ours && !how.restores {
        take_back(session, namespace).await?;
    }
    let needed = stages
        .iter()
        .flatten()
        .any(|resolved| resolved.target.namespace.as_deref() == Some(namespace));
    let needed = needed || !how.charts.is_empty();
    if needed && state == NamespaceState::Absent && !defines_namespace(stages, namespace) {
        create_namespace(cx, session, namespace).await?;
    }
    let total = stages.iter().map(Vec::len).sum::<usize>().max(1);
    let (mut done, mut uids) = (0, Vec::new());
    for (number, stage) in stages.iter().enumerate() {
        let charts = how.charts.iter().filter(|chart| chart.stage == number);
        let charts: Vec<&ChartRelease> = charts.collect();
        let applied = apply_stage(cx, session, (namespace, &charts, state), (stage, how)).await?;
        let (mut stage_uids, mut mine) = (Vec::new(), Vec::new());
        for (resolved, object) in stage.iter().zip(applied) {
            if is_shared(resolved, namespace, state) {
                stage_uids.push(None);
                continue;
            }
            stage_uids.push(uid_of(object.as_ref()));
            mine.push((resolved, object));
        }
        cx.watcher.progress(
            percent(done, total),
            &format!("{} of {total} objects applied", done + stage.len()),
        );
        wait_until_ready(cx, session, mine).await?;
        done += stage.len();
        uids.push(stage_uids);
        cx.watcher.progress(
            percent(done, total),
            &format!("{done} of {total} objects ready"),
        );
    }
    let all = stages.iter().flatten();
    for resolved in all.filter(|resolved| how.last.contains(&resolved.target)) {
        apply(cx, session, resolved, how).await?;
    }
    Ok(uids)
}

/// Applies the manifests of a stage, then installs its charts; does not wait. Returns the objects in order, as far as they exist.
async fn apply_stage(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, charts, state): (&str, &[&ChartRelease], NamespaceState),
    (stage, how): (&[ResolvedObject], ApplyMode<'_>),
) -> Result<Vec<Option<DynamicObject>>, PortError> {
    let is_of_chart = |resolved: &ResolvedObject| {
        let mut charts = charts.iter();
        charts.any(|chart| chart.renders(&resolved.item, namespace))
    };
    let mut objects = Vec::new();
    for resolved in stage {
        let is_applied = !is_of_chart(resolved)
            && !how.last.contains(&resolved.target)
            && !is_shared(resolved, namespace, state);
        objects.push(if is_applied {
            Some(apply(cx, session, resolved, how).await?)
        } else {
            None
        });
    }
    deploy_all(cx, session, (namespace, charts), stage).await?;
    for (resolved, object) in stage.iter().zip(&mut objects) {
        if object.is_none() && !is_shared(resolved, namespace, state) {
            *object = find(session, &resolved.target).await?;
        }
    }
    Ok(objects)
}

fn uid_of(object: Option<&DynamicObject>) -> Option<String> {
    object.and_then(|object| object.metadata.uid.clone())
}

/// Whether the object is the VNF's namespace and existed before the VNF: it is not changed.
fn is_shared(resolved: &ResolvedObject, namespace: &str, state: NamespaceState) -> bool {
    state == NamespaceState::Shared && resolved.target == Target::namespace(namespace)
}

fn defines_namespace(stages: &[Vec<ResolvedObject>], namespace: &str) -> bool {
    stages
        .iter()
        .flatten()
        .any(|resolved| resolved.target == Target::namespace(namespace))
}

fn percent(done: usize, total: usize) -> u8 {
    u8::try_from(done * 100 / total.max(1)).unwrap_or(100)
}

async fn create_namespace(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    name: &str,
) -> Result<(), PortError> {
    let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    add_policy_label(&mut object, cx.vim.policy());
    labels::stamp(&mut object, cx.ownership);
    let target = Target::namespace(name);
    patch(session, &target, (&object, ""), false)
        .await
        .map(drop)
}

/// Labels a namespace that we create so that the cluster enforces the policy too.
fn add_policy_label(namespace: &mut Value, policy: &VimPolicy) {
    if let Some((label, level)) = object_policy::namespace_label(policy)
        && let Some(labels) = labels::labels_mut(namespace)
    {
        labels.entry(label).or_insert_with(|| level.into());
    }
}

/// The object as applying it would leave it; nothing is written.
///
/// # Errors
///
/// The API server's error, as [`apply`] would get it.
pub(crate) async fn dry_run(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    resolved: &ResolvedObject,
    force: bool,
) -> Result<DynamicObject, PortError> {
    let (target, object) = (&resolved.target, marked(cx, resolved));
    let action = format!("plan {target} ({})", resolved.item.location);
    let mut how = PatchParams::apply(FIELD_MANAGER).validation_strict();
    (how.force, how.dry_run) = (force, true);
    let (how, name, object) = (&how, &segment(&target.name), &Patch::Apply(object));
    let planned = session
        .call(&action, |client| async move {
            target.api(client).patch(name, how, object).await
        })
        .await;
    planned.map_err(|error| error.on(target.to_string()))
}

/// The object of the manifest with the marks of its owner.
fn marked(cx: &VimCall<'_>, resolved: &ResolvedObject) -> Value {
    let target = &resolved.target;
    let mut object = resolved.item.object.clone();
    if *target == Target::namespace(&target.name) {
        add_policy_label(&mut object, cx.vim.policy());
    }
    labels::stamp(&mut object, cx.ownership);
    if let Some(namespace) = &target.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    object
}

/// Applies one object and returns it as the API server stored it.
async fn apply(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    resolved: &ResolvedObject,
    how: ApplyMode<'_>,
) -> Result<DynamicObject, PortError> {
    let target = &resolved.target;
    wait_until_free(cx, session, target, how).await?;
    let object = marked(cx, resolved);
    let location = format!(" ({})", resolved.item.location);
    let mut backoff = Backoff::for_call(cx, INTERVAL);
    loop {
        match patch(session, target, (&object, &location), how.restores).await {
            Err(error) if is_not_served_yet(&error) => {
                let reason = format!("the cluster to serve {target}");
                if let Err(Expired) = backoff.pause(&reason).await {
                    return Err(never_served(target, &location));
                }
            }
            applied => return applied,
        }
    }
}

fn never_served(target: &Target, location: &str) -> PortError {
    let action = format!("apply {target}{location}");
    let detail = "its CustomResourceDefinition exists, but the cluster does not serve it";
    PortError::new(&KIND, action, detail).on(target.to_string())
}

/// Checks that the object does not exist or is ours; a change of an instance waits for a pending deletion to end.
async fn wait_until_free(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    target: &Target,
    how: ApplyMode<'_>,
) -> Result<(), PortError> {
    let mut backoff = Backoff::for_call(cx, INTERVAL);
    loop {
        let Some(metadata) = find_metadata(session, target).await? else {
            return Ok(());
        };
        if !how.knows(&metadata) {
            check_ours(&metadata, cx.ownership, target)?;
        }
        if metadata.deletion_timestamp.is_none() {
            return Ok(());
        }
        let holder = finalizer_reason(&metadata);
        let reason = format!("{target} to be deleted before it is recreated{holder}");
        if !how.restores || backoff.pause(&reason).await == Err(Expired) {
            let (action, detail) = (format!("apply {target}"), "it is being deleted");
            return Err(PortError::new(&VANISHED, action, detail).on(target.to_string()));
        }
    }
}

fn finalizer_reason(metadata: &ObjectMeta) -> String {
    match metadata.finalizers.as_deref().unwrap_or_default() {
        [] => String::new(),
        all => format!(": finalizer `{}` holds it", all.join("`, `")),
    }
}

/// A new `CustomResourceDefinition` is served only a moment after it is established.
fn is_not_served_yet(error: &PortError) -> bool {
    error.code() == &errors::REJECTED
        && error
            .detail()
            .contains("could not find the requested resource")
}

async fn patch(
    session: &Session<'_>,
    target: &Target,
    (object, location): (&Value, &str),
    force: bool,
) -> Result<DynamicObject, PortError> {
    let action = format!("apply {target}{location}");
    let how = PatchParams::apply(FIELD_MANAGER).validation_strict();
    let how = &if force { how.force() } else { how };
    let name = &segment(&target.name);
    let applied = session
        .call(&action, |client| async move {
            target
                .api(client)
                .patch(name, how, &Patch::Apply(object))
                .await
        })
        .await;
    applied.map_err(|error| error.on(target.to_string()))
}
