//! The [`InfraDriver`]: each method of the port as a short story.
//!
//! ```text
//! allocate   images ─ own stack? ─┬─ none ─────── create ─┐
//!                                 ├─ in progress ─────────┼─ wait ─ inventory
//!                                 ├─ complete ────────────┘
//!                                 └─ failed, or being deleted ─ delete, wait ─ create
//! release    own stack? ─ delete, wait (again, a few times) ─ images
//! ```

use crate::access::Access;
use crate::errors::{STACK_FOREIGN, STACK_STAYS, stack_failure};
use crate::heat::{self, Blueprint, Phase, Resource, Stack, stack_name};
use crate::patience::{once_logged_in, patiently};
use crate::plan::{flavour, has_base_hot};
use crate::prepare::{Prepared, prepare};
use crate::session::{Cloud, Sessions};
use crate::{base_hot, glance, hot, inventory, nova, plan};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use vnfm_core::ports::{
    Allocated, Allocation, Clock, InfraDriver, OwnedResource, Ownership, PortError, Release, Vim,
    VimCall, VimReport, Waited, wait,
};
use vnfm_types::{KeyValuePairs, OPENSTACK, VimConnectionInfo};

/// How long calls without a deadline of their own may take.
const SHORT: SignedDuration = SignedDuration::from_secs(90);
/// How often a creation whose answer was lost is asked for.
const CREATIONS: u32 = 3;
/// How long a name that belongs to no stack that Heat shows is taken for one that Heat is about to let go of.
const NAME_HELD: SignedDuration = SignedDuration::from_secs(30);
/// The first pause before such a name is asked for again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// How often Heat is asked to delete one stack.
const DELETIONS: u32 = 4;
/// Between two looks at the resources of a stack that is being made, looks at the stack alone.
const RESOURCES_EVERY: u32 = 4;

/// The driver of OpenStack; clones of an `Arc` of it share logins.
pub struct OpenStack {
    sessions: Sessions,
    clock: Arc<dyn Clock>,
}

impl OpenStack {
    /// A driver without any login yet. `clock` serves the calls that bring none.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { sessions: Sessions::default(), clock }
    }

    fn cloud<'a>(&'a self, cx: &VimCall<'a>) -> Cloud<'a> {
        Cloud { sessions: &self.sessions, vim: cx.vim, clock: cx.clock, deadline: cx.deadline }
    }

    fn briefly<'a>(&'a self, vim: &'a dyn Vim) -> Cloud<'a> {
        let now = self.clock.now();
        let deadline = now.saturating_add(SHORT).unwrap_or(Timestamp::MAX);
        Cloud { sessions: &self.sessions, vim, clock: self.clock.as_ref(), deadline }
    }
}

impl std::fmt::Debug for OpenStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenStack")
    }
}

