//! Healing, top to bottom.
//!
//! ```text
//! heal_start   workers         drained, all of them ─► each leaves, its node is deleted
//!              control plane   refused, unless the request accepts that the cluster is lost
//!                              … the VNFM replaces the servers …
//!              rolled back     nodes take pods again, those that left join again
//! heal_end     workers         preflight ─ proxy ─ packages ─ runtime ─ join ─► Ready ─ labels ─► pods of others run
//!              control plane   the installation from the beginning; the VIM keeps its id
//! ```
//!
//! Which nodes are whose is seen by their addresses: servers of one group may share a name. The successors are the
//! workers that are no nodes, noted at the first look; workers that stay are not touched, and need not work.

use crate::api::{Api, NodeSeen, PodSeen};
use crate::drain::{Drain, Way, leave};
use crate::install::{self, Story, authority, first_failure};
use crate::labels;
use crate::machine::{Machine, State};
use crate::params::HealParams;
use crate::plan::{Node, Plan};
use crate::script;
use futures::future::join_all;
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

type Request = HookRequest<HealParams>;

/// The checkpoint with the VNFCs that are to join.
const SUCCESSORS: &str = "successors";
/// How long pods of others may take to find a node, and to run on it.
const SETTLE: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(1));
/// The longest pause between two looks at them.
const PAUSE: Duration = Duration::from_secs(2);

/// Takes out of the cluster what is about to be replaced.
///
/// # Errors
///
/// `cluster-loss` for the control plane, unless that is accepted; what keeps a node from being drained: the nodes take
/// pods again then.
pub(crate) async fn start(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let meant = meant(request)?;
    let is_meant = |node: &Node| meant.vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    if is_meant(&plan.master) {
        return lose(cx, request, &plan);
    }
    plan.workers.retain(is_meant);
    if plan.workers.is_empty() {
        return Ok(Effects::none().message("nothing of the cluster is healed"));
    }
    let Some(api) = open(cx, &plan).await? else {
        return Ok(Effects::none().message("there is no cluster to leave"));
    };
    let nodes = api.nodes().await?;
    plan.workers.retain_mut(|worker| {
        let seen = seen(worker, &nodes);
        worker.name = seen.map_or_else(|| worker.name.clone(), |node| node.name().to_owned());
        seen.is_some()
    });
    let story = Story::new(cx, &plan);
    let hosts: Vec<_> = plan
        .workers
        .iter()
        .map(|worker| Machine::new(cx, &plan, worker))
        .collect();
    let names = names(&plan.workers);
    let going: Vec<_> = plan
        .workers
        .iter()
        .filter_map(|worker| seen(worker, &nodes))
        .collect();
    labels::remember(&api, &going).await?;
    story.tell(10, &format!("draining {names}")).await;
    if let Err(error) = drain(&api, &hosts, (&request.additional_params).into()).await {
        give_back(&api, &hosts).await;
        return Err(error);
    }
    story.tell(70, &format!("{names} drained")).await;
    first_failure(join_all(hosts.iter().map(|host| remove(&api, host))).await)?;
    story
        .tell(100, &format!("{names} removed from the cluster"))
        .await;
    Ok(Effects::none().message(format!("{names} left the cluster")))
}

/// Takes back what [`start`] did: nodes take pods again, and those that have left join again, as far as their hosts
/// answer.
///
/// # Errors
///
/// What kept the first host that failed from joining.
pub(crate) async fn undo(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let meant = meant(request)?;
    let is_meant = |node: &Node| meant.vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    if is_meant(&plan.master) || !plan.workers.iter().any(is_meant) {
        return Ok(Effects::none());
    }
    plan.workers.retain(is_meant);
    let Some(api) = open(cx, &plan).await? else {
        return Ok(Effects::none());
    };
    let nodes = api.nodes().await?;
    give_names(&mut plan, &nodes);
    let mut left = Vec::new();
    for worker in &plan.workers {
        let host = Machine::new(cx, &plan, worker);
        match seen(worker, &nodes) {
            Some(node) if !host.answers().await || is_member(&host).await? => {
                api.uncordon(node).await?;
            }
            None if !host.answers().await => {
                cx.warn(&format!(
                    "`{}` has left the cluster and does not answer",
                    worker.name
                ));
            }
            node => {
                if let Some(node) = node {
                    api.delete_node(node.name()).await?;
                }
                leave(&host).await?;
                left.push(worker);
            }
        }
    }
    if left.is_empty() {
        return Ok(Effects::none().message(format!("{} take pods again", names(&plan.workers))));
    }
    let names = names(left.iter().copied());
    rejoin(&api, &plan, &left).await?;
    Ok(Effects::none().message(format!("{names} joined the cluster again")))
}

