//! Reconciles the nodes of a cluster with a target.
//!
//! ```text
//!             target ──┐
//! observe ──► seen ────┴──► actions ──► uncordon ─ join ─ admit ─ cordon ─ drain ─ remove
//! ```
//!
//! Every operation differs in the target alone. [`actions`] is pure. Each action starts from the real state and is
//! idempotent, so that the attempt after a crash observes again, and does what is left. Actions of one kind run in
//! parallel, except that control-plane nodes join and leave one after the other; all nodes are cordoned before any is
//! drained, so that no pod moves from one to the next. Servers that the target does not name are not touched, and need not
//! work.

use crate::api::{Api, ClusterNode};
use crate::cluster::{find_node, names};
use crate::drain::{Drain, DrainOptions, reset_host};
use crate::installer::{Installer, PARALLEL_HOSTS, first_failure};
use crate::join::{Joins, NodeBefore};
use crate::labels;
use crate::machine::{Machine, StepState};
use crate::members;
use crate::params::DrainParams;
use crate::plan::{Node, Plan};
use crate::serve_endpoint::stop_serving;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use futures::lock::Mutex;
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;

/// What a server should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A Ready node that takes pods.
    Member,
    /// The same, unless its host does not respond: for a rollback.
    MemberIfUp,
    /// A node that has no pods and gets none.
    Drained,
    /// Not a node.
    Gone,
}

/// What servers should be, by VNFC id.
pub(crate) type Target = BTreeMap<String, Wanted>;

/// The target that all these servers are the same.
pub(crate) fn target<'a>(servers: impl Iterator<Item = &'a Node>, wanted: Wanted) -> Target {
    servers.map(|node| (node.vnfc.clone(), wanted)).collect()
}

/// What is seen of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its node, if the cluster has one.
    pub(crate) node: Option<SeenNode>,
    pub(crate) host: Host,
}

/// What is seen of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenNode {
    pub(crate) is_ready: bool,
    /// Whether it was cordoned by us.
    pub(crate) is_cordoned: bool,
    /// Whether labels are to be restored.
    pub(crate) has_saved_labels: bool,
}

/// What a host has of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// It was not observed: for this target it does not matter.
    Unseen,
    /// It does not respond.
    Silent,
    /// It has nothing.
    Clean,
    /// A join is running, or was interrupted.
    Joining,
    /// A join has succeeded.
    Joined,
}

/// What one action does, in the order in which actions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Lets a node take pods again.
    Uncordon,
    /// Makes a server a node.
    Join,
    /// Waits until a node is Ready, and restores saved labels.
    Admit,
    /// Stops scheduling to a node.
    Cordon,
    /// Moves a node's pods elsewhere.
    Drain,
    /// Saves a node's labels, resets its host and deletes it from the cluster.
    Remove,
}

/// An action on one server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Action {
    pub(crate) kind: Kind,
    pub(crate) vnfc: String,
}

/// The actions that lead from what is seen to the target, in order.
pub(crate) fn actions(observed: &BTreeMap<String, Seen>, target: &Target) -> Vec<Action> {
    let of_one = |(vnfc, wanted): (&String, &Wanted)| {
        let seen = observed.get(vnfc);
        let kinds = seen.map(|seen| kinds(*wanted, *seen)).unwrap_or_default();
        let vnfc = vnfc.clone();
        let action = move |kind| Action {
            kind,
            vnfc: vnfc.clone(),
        };
        kinds.into_iter().map(action).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = target.iter().flat_map(of_one).collect();
    all.sort();
    all
}

fn kinds(wanted: Wanted, seen: Seen) -> Vec<Kind> {
    match (wanted, seen.node, seen.host) {
        (Wanted::MemberIfUp, node, Host::Silent) => {
            let cordoned = node.is_some_and(|node| node.is_cordoned);
            cordoned.then_some(Kind::Uncordon).into_iter().collect()
        }
        (Wanted::Member | Wanted::MemberIfUp, Some(node), Host::Joined) => {
            // A rollback need not wait for a node that was not removed.
            let must_be_ready = wanted == Wanted::Member && !node.is_ready;
            let admit = (must_be_ready || node.has_saved_labels).then_some(Kind::Admit);
            let uncordon = node.is_cordoned.then_some(Kind::Uncordon);
            uncordon.into_iter().chain(admit).collect()
        }
        (Wanted::Member | Wanted::MemberIfUp, _, _) => vec![Kind::Join, Kind::Admit],
        (Wanted::Drained, Some(_), _) => vec![Kind::Cordon, Kind::Drain],
        (Wanted::Gone, Some(_), _) => vec![Kind::Cordon, Kind::Drain, Kind::Remove],
        // Its node may appear yet, or was deleted before its host was reset.
        (Wanted::Gone, None, Host::Joining | Host::Joined) => vec![Kind::Remove],
        (Wanted::Drained | Wanted::Gone, None, _) => vec![],
    }
}

/// The actions that were run.
#[derive(Debug)]
pub(crate) struct Done<'a> {
    plan: &'a Plan,
    actions: Vec<Action>,
}

