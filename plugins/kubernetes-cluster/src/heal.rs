//! Healing, from top to bottom.
//!
//! ```text
//! heal_start   workers         drain all of them ─► reset each host, delete its node
//!              control plane   refused, unless the request accepts the loss of the cluster
//!                              … the VNFM replaces the servers …
//!              rolled back     uncordon nodes; nodes that left join again
//! heal_end     workers         preflight ─ proxy ─ packages ─ runtime ─ join ─► Ready ─ labels ─► dependents' pods run
//!              control plane   a new installation; the VIM keeps its id
//! ```
//!
//! Nodes and servers are matched by address, because servers of a group may share a name. The successors are the
//! workers without a node when `heal_end` first runs, which are stored; other workers are not touched and need not work.

use crate::api::{Api, ClusterNode, Pod};
use crate::drain::{Drain, DrainOptions, reset_host};
use crate::install::{self, Installer, first_failure, read_ca};
use crate::labels;
use crate::machine::{Machine, StepState};
use crate::params::HealParams;
use crate::plan::{Node, Plan};
use crate::script;
use futures::future::join_all;
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

type Request = HookRequest<HealParams>;

/// The checkpoint with the VNFCs that must join.
const SUCCESSORS: &str = "successors";
/// How long the pods of dependent VNFs may take to be scheduled.
const SCHEDULE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long they may take to become ready on their nodes.
const POD_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum interval between two checks of the pods.
const MAX_INTERVAL: Duration = Duration::from_secs(2);

/// Removes the nodes that will be replaced from the cluster.
///
/// # Errors
///
/// `cluster-loss` for the control plane, unless accepted; if a node cannot be drained, in which case
/// all nodes are uncordoned again.
pub(crate) async fn start(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let heal_target = heal_target(request)?;
    let is_healed = |node: &Node| heal_target.vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    if is_healed(&plan.master) {
        return check_cluster_loss(cx, request, &plan);
    }
    plan.workers.retain(is_healed);
    if plan.workers.is_empty() {
        return Ok(Effects::none().message("no node of the cluster is healed"));
    }
    let Some(api) = connect(cx, &plan).await? else {
        return Ok(Effects::none().message("there is no cluster"));
    };
    let nodes = api.nodes().await?;
    plan.workers.retain_mut(|worker| {
        let node = find_node(worker, &nodes);
        worker.name = node.map_or_else(|| worker.name.clone(), |node| node.name().to_owned());
        node.is_some()
    });
    let installer = Installer::new(cx, &plan);
    let hosts: Vec<_> = plan
        .workers
        .iter()
        .map(|worker| Machine::new(cx, &plan, worker))
        .collect();
    let names = names(&plan.workers);
    let going: Vec<_> = plan
        .workers
        .iter()
        .filter_map(|worker| find_node(worker, &nodes))
        .collect();
    labels::save(&api, &going).await?;
    installer.report(10, &format!("draining {names}")).await;
    if let Err(error) = drain(&api, &hosts, (&request.additional_params).into()).await {
        uncordon_all(&api, &hosts).await;
        return Err(error);
    }
    installer.report(70, &format!("{names} drained")).await;
    first_failure(join_all(hosts.iter().map(|host| remove(&api, host))).await)?;
    installer
        .report(100, &format!("{names} removed from the cluster"))
        .await;
    Ok(Effects::none().message(format!("{names} left the cluster")))
}