async fn is_member(host: &Machine<'_>) -> Result<bool, DriverError> {
    host.find().await?;
    Ok(host.facts().await?.has_joined())
}

/// Brings the successors into the cluster, or makes it anew.
///
/// # Errors
///
/// What kept the first host that failed; `pods-pending` where pods of others find no node.
pub(crate) async fn end(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let meant = meant(request)?;
    let is_of = |node: &Node| meant.vnfcs.iter().any(|vnfc| vnfc.vdu_id == node.vdu);
    if is_of(&plan.master) {
        return anew(cx, &plan).await;
    }
    if !plan.workers.iter().any(is_of) {
        return Ok(Effects::none().message("nothing of the cluster was healed"));
    }
    let Some(api) = open(cx, &plan).await? else {
        return anew(cx, &plan).await;
    };
    let nodes = api.nodes().await?;
    let successors = successors(cx, (&plan, &api), &nodes).await?;
    give_names(&mut plan, &nodes);
    let new: Vec<_> = plan
        .workers
        .iter()
        .filter(|worker| successors.contains(&worker.vnfc))
        .collect();
    if !new.is_empty() {
        rejoin(&api, &plan, &new).await?;
    }
    resettled(cx, &api, &request.dependents).await?;
    let names = names(new.iter().copied());
    Ok(Effects::none().message(format!("{names} joined the cluster")))
}

async fn plan(cx: &HookContext, request: &Request) -> Result<Plan, DriverError> {
    let artifacts = cx.artifacts().await?;
    let wanted = &request.additional_params.k8s_cluster_installation_param;
    Plan::new(request, wanted, &artifacts)
}

fn meant(request: &Request) -> Result<&Heal, DriverError> {
    request.heal.as_ref().ok_or_else(|| {
        DriverError::new("bad-request", "the request does not say what is healed")
            .phase("preflight")
    })
}

/// The only control-plane node goes, and the cluster with it.
fn lose(cx: &HookContext, request: &Request, plan: &Plan) -> Result<Effects, DriverError> {
    let accepted = request.additional_params.accept_cluster_loss;
    let healed = meant(request)?;
    let whole = request
        .vnfcs()
        .iter()
        .all(|one| healed.vnfcs.iter().any(|vnfc| vnfc.id == one.id));
    let master = &plan.master.name;
    let on_it = request
        .dependents
        .iter()
        .map(|other| match &other.vnf_instance_name {
            Some(name) => format!("`{name}` ({})", other.id),
            None => format!("`{}`", other.id),
        });
    let on_it: Vec<_> = on_it.collect();
    let refused = |detail: String| {
        Err(DriverError::new("cluster-loss", detail)
            .host(master)
            .phase("preflight"))
    };
    if !accepted && !on_it.is_empty() {
        return refused(format!(
            "healing the only control-plane node loses the cluster, and {} live on it: terminate them first, or accept \
             the loss with `accept_cluster_loss: true`",
            on_it.join(", ")
        ));
    }
    if !accepted && !whole {
        return refused(
            "healing the only control-plane node loses the cluster with all that is on it: accept that with \
             `accept_cluster_loss: true`; it is installed anew then, and its workers join it again"
                .to_owned(),
        );
    }
    if !whole && plan.script().is_some() {
        return refused(
            "the vendor's script does not take workers over into another cluster: heal the whole VNF".to_owned(),
        );
    }
    for other in on_it {
        cx.warn(&format!("{other} loses the cluster that it lives on"));
    }
    Ok(Effects::none().message("the cluster goes, and is installed anew"))
}

