//! Making it so: every object by server-side apply under our field manager, stage after stage, each ready before
//! the next one starts. Twice is once: what is ours already is adopted.
//!
//! An object of that name that does not carry this instance's labels is refused by its name and stays untouched.
//! The one exception is the namespace: an existing one is used, and left when the VNF goes.

use crate::catalog::{Catalog, Kind, Target};
use crate::client::Session;
use crate::errors::{self, FOREIGN, KIND, TERMINATING, VANISHED};
use crate::labels::{self, MANAGER};
use crate::manifests::{Item, Plan};
use crate::names::segment;
use crate::policy;
use crate::rollout::wait_ready;
use kube::api::{Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_core::ports::{Ownership, PortError, VimCall, Waited, wait};
use vnfm_types::VimPolicy;

/// An object of the plan with its place on the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) item: Item,
    pub(crate) target: Target,
    pub(crate) watchable: bool,
}

/// How an object of ours is brought about.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How<'a> {
    /// What others did to our fields is undone; what is being deleted is waited for and made anew.
    pub(crate) heal: bool,
    /// UIDs of what is known to be ours, whatever its labels say.
    pub(crate) known: Option<&'a BTreeSet<String>>,
}

impl How<'_> {
    fn knows(self, metadata: &ObjectMeta) -> bool {
        let uid = metadata.uid.as_ref();
        uid.is_some_and(|uid| self.known.is_some_and(|known| known.contains(uid)))
    }
}

/// Whose the VNF's namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespaceState {
    Absent,
    /// This instance made it.
    Ours,
    /// It was there, or we may not look.
    Shared,
}

/// Gives every object of the plan its place.
///
/// # Errors
///
/// `Refused`, naming file and kind, where the cluster does not serve a kind.
pub(crate) async fn place(
    plan: &Plan,
    catalog: &Catalog<'_>,
) -> Result<Vec<Vec<Placed>>, PortError> {
    let mut stages = Vec::new();
    for stage in &plan.stages {
        let mut placed = Vec::new();
        for item in stage {
            let kind = catalog
                .find(&item.api_version, &item.kind)
                .await?
                .ok_or_else(|| unknown(item))?;
            placed.push(place_one(item, &kind, &plan.namespace));
        }
        stages.push(placed);
    }
    Ok(stages)
}

/// The place of one object of a known kind.
pub(crate) fn place_one(item: &Item, kind: &Kind, namespace: &str) -> Placed {
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
    Placed {
        item: item.clone(),
        target,
        watchable: kind.can("watch"),
    }
}

fn unknown(item: &Item) -> PortError {
    let text = format!(
        "the cluster serves no `{}` of `{}`",
        item.kind, item.api_version
    );
    PortError::new(&KIND, format!("use `{}` of the package", item.place), text)
        .on(format!("{} `{}`", item.kind, item.name))
}

