//! Scaling, from top to bottom; to a level, the hooks are the same.
//!
//! ```text
//! scale_start   VNFCs go     drained; then the pods of dependents run elsewhere; then removed from the cluster
//!                            … the VNFM deletes their servers …
//!               rolled back  members again, if their hosts respond
//!                            … or the VNFM adds servers …
//! scale_end     VNFCs came   members
//!               rolled back  drained, removed from the cluster
//! ```
//!
//! `reconcile.rs` does what these states need. `scale_start` refuses a control plane of an even number of nodes, and one that
//! would lose etcd's quorum, before anything changes.

use crate::api::{Api, ClusterNode};
use crate::clocks;
use crate::cluster::{connect_apart_from, find_node, names};
use crate::labels;
use crate::machine::Machine;
use crate::members;
use crate::ownership;
use crate::params::{OnDrainTimeout, ScaleParams};
use crate::plan::{Node, Plan};
use crate::pods::wait_for_pods;
use crate::reconcile::{Kind, Reconciler, Wanted, target};
use crate::software;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{Scale, VnfcCp};

type Request = HookRequest<ScaleParams>;

/// Removes the nodes of the VNFCs that will go from the cluster.
///
/// # Errors
///
/// `control-plane-scaling` if the control plane would have a size that it cannot have; `drain-blocked`, `bare-pods` or `pods-pending` if pods
/// cannot leave, in which case all nodes are uncordoned again.
pub(crate) async fn start(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let scale = scale(request)?;
    check_control_plane(scale, &plan)?;
    if !scale.vnfcs_to_add.is_empty() {
        plan.check_software()?;
    }
    if scale.vnfcs_to_remove.is_empty() {
        return Ok(Effects::none().message("no node leaves the cluster"));
    }
    let Some(api) = connect_apart_from(cx, &mut plan, &scale.vnfcs_to_remove).await? else {
        return Ok(Effects::none().message("there is no cluster"));
    };
    let leaving = |wanted| target(among(&plan, &scale.vnfcs_to_remove), wanted);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    reconciler
        .check_quorum(&leaving(Wanted::Gone), false)
        .await?;
    reconciler.reach(&leaving(Wanted::Drained)).await?;
    if let Err(error) = wait_for_dependents(&api, request).await {
        if let Err(other) = reconciler.reach(&leaving(Wanted::MemberIfUp)).await {
            cx.warn(&format!("nodes may stay cordoned: {}", other.detail));
        }
        return Err(error);
    }
    let done = reconciler.reach(&leaving(Wanted::Gone)).await?;
    let names = names(done.servers(Kind::Remove));
    Ok(Effects::none().message(format!("{names} left the cluster")))
}

/// Undoes [`start`]: uncordons nodes, and joins those that have left, if their hosts respond.
///
/// # Errors
///
/// The error of the first host that cannot join.
pub(crate) async fn undo_start(
    cx: &HookContext,
    request: &Request,
) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let scale = scale(request)?;
    if scale.vnfcs_to_remove.is_empty() {
        return Ok(Effects::none());
    }
    let Some(api) = connect_apart_from(cx, &mut plan, &scale.vnfcs_to_remove).await? else {
        return Ok(Effects::none());
    };
    let staying = target(among(&plan, &scale.vnfcs_to_remove), Wanted::MemberIfUp);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    let done = reconciler.reach(&staying).await?;
    let names = names(done.servers(Kind::Join));
    Ok(Effects::none().message(format!("{names} joined the cluster again")))
}

/// Joins the VNFCs that came, and deletes the nodes of those that are gone if `scale_start` did not, because it was skipped.
///
/// # Errors
///
/// The error of the first host that cannot join.
pub(crate) async fn end(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let scale = scale(request)?;
    plan.check_ranges()?;
    let Some(api) = connect_apart_from(cx, &mut plan, &scale.vnfcs_added).await? else {
        return Ok(Effects::none().message("there is no cluster"));
    };
    let new = target(among(&plan, &scale.vnfcs_added), Wanted::Member);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    clocks::check_joining(cx, &plan, among(&plan, &scale.vnfcs_added)).await?;
    ownership::check(cx, &plan, among(&plan, &scale.vnfcs_added)).await?;
    reconciler.update_endpoints(&new).await?;
    reconciler.reach(&new).await?;
    delete_nodes_without_server(&api, &plan, scale).await?;
    labels::delete_outdated(&api).await?;
    let names = names(among(&plan, &scale.vnfcs_added));
    let effects = software::shown(Effects::none(), (cx, &plan, &request.instance)).await?;
    Ok(effects.message(format!("{names} joined the cluster")))
}

