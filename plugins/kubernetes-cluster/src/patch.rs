//! Patches the software of nodes to the versions that they should have, from top to bottom.
//!
//! ```text
//! list the software of all hosts ─► control planes, one after the other ─► workers, `parallel_upgrades` at a time ─► show
//!                                   (drain) ─ install what differs ─ Ready ─ uncordon ─ pods run again
//! ```
//!
//! Only nodes with another version are touched. What is left to do follows from what hosts have recorded, so that the attempt
//! after a crash goes on where the last one ended. A node whose installation fails returns to what it had when the operation
//! began, and no further node begins; a rollback returns all nodes to that.

use crate::api::Api;
use crate::cluster::{connect, names};
use crate::drain::{Drain, DrainOptions};
use crate::installer::{Installer, PARALLEL_HOSTS, first_failure};
use crate::machine::{Machine, StepState};
use crate::plan::{Node, Plan};
use crate::pods::{SCHEDULE_TIMEOUT, wait_for_pods};
use crate::software::{Change, OnHost, Recorded, STEP, changes, shown};
use crate::upgrade::UpgradeParams;
use futures::future::join_all;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

/// The checkpoint with what the hosts had when the operation began, by VNFC.
const BEFORE: &str = "software-before";
/// How long a node may take to be Ready after its patch, and the interval between two looks.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
const READY_INTERVAL: Duration = Duration::from_millis(500);

/// What the hosts have, by VNFC.
type OnHosts = BTreeMap<String, OnHost>;

/// A node with what it must get.
type NodeChanges<'a, 'c> = (&'a Node, Vec<Change<'c>>);

/// Installs on each node what the plan wants and the node has not.
///
/// # Errors
///
/// `bad-parameters` if the package lacks a file, `node-silent` if a host does not respond; then the error of the first host that
/// failed. A retry goes on with what is left.
pub(crate) async fn run<P>(
    cx: &HookContext,
    plan: &mut Plan,
    (params, request): (&UpgradeParams, &HookRequest<P>),
    effects: Effects,
) -> Result<Effects, DriverError> {
    plan.check_software()?;
    let patched = if plan.software.is_empty() {
        None
    } else if let Some(api) = connect(cx, plan).await? {
        let plan = &*plan;
        let patch = Patch::new(&api, plan, (params, &request.dependents));
        let on_hosts = patch.look().await?;
        let before = patch.before(&on_hosts).await?;
        let wanted = |node: &Node| changes(plan, node, &on_hosts[&node.vnfc]);
        Some(patch.roll(&before, wanted).await?)
    } else {
        None
    };
    let effects = shown(effects, (cx, plan, &request.instance)).await?;
    let message = match &patched {
        None => return Ok(effects),
        Some(nodes) if nodes.is_empty() => "all nodes have their software".to_owned(),
        Some(nodes) => format!("the software of {} was patched", nodes.join(", ")),
    };
    let earlier = effects.message.clone();
    Ok(effects.message(earlier.map_or_else(
        || message.clone(),
        |earlier| format!("{earlier}; {message}"),
    )))
}

/// Returns all nodes to the versions that they had when the operation began. Software that they did not have stays.
///
/// # Errors
///
/// The error of the first host that failed.
pub(crate) async fn undo<P>(
    cx: &HookContext,
    plan: &mut Plan,
    (params, request): (&UpgradeParams, &HookRequest<P>),
) -> Result<Effects, DriverError> {
    let Some(before) = cx.checkpoint::<OnHosts>(BEFORE).await? else {
        return Ok(Effects::none());
    };
    let Some(api) = connect(cx, plan).await? else {
        return Ok(Effects::none());
    };
    let plan = &*plan;
    let patch = Patch::new(&api, plan, (params, &request.dependents));
    let on_hosts = patch.look().await?;
    let returned = patch
        .roll(&OnHosts::new(), |node| {
            returns(plan, before.get(&node.vnfc), &on_hosts[&node.vnfc])
        })
        .await?;
    if returned.is_empty() {
        return Ok(Effects::none());
    }
    let names = returned.join(", ");
    Ok(Effects::none().message(format!(
        "the software of {names} is that of before the patch"
    )))
}

