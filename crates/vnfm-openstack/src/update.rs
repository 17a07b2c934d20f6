//! Updates a stack to the target of an operation: replaces the named servers, recreates missing ones, and changes the
//! template if the target is another deployment.
//!
//! ```text
//! own stack? ─┬─ none, or its creation is abandoned ─ nothing to update: the caller recreates it
//!             ├─ in progress ─ wait; if it stalls: update again
//!             └─ complete, failed ─ another deployment? to replace or missing? ─┬─ nothing, and complete: done
//!                     ▲                                                         ▼
//!                     └── update ◄── delete the servers ◄── mark them unhealthy, in the stack that holds them
//! ```
//! - A VNFC's id is its server's id: an id still in the stack has not been replaced yet, an id no longer there has been.
//!   After an interruption the stack alone shows what remains to be done.
//! - Nova deletes the servers before the update. Heat creates the successor before it deletes what it replaces, so its
//!   update fails if there is no room for both (quota, anti-affinity), if a volume is still attached, or if the old
//!   server is in ERROR, whose ports Heat does not detach.
//! - A stack carries the fingerprint of the deployment that it was last sent as a tag. If that is the target's, Heat reuses
//!   its template, files and parameters, as in a heal: regenerating them could replace every server if a newer version of
//!   this driver writes them differently. Otherwise the new template names the images and flavors that the instance has.
//! - Members of an auto scaling group that a smaller size does not need are marked as unhealthy, so that Heat removes them
//!   and no others.
//! - Ports are resources of their own, so they keep their addresses. Those that a failed replacement took from a server are
//!   attached again ([`detached_ports`]). Volumes stay unless their replacement is requested.

use crate::blueprint::fingerprint;
use crate::errors::{STACK_FAILED, STACK_SLOW, STACK_STAYS};
use crate::heat::{self, Phase, Resource, Stack, StackTemplate};
use crate::inventory::{MAX_CONCURRENT_REQUESTS, PORT, SERVER, VOLUME};
use crate::keystone_login::Cloud;
use crate::resolved::recorded_instances;
use crate::retries::Waiter;
use crate::stacks::{
    Programs, RESOURCES_EVERY, RETAG_HINT, delete, failure, foreign, report_progress, status,
};
use crate::{detached_ports, group_members, neutron, nova};
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::collections::BTreeSet;
use vnfm_core::ports::{Convergence, PortError, VimCall, Waited};

/// Updates of one stack after which Heat is considered unable to heal it.
const MAX_UPDATES: u32 = 6;
/// Of the observations of a server in deletion, one in this many requests the deletion again: the first request may have
/// gone to a dead host, which Nova learns a minute later.
const DELETE_EVERY: u32 = 8;
/// A stack in progress that has not changed for this long is updated again.
const MAX_STALL: SignedDuration = SignedDuration::from_mins(2);
/// Heat may take this long between accepting an update and showing it.
const UPDATE_START_TIMEOUT: SignedDuration = SignedDuration::from_secs(5);
/// Heat shows it as the reason of an unhealthy resource.
const REASON: &str = "to be replaced: healed by vnfm";
/// The same for a member that a smaller size does not need.
const SURPLUS: &str = "to be removed: scaled by vnfm";

/// One change of a stack.
struct Update<'a> {
    cx: &'a VimCall<'a>,
    cloud: &'a Cloud<'a>,
    change: &'a Convergence<'a>,
    /// The fingerprint of the target, or of the template on the way to it.
    fingerprint: String,
    /// The template of the target, if the stack turned out to need it.
    template: Option<&'a StackTemplate>,
    action: String,
    /// Ids of the servers to replace, and of their volumes if requested, from before the heal.
    targets: BTreeSet<String>,
    /// How long a stack in progress may stay unchanged.
    stall_timeout: SignedDuration,
    updates: u32,
    /// Observations of the stack in progress.
    observations: u32,
    /// The stack as it was last observed.
    known: Option<Stack>,
    /// What the stack looked like when it last changed, and when that was.
    last_change: Option<(String, Timestamp)>,
    /// When we last requested an update, and the stack's `updated_time` before it.
    requested: Option<(Timestamp, Option<Timestamp>)>,
}

/// How an update of a stack ended.
pub(crate) enum Updated {
    /// The stack is as the target says.
    Complete(Box<Stack>),
    /// There is no stack to update.
    Missing,
    /// The stack was made of another deployment, and no template was given.
    Outdated,
}

