//! Replaces the servers of a stack that are meant, and nothing else.
//!
//! ```text
//! own stack? ─┬─ none, or its creation is worked on by nobody ─ nothing to repair: it is made anew
//!             ├─ in progress ─ wait; where nothing happens any more: update again
//!             └─ complete, failed ─ what of it is old or lost? ─┬─ nothing, and complete: repaired
//!                     ▲                                         ▼
//!                     └── update ◄── their servers gone ◄── marked unhealthy, in the stack that holds them
//! ```
//! - A VNFC's id is its server's, so a VNFC whose id is still in the stack has not been replaced yet, and one whose id
//!   is not has been: whoever comes back after an interruption sees from the stack alone what is left to do.
//! - The servers go before the update, by Nova. Heat makes the successor before it deletes what it replaces, and so
//!   fails where there is no room for both (quota, anti-affinity), where a volume is still attached, and where the old
//!   server is in ERROR, whose ports it does not take away.
//! - The update repeats nothing but the tags. Heat has template, files and parameters of the allocation: were they
//!   made anew, an image or a flavor that has another id by now would replace every server.
//! - Ports are resources of their own, so they and their addresses stay. Volumes stay unless they are meant, too.

use crate::errors::{STACK_FAILED, STACK_SLOW, STACK_STAYS};
use crate::heat::{self, Phase, Resource, Stack};
use crate::inventory::{AT_ONCE, PORT, SERVER, VOLUME};
use crate::patience::patiently;
use crate::session::Cloud;
use crate::stacks::{deleted, failure, foreign, missing};
use crate::{neutron, nova};
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use vnfm_core::ports::{PortError, Repair, VimCall, Waited};

/// How often Heat is asked to update one stack before it is taken to be unable.
const UPDATES: u32 = 6;
/// Looks at a server that is being deleted, between two requests to do so: the first may have gone to a host that is
/// dead, which Nova learns a minute later.
const DELETE_EVERY: u32 = 8;
/// The longest that nothing may happen to a stack before its update is asked for again.
const QUIET: SignedDuration = SignedDuration::from_mins(2);
/// How long Heat may take from the acceptance of an update to its beginning.
const BEGINS: SignedDuration = SignedDuration::from_secs(5);
/// What Heat shows as the reason.
const REASON: &str = "to be replaced: healed by vnfm";

/// What one call of `heal` knows.
struct Healing<'a> {
    cx: &'a VimCall<'a>,
    cloud: &'a Cloud<'a>,
    how: &'a Repair,
    /// Servers, and volumes where they are meant, by their ids from before.
    meant: BTreeSet<String>,
    /// How long a stack may stay as it is.
    patience: SignedDuration,
    progress: Mutex<Progress>,
}

/// How far it is.
#[derive(Default)]
struct Progress {
    updates: u32,
    /// What the stack looked like when it last changed, and when that was.
    last: Option<(String, Timestamp)>,
    /// When Heat was asked for the last update, and the stack's own stamp before it.
    asked: Option<(Timestamp, Option<Timestamp>)>,
}

/// The stack, with every server replaced that is meant; `None` where there is no stack to repair.
pub(crate) async fn repaired(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    how: &Repair,
) -> Result<Option<Stack>, PortError> {
    let left = cx.deadline.duration_since(cx.clock.now());
    let healing = Healing {
        cx,
        cloud,
        how,
        meant: meant(how),
        patience: (left / 10).clamp(SignedDuration::from_secs(1), QUIET),
        progress: Mutex::default(),
    };
    patiently(cx, &healing.doing(), || healing.look()).await
}

/// The ids of what is to be replaced.
fn meant(how: &Repair) -> BTreeSet<String> {
    let vnfcs = how
        .inventory
        .vnfc_resource_info
        .iter()
        .filter(|vnfc| how.vnfcs.contains(&vnfc.id));
    vnfcs
        .flat_map(|vnfc| {
            let volumes = vnfc
                .storage_resource_ids
                .iter()
                .filter(|_| how.with_storage);
            std::iter::once(&vnfc.compute_resource.resource_id).chain(volumes)
        })
        .cloned()
        .collect()
}

