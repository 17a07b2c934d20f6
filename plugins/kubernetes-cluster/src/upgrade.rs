//! Upgrades Kubernetes, from top to bottom.
//!
//! ```text
//! check ─► control planes, one after the other ──────► workers, `parallel_upgrades` at a time ─► done
//!          copy ─ kubeadm ─ `upgrade apply`, on the    copy ─ kubeadm ─ drain ─ `upgrade node`
//!          others `upgrade node` ─ drain ─ kubelet     ─ kubelet ─ Ready ─ pods run again
//!          ─ Ready ─ controllers and kube-proxy work
//! ```
//!
//! What [`Versions::check`] refuses changes nothing. What is left to do follows from the versions that are observed, so that
//! the attempt after a crash goes on where the last one ended. A worker whose upgrade fails gets its programs and settings
//! back. So does the first control-plane node, with its manifests, etcd and what kubeadm had recorded: at once if `kubeadm
//! upgrade apply` fails, later by a rollback. Before the next node begins, that is stored as a checkpoint: from then on there is
//! only the way forward. `way_back.rs` has the copies and the way back.

use crate::api::{Api, ClusterNode};
use crate::clocks;
use crate::cluster::{connect, find_node, names};
use crate::drain::{Drain, DrainOptions};
use crate::etcd;
use crate::installer::{Installer, first_failure};
use crate::machine::{Machine, StepState};
use crate::params::DrainParams;
use crate::plan::{Node, Plan};
use crate::pods::{SCHEDULE_TIMEOUT, wait_for_pods};
use crate::programs::{PHASE, Programs};
use crate::record::{keep_records, put_records_back, recorded};
use crate::settled;
use crate::versions::{NodeVersion, Version, Versions, target};
use crate::way_back::{self, APPLIED, BEGUN, CHANGES};
use futures::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use vnfm_plugin_sdk::Object;
use vnfm_plugin_sdk::prelude::*;

/// The steps that run kubeadm.
pub(crate) const APPLY: &str = "upgrade-apply";
const UPGRADE_NODE: &str = "upgrade-node";
/// How long a node may take to be Ready with its new kubelet, and the interval between two looks.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
const READY_INTERVAL: Duration = Duration::from_millis(500);

/// How to upgrade a cluster, or to patch the software of its nodes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct UpgradeParams {
    /// The version to upgrade to, such as `v1.36.2`; that of the package's archives if absent.
    pub(crate) kubernetes_version: Option<String>,
    /// How many workers to upgrade or patch at a time; 1 if absent.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub(crate) parallel_upgrades: u32,
    /// How to drain the nodes.
    #[serde(flatten)]
    pub(crate) drain: DrainParams,
}

fn one() -> u32 {
    1
}

/// Refuses an upgrade that is not possible, before anything changes; without a version that is known yet, checks nothing.
///
/// # Errors
///
/// Those of [`Versions::check`]; `bad-parameters`; `upgrade-unsupported` for a cluster that the vendor's script installed.
pub(crate) async fn check(
    cx: &HookContext,
    plan: &mut Plan,
    params: &UpgradeParams,
) -> Result<(), DriverError> {
    let Some(to) = planned(plan, params)? else {
        return Ok(());
    };
    let Some(api) = connect(cx, plan).await? else {
        return Ok(());
    };
    check_possible(&api, plan, to).await
}

async fn check_possible(api: &Api<'_>, plan: &Plan, to: Version) -> Result<(), DriverError> {
    observe(api, plan).await?.check(to)?;
    clocks::check(api.cx, plan, plan.nodes()).await
}

/// Upgrades the cluster; does nothing if neither parameter nor package names a version.
///
/// # Errors
///
/// Those of [`check`]; the error of the first host that failed. A retry goes on with what is left.
pub(crate) async fn run(
    cx: &HookContext,
    plan: &mut Plan,
    (params, dependents): (&UpgradeParams, &[Dependent]),
) -> Result<Effects, DriverError> {
    let Some(to) = planned(plan, params)? else {
        return Ok(
            Effects::none().message("no version of Kubernetes is named: nothing is upgraded")
        );
    };
    let Some(api) = connect(cx, plan).await? else {
        return Ok(Effects::none().message("there is no cluster"));
    };
    let upgrade = Upgrade::new((&api, plan), params, to);
    let upgrade = Upgrade {
        dependents,
        ..upgrade
    };
    upgrade.begin().await?;
    upgrade.control_planes().await?;
    upgrade.workers(params.parallel_upgrades).await?;
    upgrade.installer.report(95, "every node is upgraded").await;
    let versions = observe(&api, plan).await?;
    Ok(shown(Effects::none(), &versions)
        .message(format!("Kubernetes {to} runs on {}", names(plan.nodes()))))
}