/// Undoes [`start`]: uncordons nodes, and joins those that have left, if their hosts respond.
///
/// # Errors
///
/// The error of the first host that cannot join.
pub(crate) async fn undo(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let heal_target = heal_target(request)?;
    let is_healed = |node: &Node| heal_target.vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    if is_healed(&plan.master) || !plan.workers.iter().any(is_healed) {
        return Ok(Effects::none());
    }
    plan.workers.retain(is_healed);
    let Some(api) = connect(cx, &plan).await? else {
        return Ok(Effects::none());
    };
    let nodes = api.nodes().await?;
    assign_names(&mut plan, &nodes);
    let mut left = Vec::new();
    for worker in &plan.workers {
        let host = Machine::new(cx, &plan, worker);
        match find_node(worker, &nodes) {
            Some(node) if !host.answers().await || is_member(&host).await? => {
                api.uncordon(node).await?;
            }
            None if !host.answers().await => {
                cx.warn(&format!(
                    "`{}` has left the cluster and does not respond",
                    worker.name
                ));
            }
            node => {
                if let Some(node) = node {
                    api.delete_node(node.name()).await?;
                }
                reset_host(&host).await?;
                left.push(worker);
            }
        }
    }
    if left.is_empty() {
        return Ok(Effects::none().message(format!("{} uncordoned", names(&plan.workers))));
    }
    let names = names(left.iter().copied());
    join_workers(&api, &plan, &left).await?;
    Ok(Effects::none().message(format!("{names} joined the cluster again")))
}

async fn is_member(host: &Machine<'_>) -> Result<bool, DriverError> {
    host.reach_known().await?;
    Ok(host.facts().await?.has_joined())
}

/// Joins the successors to the cluster, or reinstalls it.
///
/// # Errors
///
/// The error of the first host that fails; `pods-pending` if pods of dependent VNFs cannot be scheduled.
pub(crate) async fn end(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let heal_target = heal_target(request)?;
    let has_healed_vdu = |node: &Node| heal_target.vnfcs.iter().any(|vnfc| vnfc.vdu_id == node.vdu);
    if has_healed_vdu(&plan.master) {
        return reinstall(cx, &plan).await;
    }
    if !plan.workers.iter().any(has_healed_vdu) {
        return Ok(Effects::none().message("no node of the cluster was healed"));
    }
    let Some(api) = connect(cx, &plan).await? else {
        return reinstall(cx, &plan).await;
    };
    let nodes = api.nodes().await?;
    let successors = successors(cx, (&plan, &api), &nodes).await?;
    assign_names(&mut plan, &nodes);
    let new: Vec<_> = plan
        .workers
        .iter()
        .filter(|worker| successors.contains(&worker.vnfc))
        .collect();
    if !new.is_empty() {
        join_workers(&api, &plan, &new).await?;
    }
    wait_for_pods(cx, &api, &request.dependents).await?;
    let names = names(new.iter().copied());
    Ok(Effects::none().message(format!("{names} joined the cluster")))
}

async fn plan(cx: &HookContext, request: &Request) -> Result<Plan, DriverError> {
    let artifacts = cx.artifacts().await?;
    let installation = &request.additional_params.k8s_cluster_installation_param;
    Plan::new(request, installation, &artifacts)
}

fn heal_target(request: &Request) -> Result<&Heal, DriverError> {
    request.heal.as_ref().ok_or_else(|| {
        DriverError::new("bad-request", "the request does not say what is healed")
            .phase("preflight")
    })
}

/// Checks whether the only control-plane node, and so the cluster, may be lost.
fn check_cluster_loss(
    cx: &HookContext,
    request: &Request,
    plan: &Plan,
) -> Result<Effects, DriverError> {
    let accepted = request.additional_params.accept_cluster_loss;
    let healed = heal_target(request)?;
    let all_healed = request
        .vnfcs()
        .iter()
        .all(|one| healed.vnfcs.iter().any(|vnfc| vnfc.id == one.id));
    let master = &plan.master.name;
    let dependents = request
        .dependents
        .iter()
        .map(|other| match &other.vnf_instance_name {
            Some(name) => format!("`{name}` ({})", other.id),
            None => format!("`{}`", other.id),
        });
    let dependents: Vec<_> = dependents.collect();
    let refused = |detail: String| {
        Err(DriverError::new("cluster-loss", detail)
            .host(master)
            .phase("preflight"))
    };
    if !accepted && !dependents.is_empty() {
        return refused(format!(
            "healing the only control-plane node loses the cluster, and {} run on it: terminate them first, or accept \
             the loss with `accept_cluster_loss: true`",
            dependents.join(", ")
        ));
    }
    if !accepted && !all_healed {
        return refused(
            "healing the only control-plane node loses the cluster with everything on it: accept that with \
            `accept_cluster_loss: true`; the cluster is then reinstalled, and its workers join it again"
                .to_owned(),
        );
    }
    if !all_healed && plan.script().is_some() {
        return refused(
            "the vendor's script cannot move workers to another cluster: heal the whole VNF"
                .to_owned(),
        );
    }
    for other in dependents {
        cx.warn(&format!("{other} loses the cluster that it runs on"));
    }
    Ok(Effects::none().message("the cluster is lost and will be reinstalled"))
}

