//! The life of an instance's stack: create it, wait for it, delete it.
//!
//! ```text
//! own stack? ─┬─ none ──────────────── create ─┐
//!             ├─ in progress ──────────────────┼─ wait ─┬─ complete
//!             ├─ complete ─────────────────────┘        └─ in progress past its own time limit ─┐
//!             └─ failed, or being deleted ─ delete, wait ─ create ◄─────────────────────────────┘
//! ```
//! Heat ends a creation at the time limit that we gave it. A stack still in progress after that is abandoned: the Heat
//! engine that worked on it has died.

use crate::errors::{STACK_FOREIGN, STACK_SLOW, STACK_STAYS, stack_failure};
use crate::heat::{self, Phase, Resource, Stack, StackTemplate, stack_name};
use crate::keystone_login::Cloud;
use crate::leftovers;
use crate::retries::{INTERVAL, Waiter};
use futures::TryFutureExt as _;
use jiff::SignedDuration;
use vnfm_core::ports::{Backoff, Expired, Ownership, PortError, VimCall, Waited};

/// Attempts to create a stack when the response is lost.
const MAX_CREATE_ATTEMPTS: u32 = 3;
/// How long Heat may still hold the name of a deleted stack that it no longer shows.
const NAME_RELEASE_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);
/// Requests to delete one stack.
const MAX_DELETE_ATTEMPTS: u32 = 4;
/// Of the observations of a stack in progress, one in this many lists its resources.
pub(crate) const RESOURCES_EVERY: u32 = 4;
/// What to do with a stack of ours that has lost its tags.
pub(crate) const RETAG_HINT: &str = "the stack has lost its tags: tag it again (`openstack stack update --existing --tags …`), then retry";
/// Resources named in a progress text.
const MAX_NAMED_RESOURCES: usize = 8;

/// Returns the instance's stack once it is complete: the one that an earlier call created, or a new one.
pub(crate) async fn complete(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &StackTemplate,
) -> Result<Stack, PortError> {
    let action = format!("create stack `{}`", stack_name(&cx.ownership.instance_id));
    let mut waiter = Waiter::for_login(cx, &action);
    let found = loop {
        let attempt = adopt_or_create(cx, cloud, blueprint).map_ok(Waited::Done);
        match Box::pin(waiter.attempt(attempt)).await? {
            Waited::Done(found) => break found,
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    };
    if let Some(stack) = wait_until_complete(cx, cloud, &found.stack, found.adopted).await? {
        return Ok(stack);
    }
    let text = format!("{action}: Heat has abandoned it: recreating it");
    cx.watcher.log("warn", "openstack", &text);
    delete(cx, cloud, &found.stack, Programs::HadNoLogin).await?;
    let mut waiter = Waiter::for_login(cx, &action);
    let stack = loop {
        let attempt = create(cx, cloud, blueprint).map_ok(Waited::Done);
        match waiter.attempt(attempt).await? {
            Waited::Done(stack) => break stack,
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    };
    let created = wait_until_complete(cx, cloud, &stack, false).await?;
    created.ok_or_else(|| {
        PortError::new(
            &STACK_SLOW,
            action.as_str(),
            "it was created twice and did not finish",
        )
    })
}

struct Found {
    stack: Stack,
    /// An earlier call created it.
    adopted: bool,
}

async fn adopt_or_create(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &StackTemplate,
) -> Result<Found, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    if let Some(stack) = own(cx, cloud, "create").await? {
        match stack.phase() {
            Phase::Complete | Phase::InProgress => {
                let text = format!("stack `{name}` already exists: continuing with it");
                cx.watcher.log("info", "openstack", &text);
                return Ok(Found {
                    stack,
                    adopted: true,
                });
            }
            Phase::Failed | Phase::Deleting | Phase::DeleteFailed | Phase::Deleted => {
                let status = &stack.status;
                let text =
                    format!("stack `{name}` of an earlier attempt is {status}: recreating it");
                cx.watcher.log("info", "openstack", &text);
                delete(cx, cloud, &stack, Programs::HadNoLogin).await?;
            }
        }
    }
    let stack = create(cx, cloud, blueprint).await?;
    Ok(Found {
        stack,
        adopted: false,
    })
}

/// Requests the stack until it exists. Heat holds the name of a deleted stack a moment longer than it shows the stack, so
/// a name that no visible stack has is requested again.
async fn create(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &StackTemplate,
) -> Result<Stack, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    let deadline = cx.deadline.min(cx.clock.now() + NAME_RELEASE_TIMEOUT);
    let mut backoff = Backoff::new(cx.clock, cx.watcher, deadline, INTERVAL);
    let mut lost = 0;
    loop {
        let response = match heat::create(cloud, cx.ownership, blueprint).await {
            Ok(Some(stack)) => return Ok(stack),
            Err(error) if !error.is_unavailable() => return Err(error),
            response => response,
        };
        // A request whose response was lost may have created it: look for it by name and tag.
        if let Some(stack) = own(cx, cloud, "create").await? {
            return Ok(stack);
        }
        let reason = match response {
            Err(error) => {
                lost += 1;
                if lost >= MAX_CREATE_ATTEMPTS {
                    return Err(error);
                }
                error.to_string()
            }
            Ok(_) => format!("Heat to release the name `{name}`"),
        };
        if let Err(Expired) = backoff.pause(&reason).await {
            let detail = "Heat reports that a stack of that name exists, but does not show it to this project";
            let action = format!("create stack `{name}`");
            return Err(PortError::new(&STACK_FOREIGN, action, detail).on(name));
        }
    }
}