/// Undoes [`end`]: removes the nodes that joined.
///
/// # Errors
///
/// Those of [`start`]: the pods that have come since must leave.
pub(crate) async fn undo_end(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let scale = scale(request)?;
    if scale.vnfcs_added.is_empty() {
        return Ok(Effects::none());
    }
    let Some(api) = connect_apart_from(cx, &mut plan, &scale.vnfcs_added).await? else {
        return Ok(Effects::none());
    };
    let leaving = target(among(&plan, &scale.vnfcs_added), Wanted::Gone);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    let done = reconciler.reach(&leaving).await?;
    labels::delete_outdated(&api).await?;
    let names = names(done.servers(Kind::Remove));
    Ok(Effects::none().message(format!("{names} left the cluster")))
}

async fn plan(cx: &HookContext, request: &Request) -> Result<Plan, DriverError> {
    let installation = &request.additional_params.k8s_cluster_installation_param;
    Plan::for_request(cx, request, installation).await
}

fn scale(request: &Request) -> Result<&Scale, DriverError> {
    request.scale.as_ref().ok_or_else(|| {
        DriverError::new("bad-request", "the request does not say what is scaled")
            .phase("preflight")
    })
}

/// The nodes that are these VNFCs.
fn among<'a>(plan: &'a Plan, vnfcs: &'a [Vnfc]) -> impl Iterator<Item = &'a Node> {
    let is_one = |node: &&Node| vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    plan.nodes().filter(is_one)
}

/// Refuses a size of the control plane that it cannot have.
fn check_control_plane(scale: &Scale, plan: &Plan) -> Result<(), DriverError> {
    let is_one = |vdu: &str| plan.control_planes.iter().any(|node| node.vdu == vdu);
    let leaving = scale.vnfcs_to_remove.iter();
    let leaving = leaving.filter(|vnfc| is_one(&vnfc.vdu_id)).count();
    let added = scale.vnfcs_to_add.iter().filter(|(vdu, _)| is_one(vdu));
    let added: usize = added.map(|(_, number)| *number as usize).sum();
    if leaving == 0 && added == 0 {
        return Ok(());
    }
    let size = (plan.control_planes.len() + added).saturating_sub(leaving);
    plan.check_size(size).map_err(|error| {
        DriverError::new("control-plane-scaling", error.detail.clone()).phase("preflight")
    })
}

/// Deletes nodes whose servers were removed.
async fn delete_nodes_without_server(
    api: &Api<'_>,
    plan: &Plan,
    scale: &Scale,
) -> Result<(), DriverError> {
    let removed = scale.vnfcs_to_remove.iter();
    let addresses: Vec<_> = removed
        .flat_map(|vnfc| vnfc.vnfc_cp_info.iter().flat_map(VnfcCp::addresses))
        .collect();
    if addresses.is_empty() {
        return Ok(());
    }
    let nodes = api.nodes().await?;
    let is_outdated =
        |node: &ClusterNode| addresses.iter().any(|address| node.has_address(address));
    let current: Vec<_> = plan
        .nodes()
        .filter_map(|server| find_node(server, &nodes))
        .collect();
    for node in nodes.iter().filter(|node| is_outdated(node)) {
        if current.iter().all(|other| other.name() != node.name()) {
            api.cx.warn(&format!(
                "`{}` has no server any more: deleting it",
                node.name()
            ));
            if plan.control_planes.len() > 1 {
                let host = Machine::new(api.cx, plan, plan.responding_control_plane());
                members::remove(&host, (node.name(), "")).await?;
            }
            api.delete_node(node.name()).await?;
        }
    }
    Ok(())
}

/// Waits until the pods that left run elsewhere; if the request forces the drain, it may be that they cannot.
async fn wait_for_dependents(api: &Api<'_>, request: &Request) -> Result<(), DriverError> {
    let drain = &request.additional_params.drain;
    let timeout = Duration::from_secs(drain.drain_timeout_seconds.into());
    match wait_for_pods(api, &request.dependents, timeout).await {
        Err(error)
            if error.code == "pods-pending" && drain.on_drain_timeout == OnDrainTimeout::Force =>
        {
            api.cx.warn(&error.detail);
            Ok(())
        }
        waited => waited,
    }
}
