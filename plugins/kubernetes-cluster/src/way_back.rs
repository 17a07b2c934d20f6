//! The way back of an upgrade: what a node keeps of its old version, and how it returns to that.
//!
//! | what | kept on | put back |
//! |---|---|---|
//! | kubeadm, kubelet, kubectl; the kubelet's settings; static manifests | each node that is upgraded | always |
//! | a snapshot of etcd | the first control-plane node | to the only member of an etcd that was changed |
//! | kubeadm's records in the cluster | the first control-plane node's checkpoint | with the first control-plane node |
//!
//! A worker that fails returns at once. The first control-plane node returns at once if `kubeadm upgrade apply` fails, and by a
//! rollback until the next node begins ([`end_before`]): a cluster with nodes of the new version is not taken back. A cluster of
//! one node keeps its copies until its add-ons are healthy, too.
//!
//! Of several members of etcd, only the first has the new version by then: it keeps its data, which are still of the old one, and
//! what was written meanwhile stays. A cluster of one member returns to its snapshot, and what was written since is in
//! `vnfm-before` of etcd's folder alone.

use crate::cluster::connect;
use crate::etcd;
use crate::machine::{Machine, StepState};
use crate::plan::{Node, Plan};
use crate::programs::{IMAGES, PACKAGES, PHASE};
use crate::upgrade::{APPLY, Upgrade, UpgradeParams};
use crate::versions::Version;
use vnfm_plugin_sdk::prelude::*;

/// The checkpoint with the version to which an upgrade has begun.
pub(crate) const BEGUN: &str = "upgrade";
/// The checkpoint with the version of the control plane, once `kubeadm upgrade apply` has ended well.
pub(crate) const APPLIED: &str = "upgrade-applied";
/// The checkpoint with the reason why there is no way back.
const ENDED: &str = "upgrade-irreversible";
/// The steps whose end a return waits for, because they change what it puts back; they do not take long.
pub(crate) const CHANGES: &[&str] = &[IMAGES, PACKAGES, etcd::PHASE];

/// Copies programs, settings and manifests, unless the node has copies.
///
/// # Errors
///
/// `upgrade-failed` if there is no space for them.
pub(crate) async fn keep(host: &Machine<'_>) -> Result<(), DriverError> {
    host.kubernetes(PHASE, "keep").await.map(|_| ())
}

/// Puts back what [`keep`] has copied.
///
/// # Errors
///
/// `upgrade-failed`; it can be repeated.
pub(crate) async fn put_back(host: &Machine<'_>) -> Result<(), DriverError> {
    host.kubernetes(PHASE, "manifests").await?;
    host.kubernetes(PHASE, "programs").await.map(|_| ())
}

/// Ends the way back, before `next` begins its upgrade.
///
/// # Errors
///
/// As [`end`].
pub(crate) async fn end_before(cx: &HookContext, next: &Node) -> Result<(), DriverError> {
    end(
        cx,
        &format!(
            "`{}` has begun its upgrade after the first control-plane node",
            next.name
        ),
    )
    .await
}

/// Ends the way back, for this reason.
///
/// # Errors
///
/// If the store is unavailable.
pub(crate) async fn end(cx: &HookContext, reason: &str) -> Result<(), DriverError> {
    if cx.checkpoint::<String>(ENDED).await?.is_none() {
        cx.rule_out_rollback(reason).await?;
        cx.save_checkpoint(ENDED, &reason).await?;
    }
    Ok(())
}

/// Takes an upgrade back of which only the first control-plane node has anything.
///
/// # Errors
///
/// `upgrade-irreversible` once another node has begun, or everything is complete; if something that an attempt has started still
/// runs; `drain-blocked` and `bare-pods` if the node has its new kubelet, and pods cannot leave it.
pub(crate) async fn undo(
    cx: &HookContext,
    plan: &mut Plan,
    params: &UpgradeParams,
) -> Result<Effects, DriverError> {
    let Some(to) = cx.checkpoint::<Version>(BEGUN).await? else {
        return Ok(Effects::none());
    };
    if let Some(reason) = cx.checkpoint::<String>(ENDED).await? {
        let detail = format!(
            "{reason}, and there is no way back from {to}: retry the operation, which completes it"
        );
        return Err(DriverError::new("upgrade-irreversible", detail).phase(PHASE));
    }
    let host = Machine::new(cx, plan, plan.first_control_plane());
    host.reach_node().await?;
    host.wait_for_steps(&[CHANGES, &[APPLY]].concat()).await?;
    let is_applied = cx.checkpoint::<Version>(APPLIED).await?.is_some()
        || host.state(APPLY).await? == StepState::Done(0);
    if host.installed().await?.kubelet() == Some(to) {
        drain(cx, plan, (params, to)).await?;
    }
    let host = Machine::new(cx, plan, plan.first_control_plane());
    etcd::put_back(&host, is_applied).await?;
    put_back(&host).await?;
    host.forget(APPLY).await?;
    cx.save_checkpoint(APPLIED, &None::<Version>).await?;
    if let Some(api) = connect(cx, plan).await? {
        let host = Machine::new(cx, plan, plan.first_control_plane());
        Upgrade::new((&api, plan), params, to)
            .come_back(&host)
            .await?;
    }
    let host = Machine::new(cx, plan, plan.first_control_plane());
    host.kubernetes(PHASE, "drop").await?;
    Ok(Effects::none().message(format!(
        "`{}` has what it had before the upgrade",
        host.node.name
    )))
}

/// Drains the first control-plane node before its kubelet is replaced. An API server that does not respond is what the way back
/// may repair.
async fn drain(
    cx: &HookContext,
    plan: &mut Plan,
    (params, to): (&UpgradeParams, Version),
) -> Result<(), DriverError> {
    let Ok(Some(api)) = connect(cx, plan).await else {
        cx.warn("the API server does not respond: the kubelet is replaced without a drain");
        return Ok(());
    };
    let host = Machine::new(cx, plan, plan.first_control_plane());
    Upgrade::new((&api, plan), params, to).drain(&host).await
}