/// Whose the namespace is.
///
/// # Errors
///
/// `Unavailable` while it is being deleted.
pub(crate) async fn namespace_state(
    session: &Session<'_>,
    owner: &Ownership,
    name: &str,
) -> Result<NamespaceState, PortError> {
    let target = Target::of_namespace(name);
    let found = match look(session, &target).await {
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

/// The metadata of an object, if it is there.
///
/// # Errors
///
/// Where the API server cannot be asked.
pub(crate) async fn look(
    session: &Session<'_>,
    target: &Target,
) -> Result<Option<ObjectMeta>, PortError> {
    if !target.can_exist() {
        return Ok(None);
    }
    let (doing, name) = (format!("look at {target}"), &segment(&target.name));
    let found = session
        .find(&doing, |client| async move {
            target.metadata(client).get(name).await
        })
        .await;
    Ok(found
        .map_err(|error| error.on(target.to_string()))?
        .map(|object| object.metadata))
}

/// The metadata of an object of ours, if it is there.
///
/// # Errors
///
/// `Refused`, where it is there and somebody else's.
pub(crate) async fn look_for_ours(
    session: &Session<'_>,
    owner: &Ownership,
    target: &Target,
) -> Result<Option<ObjectMeta>, PortError> {
    let found = look(session, target).await?;
    match found {
        Some(metadata) if !labels::is_ours(&metadata, owner) => {
            let text = format!(
                "{target} exists already and was not touched: {}",
                labels::whose(&metadata, owner)
            );
            Err(PortError::new(&FOREIGN, format!("apply {target}"), text).on(target.to_string()))
        }
        found => Ok(found),
    }
}

/// Applies everything and waits until it works. Returns the UIDs, in order.
///
/// # Errors
///
/// With the API server's words; what was made stays.
pub(crate) async fn make(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
    stages: &[Vec<Placed>],
    how: How<'_>,
) -> Result<Vec<Vec<Option<String>>>, PortError> {
    let state = namespace_state(session, cx.ownership, namespace).await?;
    policy::permit_namespace(namespace, cx.vim.policy(), Some(state))?;
    let needed = stages
        .iter()
        .flatten()
        .any(|placed| placed.target.namespace.as_deref() == Some(namespace));
    if needed && state == NamespaceState::Absent && !brings(stages, namespace) {
        make_namespace(cx, session, namespace).await?;
    }
    let total = stages.iter().map(Vec::len).sum::<usize>().max(1);
    let (mut done, mut uids) = (0, Vec::new());
    for stage in stages {
        let mut of_stage = Vec::new();
        let mine: Vec<&Placed> = stage
            .iter()
            .filter(|placed| !is_shared(placed, namespace, state))
            .collect();
        for placed in stage {
            let shared = is_shared(placed, namespace, state);
            of_stage.push(if shared {
                None
            } else {
                Some(apply(cx, session, placed, how).await?)
            });
        }
        cx.watcher.progress(
            percent(done, total),
            &format!("{} of {total} objects applied", done + stage.len()),
        );
        wait_ready(cx, session, &mine).await?;
        done += stage.len();
        uids.push(of_stage);
        cx.watcher.progress(
            percent(done, total),
            &format!("{done} of {total} objects ready"),
        );
    }
    Ok(uids)
}

/// Whether a manifest describes the VNF's namespace, which was there before the VNF: it is left as it is.
fn is_shared(placed: &Placed, namespace: &str, state: NamespaceState) -> bool {
    state == NamespaceState::Shared && placed.target == Target::of_namespace(namespace)
}

fn brings(stages: &[Vec<Placed>], namespace: &str) -> bool {
    stages
        .iter()
        .flatten()
        .any(|placed| placed.target == Target::of_namespace(namespace))
}

fn percent(done: usize, total: usize) -> u8 {
    u8::try_from(done * 100 / total.max(1)).unwrap_or(100)
}

async fn make_namespace(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    name: &str,
) -> Result<(), PortError> {
    let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    secure(&mut object, cx.vim.policy());
    labels::stamp(&mut object, cx.ownership);
    let target = Target::of_namespace(name);
    patch(session, &target, (&object, ""), false)
        .await
        .map(drop)
}

/// The cluster holds to the policy as well, by labels of the namespace that we make.
fn secure(namespace: &mut Value, policy: &VimPolicy) {
    if let Some((label, level)) = policy::labels(policy)
        && let Some(labels) = labels::of_object(namespace)
    {
        labels.entry(label).or_insert_with(|| level.into());
    }
}

/// Applies one object and returns its UID.
async fn apply(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    placed: &Placed,
    how: How<'_>,
) -> Result<String, PortError> {
    let target = &placed.target;
    free(cx, session, target, how).await?;
    let mut object = placed.item.object.clone();
    if *target == Target::of_namespace(&target.name) {
        secure(&mut object, cx.vim.policy());
    }
    labels::stamp(&mut object, cx.ownership);
    if let Some(namespace) = &target.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    let place = format!(" ({})", placed.item.place);
    let defined = || async {
        match patch(session, target, (&object, &place), how.heal).await {
            Err(error) if is_not_served_yet(&error) => {
                Ok(Waited::NotYet(format!("the cluster to serve {target}")))
            }
            answer => answer.map(Waited::Done),
        }
    };
    let seen = |reason: &str| cx.watcher.waiting(reason);
    let applied = wait(
        cx.clock,
        cx.deadline,
        Duration::from_millis(100),
        seen,
        defined,
    )
    .await?;
    let applied = applied.ok_or_else(|| {
        PortError::new(
            &KIND,
            format!("apply {target}{place}"),
            "its definition is there, but the cluster does not serve it",
        )
        .on(target.to_string())
    })?;
    Ok(applied.uid.unwrap_or_default())
}

/// Looks whether the name is free or ours; a heal waits until what is being deleted is gone.
async fn free(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    target: &Target,
    how: How<'_>,
) -> Result<(), PortError> {
    let going = || {
        let text = "it is being deleted";
        PortError::new(&VANISHED, format!("apply {target}"), text).on(target.to_string())
    };
    let looked = || async {
        let found = match look(session, target).await? {
            Some(metadata) if how.knows(&metadata) => Some(metadata),
            _ => look_for_ours(session, cx.ownership, target).await?,
        };
        match found {
            Some(metadata) if metadata.deletion_timestamp.is_some() && how.heal => {
                let held = held_by(&metadata);
                Ok(Waited::NotYet(format!(
                    "{target} to go, which is made anew then{held}"
                )))
            }
            Some(metadata) if metadata.deletion_timestamp.is_some() => Err(going()),
            _ => Ok(Waited::Done(())),
        }
    };
    let seen = |reason: &str| cx.watcher.waiting(reason);
    let free = wait(
        cx.clock,
        cx.deadline,
        Duration::from_millis(100),
        seen,
        looked,
    )
    .await?;
    free.ok_or_else(going)
}

fn held_by(metadata: &ObjectMeta) -> String {
    match metadata.finalizers.as_deref().unwrap_or_default() {
        [] => String::new(),
        all => format!(": finalizer `{}` holds it", all.join("`, `")),
    }
}

/// A definition that was just established is served a moment later.
fn is_not_served_yet(error: &PortError) -> bool {
    error.code() == &errors::REJECTED
        && error
            .detail()
            .contains("could not find the requested resource")
}

async fn patch(
    session: &Session<'_>,
    target: &Target,
    (object, place): (&Value, &str),
    force: bool,
) -> Result<ObjectMeta, PortError> {
    let doing = format!("apply {target}{place}");
    let how = PatchParams::apply(MANAGER).validation_strict();
    let how = &if force { how.force() } else { how };
    let name = &segment(&target.name);
    let applied = session
        .call(&doing, |client| async move {
            target
                .api(client)
                .patch(name, how, &Patch::Apply(object))
                .await
        })
        .await;
    Ok(applied
        .map_err(|error| error.on(target.to_string()))?
        .metadata)
}