/// The way to the API server of a control plane that works; nothing where none was ever installed.
async fn open<'a>(cx: &'a HookContext, plan: &Plan) -> Result<Option<Api<'a>>, DriverError> {
    let master = Machine::new(cx, plan, &plan.master);
    master.find().await?;
    if !master.facts().await?.is("admin") {
        cx.warn(&format!("`{}` has no cluster", plan.master.name));
        return Ok(None);
    }
    let ca = authority(&master).await?;
    let token = Secret::new(Story::new(cx, plan).credentials(&master).await?);
    Ok(Some(Api {
        cx,
        url: plan.url(),
        ca,
        token,
        instance: plan.instance.clone(),
    }))
}

/// The node that a server is.
fn seen<'a>(server: &Node, nodes: &'a [NodeSeen]) -> Option<&'a NodeSeen> {
    let is_it = |node: &&NodeSeen| {
        node.has_address(&server.address) || node.has_address(&server.ssh.address)
    };
    nodes.iter().find(is_it)
}

async fn drain(api: &Api<'_>, hosts: &[Machine<'_>], way: Way) -> Result<(), DriverError> {
    // First all of them: what leaves one must not go to the next one.
    for host in hosts {
        if let Some(node) = api
            .node(&host.node.name)
            .await?
            .filter(|node| !node.is_silent())
        {
            api.cordon(&node).await?;
        }
    }
    first_failure(join_all(hosts.iter().map(|host| Drain { api, host, way }.run())).await)
}

