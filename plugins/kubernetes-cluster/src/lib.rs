//! MgmtDriver that installs a Kubernetes cluster over SSH.
//!
//! | hook | what it does |
//! |---|---|
//! | `instantiate_start` | refuses a cluster that is not possible, before there is a server |
//! | `instantiate_end` | turns the VNF's servers into a cluster and registers it as a VIM |
//! | `heal_start` | drains the nodes that will be replaced and removes them from the cluster; its undo handler brings them back |
//! | `heal_end` | joins their successors; reinstalls a cluster whose whole control plane is lost |
//! | `scale_start`, `scale_to_level_start` | drains the nodes that will go and removes them from the cluster; its undo handler brings them back |
//! | `scale_end`, `scale_to_level_end` | joins the nodes that came; its undo handler drains and removes them |
//! | `operate_start`, `operate_end` | check and run an action on the cluster that the request names: an upgrade, a patch, a renewal |
//! | `change_current_package_start`, `change_current_package_end` | check and run the upgrade and the patch to what the new package contains |
//! | `terminate_end` | unregisters the VIM; the servers are deleted by then |
//!
//! `install.rs` shows the installation from top to bottom, `heal.rs` a heal, `scale.rs` a scaling, `upgrade.rs` an upgrade, `patch.rs` a patch of the nodes' software. What nodes an operation
//! wants, `reconcile.rs` makes of those that it observes. The parameters (`params.rs`) are those of Tacker's driver in
//! `k8s_cluster_installation_param`, and a few of our own. 1, 3 or 5 control-plane nodes with stacked etcd, any number of
//! workers.

mod access;
mod action;
mod addon_check;
mod addons;
mod api;
mod api_responses;
mod authority;
mod built_in;
pub mod catalogue;
mod certificates;
mod cidr;
mod clocks;
mod cloud_config;
mod cluster;
mod config;
mod drain;
mod endpoint;
mod etcd;
mod external_etcd;
mod heal;
mod install;
mod installer;
mod join;
mod join_tokens;
mod kubectl;
mod labels;
mod logins;
mod machine;
mod members;
mod node;
mod outputs;
mod ownership;
pub mod params;
mod patch;
mod plan;
mod pods;
mod preflight;
mod prepare;
mod programs;
mod reconcile;
mod record;
mod registry;
mod registry_check;
mod roles;
mod scale;
mod script;
mod secrets;
mod serve_endpoint;
mod settled;
mod smoke_test;
mod software;
mod software_check;
mod upgrade;
mod versions;
mod way_back;

pub use addons::catalogue_objects;

use action::{OperateParams, PackageParams};
use config::VIM_TYPE;
use machine::Machine;
use params::{HealParams, InstantiateParams, ScaleParams};
use plan::Plan;
use std::future::ready;
use std::sync::Arc;
use vnfm_plugin_sdk::prelude::*;

/// The driver. It is stateless: all state is in the request, on the hosts and in checkpoints.
#[derive(Debug)]
pub struct KubernetesCluster;

impl MgmtDriver for KubernetesCluster {
    type Config = NoConfig;

    fn new(_: NoConfig) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        let hooks = ["scale", "scale_to_level"]
            .into_iter()
            .fold(hooks, |hooks, operation| {
                let [start, end] = ["start", "end"].map(|end| format!("{operation}_{end}"));
                hooks
                    .on(&start, Self::scale_start)
                    .on_undo(&start, Self::undo_scale_start)
                    .on(&end, Self::scale_end)
                    .on_undo(&end, Self::undo_scale_end)
            });
        hooks
            .on("instantiate_start", Self::instantiate_start)
            .on("instantiate_end", Self::instantiate_end)
            .on("heal_start", Self::heal_start)
            .on_undo("heal_start", Self::undo_heal_start)
            .on("heal_end", Self::heal_end)
            .on("operate_start", Self::operate_start)
            .on("operate_end", Self::operate_end)
            .on_undo("operate_end", Self::undo_operate_end)
            .on("change_current_package_start", Self::package_start)
            .on("change_current_package_end", Self::package_end)
            .on_undo("change_current_package_end", Self::undo_package_end)
            .on("terminate_end", |_, _, request| {
                ready(Ok(unregister_vims(&request)))
            })
    }
}

