//! Healing, from top to bottom.
//!
//! ```text
//! heal_start   nodes               drained, removed from the cluster; refused if etcd would lose its quorum
//!              all control planes  refused, unless the request accepts the loss of the cluster
//!                                  … the VNFM replaces the servers …
//!              rolled back         members again, if their hosts respond
//! heal_end     nodes               their successors are members; then the pods of dependents run
//!              all control planes  a new installation; the VIM keeps its id
//! ```
//!
//! `reconcile.rs` does what these states of nodes need. The successors are the servers without a node when `heal_end`
//! first runs, which are stored; other servers are not touched, and workers among them need not work.

use crate::api::ClusterNode;
use crate::clocks;
use crate::cluster::{check_no_remains, connect, connect_apart_from, find_node, names};
use crate::install;
use crate::machine::Machine;
use crate::members;
use crate::ownership;
use crate::params::HealParams;
use crate::plan::{Node, Plan};
use crate::pods::{SCHEDULE_TIMEOUT, wait_for_pods};
use crate::reconcile::{Kind, Reconciler, Wanted, target};
use crate::script;
use crate::software;
use std::collections::BTreeSet;
use vnfm_plugin_sdk::prelude::*;

type Request = HookRequest<HealParams>;

/// The checkpoint with the VNFCs that must join.
const SUCCESSORS: &str = "successors";
/// The checkpoint that a cluster of which nothing was left is being reinstalled.
const REINSTALLED: &str = "reinstalled";

/// Removes the nodes that will be replaced from the cluster.
///
/// # Errors
///
/// `cluster-loss` for the whole control plane, unless accepted; `quorum-at-risk` and `quorum-lost` for a part of it;
/// `cluster-damaged` if nothing leads to the API server; if a node cannot be drained, in which case all nodes are uncordoned
/// again.
pub(crate) async fn start(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let heal_target = heal_target(request)?;
    let is_healed = |node: &&Node| heal_target.vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    if plan.control_planes.iter().all(|node| is_healed(&node)) {
        return check_cluster_loss(cx, request, &plan);
    }
    if !plan.nodes().any(|node| is_healed(&node)) {
        return Ok(Effects::none().message("no node of the cluster is healed"));
    }
    plan.check_software()?;
    let replaced = plan.control_planes.iter().filter(is_healed).count();
    if plan.external_etcd.is_none() {
        members::check_number(replaced, plan.control_planes.len())?;
    }
    let Some(api) = connect_apart_from(cx, &mut plan, &heal_target.vnfcs).await? else {
        check_no_remains(cx, &plan).await?;
        return Ok(Effects::none().message("there is no cluster"));
    };
    let healed = target(plan.nodes().filter(is_healed), Wanted::Gone);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    reconciler.check_quorum(&healed, true).await?;
    let done = reconciler.reach(&healed).await?;
    let names = names(done.servers(Kind::Remove));
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
    let is_healed = |node: &&Node| heal_target.vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    if plan.control_planes.iter().all(|node| is_healed(&node))
        || !plan.nodes().any(|node| is_healed(&node))
    {
        return Ok(Effects::none());
    }
    let Some(api) = connect_apart_from(cx, &mut plan, &heal_target.vnfcs).await? else {
        return Ok(Effects::none());
    };
    let healed = target(plan.nodes().filter(is_healed), Wanted::MemberIfUp);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    let done = reconciler.reach(&healed).await?;
    let names = names(done.servers(Kind::Join));
    Ok(Effects::none().message(format!("{names} joined the cluster again")))
}