/// The stack with our name, if it carries our tag.
pub(crate) async fn own(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    verb: &str,
) -> Result<Option<Stack>, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    match heat::find(cloud, &name).await? {
        Some(stack) if !stack.belongs_to(&cx.ownership.installation_id) => {
            Err(foreign(verb, &stack, cx.ownership))
        }
        found => Ok(found),
    }
}

/// The error for a stack that has our name but not our tag: another owner's, or one that lost its tags.
pub(crate) fn foreign(verb: &str, stack: &Stack, ownership: &Ownership) -> PortError {
    let detail = format!(
        "the cloud has a stack of that name ({}) without the tag `{}`; it was not touched",
        stack.id,
        heat::installation_tag(&ownership.installation_id)
    );
    PortError::new(
        &STACK_FOREIGN,
        format!("{verb} stack `{}`", stack.name),
        detail,
    )
    .on(&stack.id)
}

/// Waits until Heat has created the stack; `None` if an `adopted` one is past its own time limit.
async fn wait_until_complete(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    stack: &Stack,
    adopted: bool,
) -> Result<Option<Stack>, PortError> {
    let action = format!("create stack `{}`", stack.name);
    let mut waiter = Waiter::new(cx, &action);
    let mut observations = 0_u32;
    loop {
        let observed = async {
            let Some(stack) = heat::show(cloud, stack).await? else {
                let reason = format!(
                    "the stack was deleted while it was being created ({})",
                    stack.id
                );
                return Err(stack_failure(&action, "DELETE_COMPLETE", &reason));
            };
            match stack.phase() {
                Phase::Complete => Ok(Waited::Done(Some(stack))),
                Phase::Failed => Err(failure(cloud, &stack, &action).await),
                Phase::Deleting | Phase::DeleteFailed | Phase::Deleted => Err(stack_failure(
                    &action,
                    &stack.status,
                    "someone is deleting the stack while it is being created",
                )),
                Phase::InProgress if adopted && stack.is_overdue(cx.clock.now()) => {
                    Ok(Waited::Done(None))
                }
                Phase::InProgress => {
                    observations += 1;
                    if observations % RESOURCES_EVERY != 2 {
                        return Ok(Waited::NotYet(status(&stack)));
                    }
                    let resources = heat::resources(cloud, &stack).await?;
                    Ok(Waited::NotYet(report_progress(cx, &stack, &resources)))
                }
            }
        };
        match waiter.attempt(observed).await? {
            Waited::Done(stack) => return Ok(stack),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

pub(crate) fn status(stack: &Stack) -> String {
    format!("stack `{}` is {}", stack.name, stack.status)
}

/// Reports the share of complete resources to the watcher and returns a text that names the others.
pub(crate) fn report_progress(cx: &VimCall<'_>, stack: &Stack, resources: &[Resource]) -> String {
    let open: Vec<&str> = resources
        .iter()
        .filter(|one| !one.is_complete())
        .map(|one| one.name.as_str())
        .collect();
    let (total, done) = (resources.len(), resources.len() - open.len());
    let percent = u8::try_from(done * 100 / total.max(1)).unwrap_or(100);
    let text = format!("stack `{}`: {done} of {total} resources", stack.name);
    cx.watcher.progress(percent, &text);
    let named = open.iter().take(MAX_NAMED_RESOURCES).copied();
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match open.len().saturating_sub(MAX_NAMED_RESOURCES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}; not complete: {named}{more}", status(stack))
}

/// The error for a stack that failed: Heat's reason, plus the failed resource's if that says more.
pub(crate) async fn failure(cloud: &Cloud<'_>, stack: &Stack, action: &str) -> PortError {
    let error = stack_failure(action, &stack.status, stack.reason());
    if error.resource().is_some() {
        return error;
    }
    let resources = heat::resources(cloud, stack).await.unwrap_or_default();
    let failed = resources.iter().find_map(|one| {
        let reason = one.reason.as_deref().filter(|reason| !reason.is_empty())?;
        one.status.ends_with("_FAILED").then_some((one, reason))
    });
    let Some((failed, reason)) = failed else {
        return error;
    };
    let reason = format!("{}; {reason}", stack.reason());
    stack_failure(action, &stack.status, &reason).on(&failed.name)
}

/// Whether programs inside the instance could create resources on the cloud.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    HadNoLogin,
    /// Services remember tokens: they accept a revoked login for some minutes.
    HadLogin,
}

/// Deletes a stack of ours, starting from its state in `stack`; returns once it no longer exists.
///
/// What programs inside the instance created meanwhile is deleted before each further attempt.
pub(crate) async fn delete(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    stack: &Stack,
    programs: Programs,
) -> Result<(), PortError> {
    let action = format!("delete stack `{}`", stack.name);
    let mut waiter = Waiter::new(cx, &action);
    let mut known = Some(stack.clone());
    let mut requests = 0;
    loop {
        let observed = async {
            let current = match known.take() {
                Some(stack) => Some(stack),
                None => heat::show(cloud, stack).await?,
            };
            let Some(mut current) = current else {
                return Ok(Waited::Done(()));
            };
            let phase = current.phase();
            if phase == Phase::DeleteFailed && requests >= MAX_DELETE_ATTEMPTS {
                return Err(delete_failure(cloud, &current, &action).await);
            }
            // Someone else may have requested the deletion already; then Heat needs no request of ours.
            if phase != Phase::Deleting && (requests == 0 || phase == Phase::DeleteFailed) {
                if requests > 0 && programs == Programs::HadLogin {
                    Box::pin(leftovers::remove(cx, cloud)).await?;
                }
                heat::delete(cloud, &current).await?;
                requests += 1;
                let Some(after) = heat::show(cloud, stack).await? else {
                    return Ok(Waited::Done(()));
                };
                current = after;
            }
            Ok(Waited::NotYet(status(&current)))
        };
        match waiter.attempt(observed).await? {
            Waited::Done(()) => return Ok(()),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

async fn delete_failure(cloud: &Cloud<'_>, stack: &Stack, action: &str) -> PortError {
    let resources = heat::resources(cloud, stack).await.unwrap_or_default();
    let stuck: Vec<String> = resources
        .iter()
        .filter(|one| one.status == "DELETE_FAILED")
        .map(|one| format!("`{}` ({} {})", one.name, one.kind, one.id()))
        .collect();
    let stuck = if stuck.is_empty() {
        "Heat names no resource".into()
    } else {
        stuck.join(", ")
    };
    let detail = format!(
        "after {MAX_DELETE_ATTEMPTS} attempts: {}; left: {stuck}",
        stack.reason()
    );
    PortError::new(&STACK_STAYS, action, detail).on(&stack.name)
}