#[async_trait]
impl InfraDriver for OpenStack {
    fn vim_types(&self) -> &'static [&'static str] {
        &[OPENSTACK, "openstack"]
    }

    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        Access::try_from(connection).map(drop)
    }

    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError> {
        plan::check(allocation)
    }

    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        let cloud = self.briefly(vim);
        heat::ping(&cloud).await?;
        let (session, _) = cloud.session().await?;
        let mut detail = KeyValuePairs::new();
        detail.insert("projectId".into(), json!(session.project));
        detail.insert("services".into(), json!(session.services()));
        detail.insert("tokenExpiresAt".into(), json!(session.expires_at));
        Ok(VimReport { identity: None, expires_at: None, detail })
    }

    async fn prepare(&self, cx: &VimCall<'_>, what: &Allocation) -> Result<Value, PortError> {
        let prepared = prepare(&self.cloud(cx), what).await?;
        Ok(serde_json::to_value(prepared).unwrap_or_default())
    }

    async fn allocate(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        prepared: &Value,
    ) -> Result<Allocated, PortError> {
        let cloud = self.cloud(cx);
        let mut prepared: Prepared = match serde_json::from_value(prepared.clone()) {
            Ok(prepared) => prepared,
            Err(_) => prepare(&cloud, what).await?,
        };
        upload_images(cx, &cloud, what, &mut prepared).await?;
        let blueprint = blueprint(what, &prepared, &cx.ownership.instance_id)?;
        let doing = format!("create stack `{}`", stack_name(&cx.ownership.instance_id));
        let stack = once_logged_in(cx, &doing, || own_or_new(cx, &cloud, &blueprint)).await?;
        let stack = finished(cx, &cloud, &stack).await?;
        let seen = patiently(cx, &format!("read what stack `{}` holds", stack.name), || async {
            inventory::look(&cloud, &stack).await.map(Waited::Done)
        })
        .await?;
        let against = inventory::Against { what, prepared: &prepared, vim: cx.vim.connection_id() };
        let mut metadata = KeyValuePairs::new();
        metadata.insert("stackId".into(), json!(stack.id));
        metadata.insert("stackName".into(), json!(stack.name));
        Ok(Allocated {
            handle: json!({"stackId": stack.id, "stackName": stack.name}),
            inventory: inventory::inventory(&seen, against)?,
            metadata,
        })
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        let cloud = self.cloud(cx);
        let name = stack_name(&cx.ownership.instance_id);
        match heat::find(&cloud, &name).await? {
            None => {}
            Some(stack) if stack.is_of(&cx.ownership.installation_id) => {
                deleted(cx, &cloud, &stack).await?;
            }
            // It was ours once, so leaving it there silently would leave an orphan.
            Some(stack) if how.handle.get("stackId") == Some(&json!(stack.id)) => {
                return Err(foreign("delete", &stack, cx.ownership).hint(
                    "the stack has lost its tags: tag it again (`openstack stack update --existing --tags …`), then retry",
                ));
            }
            Some(stack) => {
                let text =
                    format!("stack `{}` ({}) is not ours and was left alone", stack.name, stack.id);
                cx.watcher.log("warn", "openstack", &text);
            }
        }
        delete_images(&cloud, what, cx.ownership).await
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        let cloud = self.briefly(vim);
        let instance = |name: &str| name.strip_prefix("vnf-").map(str::to_owned);
        let stacks = heat::owned(&cloud, installation_id).await?;
        let stacks = stacks.into_iter().map(|stack| OwnedResource {
            kind: "OS::Heat::Stack".into(),
            instance_id: instance(&stack.name),
            id: stack.id,
            name: stack.name,
        });
        let images = glance::owned(&cloud, installation_id).await?;
        let images = images.into_iter().map(|image| OwnedResource {
            kind: "OS::Glance::Image".into(),
            instance_id: image.tags.iter().find_map(|tag| instance(tag)),
            name: image.name.unwrap_or_default(),
            id: image.id,
        });
        Ok(stacks.chain(images).collect())
    }

    async fn host_keys(&self, vim: &dyn Vim, server_id: &str) -> Result<Vec<String>, PortError> {
        let console = nova::console(&self.briefly(vim), server_id).await?;
        Ok(nova::host_keys_in(&console))
    }
}

fn blueprint(
    what: &Allocation,
    prepared: &Prepared,
    instance: &str,
) -> Result<Blueprint, PortError> {
    if has_base_hot(what) {
        base_hot::blueprint(what, prepared, instance)
    } else {
        hot::blueprint(what, prepared, instance)
    }
}

/// Uploads what the cloud did not have; the ids go into `prepared`.
async fn upload_images(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    what: &Allocation,
    prepared: &mut Prepared,
) -> Result<(), PortError> {
    for (owner, image) in flavour(what)?.images() {
        let Some(found) = prepared.images.get_mut(owner).filter(|found| found.id.is_none()) else {
            continue;
        };
        let Some(path) = &image.artifact else { continue };
        cx.watcher.waiting(&format!("image `{}` is uploaded", image.name));
        let bytes = what.package.read(path);
        let bytes = bytes.map_err(|error| plan::package(format!("image `{path}`: {error}")))?;
        found.id = Some(glance::upload(cloud, cx.ownership, image, bytes).await?);
    }
    Ok(())
}