/// Updates the stack to the target. Sends `template` if the stack was made of another deployment.
pub(crate) async fn update_stack(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
    template: Option<&StackTemplate>,
) -> Result<Updated, PortError> {
    let replacing = replace_in_stack(cx, cloud, change, template, targets(change));
    Box::pin(replacing).await
}

/// As [`update_stack`], and replaces the servers and volumes with the ids `targets`.
pub(crate) async fn replace_in_stack(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
    template: Option<&StackTemplate>,
    targets: BTreeSet<String>,
) -> Result<Updated, PortError> {
    let left = cx.deadline.duration_since(cx.clock.now());
    let name = heat::stack_name(&cx.ownership.instance_id);
    let verb = if change.replace.vnfcs.is_empty() {
        "update"
    } else {
        "heal"
    };
    let action = format!("{verb} stack `{name}`");
    let mut waiter = Waiter::new(cx, &action);
    let mut update = Update {
        cx,
        cloud,
        change,
        fingerprint: match template {
            Some(template) => template.fingerprint.clone(),
            None => fingerprint(&change.target.deployment),
        },
        template,
        action: action.clone(),
        targets,
        stall_timeout: (left / 10).clamp(SignedDuration::from_secs(1), MAX_STALL),
        updates: 0,
        observations: 0,
        known: None,
        last_change: None,
        requested: None,
    };
    loop {
        match Box::pin(waiter.attempt(update.step())).await? {
            Waited::Done(updated) => return Ok(updated),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

/// The ids of the resources to replace.
pub(crate) fn targets(change: &Convergence<'_>) -> BTreeSet<String> {
    let current = change.current.into_iter();
    let vnfcs = current
        .flat_map(|recorded| &recorded.inventory.vnfc_resource_info)
        .filter(|vnfc| change.replace.vnfcs.contains(&vnfc.id));
    let reused = &change.target.deployment.reused_volumes;
    let is_own = |id: &&String| !reused.iter().any(|one| one.resource_id == **id);
    vnfcs
        .flat_map(|vnfc| {
            let volumes = vnfc
                .storage_resource_ids
                .iter()
                .filter(|_| change.replace.with_storage)
                .filter(is_own);
            std::iter::once(&vnfc.compute_resource.resource_id).chain(volumes)
        })
        .cloned()
        .collect()
}

/// Whether the stack was made of another deployment. One that an older version of this driver made has no fingerprint:
/// it is compared by the number of VNFCs, unless VNFCs are to be replaced, as that version only healed.
pub(crate) fn is_outdated(stack: &Stack, change: &Convergence<'_>) -> bool {
    match stack.deployment() {
        Some(made_of) => made_of != fingerprint(&change.target.deployment),
        None => change.replace.vnfcs.is_empty() && !has_size(change),
    }
}

/// Ids of servers and ports of the stack that the cloud no longer has.
pub(crate) async fn missing(
    cloud: &Cloud<'_>,
    resources: &[Resource],
) -> Result<BTreeSet<String>, PortError> {
    let ids = |kind: &str| -> Vec<&str> {
        resources
            .iter()
            .filter(|one| one.kind == kind && !one.id().is_empty())
            .map(Resource::id)
            .collect()
    };
    let ports = ids(PORT);
    let existing = neutron::existing(cloud, &ports).await?;
    let missing_ports = ports
        .into_iter()
        .filter(|id| !existing.contains(*id))
        .map(str::to_owned);
    let servers: Vec<String> = ids(SERVER).into_iter().map(str::to_owned).collect();
    let missing_servers: Vec<Option<String>> = stream::iter(servers)
        .map(|id| async move {
            let server = nova::server(cloud, &id).await?;
            Ok::<_, PortError>(server.is_none_or(|one| one.is_deleted()).then_some(id))
        })
        .buffered(MAX_CONCURRENT_REQUESTS)
        .try_collect()
        .await?;
    Ok(missing_ports
        .chain(missing_servers.into_iter().flatten())
        .collect())
}

/// Whether the recorded VNFCs of each VDU are as many as the target has.
fn has_size(change: &Convergence<'_>) -> bool {
    let deployment = &change.target.deployment;
    let mut counts = deployment.vdu_instances.iter();
    counts.all(|(vdu, count)| recorded_instances(change, vdu) == *count)
}

impl Update<'_> {
    /// Observes the stack and brings it one step further.
    async fn step(&mut self) -> Result<Waited<Updated>, PortError> {
        let Some(stack) = self.own().await? else {
            return Ok(Waited::Done(Updated::Missing));
        };
        match stack.phase() {
            Phase::Deleted => Ok(Waited::Done(Updated::Missing)),
            Phase::InProgress if stack.is_overdue(self.cx.clock.now()) => {
                delete(self.cx, self.cloud, &stack, Programs::HadNoLogin).await?;
                Ok(Waited::Done(Updated::Missing))
            }
            Phase::InProgress => self.watch(&stack).await,
            Phase::Deleting => Ok(Waited::NotYet(format!(
                "stack `{}` is {}",
                stack.name, stack.status
            ))),
            Phase::DeleteFailed => {
                let detail = format!("someone began to delete it: {}", stack.reason());
                let error = PortError::new(&STACK_STAYS, &self.action, detail).on(&stack.name);
                Err(error.hint("terminate the instance: this continues the deletion of the stack"))
            }
            Phase::Failed if self.updates > 0 => {
                Err(failure(self.cloud, &stack, &self.action).await)
            }
            Phase::Complete | Phase::Failed
                if self.is_outdated(&stack) && self.template.is_none() =>
            {
                Ok(Waited::Done(Updated::Outdated))
            }
            Phase::Complete | Phase::Failed => self.replace(stack).await,
        }
    }

    /// The stack with our name, if it carries our tag. Once found, it is looked at by its id.
    async fn own(&mut self) -> Result<Option<Stack>, PortError> {
        let ownership = self.cx.ownership;
        let known = match self.known.take() {
            Some(stack) => heat::show(self.cloud, &stack).await?,
            None => None,
        };
        let found = match known {
            Some(stack) => Some(stack),
            None => heat::find(self.cloud, &heat::stack_name(&ownership.instance_id)).await?,
        };
        self.known.clone_from(&found);
        match found {
            Some(stack) if !stack.belongs_to(&ownership.installation_id) => {
                let error = foreign("update", &stack, ownership);
                if self.change.handle().get("stackId") != Some(&json!(stack.id)) {
                    return Err(error);
                }
                Err(error.hint(RETAG_HINT))
            }
            found => Ok(found),
        }
    }

    /// Watches a stack in progress; updates it again if its Heat engine seems to have died.
    async fn watch(&mut self, stack: &Stack) -> Result<Waited<Updated>, PortError> {
        self.observations += 1;
        if self.observations % RESOURCES_EVERY != 2 {
            return Ok(Waited::NotYet(status(stack)));
        }
        let resources = heat::resources(self.cloud, stack).await?;
        let is_update = !stack.status.starts_with("CREATE");
        if self.is_stalled(stack, &resources) && is_update {
            let text = format!("stack `{}` has stalled: updating it again", stack.name);
            self.cx.watcher.log("warn", "openstack", &text);
            self.update(stack).await?;
        }
        Ok(Waited::NotYet(report_progress(self.cx, stack, &resources)))
    }

    /// Records the stack's state; true if it has been the same for longer than the stall timeout.
    fn is_stalled(&mut self, stack: &Stack, resources: &[Resource]) -> bool {
        let now = self.cx.clock.now();
        let each = resources
            .iter()
            .map(|one| format!("{} {} {}", one.name, one.id(), one.status));
        let all: Vec<String> = each.collect();
        let current = format!("{} {:?} {}", stack.status, stack.updated, all.join("; "));
        match &self.last_change {
            Some((before, since)) if *before == current => {
                now.duration_since(*since) > self.stall_timeout
            }
            _ => {
                self.last_change = Some((current, now));
                false
            }
        }
    }

    /// Replaces the remaining targets in a stack that Heat is not working on.
    async fn replace(&mut self, stack: Stack) -> Result<Waited<Updated>, PortError> {
        let resources = heat::resources(self.cloud, &stack).await?;
        let missing = if self.has_updated(&stack) {
            BTreeSet::new() // what was missing before the update has been recreated
        } else {
            missing(self.cloud, &resources).await?
        };
        let is_target = |one: &Resource| {
            matches!(one.kind.as_str(), SERVER | VOLUME) && self.targets.contains(one.id())
        };
        let old: Vec<&Resource> = resources
            .iter()
            .filter(|one| is_target(one) || missing.contains(one.id()))
            .collect();
        if old.is_empty() && stack.phase() == Phase::Complete && !self.is_outdated(&stack) {
            let attaching = detached_ports::attach(self.cx, self.cloud, self.change, &resources);
            return Ok(match Box::pin(attaching).await? {
                0 => Waited::Done(Updated::Complete(Box::new(stack))),
                count => Waited::NotYet(format!("Nova to attach {count} ports")),
            });
        }
        if self.is_about_to_update(&stack) {
            return Ok(Waited::NotYet(format!(
                "Heat to begin with stack `{}`",
                stack.name
            )));
        }
        for one in &old {
            if !heat::mark_unhealthy(self.cloud, one, REASON).await? {
                return Ok(Waited::NotYet(format!(
                    "Heat to release resource `{}`",
                    one.name
                )));
            }
        }
        if self.is_outdated(&stack) && !self.mark_surplus(&resources).await? {
            let reason = "Heat to release the members that a smaller size does not need";
            return Ok(Waited::NotYet(reason.to_owned()));
        }
        self.delete_servers(&old).await?;
        self.update(&stack).await?;
        let names: Vec<&str> = old.iter().map(|one| one.name.as_str()).collect();
        let doing = if names.is_empty() {
            "change its resources".to_owned()
        } else {
            format!("replace {}", names.join(", "))
        };
        Ok(Waited::NotYet(format!("stack `{}` to {doing}", stack.name)))
    }

    /// Marks the members of auto scaling groups that the update is to remove; false while Heat is working on one.
    async fn mark_surplus(&self, resources: &[Resource]) -> Result<bool, PortError> {
        for member in group_members::surplus(resources, self.change) {
            if !heat::mark_unhealthy(self.cloud, member, SURPLUS).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_outdated(&self, stack: &Stack) -> bool {
        match stack.deployment() {
            Some(made_of) => made_of != self.fingerprint,
            None => is_outdated(stack, self.change),
        }
    }

    /// Whether the stack is complete after an update of ours.
    fn has_updated(&self, stack: &Stack) -> bool {
        self.updates > 0 && stack.phase() == Phase::Complete && !self.is_about_to_update(stack)
    }

    /// Heat accepts an update a moment before the stack shows it.
    fn is_about_to_update(&self, stack: &Stack) -> bool {
        self.requested.is_some_and(|(at, before)| {
            stack.updated == before && self.cx.clock.now().duration_since(at) < UPDATE_START_TIMEOUT
        })
    }

    /// Deletes the servers among `old`; returns once Nova has none of them.
    async fn delete_servers(&self, old: &[&Resource]) -> Result<(), PortError> {
        let mut waiter = Waiter::new(self.cx, &self.action);
        let mut observations = 0_u32;
        loop {
            let observed = async {
                let request = observations.is_multiple_of(DELETE_EVERY);
                observations += 1;
                let mut remaining = Vec::new();
                for server in old.iter().filter(|one| one.kind == SERVER) {
                    if request {
                        nova::delete(self.cloud, server.id()).await?;
                    }
                    let server = nova::server(self.cloud, server.id()).await?;
                    remaining.extend(server.filter(|one| !one.is_deleted()).map(|one| one.name));
                }
                Ok(if remaining.is_empty() {
                    Waited::Done(())
                } else {
                    Waited::NotYet(format!("Nova to delete {}", remaining.join(", ")))
                })
            };
            match waiter.attempt(observed).await? {
                Waited::Done(()) => return Ok(()),
                Waited::NotYet(reason) => waiter.pause(&reason).await?,
            }
        }
    }

    async fn update(&mut self, stack: &Stack) -> Result<(), PortError> {
        if self.updates >= MAX_UPDATES {
            let detail = format!(
                "{MAX_UPDATES} updates did not finish; it is {}: {}",
                stack.status,
                stack.reason()
            );
            let code = if stack.phase() == Phase::InProgress {
                &STACK_SLOW
            } else {
                &STACK_FAILED
            };
            return Err(PortError::new(code, &self.action, detail).on(&stack.name));
        }
        let (cloud, ownership) = (self.cloud, self.cx.ownership);
        if let Some(template) = self.template.filter(|_| self.is_outdated(stack)) {
            heat::update(cloud, ownership, stack, template).await?;
        } else {
            let made_of = if self.is_outdated(stack) {
                stack.deployment()
            } else {
                Some(self.fingerprint.as_str())
            };
            heat::update_existing(cloud, ownership, stack, made_of).await?;
        }
        self.updates += 1;
        self.last_change = None;
        self.requested = Some((self.cx.clock.now(), stack.updated));
        Ok(())
    }
}