/// What leads from what a host has back to what it had, in the reverse order of the parameters.
fn returns<'a>(plan: &'a Plan, before: Option<&'a OnHost>, now: &OnHost) -> Vec<Change<'a>> {
    let change = |(name, before): (&'a String, &'a Recorded)| {
        let now = now.get(name).cloned().unwrap_or_default();
        let to = before.version.as_deref()?;
        let has_it = now.version.as_deref() == Some(to) && !now.is_interrupted;
        (!has_it).then(|| Change {
            name,
            from: now.version,
            to,
            software: plan.software.iter().find(|one| one.name == *name),
            is_in_package: false,
        })
    };
    let mut all: Vec<_> = before.into_iter().flatten().filter_map(change).collect();
    let position = |change: &Change<'_>| plan.software.iter().position(|s| s.name == change.name);
    all.sort_by_key(|change| std::cmp::Reverse(position(change)));
    all
}

/// A patch of one cluster.
struct Patch<'a> {
    api: &'a Api<'a>,
    plan: &'a Plan,
    installer: Installer<'a>,
    drain: DrainOptions,
    dependents: &'a [Dependent],
    /// How many workers to patch at a time; at least 1.
    parallel: usize,
}

impl<'a> Patch<'a> {
    fn new(
        api: &'a Api<'a>,
        plan: &'a Plan,
        (params, dependents): (&UpgradeParams, &'a [Dependent]),
    ) -> Self {
        let parallel = usize::try_from(params.parallel_upgrades).unwrap_or(1);
        Self {
            api,
            plan,
            installer: Installer::new(api.cx, plan),
            drain: DrainOptions::from(&params.drain).without_reset(),
            dependents,
            parallel: parallel.max(1),
        }
    }

    fn host(&self, node: &'a Node) -> Machine<'a> {
        Machine::new(self.api.cx, self.plan, node)
    }

    /// Lists the software of all hosts.
    async fn look(&self) -> Result<OnHosts, DriverError> {
        let looks = self.plan.nodes().map(|node| async move {
            let host = self.host(node);
            if !host.answers().await {
                // This operation holds the instance, so that a heal must wait for its end.
                let detail = "it does not respond, so that its software is not known: end this operation with `vnfmctl op \
                              rollback` or `vnfmctl op fail`, heal the node, and request it again";
                return Err(host.refusal("node-silent", STEP, detail).retryable());
            }
            host.reach_known().await?;
            Ok((node.vnfc.clone(), host.software().await?))
        });
        let looked = join_all_limited(PARALLEL_HOSTS, looks).await;
        looked.into_iter().collect()
    }

    /// What the hosts had when the operation began.
    async fn before(&self, now: &OnHosts) -> Result<OnHosts, DriverError> {
        let cx = self.api.cx;
        if let Some(known) = cx.checkpoint(BEFORE).await? {
            return Ok(known);
        }
        cx.save_checkpoint(BEFORE, now).await?;
        Ok(now.clone())
    }

    /// Changes the nodes that need it, some at a time; the names of those nodes.
    async fn roll<'c>(
        &self,
        before: &OnHosts,
        needed: impl Fn(&Node) -> Vec<Change<'c>>,
    ) -> Result<Vec<String>, DriverError>
    where
        'a: 'c,
    {
        let with_changes = |nodes: &'a [Node]| -> Vec<NodeChanges<'a, 'c>> {
            nodes.iter().map(|node| (node, needed(node))).collect()
        };
        let (masters, workers) = (&self.plan.control_planes, &self.plan.workers);
        let (mut masters, mut workers) = (with_changes(masters), with_changes(workers));
        for (node, _) in masters
            .iter()
            .chain(&workers)
            .filter(|(_, all)| all.is_empty())
        {
            // An earlier attempt has patched it, and was interrupted before it took pods again.
            self.api.uncordon_by_name(&node.name).await?;
        }
        masters.retain(|(_, all)| !all.is_empty());
        workers.retain(|(_, all)| !all.is_empty());
        let batches = masters.chunks(1).chain(workers.chunks(self.parallel));
        let (size, mut done) = (masters.len() + workers.len(), Vec::new());
        for batch in batches {
            let percent = u8::try_from(100 * done.len() / size).unwrap_or(99);
            self.announce(percent, batch).await;
            let patched = batch
                .iter()
                .map(|(node, all)| self.node(node, all, before.get(&node.vnfc)));
            first_failure(join_all(patched).await)?;
            wait_for_pods(self.api, self.dependents, SCHEDULE_TIMEOUT).await?;
            done.extend(batch.iter().map(|(node, _)| format!("`{}`", node.name)));
        }
        self.installer.report(100, "the patch is complete").await;
        Ok(done)
    }