/// Ends an upgrade after everything that may fail has been done: its hosts no longer need what they had before.
///
/// # Errors
///
/// If a host does not respond. There is no way back then, and a retry goes on.
pub(crate) async fn complete(cx: &HookContext, plan: &Plan) -> Result<(), DriverError> {
    if cx.checkpoint::<Version>(BEGUN).await?.is_none() {
        return Ok(());
    }
    way_back::end(cx, "the upgrade is complete").await?;
    drop_copies(cx, plan).await
}

async fn drop_copies(cx: &HookContext, plan: &Plan) -> Result<(), DriverError> {
    let drops = plan.nodes().map(|node| async move {
        let host = Machine::new(cx, plan, node);
        host.reach_node().await?;
        host.kubernetes(PHASE, "drop").await.map(|_| ())
    });
    first_failure(join_all(drops).await)
}

/// Adds versions and nodes to what the instance shows.
pub(crate) fn shown(effects: Effects, versions: &Versions) -> Effects {
    let kubelets = versions.nodes.iter().map(|node| {
        let kubelet = node.kubelet.map(|version| version.to_string());
        (node.name.clone(), kubelet.into())
    });
    // As `kubectl get nodes` calls them.
    let status = versions.nodes.iter().map(|node| {
        let status = if node.is_ready { "Ready" } else { "NotReady" };
        (node.name.clone(), status.into())
    });
    effects
        .metadata("kubernetesVersion", versions.control_plane.to_string())
        .metadata("kubeletVersions", kubelets.collect::<Object>())
        .metadata("nodeStatus", status.collect::<Object>())
}

/// The version to upgrade to.
fn planned(plan: &Plan, params: &UpgradeParams) -> Result<Option<Version>, DriverError> {
    let to = target(params.kubernetes_version.as_deref(), &plan.packages)?;
    if to.is_some() && plan.script().is_some() {
        let detail = "the vendor's script has installed the cluster, and only the vendor knows how to upgrade it";
        return Err(DriverError::new("upgrade-unsupported", detail).phase("preflight"));
    }
    Ok(to)
}

/// Reads the versions of the control plane, and of all nodes and servers.
///
/// # Errors
///
/// `version-unknown` if kubeadm has recorded no version.
pub(crate) async fn observe(api: &Api<'_>, plan: &Plan) -> Result<Versions, DriverError> {
    let control_plane = recorded(api).await?.version()?;
    let all = api.nodes().await?;
    let node_version = |node: &ClusterNode| NodeVersion {
        name: node.name().to_owned(),
        kubelet: Version::parse(node.kubelet_version()),
        is_ready: node.is_ready(),
    };
    let missing = plan
        .nodes()
        .filter(|server| find_node(server, &all).is_none());
    let missing = missing.map(|server| NodeVersion {
        name: server.name.clone(),
        kubelet: None,
        is_ready: false,
    });
    let nodes = all.iter().map(node_version).chain(missing).collect();
    Ok(Versions {
        control_plane,
        nodes,
    })
}

/// An upgrade of one cluster.
pub(crate) struct Upgrade<'a> {
    api: &'a Api<'a>,
    plan: &'a Plan,
    installer: Installer<'a>,
    drain: DrainOptions,
    dependents: &'a [Dependent],
    to: Version,
}

impl<'a> Upgrade<'a> {
    /// An upgrade of a cluster on which no VNF depends.
    pub(crate) fn new(
        (api, plan): (&'a Api<'a>, &'a Plan),
        params: &UpgradeParams,
        to: Version,
    ) -> Self {
        Self {
            api,
            plan,
            installer: Installer::new(api.cx, plan),
            drain: DrainOptions::from(&params.drain).without_reset(),
            dependents: &[],
            to,
        }
    }

    fn cx(&self) -> &'a HookContext {
        self.api.cx
    }