impl<'a> Done<'a> {
    /// The servers with an action of this kind, in the order of the plan.
    pub(crate) fn servers(&self, kind: Kind) -> impl Iterator<Item = &'a Node> {
        let concerned = move |node: &&Node| {
            let mut actions = self.actions.iter();
            actions.any(|action| action.kind == kind && action.vnfc == node.vnfc)
        };
        self.plan.nodes().filter(concerned)
    }
}

/// Observes the nodes of one cluster, and acts on them.
pub(crate) struct Reconciler<'a> {
    api: &'a Api<'a>,
    plan: &'a Plan,
    installer: Installer<'a>,
    master: Machine<'a>,
    drain: DrainOptions,
}

impl<'a> Reconciler<'a> {
    /// A reconciler of this cluster. The names in `plan` must be those of the nodes.
    pub(crate) fn new(api: &'a Api<'a>, plan: &'a Plan, drain: &DrainParams) -> Self {
        Self {
            api,
            plan,
            installer: Installer::new(api.cx, plan),
            master: Machine::new(api.cx, plan, plan.responding_control_plane()),
            drain: drain.into(),
        }
    }

    /// Observes, and runs the actions that lead to `target`.
    ///
    /// # Errors
    ///
    /// The error of the first action that failed; the others of its kind finish first. Nodes are uncordoned again if one
    /// cannot be drained.
    pub(crate) async fn reach(&self, target: &Target) -> Result<Done<'a>, DriverError> {
        let observed = self.observe(target).await?;
        let actions = actions(&observed, target);
        let done = Done {
            plan: self.plan,
            actions,
        };
        for actions in done.actions.chunk_by(|a, b| a.kind == b.kind) {
            let kind = actions[0].kind;
            let servers: Vec<_> = done.servers(kind).collect();
            self.run(kind, &servers, &observed).await?;
        }
        self.installer.delete_tokens(&self.master).await?;
        Ok(done)
    }

    async fn observe(&self, target: &Target) -> Result<BTreeMap<String, Seen>, DriverError> {
        let nodes = self.api.nodes().await?;
        let saved = labels::saved(self.api).await?;
        let wanted = |node: &'a Node| target.get(&node.vnfc).map(|wanted| (node, *wanted));
        let seen = self
            .plan
            .nodes()
            .filter_map(wanted)
            .map(|(server, wanted)| {
                let node = find_node(server, &nodes).map(|node| SeenNode {
                    is_ready: node.is_ready(),
                    is_cordoned: node.is_ours(),
                    has_saved_labels: saved.contains(node.name()),
                });
                let matters = match wanted {
                    Wanted::Member | Wanted::MemberIfUp => true,
                    Wanted::Gone => node.is_none(),
                    Wanted::Drained => false,
                };
                async move {
                    let host = if matters {
                        self.look_at(server).await?
                    } else {
                        Host::Unseen
                    };
                    if (wanted, node, host) == (Wanted::MemberIfUp, None, Host::Silent) {
                        let left = format!(
                            "`{}` has left the cluster and does not respond",
                            server.name
                        );
                        self.api.cx.warn(&left);
                    }
                    Ok((server.vnfc.clone(), Seen { node, host }))
                }
            });
        join_all_limited(PARALLEL_HOSTS, seen)
            .await
            .into_iter()
            .collect()
    }

    async fn look_at(&self, server: &Node) -> Result<Host, DriverError> {
        let host = Machine::new(self.api.cx, self.plan, server);
        if !host.answers().await {
            return Ok(Host::Silent);
        }
        host.reach_known().await?;
        let state = host.state(self.plan.join_step()).await?;
        if state == StepState::Running {
            return Ok(Host::Joining);
        }
        let facts = host.facts().await?;
        let has_joined =
            facts.has_joined() && matches!(state, StepState::Done(0) | StepState::Absent);
        Ok(match (has_joined, facts.has_traces()) {
            (true, _) => Host::Joined,
            (false, true) => Host::Joining,
            (false, false) => Host::Clean,
        })
    }

    async fn run(
        &self,
        kind: Kind,
        servers: &[&Node],
        observed: &BTreeMap<String, Seen>,
    ) -> Result<(), DriverError> {
        let names = names(servers.iter().copied());
        let hosts = servers.iter();
        let hosts = hosts.map(|node| Machine::new(self.api.cx, self.plan, node));
        let hosts: Vec<_> = hosts.collect();
        match kind {
            Kind::Uncordon => self.uncordon(&hosts).await,
            Kind::Join => {
                self.report(10, format!("waiting for {names}")).await;
                self.join(servers, observed).await
            }
            Kind::Admit => self.admit(servers).await,
            Kind::Cordon => {
                self.report(10, format!("draining {names}")).await;
                self.cordon(&hosts).await
            }
            Kind::Drain => {
                self.drain(&hosts).await?;
                self.report(70, format!("{names} drained")).await;
                Ok(())
            }
            Kind::Remove => {
                self.remove(&hosts).await?;
                self.report(100, format!("{names} removed from the cluster"))
                    .await;
                Ok(())
            }
        }
    }

    async fn report(&self, percent: u8, message: String) {
        self.installer.report(percent, &message).await;
    }

    async fn uncordon(&self, hosts: &[Machine<'_>]) -> Result<(), DriverError> {
        for host in hosts {
            self.api.uncordon_by_name(&host.node.name).await?;
        }
        Ok(())
    }

    async fn join(
        &self,
        servers: &[&Node],
        observed: &BTreeMap<String, Seen>,
    ) -> Result<(), DriverError> {
        let control_plane: BoxFuture<'_, _> = Box::pin(self.installer.with_new_token(&self.master));
        let joins = Joins {
            installer: &self.installer,
            master: &self.master,
            control_plane: control_plane.shared(),
            turn: Mutex::default(),
        };
        let has_node = |server: &Node| {
            observed
                .get(&server.vnfc)
                .is_some_and(|seen| seen.node.is_some())
        };
        let before = |server: &Node| {
            if has_node(server) {
                NodeBefore::Exists
            } else {
                NodeBefore::Missing
            }
        };
        let servers = servers.iter().map(|server| (*server, before(server)));
        joins.run(servers.collect()).await
    }

    async fn admit(&self, servers: &[&Node]) -> Result<(), DriverError> {
        let nodes = servers.iter().copied();
        self.installer.ready(&self.master, nodes.clone()).await?;
        labels::restore(self.api, servers).await?;
        self.report(90, format!("{} joined", names(nodes))).await;
        Ok(())
    }

    async fn cordon(&self, hosts: &[Machine<'_>]) -> Result<(), DriverError> {
        for host in hosts {
            let node = self.api.node(&host.node.name).await?;
            // A silent one is tainted by the drain.
            if let Some(node) = node.filter(|node| !node.is_silent()) {
                self.api.cordon(&node).await?;
            }
        }
        Ok(())
    }

    /// Drains these nodes; if one cannot be drained, all are uncordoned.
    async fn drain(&self, hosts: &[Machine<'_>]) -> Result<(), DriverError> {
        let drains = hosts.iter().map(|host| {
            let (api, options) = (self.api, self.drain);
            Drain { api, host, options }.run()
        });
        let drained = first_failure(join_all_limited(PARALLEL_HOSTS, drains).await);
        if drained.is_err()
            && let Err(error) = self.uncordon(hosts).await
        {
            let names = names(hosts.iter().map(|host| host.node));
            let cx = self.api.cx;
            cx.warn(&format!("{names} may stay cordoned: {}", error.detail));
        }
        drained
    }

    async fn remove(&self, hosts: &[Machine<'_>]) -> Result<(), DriverError> {
        let is_removed =
            |node: &ClusterNode| hosts.iter().any(|host| host.node.name == node.name());
        let mut nodes = self.api.nodes().await?;
        nodes.retain(is_removed);
        labels::save(self.api, &nodes).await?;
        let is_control_plane = |host: &&Machine<'_>| self.plan.is_control_plane(host.node);
        let (control_planes, workers): (Vec<_>, Vec<_>) = hosts.iter().partition(is_control_plane);
        let removals = workers.into_iter().map(|host| async {
            if host.answers().await {
                self.reset(host).await;
            }
            self.api.delete_node(&host.node.name).await
        });
        first_failure(join_all_limited(PARALLEL_HOSTS, removals).await)?;
        // Those that do not respond first: with fewer members, etcd needs fewer of the others.
        let responses = join_all(control_planes.iter().map(|host| host.answers())).await;
        let mut control_planes: Vec<_> = control_planes.into_iter().zip(responses).collect();
        control_planes.sort_by_key(|(_, responds)| *responds);
        for (host, responds) in control_planes {
            self.remove_control_plane(host, responds).await?;
        }
        Ok(())
    }

    /// A reset that fails is only logged: the server is deleted anyway.
    async fn reset(&self, host: &Machine<'_>) {
        if let Err(error) = reset_host(host).await {
            let (cx, name) = (self.api.cx, &host.node.name);
            cx.warn(&format!("`{name}` was not reset: {}", error.detail));
        }
    }

    /// Takes a node out of the control plane: its address moves, its member leaves etcd, its node is deleted.
    async fn remove_control_plane(
        &self,
        host: &Machine<'_>,
        responds: bool,
    ) -> Result<(), DriverError> {
        let Node { name, address, .. } = host.node;
        if responds && let Err(error) = stop_serving(host).await {
            let left = format!("`{name}` may still have the address: {}", error.detail);
            self.api.cx.warn(&left);
        }
        // Before the reset, which goes on if it cannot remove the member: etcd would count one that is gone.
        members::remove(&self.master, (name, address)).await?;
        if responds {
            self.reset(host).await;
        }
        self.api.delete_node(name).await
    }

    /// Makes the control-plane nodes that stay know all others, for example to forward to a new one.
    ///
    /// # Errors
    ///
    /// If a service of such a node cannot be changed.
    pub(crate) async fn update_endpoints(&self, apart: &Target) -> Result<(), DriverError> {
        let stays = |node: &&Node| !apart.contains_key(&node.vnfc);
        let nodes: Vec<_> = self.plan.control_planes.iter().filter(stays).collect();
        self.installer.update_endpoints(&nodes).await
    }

    /// Refuses to take the control-plane nodes among these out of etcd if it would lose its quorum.
    ///
    /// # Errors
    ///
    /// `quorum-at-risk`.
    pub(crate) async fn check_quorum(
        &self,
        leaving: &Target,
        are_replaced: bool,
    ) -> Result<(), DriverError> {
        let leaves = |node: &&Node| leaving.contains_key(&node.vnfc);
        let leaving: Vec<_> = self.plan.control_planes.iter().filter(leaves).collect();
        if leaving.is_empty() {
            return Ok(());
        }
        members::check_leaving(&self.master, &leaving, are_replaced).await
    }
}

#[cfg(test)]
mod tests {
    use super::{Host, Kind, Seen, SeenNode, Target, Wanted, actions};
    use std::collections::BTreeMap;

    const READY: SeenNode = SeenNode {
        is_ready: true,
        is_cordoned: false,
        has_saved_labels: false,
    };
    const CORDONED: SeenNode = SeenNode {
        is_cordoned: true,
        ..READY
    };
    const NOT_READY: SeenNode = SeenNode {
        is_ready: false,
        ..READY
    };
    const REMOVED_BEFORE: SeenNode = SeenNode {
        has_saved_labels: true,
        ..READY
    };

    fn kinds(wanted: Wanted, node: Option<SeenNode>, host: Host) -> Vec<Kind> {
        let observed = BTreeMap::from([("a".to_owned(), Seen { node, host })]);
        let target = BTreeMap::from([("a".to_owned(), wanted)]);
        let actions = actions(&observed, &target);
        actions.into_iter().map(|action| action.kind).collect()
    }

    #[test]
    fn actions_follow_from_what_is_seen_and_wanted() {
        use Host::{Clean, Joined, Joining, Silent, Unseen};
        use Kind::{Admit, Cordon, Drain, Join, Remove, Uncordon};
        use Wanted::{Drained, Gone, Member, MemberIfUp};
        let table: &[(Wanted, Option<SeenNode>, Host, &[Kind])] = &[
            // Not a node yet: booting, clean, interrupted, or its node was deleted.
            (Member, None, Silent, &[Join, Admit]),
            (Member, None, Clean, &[Join, Admit]),
            (Member, None, Joining, &[Join, Admit]),
            (Member, None, Joined, &[Join, Admit]),
            // A node: of a predecessor, of an interrupted join, or its own.
            (Member, Some(READY), Silent, &[Join, Admit]),
            (Member, Some(READY), Clean, &[Join, Admit]),
            (Member, Some(READY), Joining, &[Join, Admit]),
            (Member, Some(READY), Joined, &[]),
            (Member, Some(NOT_READY), Joined, &[Admit]),
            (Member, Some(CORDONED), Joined, &[Uncordon]),
            (Member, Some(REMOVED_BEFORE), Joined, &[Admit]),
            // A rollback waits for no host that is off, and for no node that was not removed.
            (MemberIfUp, None, Silent, &[]),
            (MemberIfUp, None, Clean, &[Join, Admit]),
            (MemberIfUp, Some(READY), Silent, &[]),
            (MemberIfUp, Some(CORDONED), Silent, &[Uncordon]),
            (MemberIfUp, Some(NOT_READY), Joined, &[]),
            (MemberIfUp, Some(CORDONED), Joined, &[Uncordon]),
            (MemberIfUp, Some(REMOVED_BEFORE), Joined, &[Admit]),
            (MemberIfUp, Some(READY), Clean, &[Join, Admit]),
            (Drained, None, Unseen, &[]),
            (Drained, Some(READY), Unseen, &[Cordon, Drain]),
            (Drained, Some(CORDONED), Unseen, &[Cordon, Drain]),
            (Gone, Some(READY), Unseen, &[Cordon, Drain, Remove]),
            (Gone, Some(NOT_READY), Unseen, &[Cordon, Drain, Remove]),
            (Gone, None, Silent, &[]),
            (Gone, None, Clean, &[]),
            (Gone, None, Joining, &[Remove]),
            (Gone, None, Joined, &[Remove]),
        ];
        for (wanted, node, host, expected) in table {
            let found = kinds(*wanted, *node, *host);
            assert_eq!(found, *expected, "{wanted:?}, {node:?}, {host:?}");
        }
    }

    #[test]
    fn actions_of_one_kind_are_together_and_all_are_cordoned_before_any_is_drained() {
        let node = Some(READY);
        let seen = |node, host| Seen { node, host };
        let observed = BTreeMap::from([
            ("a".to_owned(), seen(node, Host::Unseen)),
            ("b".to_owned(), seen(None, Host::Clean)),
            ("c".to_owned(), seen(node, Host::Unseen)),
            ("d".to_owned(), seen(node, Host::Unseen)),
        ]);
        let leaving = ["a", "c"].map(|vnfc| (vnfc.to_owned(), Wanted::Gone));
        let mut target = Target::from(leaving);
        target.insert("b".to_owned(), Wanted::Member);
        let actions = actions(&observed, &target);
        let actions = actions.iter().map(|a| format!("{:?} {}", a.kind, a.vnfc));
        let expected = "Join b, Admit b, Cordon a, Cordon c, Drain a, Drain c, Remove a, Remove c";
        assert_eq!(actions.collect::<Vec<_>>().join(", "), expected);
    }

    /// What was reached needs nothing more.
    #[test]
    fn a_reached_target_has_no_actions() {
        let reached = [
            (Wanted::Member, Some(READY), Host::Joined),
            (Wanted::MemberIfUp, Some(READY), Host::Joined),
            (Wanted::Drained, None, Host::Unseen),
            (Wanted::Gone, None, Host::Clean),
        ];
        for (wanted, node, host) in reached {
            assert_eq!(kinds(wanted, node, host), [], "{wanted:?}");
        }
    }
}
