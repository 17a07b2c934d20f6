//! Scaling the workers, from top to bottom; to a level, the hooks are the same.
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
//! `reconcile.rs` does what these states need. The servers of the control plane cannot be scaled: `scale_start` refuses
//! that before anything changes.

use crate::api::{Api, ClusterNode};
use crate::cluster::{connect, find_node, names};
use crate::labels;
use crate::params::{OnDrainTimeout, ScaleParams};
use crate::plan::{Node, Plan};
use crate::pods::wait_for_pods;
use crate::reconcile::{Kind, Reconciler, Wanted, target};
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{Scale, VnfcCp};

type Request = HookRequest<ScaleParams>;

/// Removes the nodes of the VNFCs that will go from the cluster.
///
/// # Errors
///
/// `control-plane-scaling` if the control plane would be scaled; `drain-blocked`, `bare-pods` or `pods-pending` if pods
/// cannot leave, in which case all nodes are uncordoned again.
pub(crate) async fn start(cx: &HookContext, request: &Request) -> Result<Effects, DriverError> {
    let mut plan = plan(cx, request).await?;
    let scale = scale(request)?;
    refuse_control_plane(scale, &plan)?;
    if scale.vnfcs_to_remove.is_empty() {
        return Ok(Effects::none().message("no node leaves the cluster"));
    }
    let Some(api) = connect(cx, &mut plan).await? else {
        return Ok(Effects::none().message("there is no cluster"));
    };
    let leaving = |wanted| target(among(&plan, &scale.vnfcs_to_remove), wanted);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
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
    let Some(api) = connect(cx, &mut plan).await? else {
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
    let Some(api) = connect(cx, &mut plan).await? else {
        return Ok(Effects::none().message("there is no cluster"));
    };
    let new = target(among(&plan, &scale.vnfcs_added), Wanted::Member);
    let reconciler = Reconciler::new(&api, &plan, &request.additional_params.drain);
    reconciler.reach(&new).await?;
    delete_nodes_without_server(&api, &plan, scale).await?;
    labels::delete_outdated(&api).await?;
    let names = names(among(&plan, &scale.vnfcs_added));
    Ok(Effects::none().message(format!("{names} joined the cluster")))
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
    let Some(api) = connect(cx, &mut plan).await? else {
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
    Plan::new(request, installation, &cx.artifacts().await?)
}

fn scale(request: &Request) -> Result<&Scale, DriverError> {
    request.scale.as_ref().ok_or_else(|| {
        DriverError::new("bad-request", "the request does not say what is scaled")
            .phase("preflight")
    })
}

/// The workers that are these VNFCs.
fn among<'a>(plan: &'a Plan, vnfcs: &'a [Vnfc]) -> impl Iterator<Item = &'a Node> {
    let is_one = |node: &&Node| vnfcs.iter().any(|vnfc| vnfc.id == node.vnfc);
    plan.workers.iter().filter(is_one)
}

/// Only workers come and go.
fn refuse_control_plane(scale: &Scale, plan: &Plan) -> Result<(), DriverError> {
    let vdu = &plan.first_control_plane().vdu;
    let leaves = scale.vnfcs_to_remove.iter().any(|vnfc| vnfc.vdu_id == *vdu);
    if !leaves && !scale.vnfcs_to_add.contains_key(vdu) {
        return Ok(());
    }
    let detail = format!(
        "VDU `{vdu}` is the control plane, which has one node and cannot be scaled: scale an aspect that concerns only \
         workers"
    );
    Err(DriverError::new("control-plane-scaling", detail)
        .host(&plan.first_control_plane().name)
        .phase("preflight"))
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