    fn host(&self, node: &'a Node) -> Machine<'a> {
        Machine::new(self.api.cx, self.plan, node)
    }

    /// Checks that the upgrade is possible. An upgrade that has begun is not checked again: its nodes are what it made of them.
    async fn begin(&self) -> Result<(), DriverError> {
        if self.cx().checkpoint::<Version>(BEGUN).await? == Some(self.to) {
            return Ok(());
        }
        check_possible(self.api, self.plan, self.to).await?;
        // What an upgrade left that was given up is not what the hosts have now.
        drop_copies(self.cx(), self.plan).await?;
        for node in &self.plan.control_planes {
            let host = self.host(node);
            host.wait_for_steps(&[APPLY]).await?;
            host.forget(APPLY).await?;
        }
        keep_records(self.api).await?;
        Ok(self.cx().save_checkpoint(BEGUN, &self.to).await?)
    }

    async fn control_planes(&self) -> Result<(), DriverError> {
        let [first, others @ ..] = self.plan.control_planes.as_slice() else {
            return Ok(());
        };
        self.report(
            5,
            format!("upgrading the control plane on `{}`", first.name),
        )
        .await;
        let host = self.host(first);
        host.reach_node().await?;
        self.apply(&host).await?;
        self.upgrade_kubelet(&host).await?;
        settled::wait(self.api).await?;
        for node in others {
            way_back::end_before(self.cx(), node).await?;
            self.report(
                30,
                format!("upgrading the control plane on `{}`", node.name),
            )
            .await;
            let host = self.host(node);
            host.reach_node().await?;
            if host.installed().await?.control_plane() < Some(self.to) {
                self.prepare(&host).await?;
                host.step(UPGRADE_NODE, "kubeadm upgrade node").await?;
            }
            self.upgrade_kubelet(&host).await?;
            settled::wait(self.api).await?;
        }
        Ok(())
    }

    /// Runs `kubeadm upgrade apply`, unless it has ended well. If it fails, the host gets back what it had.
    async fn apply(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        let state = host.state(APPLY).await?;
        let is_applied = self.cx().checkpoint::<Version>(APPLIED).await?.is_some()
            || state == StepState::Done(0)
            || (state == StepState::Absent && self.has_control_plane(host).await?);
        if !is_applied {
            let line = format!("kubeadm upgrade apply --yes {}", self.to);
            let applied = async {
                if state != StepState::Running {
                    way_back::keep(host).await?;
                    etcd::copy(host).await?;
                    self.install_kubeadm(host).await?;
                }
                host.step(APPLY, &line).await
            };
            let result = applied.await;
            if result.is_err() {
                self.take_back(host).await;
                return result;
            }
        }
        Ok(self.cx().save_checkpoint(APPLIED, &self.to).await?)
    }

    /// Whether the host's control plane has the version already. kubeadm records it before its last steps, so that the record
    /// alone does not tell that they have ended well.
    async fn has_control_plane(&self, host: &Machine<'_>) -> Result<bool, DriverError> {
        Ok(recorded(self.api).await?.version()? >= self.to
            && host.installed().await?.control_plane() >= Some(self.to))
    }

    /// Copies what will be replaced, and installs images and kubeadm.
    async fn prepare(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        way_back::keep(host).await?;
        self.install_kubeadm(host).await
    }

    async fn install_kubeadm(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        self.installer.import_images(host).await?;
        self.installer
            .install_version(host, (Programs::Kubeadm, self.to))
            .await
    }

    /// Puts back what the host had, unless kubeadm still runs there, as after a cancellation.
    async fn take_back(&self, host: &Machine<'_>) {
        let name = &host.node.name;
        let back = async {
            // The package manager would replace what is put back; it does not take long.
            host.wait_for_steps(CHANGES).await?;
            let states = join_all([APPLY, UPGRADE_NODE].map(|step| host.state(step))).await;
            if states.contains(&Ok(StepState::Running)) {
                return Ok(false);
            }
            if self.plan.is_control_plane(host.node) {
                etcd::put_back(host, false).await?;
            }
            way_back::put_back(host).await?;
            self.come_back(host).await.map(|()| true)
        };
        match back.await {
            Ok(true) => self.cx().warn(&format!(
                "`{name}` has the version again that it had before"
            )),
            Ok(false) => self.cx().warn(&format!(
                "`{name}`: kubeadm still runs, so that nothing was put back"
            )),
            Err(error) => self
                .cx()
                .warn(&format!("`{name}` was not put back: {}", error.detail)),
        }
    }

    /// Waits until a node whose programs were put back is Ready, and lets it take pods again.
    pub(crate) async fn come_back(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        self.wait_until_ready(host, None).await?;
        if self.plan.is_control_plane(host.node) {
            put_records_back(self.api).await?;
        }
        self.api.uncordon_by_name(&host.node.name).await
    }

    async fn workers(&self, parallel: u32) -> Result<(), DriverError> {
        let workers = &self.plan.workers;
        let size = usize::try_from(parallel).unwrap_or(1).max(1);
        if let Some(first) = workers.first() {
            way_back::end_before(self.cx(), first).await?;
        }
        let left = self.workers_left().await?;
        for (done, batch) in left.chunks(size).enumerate() {
            let percent = 40 + 55 * done * size / left.len().max(1);
            self.report(
                u8::try_from(percent).unwrap_or(95),
                format!("upgrading {}", names(batch.iter().copied())),
            )
            .await;
            first_failure(join_all(batch.iter().map(|node| self.worker(node))).await)?;
            wait_for_pods(self.api, self.dependents, SCHEDULE_TIMEOUT).await?;
        }
        Ok(())
    }

    /// The workers that do not have the version yet; the others take pods.
    async fn workers_left(&self) -> Result<Vec<&'a Node>, DriverError> {
        let mut left = Vec::new();
        for node in &self.plan.workers {
            if self.is_upgraded(&node.name).await? {
                self.api.uncordon_by_name(&node.name).await?;
            } else {
                left.push(node);
            }
        }
        Ok(left)
    }

