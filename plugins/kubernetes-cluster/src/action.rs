//! What an operator asks of a cluster between its instantiation and its termination: the parameter `cluster_action` of an
//! operate request with `changeStateTo: STARTED`, which changes no server of a VNF that is STARTED.

use crate::api::Api;
use crate::authority;
use crate::certificates;
use crate::clocks;
use crate::cluster::connect;
use crate::etcd::{self, EtcdParams};
use crate::external_etcd::refuse_snapshot;
use crate::installer::Installer;
use crate::logins;
use crate::machine::Machine;
use crate::members;
use crate::params::Installation;
use crate::patch;
use crate::plan::Plan;
use crate::upgrade::{self, UpgradeParams, observe, shown};
use crate::way_back;
use crate::{addons, smoke_test, software};
use schemars::JsonSchema;
use serde::Deserialize;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{Instance, Operate};

/// `additionalParams` of an operate request: those of the instantiation, which are stored, and the action.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct OperateParams {
    /// How the cluster was installed; taken from the instantiation unless the request has other values.
    pub(crate) k8s_cluster_installation_param: Installation,
    /// What to do on the cluster; nothing if absent.
    pub(crate) cluster_action: Option<ClusterAction>,
    /// For an upgrade or a patch.
    #[serde(flatten)]
    pub(crate) upgrade: UpgradeParams,
    /// For a backup or a restore.
    #[serde(flatten)]
    pub(crate) etcd: EtcdParams,
}

/// `additionalParams` of a change of the VNF package: those of the instantiation, which are stored, and how to upgrade.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct PackageParams {
    /// How the cluster was installed; taken from the instantiation unless the request has other values.
    pub(crate) k8s_cluster_installation_param: Installation,
    /// What the package upgrades, and how.
    #[serde(flatten)]
    pub(crate) upgrade: UpgradeParams,
}

/// An action on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClusterAction {
    /// Shows versions, clocks, members of etcd, certificates, add-ons and the software of nodes, and deletes logins that are no
    /// longer registered.
    Check,
    /// Upgrades Kubernetes, and applies network plugin and add-ons again.
    Upgrade,
    /// Patches the software of the nodes to the versions that the parameters name.
    PatchSoftware,
    /// Applies network plugin and add-ons again, and waits until they are healthy.
    ApplyAddons,
    /// Renews the certificates of the control plane.
    RenewCertificates,
    /// Replaces the cluster's CA, and all certificates by it.
    RotateCa,
    /// Renews the login of the VIM.
    RenewLogin,
    /// Takes an encrypted snapshot of etcd.
    Backup,
    /// Restores a snapshot of etcd.
    Restore,
}

/// Refuses an action that is not possible, before anything changes.
///
/// # Errors
///
/// `bad-parameters` if the VNF is stopped; `external-etcd` for a snapshot of another party's etcd; for an upgrade those of [`upgrade::check`].
pub(crate) async fn start(
    cx: &HookContext,
    request: &HookRequest<OperateParams>,
) -> Result<Effects, DriverError> {
    let params = &request.additional_params;
    let Some(action) = params.cluster_action else {
        return Ok(Effects::none());
    };
    if request.operate.as_ref().is_some_and(Operate::stops) {
        let detail = "`cluster_action` requires changeStateTo STARTED: a cluster that is stopped cannot be changed";
        return Err(DriverError::new("bad-parameters", detail).phase("preflight"));
    }
    if matches!(action, ClusterAction::Backup | ClusterAction::Restore) {
        if params
            .k8s_cluster_installation_param
            .external_etcd
            .is_some()
        {
            return Err(refuse_snapshot());
        }
        etcd::check(&params.etcd, action == ClusterAction::Restore)?;
    }
    if action == ClusterAction::Upgrade && request.instance.vnf_state.as_deref() != Some("STOPPED")
    {
        let mut plan = plan(cx, request, &params.k8s_cluster_installation_param).await?;
        upgrade::check(cx, &mut plan, &params.upgrade).await?;
    }
    if action == ClusterAction::PatchSoftware {
        let plan = plan(cx, request, &params.k8s_cluster_installation_param).await?;
        plan.check_software()?;
    }
    Ok(Effects::none())
}