impl Healing<'_> {
    fn doing(&self) -> String {
        format!(
            "heal stack `{}`",
            heat::stack_name(&self.cx.ownership.instance_id)
        )
    }

    async fn look(&self) -> Result<Waited<Option<Stack>>, PortError> {
        let Some(stack) = self.own().await? else {
            return Ok(Waited::Done(None));
        };
        match stack.phase() {
            Phase::Gone => Ok(Waited::Done(None)),
            Phase::InProgress if stack.is_overdue(self.cx.clock.now()) => {
                deleted(self.cx, self.cloud, &stack).await?;
                Ok(Waited::Done(None))
            }
            Phase::InProgress => self.underway(&stack).await,
            Phase::Deleting => Ok(Waited::NotYet(format!(
                "stack `{}` is {}",
                stack.name, stack.status
            ))),
            Phase::DeleteFailed => {
                let detail = format!("somebody began to delete it: {}", stack.reason());
                let error = PortError::new(&STACK_STAYS, self.doing(), detail).on(&stack.name);
                Err(error.hint("terminate the instance: that goes on deleting the stack"))
            }
            Phase::Failed if self.updates() > 0 => {
                Err(failure(self.cloud, &stack, &self.doing()).await)
            }
            Phase::Complete | Phase::Failed => self.advanced(stack).await,
        }
    }

    async fn own(&self) -> Result<Option<Stack>, PortError> {
        let ownership = self.cx.ownership;
        let found = heat::find(self.cloud, &heat::stack_name(&ownership.instance_id)).await?;
        match found {
            Some(stack) if !stack.is_of(&ownership.installation_id) => {
                let error = foreign("heal", &stack, ownership);
                if self.how.handle.get("stackId") != Some(&json!(stack.id)) {
                    return Err(error);
                }
                Err(error.hint("the stack has lost its tags: tag it again (`openstack stack update --existing --tags …`), then retry"))
            }
            found => Ok(found),
        }
    }

    /// A stack that Heat works on, or worked on when its engine died.
    async fn underway(&self, stack: &Stack) -> Result<Waited<Option<Stack>>, PortError> {
        let resources = heat::resources(self.cloud, stack).await?;
        let is_update = !stack.status.starts_with("CREATE");
        if self.is_quiet(stack, &resources) && is_update {
            let text = format!(
                "nothing happens to stack `{}`: asking for its update again",
                stack.name
            );
            self.cx.watcher.log("warn", "openstack", &text);
            self.update(stack).await?;
        }
        Ok(Waited::NotYet(missing(self.cx, stack, &resources)))
    }

    /// Whether nothing has changed for so long that nobody seems to be at work.
    fn is_quiet(&self, stack: &Stack, resources: &[Resource]) -> bool {
        let now = self.cx.clock.now();
        let each = resources
            .iter()
            .map(|one| format!("{} {} {}", one.name, one.id(), one.status));
        let all: Vec<String> = each.collect();
        let seen = format!("{} {:?} {}", stack.status, stack.updated, all.join("; "));
        let mut progress = self.progress();
        match &progress.last {
            Some((before, since)) if *before == seen => now.duration_since(*since) > self.patience,
            _ => {
                progress.last = Some((seen, now));
                false
            }
        }
    }

    /// A stack at rest: done, or brought one step on.
    async fn advanced(&self, stack: Stack) -> Result<Waited<Option<Stack>>, PortError> {
        let resources = heat::resources(self.cloud, &stack).await?;
        let lost = self.lost(&resources).await?;
        let is_old = |one: &&Resource| {
            matches!(one.kind.as_str(), SERVER | VOLUME) && self.meant.contains(one.id())
        };
        let old: Vec<&Resource> = resources
            .iter()
            .filter(|one| is_old(one) || lost.contains(one.id()))
            .collect();
        if old.is_empty() && stack.phase() == Phase::Complete {
            return Ok(Waited::Done(Some(stack)));
        }
        if self.is_about_to_begin(&stack) {
            return Ok(Waited::NotYet(format!(
                "Heat to begin with stack `{}`",
                stack.name
            )));
        }
        for one in &old {
            if !heat::mark_unhealthy(self.cloud, one, REASON).await? {
                return Ok(Waited::NotYet(format!(
                    "Heat to let go of resource `{}`",
                    one.name
                )));
            }
        }
        self.servers_gone(&old).await?;
        self.update(&stack).await?;
        let names: Vec<&str> = old.iter().map(|one| one.name.as_str()).collect();
        Ok(Waited::NotYet(format!(
            "stack `{}` to replace {}",
            stack.name,
            names.join(", ")
        )))
    }

    /// Heat takes an update a moment before the stack shows it.
    fn is_about_to_begin(&self, stack: &Stack) -> bool {
        self.progress().asked.is_some_and(|(at, before)| {
            stack.updated == before && self.cx.clock.now().duration_since(at) < BEGINS
        })
    }

    /// Servers and ports of the stack that the cloud does not have any more.
    async fn lost(&self, resources: &[Resource]) -> Result<BTreeSet<String>, PortError> {
        let of = |kind: &str| -> Vec<&str> {
            let some = resources
                .iter()
                .filter(|one| one.kind == kind && !one.id().is_empty());
            some.map(Resource::id).collect()
        };
        let ports = of(PORT);
        let there = neutron::existing(self.cloud, &ports).await?;
        let lost = ports
            .into_iter()
            .filter(|id| !there.contains(*id))
            .map(str::to_owned);
        let servers: Vec<String> = of(SERVER).into_iter().map(str::to_owned).collect();
        let cloud = self.cloud;
        let gone: Vec<Option<String>> = stream::iter(servers)
            .map(|id| async move {
                let server = nova::server(cloud, &id).await?;
                Ok::<_, PortError>(server.is_none_or(|one| one.is_gone()).then_some(id))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(lost.chain(gone.into_iter().flatten()).collect())
    }

    /// Deletes the servers, and returns when Nova has none of them.
    async fn servers_gone(&self, old: &[&Resource]) -> Result<(), PortError> {
        let looks = Mutex::new(0_u32);
        patiently(self.cx, &self.doing(), || async {
            let look = {
                let mut looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
                *looks += 1;
                *looks - 1
            };
            let mut there = Vec::new();
            for server in old.iter().filter(|one| one.kind == SERVER) {
                if look % DELETE_EVERY == 0 {
                    nova::delete(self.cloud, server.id()).await?;
                }
                let seen = nova::server(self.cloud, server.id()).await?;
                there.extend(seen.filter(|seen| !seen.is_gone()).map(|seen| seen.name));
            }
            if there.is_empty() {
                return Ok(Waited::Done(()));
            }
            Ok(Waited::NotYet(format!(
                "Nova to delete {}",
                there.join(", ")
            )))
        })
        .await
    }

    async fn update(&self, stack: &Stack) -> Result<(), PortError> {
        if self.updates() >= UPDATES {
            let detail = format!(
                "{UPDATES} updates did not end; it is {}: {}",
                stack.status,
                stack.reason()
            );
            let code = if stack.phase() == Phase::InProgress {
                &STACK_SLOW
            } else {
                &STACK_FAILED
            };
            return Err(PortError::new(code, self.doing(), detail).on(&stack.name));
        }
        heat::update(self.cloud, self.cx.ownership, stack).await?;
        let mut progress = self.progress();
        progress.updates += 1;
        progress.last = None;
        progress.asked = Some((self.cx.clock.now(), stack.updated));
        Ok(())
    }

    fn updates(&self) -> u32 {
        self.progress().updates
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