    /// Upgrades a worker. If that fails, it gets back what it had.
    async fn worker(&self, node: &'a Node) -> Result<(), DriverError> {
        let host = self.host(node);
        host.reach_node().await?;
        let upgraded = async {
            self.prepare(&host).await?;
            self.upgrade_kubelet(&host).await
        };
        let result = upgraded.await;
        if result.is_err() {
            self.take_back(&host).await;
        }
        result
    }

    async fn is_upgraded(&self, name: &str) -> Result<bool, DriverError> {
        let node = self.api.node(name).await?;
        Ok(node.is_some_and(|node| node.is_ready() && self.has_version(&node)))
    }

    fn has_version(&self, node: &ClusterNode) -> bool {
        Version::parse(node.kubelet_version()) == Some(self.to)
    }

    /// Drains a node, gives it its new kubelet, and lets it take pods again.
    async fn upgrade_kubelet(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        let name = &host.node.name;
        if !self.is_upgraded(name).await? {
            self.drain(host).await?;
            if host.installed().await?.control_plane().is_none() {
                host.step(UPGRADE_NODE, "kubeadm upgrade node").await?;
            }
            self.installer
                .install_version(host, (Programs::Kubelet, self.to))
                .await?;
            host.run(
                PHASE,
                "systemctl daemon-reload && systemctl restart kubelet",
            )
            .await?;
            self.wait_until_ready(host, Some(self.to)).await?;
        }
        self.api.uncordon_by_name(name).await
    }

    /// Moves the pods of a node elsewhere; if they cannot leave, the node takes pods again. A node that is silent was drained
    /// by the attempt that broke its kubelet.
    pub(crate) async fn drain(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        let name = &host.node.name;
        if let Some(node) = self.api.node(name).await?.filter(ClusterNode::is_silent) {
            if node.is_ours() {
                return Ok(());
            }
            // kubeadm has restarted the API server to which its kubelet reports.
            self.wait_until_ready(host, None).await?;
        }
        let (api, options) = (self.api, self.drain);
        Drain { api, host, options }.run_or_uncordon().await
    }

    /// Waits until the node is Ready with this version of the kubelet, or with any.
    async fn wait_until_ready(
        &self,
        host: &Machine<'_>,
        version: Option<Version>,
    ) -> Result<(), DriverError> {
        let name = &host.node.name;
        let with = version
            .map(|version| format!(" with {version}"))
            .unwrap_or_default();
        let is_ready = || async {
            let node = self.api.node(name).await?;
            let is_it = |node: &ClusterNode| {
                node.is_ready()
                    && version.is_none_or(|version| {
                        Version::parse(node.kubelet_version()) == Some(version)
                    })
            };
            Ok(node.is_some_and(|node| is_it(&node)).then_some(()))
        };
        let condition = format!("`{name}` to be Ready{with}");
        self.cx()
            .wait_until(&condition, READY_INTERVAL, READY_TIMEOUT, is_ready)
            .await
    }

    async fn report(&self, percent: u8, message: String) {
        self.installer.report(percent, &message).await;
    }
}