/// Runs the action.
///
/// # Errors
///
/// Those of the action.
pub(crate) async fn end(
    cx: &HookContext,
    request: &HookRequest<OperateParams>,
) -> Result<Effects, DriverError> {
    let params = &request.additional_params;
    let Some(action) = params.cluster_action else {
        return Ok(Effects::none());
    };
    let mut plan = plan(cx, request, &params.k8s_cluster_installation_param).await?;
    match action {
        ClusterAction::Upgrade => {
            let dependents = &request.dependents;
            let upgraded = upgrade::run(cx, &mut plan, (&params.upgrade, dependents)).await?;
            let effects = apply_addons(cx, &mut plan, upgraded).await?;
            upgrade::complete(cx, &plan).await.map(|()| effects)
        }
        ClusterAction::PatchSoftware => {
            patch::run(cx, &mut plan, (&params.upgrade, request), Effects::none()).await
        }
        ClusterAction::ApplyAddons => apply_addons(cx, &mut plan, Effects::none()).await,
        // The API server need not respond.
        ClusterAction::Backup => etcd::back_up(cx, &plan, &params.etcd).await,
        ClusterAction::Restore => etcd::restore(cx, &plan, &params.etcd).await,
        ClusterAction::Check
        | ClusterAction::RenewCertificates
        | ClusterAction::RotateCa
        | ClusterAction::RenewLogin => {
            certificates::resume(cx, &plan).await?;
            if action == ClusterAction::RenewCertificates {
                certificates::renew_expired(cx, &plan).await?;
            }
            let Some(api) = connect(cx, &mut plan).await? else {
                return Ok(Effects::none().message("there is no cluster"));
            };
            logins::delete_old(cx, &plan, &request.instance).await?;
            match action {
                ClusterAction::RenewCertificates => certificates::renew(cx, &plan, &api).await,
                ClusterAction::RotateCa => authority::rotate(cx, &plan, &api).await,
                ClusterAction::RenewLogin => logins::renew(cx, &plan, &api).await,
                _ => check(cx, &plan, (&api, &request.instance)).await,
            }
        }
    }
}

/// Undoes [`end`]. Only an upgrade, a patch and the beginning of a CA's rotation can be taken back; what the others add does not need
/// to be, but what they have stopped starts again.
///
/// # Errors
///
/// Those of [`way_back::undo`], [`patch::undo`], [`authority::undo`], [`certificates::resume`] and [`etcd::undo_restore`].
pub(crate) async fn undo_end(
    cx: &HookContext,
    request: &HookRequest<OperateParams>,
) -> Result<Effects, DriverError> {
    let params = &request.additional_params;
    let installation = &params.k8s_cluster_installation_param;
    match params.cluster_action {
        Some(ClusterAction::Restore) => etcd::undo_restore(cx).await,
        Some(ClusterAction::RotateCa) => {
            let mut plan = plan(cx, request, installation).await?;
            certificates::resume(cx, &plan).await?;
            match connect(cx, &mut plan).await? {
                Some(api) => authority::undo(cx, &plan, &api).await,
                None => Ok(Effects::none()),
            }
        }
        Some(ClusterAction::RenewCertificates) => {
            let plan = plan(cx, request, installation).await?;
            certificates::resume(cx, &plan).await?;
            Ok(Effects::none())
        }
        Some(ClusterAction::Upgrade) => {
            let mut plan = plan(cx, request, installation).await?;
            way_back::undo(cx, &mut plan, &params.upgrade).await
        }
        Some(ClusterAction::PatchSoftware) => {
            let mut plan = plan(cx, request, installation).await?;
            patch::undo(cx, &mut plan, (&params.upgrade, request)).await
        }
        _ => Ok(Effects::none()),
    }
}

/// Refuses a change of the package whose upgrade is not possible, as far as the old package and the request can tell.
///
/// # Errors
///
/// Those of [`upgrade::check`].
pub(crate) async fn package_start(
    cx: &HookContext,
    request: &HookRequest<PackageParams>,
) -> Result<Effects, DriverError> {
    let params = &request.additional_params;
    if params.upgrade.kubernetes_version.is_none() {
        return Ok(Effects::none());
    }
    let mut plan = plan(cx, request, &params.k8s_cluster_installation_param).await?;
    // The archives of the old package are not those to install.
    plan.packages.clear();
    upgrade::check(cx, &mut plan, &params.upgrade).await?;
    Ok(Effects::none())
}