/// Connects to the API server; `None` if no cluster was ever installed.
async fn connect<'a>(cx: &'a HookContext, plan: &Plan) -> Result<Option<Api<'a>>, DriverError> {
    let master = Machine::new(cx, plan, &plan.master);
    master.reach_known().await?;
    if !master.facts().await?.is("admin") {
        cx.warn(&format!("`{}` has no cluster", plan.master.name));
        return Ok(None);
    }
    let ca = read_ca(&master).await?;
    let token = Secret::new(Installer::new(cx, plan).credentials(&master).await?);
    Ok(Some(Api {
        cx,
        url: plan.url(),
        ca,
        token,
        instance: plan.instance.clone(),
    }))
}

/// The node of a server, matched by address.
fn find_node<'a>(server: &Node, nodes: &'a [ClusterNode]) -> Option<&'a ClusterNode> {
    let is_it = |node: &&ClusterNode| {
        node.has_address(&server.address) || node.has_address(&server.ssh.address)
    };
    nodes.iter().find(is_it)
}

async fn drain(
    api: &Api<'_>,
    hosts: &[Machine<'_>],
    options: DrainOptions,
) -> Result<(), DriverError> {
    // All are cordoned first, so that pods of one do not move to the next.
    for host in hosts {
        if let Some(node) = api
            .node(&host.node.name)
            .await?
            .filter(|node| !node.is_silent())
        {
            api.cordon(&node).await?;
        }
    }
    first_failure(join_all(hosts.iter().map(|host| Drain { api, host, options }.run())).await)
}

/// Uncordons the nodes; failures are only logged.
async fn uncordon_all(api: &Api<'_>, hosts: &[Machine<'_>]) {
    for host in hosts {
        let name = &host.node.name;
        let uncordoned = match api.node(name).await {
            Ok(Some(node)) => api.uncordon(&node).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = uncordoned {
            api.cx
                .warn(&format!("`{name}` stays cordoned: {}", error.detail));
        }
    }
}

/// Resets a drained host and deletes its node. A reset that fails is only logged, because the server is deleted anyway.
async fn remove(api: &Api<'_>, host: &Machine<'_>) -> Result<(), DriverError> {
    let name = &host.node.name;
    if host.answers().await
        && let Err(error) = reset_host(host).await
    {
        api.cx
            .warn(&format!("`{name}` was not reset: {}", error.detail));
    }
    api.delete_node(name).await
}

/// Installs the cluster again, on servers that are new or were part of the lost cluster.
async fn reinstall(cx: &HookContext, plan: &Plan) -> Result<Effects, DriverError> {
    let access = match plan.script() {
        Some(path) => script::install(cx, plan, path).await?,
        None => install::install(cx, plan).await?,
    };
    let vim = access.into_vim(&plan.vim_name);
    let message = format!("the cluster was reinstalled as VIM `{}`", plan.vim_name);
    Ok(Effects::none().register_vim(vim).message(message))
}

/// The VNFCs that must join, as determined by the first attempt.
async fn successors(
    cx: &HookContext,
    (plan, api): (&Plan, &Api<'_>),
    nodes: &[ClusterNode],
) -> Result<BTreeSet<String>, DriverError> {
    if let Some(known) = cx.checkpoint(SUCCESSORS).await? {
        return Ok(known);
    }
    let mut found = BTreeSet::new();
    for worker in &plan.workers {
        match find_node(worker, nodes) {
            None => drop(found.insert(worker.vnfc.clone())),
            // The node of a predecessor that was never deleted; its successor has the same address.
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

/// Workers with a node get the node's name; the others get names that no node has.
fn assign_names(plan: &mut Plan, nodes: &[ClusterNode]) {
    for worker in &mut plan.workers {
        if let Some(node) = find_node(worker, nodes) {
            node.name().clone_into(&mut worker.name);
        } else if nodes.iter().any(|node| node.name() == worker.name) {
            worker.name = worker.unique_name();
        }
    }
}

/// Joins these workers in parallel and waits until they are Ready.
async fn join_workers(api: &Api<'_>, plan: &Plan, new: &[&Node]) -> Result<(), DriverError> {
    let cx = api.cx;
    let installer = Installer::new(cx, plan);
    let master = Machine::new(cx, plan, &plan.master);
    installer
        .report(10, &format!("waiting for {}", names(new.iter().copied())))
        .await;
    let control_plane = installer.with_new_token(&master).await?;
    let hosts: Vec<_> = new
        .iter()
        .map(|node| Machine::new(cx, plan, node))
        .collect();
    let joins = hosts.iter().map(|host| async {
        if let Some(path) = plan.script() {
            host.reach().await?;
            return script::join(host, path, &control_plane).await;
        }
        installer.prepare(host).await?;
        if api.node(&host.node.name).await?.is_none()
            && host.state("join").await? != StepState::Running
        {
            // It may still be configured as a node that was deleted.
            reset_host(host).await?;
        }
        installer.join(host, &control_plane).await
    });
    first_failure(join_all(joins).await)?;
    installer.ready(&master, new.iter().copied()).await?;
    labels::restore(api, new).await?;
    installer.delete_tokens(&master, &control_plane).await?;
    installer
        .report(90, &format!("{} joined", names(new.iter().copied())))
        .await;
    Ok(())
}

/// Waits until the pods of the dependent VNF instances run again. A scheduled pod that does not become ready is its own
/// VNF's problem: it causes a warning, not an error. Pods on a lost node are skipped; they wait for that node's heal.
async fn wait_for_pods(
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
        pods.retain(|pod| !pod.is_terminating() && !pod.is_ready_or_done());
        if !pods.is_empty() {
            let nodes = api.nodes().await?;
            let lost = |pod: &Pod| nodes.iter().any(|n| n.is_silent() && pod.is_on(n.name()));
            pods.retain(|pod| !lost(pod));
        }
        if pods.is_empty() {
            return Ok(());
        }
        let unready: Vec<_> = pods.iter().map(describe).collect();
        let unready = unready.join("; ");
        let unscheduled = pods.iter().any(Pod::is_unscheduled);
        let timeout = if unscheduled {
            SCHEDULE_TIMEOUT
        } else {
            POD_TIMEOUT
        };
        if waited >= timeout {
            if unscheduled {
                let detail =
                    format!("all nodes are ready, but pods cannot be scheduled: {unready}");
                return Err(DriverError::new("pods-pending", detail)
                    .retryable()
                    .phase("pods"));
            }
            cx.warn(&format!(
                "pods not ready after {} s: {unready}",
                timeout.as_secs()
            ));
            return Ok(());
        }
        let reason = format!("pods to run again: {unready}");
        cx.pause(&reason, pause).await?;
        waited += pause;
        pause = (pause * 2).min(MAX_INTERVAL);
    }
}

fn describe(pod: &Pod) -> String {
    format!("`{}`: {}", pod.name(), pod.problem())
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