async fn delete_images(
    cloud: &Cloud<'_>,
    what: &Allocation,
    ownership: &Ownership,
) -> Result<(), PortError> {
    if !flavour(what)?.images().any(|(_, image)| image.artifact.is_some()) {
        return Ok(());
    }
    for image in glance::of_instance(cloud, ownership).await? {
        glance::delete(cloud, &image.id).await?;
    }
    Ok(())
}

/// The instance's stack: the one that an earlier call made, or a new one.
async fn own_or_new(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &Blueprint,
) -> Result<Stack, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    if let Some(stack) = own(cx, cloud).await? {
        match stack.phase() {
            Phase::Complete | Phase::InProgress => {
                cx.watcher.log(
                    "info",
                    "openstack",
                    &format!("stack `{name}` is there already: going on with it"),
                );
                return Ok(stack);
            }
            Phase::Failed | Phase::Deleting | Phase::DeleteFailed | Phase::Gone => {
                let text = format!(
                    "stack `{name}` of an earlier try is {}: making it again",
                    stack.status
                );
                cx.watcher.log("info", "openstack", &text);
                deleted(cx, cloud, &stack).await?;
            }
        }
    }
    created(cx, cloud, blueprint).await
}

/// Asks for the stack until it is there. Heat holds the name of a deleted stack a moment longer than it shows the
/// stack, so a name that nothing visible has is asked for again.
async fn created(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &Blueprint,
) -> Result<Stack, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    let until = cx.deadline.min(cx.clock.now() + NAME_HELD);
    let lost = AtomicU32::new(0);
    let heard = |reason: &str| cx.watcher.waiting(reason);
    let made = wait(cx.clock, until, FIRST_PAUSE, heard, || async {
        let answer = heat::create(cloud, cx.ownership, blueprint).await;
        if matches!(&answer, Err(error) if !error.is_unavailable()) {
            return answer.map(|_| Waited::NotYet(String::new()));
        }
        // Made, or made by a call whose answer was lost: either way it is looked for by name and tag.
        if let Some(stack) = own(cx, cloud).await? {
            return Ok(Waited::Done(stack));
        }
        match answer {
            Err(error) if lost.fetch_add(1, Ordering::Relaxed) + 1 >= CREATIONS => Err(error),
            Err(error) => Ok(Waited::NotYet(error.to_string())),
            Ok(_) => Ok(Waited::NotYet(format!("Heat to let go of the name `{name}`"))),
        }
    });
    made.await?.ok_or_else(|| {
        let detail =
            "Heat says that a stack of that name exists, but does not show it to this project";
        PortError::new(&STACK_FOREIGN, format!("create stack `{name}`"), detail).on(name)
    })
}

/// The stack with our name, if it carries our tag.
async fn own(cx: &VimCall<'_>, cloud: &Cloud<'_>) -> Result<Option<Stack>, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    match heat::find(cloud, &name).await? {
        Some(stack) if !stack.is_of(&cx.ownership.installation_id) => {
            Err(foreign("create", &stack, cx.ownership))
        }
        found => Ok(found),
    }
}

fn foreign(doing: &str, stack: &Stack, ownership: &Ownership) -> PortError {
    let detail = format!(
        "the cloud has a stack of that name ({}) without the tag `{}`; it was not touched",
        stack.id,
        heat::installation_tag(&ownership.installation_id)
    );
    PortError::new(&STACK_FOREIGN, format!("{doing} stack `{}`", stack.name), detail).on(&stack.id)
}