/// Upgrades the cluster to what the new package contains, patches the software of its nodes, and applies its network plugin and
/// add-ons.
///
/// # Errors
///
/// Those of [`upgrade::run`], [`patch::run`] and [`addons::update`].
pub(crate) async fn package_end(
    cx: &HookContext,
    request: &HookRequest<PackageParams>,
) -> Result<Effects, DriverError> {
    let params = &request.additional_params;
    let mut plan = plan(cx, request, &params.k8s_cluster_installation_param).await?;
    plan.check_software()?;
    let upgraded = upgrade::run(cx, &mut plan, (&params.upgrade, &request.dependents)).await?;
    let patched = patch::run(cx, &mut plan, (&params.upgrade, request), upgraded).await?;
    let effects = apply_addons(cx, &mut plan, patched).await?;
    upgrade::complete(cx, &plan).await.map(|()| effects)
}

/// Applies network plugin and add-ons of the plan, and tests the cluster if the parameters ask for it; does nothing if a vendor's script
/// installed the cluster, or no cluster exists.
async fn apply_addons(
    cx: &HookContext,
    plan: &mut Plan,
    effects: Effects,
) -> Result<Effects, DriverError> {
    if plan.script().is_some() || connect(cx, plan).await?.is_none() {
        return Ok(effects);
    }
    let installer = Installer::new(cx, plan);
    let master = Machine::new(cx, plan, plan.responding_control_plane());
    addons::update(&installer, &master).await?;
    smoke_test::run(&installer, &master).await?;
    addons::shown(effects, &master).await
}

/// Undoes [`package_end`].
///
/// # Errors
///
/// Those of [`way_back::undo`] and [`patch::undo`].
pub(crate) async fn undo_package_end(
    cx: &HookContext,
    request: &HookRequest<PackageParams>,
) -> Result<Effects, DriverError> {
    let params = &request.additional_params;
    let mut plan = plan(cx, request, &params.k8s_cluster_installation_param).await?;
    let before = way_back::undo(cx, &mut plan, &params.upgrade).await?;
    let returned = patch::undo(cx, &mut plan, (&params.upgrade, request)).await?;
    let message = returned.message.or(before.message);
    Ok(message.into_iter().fold(Effects::none(), Effects::message))
}

async fn plan<P>(
    cx: &HookContext,
    request: &HookRequest<P>,
    installation: &Installation,
) -> Result<Plan, DriverError> {
    Plan::for_request(cx, request, installation).await
}

/// Shows versions, clocks, members of etcd, certificates, add-ons and the software of nodes.
async fn check(
    cx: &HookContext,
    plan: &Plan,
    (api, instance): (&Api<'_>, &Instance),
) -> Result<Effects, DriverError> {
    let versions = observe(api, plan).await?;
    let effects = clocks::show(cx, plan, shown(Effects::none(), &versions)).await?;
    let master = Machine::new(cx, plan, plan.responding_control_plane());
    let effects = members::show(&master, effects).await?;
    let effects = certificates::show(cx, plan, effects).await?;
    let effects = software::shown(effects, (cx, plan, instance)).await?;
    let (effects, not_healthy) = match plan.script() {
        Some(_) => (effects, addons::Problems::new()),
        None => addons::check(effects, &master).await?,
    };
    let certificates = effects.message.clone().unwrap_or_default();
    let differing = software::describe_differing(&effects);
    let nodes = versions.nodes.len();
    let not_ready = versions.nodes.iter().filter(|node| !node.is_ready).count();
    let not_healthy = not_healthy.iter();
    let not_healthy =
        not_healthy.map(|(name, problem)| format!("; add-on `{name}` is not healthy: {problem}"));
    let not_healthy = not_healthy.collect::<Vec<_>>().concat();
    Ok(effects.message(format!(
        "Kubernetes {} on {nodes} nodes, {not_ready} of them not Ready; {certificates}{differing}{not_healthy}",
        versions.control_plane
    )))
}