/// Joins the successors to the cluster, or reinstalls it.
///
/// # Errors
///
/// The error of the first host that fails; `pods-pending` if pods of dependent VNFs cannot be scheduled.
pub(crate) async fn end(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let heal_target = heal_target(request)?;
    plan.check_ranges()?;
    let has_healed_vdu = |node: &Node| heal_target.vnfcs.iter().any(|vnfc| vnfc.vdu_id == node.vdu);
    let is_control_plane = |vnfc: &&Vnfc| {
        let mut nodes = plan.control_planes.iter();
        nodes.any(|node| node.vdu == vnfc.vdu_id)
    };
    if heal_target.vnfcs.iter().filter(is_control_plane).count() >= plan.control_planes.len() {
        let effects = reinstall(cx, &plan).await?;
        return software::shown(effects, (cx, &plan, &request.instance)).await;
    }
    if !plan.nodes().any(has_healed_vdu) {
        return Ok(Effects::none().message("no node of the cluster was healed"));
    }
    let Some(api) = connect(cx, &mut plan).await? else {
        if cx.checkpoint::<bool>(REINSTALLED).await?.is_none() {
            check_no_remains(cx, &plan).await?;
            cx.save_checkpoint(REINSTALLED, &true).await?;
        }
        let effects = reinstall(cx, &plan).await?;
        return software::shown(effects, (cx, &plan, &request.instance)).await;
    };
    let successors = successors(cx, &plan, &api.nodes().await?).await?;
    let is_new = |node: &&Node| successors.contains(&node.vnfc);
    let new = target(plan.nodes().filter(is_new), Wanted::Member);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    clocks::check_joining(cx, &plan, plan.nodes().filter(is_new)).await?;
    ownership::check(cx, &plan, plan.nodes().filter(is_new)).await?;
    reconciler.update_endpoints(&new).await?;
    reconciler.reach(&new).await?;
    wait_for_pods(&api, &request.dependents, SCHEDULE_TIMEOUT).await?;
    let names = names(plan.nodes().filter(is_new));
    let effects = software::shown(Effects::none(), (cx, &plan, &request.instance)).await?;
    Ok(effects.message(format!("{names} joined the cluster")))
}

async fn plan(cx: &HookContext, request: &Request) -> Result<Plan, DriverError> {
    let installation = &request.additional_params.k8s_cluster_installation_param;
    Plan::for_request(cx, request, installation).await
}

fn heal_target(request: &Request) -> Result<&Heal, DriverError> {
    request.heal.as_ref().ok_or_else(|| {
        DriverError::new("bad-request", "the request does not say what is healed")
            .phase("preflight")
    })
}

/// Checks whether all control-plane nodes, and so the cluster, may be lost.
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
    let master = &plan.first_control_plane().name;
    let what = match plan.control_planes.len() {
        1 => "the only control-plane node",
        _ => "all control-plane nodes",
    };
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
            "healing {what} loses the cluster, and {} run on it: terminate them first, or accept \
             the loss with `accept_cluster_loss: true`",
            dependents.join(", ")
        ));
    }
    if !accepted && !all_healed {
        return refused(format!(
            "healing {what} loses the cluster with everything on it: accept that with `accept_cluster_loss: true`; the \
             cluster is then reinstalled, and its workers join it again"
        ));
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

/// Installs the cluster again, on servers that are new or were part of the lost cluster.
async fn reinstall(cx: &HookContext, plan: &Plan) -> Result<Effects, DriverError> {
    clocks::check_new(cx, plan, plan.nodes()).await?;
    ownership::check(cx, plan, plan.nodes()).await?;
    let access = match plan.script() {
        Some(path) => script::install(cx, plan, path).await?,
        None => install::install(cx, plan).await?,
    };
    let vim = access.into_vim(plan);
    let message = format!("the cluster was reinstalled as VIM `{}`", plan.vim_name);
    Ok(Effects::none().register_vim(vim).message(message))
}

/// The VNFCs that must join, as determined by the first attempt.
async fn successors(
    cx: &HookContext,
    plan: &Plan,
    nodes: &[ClusterNode],
) -> Result<BTreeSet<String>, DriverError> {
    if let Some(known) = cx.checkpoint(SUCCESSORS).await? {
        return Ok(known);
    }
    let mut found = BTreeSet::new();
    for worker in plan.nodes() {
        let is_new = match find_node(worker, nodes) {
            None => true,
            // The node of a predecessor that was never deleted; its successor has the same address.
            Some(node) if node.is_silent() => {
                let host = Machine::new(cx, plan, worker);
                host.answers().await && !host.has_joined().await?
            }
            Some(_) => false,
        };
        if is_new {
            found.insert(worker.vnfc.clone());
        }
    }
    cx.save_checkpoint(SUCCESSORS, &found).await?;
    Ok(found)
}
