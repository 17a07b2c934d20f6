//! The life of an instance's stack: made, waited for, deleted.
//!
//! ```text
//! own stack? ─┬─ none ──────────────── create ─┐
//!             ├─ in progress ──────────────────┼─ wait ─┬─ complete
//!             ├─ complete ─────────────────────┘        └─ in progress past its own time limit ─┐
//!             └─ failed, or being deleted ─ delete, wait ─ create ◄─────────────────────────────┘
//! ```
//! Heat ends a creation at the time limit that it was given. One that is in progress after that is worked on by nobody:
//! the engine that did has died.

use crate::errors::{STACK_FOREIGN, STACK_SLOW, STACK_STAYS, stack_failure};
use crate::heat::{self, Blueprint, Phase, Resource, Stack, stack_name};
use crate::patience::{once_logged_in, patiently};
use crate::session::Cloud;
use jiff::SignedDuration;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use vnfm_core::ports::{Ownership, PortError, VimCall, Waited, wait};

/// How often a creation whose answer was lost is asked for.
const CREATIONS: u32 = 3;
/// How long a name that belongs to no stack that Heat shows is taken for one that Heat is about to let go of.
const NAME_HELD: SignedDuration = SignedDuration::from_secs(30);
/// The usual pause before such a name is asked for again.
const PAUSE: Duration = Duration::from_millis(250);
/// How often Heat is asked to delete one stack.
const DELETIONS: u32 = 4;
/// Between two looks at the resources of a stack that is being made, looks at the stack alone.
const RESOURCES_EVERY: u32 = 4;

/// The instance's stack, complete: the one that an earlier call made, or a new one.
pub(crate) async fn complete(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &Blueprint,
) -> Result<Stack, PortError> {
    let doing = format!("create stack `{}`", stack_name(&cx.ownership.instance_id));
    let found = once_logged_in(cx, &doing, || own_or_new(cx, cloud, blueprint)).await?;
    if let Some(stack) = finished(cx, cloud, &found.stack, found.adopted).await? {
        return Ok(stack);
    }
    let text = format!("{doing}: nobody works on it any more: making it again");
    cx.watcher.log("warn", "openstack", &text);
    deleted(cx, cloud, &found.stack).await?;
    let stack = once_logged_in(cx, &doing, || created(cx, cloud, blueprint)).await?;
    let made = finished(cx, cloud, &stack, false).await?;
    made.ok_or_else(|| PortError::new(&STACK_SLOW, doing, "it was made twice, and did not end"))
}

/// A stack, and whether an earlier call made it.
struct Found {
    stack: Stack,
    adopted: bool,
}