/// Waits until Heat has made the stack.
async fn finished(cx: &VimCall<'_>, cloud: &Cloud<'_>, stack: &Stack) -> Result<Stack, PortError> {
    let doing = format!("create stack `{}`", stack.name);
    let looks = AtomicU32::new(0);
    patiently(cx, &doing, || async {
        let Some(seen) = heat::show(cloud, stack).await? else {
            let gone = format!("somebody deleted the stack while it was being made ({})", stack.id);
            return Err(stack_failure(&doing, "DELETE_COMPLETE", &gone));
        };
        match seen.phase() {
            Phase::Complete => Ok(Waited::Done(seen)),
            Phase::Failed => Err(failure(cloud, &seen, &doing).await),
            Phase::Deleting | Phase::DeleteFailed | Phase::Gone => Err(stack_failure(
                &doing,
                &seen.status,
                "somebody deletes the stack while it is being made",
            )),
            Phase::InProgress => {
                let detailed = looks.fetch_add(1, Ordering::Relaxed) % RESOURCES_EVERY == 1;
                if !detailed {
                    return Ok(Waited::NotYet(format!("stack `{}` is {}", seen.name, seen.status)));
                }
                let resources = heat::resources(cloud, &seen).await?;
                Ok(Waited::NotYet(missing(cx, &seen, &resources)))
            }
        }
    })
    .await
}

/// Says which resources are not there yet.
fn missing(cx: &VimCall<'_>, stack: &Stack, resources: &[Resource]) -> String {
    let open: Vec<&str> =
        resources.iter().filter(|one| !one.is_complete()).map(|one| one.name.as_str()).collect();
    let done = resources.len() - open.len();
    let percent = u8::try_from(done * 100 / resources.len().max(1)).unwrap_or(100);
    cx.watcher.progress(
        percent,
        &format!("stack `{}`: {done} of {} resources", stack.name, resources.len()),
    );
    let shown = open.iter().take(8).copied().collect::<Vec<_>>().join(", ");
    let more = if open.len() > 8 { format!(" and {} more", open.len() - 8) } else { String::new() };
    format!("stack `{}` is {}; not complete: {shown}{more}", stack.name, stack.status)
}

/// Why a stack failed: its own reason, and the resource's where that says more.
async fn failure(cloud: &Cloud<'_>, stack: &Stack, doing: &str) -> PortError {
    let error = stack_failure(doing, &stack.status, stack.reason());
    if error.resource().is_some() {
        return error;
    }
    let resources = heat::resources(cloud, stack).await.unwrap_or_default();
    let failed = resources.iter().find(|one| {
        one.status.ends_with("_FAILED") && one.reason.as_deref().is_some_and(|why| !why.is_empty())
    });
    let Some(failed) = failed else { return error };
    let reason = format!("{}; {}", stack.reason(), failed.reason.as_deref().unwrap_or_default());
    stack_failure(doing, &stack.status, &reason).on(&failed.name)
}

/// Deletes a stack of ours and returns when it is gone.
async fn deleted(cx: &VimCall<'_>, cloud: &Cloud<'_>, stack: &Stack) -> Result<(), PortError> {
    let doing = format!("delete stack `{}`", stack.name);
    let asked = AtomicU32::new(0);
    patiently(cx, &doing, || async {
        let Some(seen) = heat::show(cloud, stack).await? else { return Ok(Waited::Done(())) };
        let times = asked.load(Ordering::Relaxed);
        let phase = seen.phase();
        if phase == Phase::DeleteFailed && times >= DELETIONS {
            return Err(stays(cloud, &seen, &doing).await);
        }
        // A stack that Heat is deleting already is asked for only if nobody here did so before.
        if phase != Phase::Deleting && (times == 0 || phase == Phase::DeleteFailed) {
            heat::delete(cloud, &seen).await?;
            asked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Waited::NotYet(format!("stack `{}` is {}", seen.name, seen.status)))
    })
    .await
}

async fn stays(cloud: &Cloud<'_>, stack: &Stack, doing: &str) -> PortError {
    let resources = heat::resources(cloud, stack).await.unwrap_or_default();
    let stuck: Vec<String> = resources
        .iter()
        .filter(|one| one.status == "DELETE_FAILED")
        .map(|one| format!("`{}` ({} {})", one.name, one.kind, one.id()))
        .collect();
    let stuck = if stuck.is_empty() { "it does not say what".into() } else { stuck.join(", ") };
    let detail = format!("after {DELETIONS} tries: {}; left: {stuck}", stack.reason());
    PortError::new(&STACK_STAYS, doing, detail).on(&stack.name)
}