    async fn announce(&self, percent: u8, batch: &[NodeChanges<'_, '_>]) {
        for (node, change) in batch
            .iter()
            .flat_map(|(node, all)| all.iter().map(move |c| (node, c)))
        {
            let line = format!("`{}` gets {}", node.name, change.describe());
            let is_older = |from: &String| compare(change.to, from) == Ordering::Less;
            if change.is_in_package && change.from.as_ref().is_some_and(is_older) {
                self.api.cx.warn(&format!("{line}, which is older"));
            } else {
                self.api.cx.info(&line);
            }
        }
        let names = names(batch.iter().map(|(node, _)| *node));
        let message = format!("patching the software of {names}");
        self.installer.report(percent, &message).await;
    }

    /// Patches one node; if that fails, it returns to what it had.
    async fn node(
        &self,
        node: &'a Node,
        changes: &[Change<'_>],
        before: Option<&OnHost>,
    ) -> Result<(), DriverError> {
        let host = self.host(node);
        if changes.iter().any(Change::drains) {
            let (api, options) = (self.api, self.drain);
            let host = &host;
            Drain { api, host, options }.run_or_uncordon().await?;
        }
        let result = self.install(&host, changes).await;
        if result.is_err()
            && let Some(before) = before
        {
            self.take_back(&host, before).await;
        }
        result
    }

    /// Installs these, and lets the node take pods again once it is Ready.
    async fn install(&self, host: &Machine<'_>, changes: &[Change<'_>]) -> Result<(), DriverError> {
        for change in changes {
            self.installer.install_software(host, change).await?;
        }
        let name = &host.node.name;
        let is_ready = || async {
            let node = self.api.node(name).await?;
            Ok(node.is_some_and(|node| node.is_ready()).then_some(()))
        };
        let condition = format!("`{name}` to be Ready with its software");
        self.api
            .cx
            .wait_until(&condition, READY_INTERVAL, READY_TIMEOUT, is_ready)
            .await?;
        self.api.uncordon_by_name(name).await
    }

    /// Returns a host to what it had, unless its installation still runs, as after a cancellation.
    async fn take_back(&self, host: &Machine<'_>, before: &OnHost) {
        let (cx, name) = (self.api.cx, &host.node.name);
        let back = async {
            if host.state(STEP).await? == StepState::Running {
                return Ok(false);
            }
            let now = host.software().await?;
            let returns = returns(self.plan, Some(before), &now);
            self.install(host, &returns).await.map(|()| true)
        };
        match back.await {
            Ok(true) => cx.warn(&format!(
                "`{name}` has the software again that it had before"
            )),
            Ok(false) => cx.warn(&format!(
                "`{name}`: the installation still runs, so that nothing was taken back"
            )),
            Err(error) => cx.warn(&format!(
                "`{name}` did not return to its software, and may stay cordoned: {}",
                error.detail
            )),
        }
    }
}

/// Compares versions as people do: numbers by value, other characters by code.
fn compare(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| {
        let mut parts: Vec<(u64, String)> = vec![(0, String::new())];
        let mut was_digit = false;
        for c in text.chars() {
            let is_digit = c.is_ascii_digit();
            if was_digit && !is_digit {
                parts.push((0, String::new()));
            }
            was_digit = is_digit;
            if let Some((number, letters)) = parts.last_mut() {
                match c.to_digit(10) {
                    Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
                    None => letters.push(c),
                }
            }
        }
        let parts = parts.into_iter();
        parts
            .map(|(number, letters)| (letters, number))
            .collect::<Vec<_>>()
    };
    parts(one).cmp(&parts(other))
}

#[cfg(test)]
mod tests {
    use super::compare;
    use std::cmp::Ordering;

    #[test]
    fn numbers_in_versions_are_compared_by_value() {
        for (one, other) in [
            ("1.9", "1.10"),
            ("1.10", "2.0"),
            ("1.5+dfsg-1ubuntu0.1", "1.5+dfsg-2"),
            ("1.0", "1.0.1"),
            ("v9", "v10"),
        ] {
            assert_eq!(compare(one, other), Ordering::Less, "{one} {other}");
            assert_eq!(compare(other, one), Ordering::Greater, "{one} {other}");
            assert_eq!(compare(one, one), Ordering::Equal);
        }
    }
}