async fn own_or_new(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &Blueprint,
) -> Result<Found, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    if let Some(stack) = own(cx, cloud, "create").await? {
        match stack.phase() {
            Phase::Complete | Phase::InProgress => {
                cx.watcher.log(
                    "info",
                    "openstack",
                    &format!("stack `{name}` is there already: going on with it"),
                );
                return Ok(Found {
                    stack,
                    adopted: true,
                });
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
    let stack = created(cx, cloud, blueprint).await?;
    Ok(Found {
        stack,
        adopted: false,
    })
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
    let made = wait(cx.clock, until, PAUSE, heard, || async {
        let answer = match heat::create(cloud, cx.ownership, blueprint).await {
            Ok(Some(stack)) => return Ok(Waited::Done(stack)),
            Err(error) if !error.is_unavailable() => return Err(error),
            answer => answer,
        };
        // Perhaps made by a call whose answer was lost: it is looked for by name and tag.
        if let Some(stack) = own(cx, cloud, "create").await? {
            return Ok(Waited::Done(stack));
        }
        match answer {
            Err(error) if lost.fetch_add(1, Ordering::Relaxed) + 1 >= CREATIONS => Err(error),
            Err(error) => Ok(Waited::NotYet(error.to_string())),
            Ok(_) => Ok(Waited::NotYet(format!(
                "Heat to let go of the name `{name}`"
            ))),
        }
    });
    made.await?.ok_or_else(|| {
        let detail =
            "Heat says that a stack of that name exists, but does not show it to this project";
        PortError::new(&STACK_FOREIGN, format!("create stack `{name}`"), detail).on(name)
    })
}

/// The stack with our name, if it carries our tag.
pub(crate) async fn own(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    doing: &str,
) -> Result<Option<Stack>, PortError> {
    let name = stack_name(&cx.ownership.instance_id);
    match heat::find(cloud, &name).await? {
        Some(stack) if !stack.is_of(&cx.ownership.installation_id) => {
            Err(foreign(doing, &stack, cx.ownership))
        }
        found => Ok(found),
    }
}

/// The stack with our name is somebody else's, or has lost its tags.
pub(crate) fn foreign(doing: &str, stack: &Stack, ownership: &Ownership) -> PortError {
    let detail = format!(
        "the cloud has a stack of that name ({}) without the tag `{}`; it was not touched",
        stack.id,
        heat::installation_tag(&ownership.installation_id)
    );
    PortError::new(
        &STACK_FOREIGN,
        format!("{doing} stack `{}`", stack.name),
        detail,
    )
    .on(&stack.id)
}

/// Waits until Heat has made the stack; `None` where an `adopted` one is past its own time limit.
async fn finished(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    stack: &Stack,
    adopted: bool,
) -> Result<Option<Stack>, PortError> {
    let doing = format!("create stack `{}`", stack.name);
    let looks = AtomicU32::new(0);
    patiently(cx, &doing, || async {
        let Some(seen) = heat::show(cloud, stack).await? else {
            let gone = format!(
                "somebody deleted the stack while it was being made ({})",
                stack.id
            );
            return Err(stack_failure(&doing, "DELETE_COMPLETE", &gone));
        };
        match seen.phase() {
            Phase::Complete => Ok(Waited::Done(Some(seen))),
            Phase::Failed => Err(failure(cloud, &seen, &doing).await),
            Phase::Deleting | Phase::DeleteFailed | Phase::Gone => Err(stack_failure(
                &doing,
                &seen.status,
                "somebody deletes the stack while it is being made",
            )),
            Phase::InProgress if adopted && seen.is_overdue(cx.clock.now()) => {
                Ok(Waited::Done(None))
            }
            Phase::InProgress => {
                let detailed = looks.fetch_add(1, Ordering::Relaxed) % RESOURCES_EVERY == 1;
                if !detailed {
                    return Ok(Waited::NotYet(format!(
                        "stack `{}` is {}",
                        seen.name, seen.status
                    )));
                }
                let resources = heat::resources(cloud, &seen).await?;
                Ok(Waited::NotYet(missing(cx, &seen, &resources)))
            }
        }
    })
    .await
}

/// Says which resources are not there yet.
pub(crate) fn missing(cx: &VimCall<'_>, stack: &Stack, resources: &[Resource]) -> String {
    let open: Vec<&str> = resources
        .iter()
        .filter(|one| !one.is_complete())
        .map(|one| one.name.as_str())
        .collect();
    let done = resources.len() - open.len();
    let percent = u8::try_from(done * 100 / resources.len().max(1)).unwrap_or(100);
    cx.watcher.progress(
        percent,
        &format!(
            "stack `{}`: {done} of {} resources",
            stack.name,
            resources.len()
        ),
    );
    let shown = open.iter().take(8).copied().collect::<Vec<_>>().join(", ");
    let more = if open.len() > 8 {
        format!(" and {} more", open.len() - 8)
    } else {
        String::new()
    };
    format!(
        "stack `{}` is {}; not complete: {shown}{more}",
        stack.name, stack.status
    )
}

/// Why a stack failed: its own reason, and the resource's where that says more.
pub(crate) async fn failure(cloud: &Cloud<'_>, stack: &Stack, doing: &str) -> PortError {
    let error = stack_failure(doing, &stack.status, stack.reason());
    if error.resource().is_some() {
        return error;
    }
    let resources = heat::resources(cloud, stack).await.unwrap_or_default();
    let failed = resources.iter().find(|one| {
        one.status.ends_with("_FAILED") && one.reason.as_deref().is_some_and(|why| !why.is_empty())
    });
    let Some(failed) = failed else { return error };
    let reason = format!(
        "{}; {}",
        stack.reason(),
        failed.reason.as_deref().unwrap_or_default()
    );
    stack_failure(doing, &stack.status, &reason).on(&failed.name)
}

/// Deletes a stack of ours, seen as it is given, and returns when it is gone.
pub(crate) async fn deleted(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    stack: &Stack,
) -> Result<(), PortError> {
    let doing = format!("delete stack `{}`", stack.name);
    let (asked, looks) = (AtomicU32::new(0), AtomicU32::new(0));
    patiently(cx, &doing, || async {
        let first = looks.fetch_add(1, Ordering::Relaxed) == 0;
        let seen = if first {
            Some(stack.clone())
        } else {
            heat::show(cloud, stack).await?
        };
        let Some(mut seen) = seen else {
            return Ok(Waited::Done(()));
        };
        let times = asked.load(Ordering::Relaxed);
        let phase = seen.phase();
        if phase == Phase::DeleteFailed && times >= DELETIONS {
            return Err(stays(cloud, &seen, &doing).await);
        }
        // A stack that Heat is deleting already is asked for only if nobody here did so before.
        if phase != Phase::Deleting && (times == 0 || phase == Phase::DeleteFailed) {
            heat::delete(cloud, &seen).await?;
            asked.fetch_add(1, Ordering::Relaxed);
            let Some(now) = heat::show(cloud, stack).await? else {
                return Ok(Waited::Done(()));
            };
            seen = now;
        }
        Ok(Waited::NotYet(format!(
            "stack `{}` is {}",
            seen.name, seen.status
        )))
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
    let stuck = if stuck.is_empty() {
        "it does not say what".into()
    } else {
        stuck.join(", ")
    };
    let detail = format!("after {DELETIONS} tries: {}; left: {stuck}", stack.reason());
    PortError::new(&STACK_STAYS, doing, detail).on(&stack.name)
}