/// The nodes take pods again, as far as that can be said now.
async fn give_back(api: &Api<'_>, hosts: &[Machine<'_>]) {
    for host in hosts {
        let name = &host.node.name;
        let given = match api.node(name).await {
            Ok(Some(node)) => api.uncordon(&node).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = given {
            api.cx
                .warn(&format!("`{name}` stays cordoned: {}", error.detail));
        }
    }
}

/// A drained node leaves. Its server goes in any case: one that cannot be emptied is no reason to stop.
async fn remove(api: &Api<'_>, host: &Machine<'_>) -> Result<(), DriverError> {
    let name = &host.node.name;
    if host.answers().await
        && let Err(error) = leave(host).await
    {
        api.cx
            .warn(&format!("`{name}` goes as it is: {}", error.detail));
    }
    api.delete_node(name).await
}

/// The whole installation, on servers that are new or were part of the cluster that is lost.
async fn anew(cx: &HookContext, plan: &Plan) -> Result<Effects, DriverError> {
    let access = match plan.script() {
        Some(path) => script::install(cx, plan, path).await?,
        None => install::install(cx, plan).await?,
    };
    let vim = access.into_vim(&plan.vim_name);
    let what = format!("the cluster was installed anew as VIM `{}`", plan.vim_name);
    Ok(Effects::none().register_vim(vim).message(what))
}

/// The VNFCs that are to join, as the first look at them showed.
async fn successors(
    cx: &HookContext,
    (plan, api): (&Plan, &Api<'_>),
    nodes: &[NodeSeen],
) -> Result<BTreeSet<String>, DriverError> {
    if let Some(known) = cx.checkpoint(SUCCESSORS).await? {
        return Ok(known);
    }
    let mut found = BTreeSet::new();
    for worker in &plan.workers {
        match seen(worker, nodes) {
            None => drop(found.insert(worker.vnfc.clone())),
            // The node of a predecessor that nobody removed: its address is the successor's now.
            Some(node) if node.is_silent() => {
                let host = Machine::new(cx, plan, worker);
                if host.answers().await && !is_member(&host).await? {
                    api.delete_node(node.name()).await?;
                    found.insert(worker.vnfc.clone());
                }
            }
            Some(_) => {}
        }
    }
    cx.save_checkpoint(SUCCESSORS, &found).await?;
    Ok(found)
}

/// Those that are nodes have their names; the others get names that no node has.
fn give_names(plan: &mut Plan, nodes: &[NodeSeen]) {
    for worker in &mut plan.workers {
        if let Some(node) = seen(worker, nodes) {
            node.name().clone_into(&mut worker.name);
        } else if nodes.iter().any(|node| node.name() == worker.name) {
            worker.name = worker.other_name();
        }
    }
}

/// Joins these workers, side by side, until they are Ready.
async fn rejoin(api: &Api<'_>, plan: &Plan, new: &[&Node]) -> Result<(), DriverError> {
    let cx = api.cx;
    let story = Story::new(cx, plan);
    let master = Machine::new(cx, plan, &plan.master);
    story
        .tell(10, &format!("waiting for {}", names(new.iter().copied())))
        .await;
    let plane = story.reopened(&master).await?;
    let hosts: Vec<_> = new
        .iter()
        .map(|node| Machine::new(cx, plan, node))
        .collect();
    let joins = hosts.iter().map(|host| async {
        if let Some(path) = plan.script() {
            host.reach().await?;
            return script::join(host, path, &plane).await;
        }
        story.prepare(host).await?;
        if api.node(&host.node.name).await?.is_none() && host.state("join").await? != State::Running
        {
            // It may think that it is a node, when somebody has deleted that.
            leave(host).await?;
        }
        story.join(host, &plane).await
    });
    first_failure(join_all(joins).await)?;
    story.ready(&master, new.iter().copied()).await?;
    labels::restore(api, new).await?;
    story.forget_tokens(&master, &plane).await?;
    story
        .tell(90, &format!("{} joined", names(new.iter().copied())))
        .await;
    Ok(())
}

/// Pods of the VNF instances that live here run again. A pod that has a node and does not get well there is the
/// affair of its VNF: that is said, and no error. What hangs on a node that is lost waits for that one's healing.
async fn resettled(
    cx: &HookContext,
    api: &Api<'_>,
    others: &[Dependent],
) -> Result<(), DriverError> {
    let ids: Vec<_> = others.iter().map(|other| other.id.clone()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let (mut waited, mut pause) = (Duration::ZERO, Duration::from_millis(200));
    loop {
        let mut pods = api.pods_of(&ids).await?;
        pods.retain(|pod| !pod.is_going() && !pod.is_well());
        if !pods.is_empty() {
            let nodes = api.nodes().await?;
            let lost = |pod: &PodSeen| nodes.iter().any(|n| n.is_silent() && pod.is_on(n.name()));
            pods.retain(|pod| !lost(pod));
        }
        if pods.is_empty() {
            return Ok(());
        }
        let said: Vec<_> = pods.iter().map(in_words).collect();
        let said = said.join("; ");
        let without = pods.iter().any(PodSeen::is_without_node);
        let at_most = if without { SETTLE.0 } else { SETTLE.1 };
        if waited >= at_most {
            if without {
                let detail =
                    format!("the nodes are there, and pods find none that takes them: {said}");
                return Err(DriverError::new("pods-pending", detail)
                    .retryable()
                    .phase("pods"));
            }
            cx.warn(&format!("not well after {} s: {said}", at_most.as_secs()));
            return Ok(());
        }
        cx.waiting(&format!("pods to run again: {said}")).await;
        cx.check_cancelled().await?;
        cx.sleep(pause).await?;
        waited += pause;
        pause = (pause * 2).min(PAUSE);
    }
}

fn in_words(pod: &PodSeen) -> String {
    format!("`{}`: {}", pod.name(), pod.trouble())
}

fn names<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let names: Vec<_> = nodes
        .into_iter()
        .map(|node| format!("`{}`", node.name))
        .collect();
    if names.is_empty() {
        "no node".to_owned()
    } else {
        names.join(", ")
    }
}