impl KubernetesCluster {
    async fn instantiate_start(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<InstantiateParams>,
    ) -> Result<Effects, DriverError> {
        preflight::start(&cx, &request).await
    }

    async fn instantiate_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<InstantiateParams>,
    ) -> Result<Effects, DriverError> {
        let installation = &request.additional_params.k8s_cluster_installation_param;
        let plan = Plan::for_request(&cx, &request, installation).await?;
        plan.check()?;
        for name in plan.ignored() {
            cx.warn(&format!("unknown parameter `{name}` is ignored"));
        }
        clocks::check_new(&cx, &plan, plan.nodes()).await?;
        ownership::check(&cx, &plan, plan.nodes()).await?;
        let access = match plan.script() {
            Some(path) => script::install(&cx, &plan, path).await?,
            None => install::install(&cx, &plan).await?,
        };
        let nodes = plan.nodes().count();
        let mut effects = Effects::none();
        if plan.script().is_none() {
            let master = Machine::new(&cx, &plan, plan.first_control_plane());
            effects = addons::shown(effects, &master).await?;
        }
        let effects = software::shown(effects, (&cx, &plan, &request.instance)).await?;
        Ok(effects
            .register_vim(access.into_vim(&plan))
            .message(format!(
                "Kubernetes runs on {nodes} nodes as VIM `{}`",
                plan.vim_name
            )))
    }

    async fn heal_start(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<HealParams>,
    ) -> Result<Effects, DriverError> {
        heal::start(&cx, &request).await
    }

    async fn undo_heal_start(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<HealParams>,
    ) -> Result<Effects, DriverError> {
        heal::undo(&cx, &request).await
    }

    async fn heal_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<HealParams>,
    ) -> Result<Effects, DriverError> {
        heal::end(&cx, &request).await
    }

    async fn scale_start(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<ScaleParams>,
    ) -> Result<Effects, DriverError> {
        scale::start(&cx, &request).await
    }

    async fn undo_scale_start(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<ScaleParams>,
    ) -> Result<Effects, DriverError> {
        scale::undo_start(&cx, &request).await
    }

    async fn scale_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<ScaleParams>,
    ) -> Result<Effects, DriverError> {
        scale::end(&cx, &request).await
    }

    async fn undo_scale_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<ScaleParams>,
    ) -> Result<Effects, DriverError> {
        scale::undo_end(&cx, &request).await
    }

    async fn operate_start(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<OperateParams>,
    ) -> Result<Effects, DriverError> {
        action::start(&cx, &request).await
    }

    async fn operate_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<OperateParams>,
    ) -> Result<Effects, DriverError> {
        action::end(&cx, &request).await
    }

    async fn undo_operate_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<OperateParams>,
    ) -> Result<Effects, DriverError> {
        action::undo_end(&cx, &request).await
    }

    async fn package_start(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<PackageParams>,
    ) -> Result<Effects, DriverError> {
        action::package_start(&cx, &request).await
    }

    async fn package_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<PackageParams>,
    ) -> Result<Effects, DriverError> {
        action::package_end(&cx, &request).await
    }

    async fn undo_package_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<PackageParams>,
    ) -> Result<Effects, DriverError> {
        action::undo_package_end(&cx, &request).await
    }
}

/// Unregisters the cluster VIMs that this instance registered.
fn unregister_vims(request: &HookRequest<NoParams>) -> Effects {
    let ours = request.vims.iter().filter(|vim| vim.vim_type == VIM_TYPE);
    ours.fold(Effects::none(), |effects, vim| {
        effects.unregister_vim(vim.name.clone())
    })
}

export_mgmt_driver!(KubernetesCluster);
