//! Drains a node before its server is deleted.
//!
//! ```text
//!         kubelet works:       cordon ─► evict, as disruption budgets allow ─► pods have ended
//! poll ─┤
//!         kubelet is silent:   (reset the host, if it responds) ─► taint out-of-service ─► pods are garbage-collected
//! ```
//!
//! Each poll starts from the observed state, so a retry resumes, and a host that loses power midway is noticed. Daemon
//! pods and static pods stay; the content of `emptyDir` volumes is lost with the node, which is logged. Pods that have
//! not left in time are an error that names them and their budgets, or are deleted if the request says so.

use crate::api::{Api, ClusterNode, Eviction, Pod};
use crate::machine::{Machine, StepState};
use crate::params::{DrainParams, OnDrainTimeout};
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "drain";
/// Interval between two polls: the first and the maximum.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
const MAX_INTERVAL: Duration = Duration::from_secs(2);
/// How long the cluster may take to collect pods of a node that is off, or that were force-deleted. After that, they are
/// deleted together with the node.
const COLLECTION_TIMEOUT: Duration = Duration::from_mins(1);
const TERMINATING: &str = "it is terminating";
/// Maximum number of pods that an error names.
const MAX_NAMED: usize = 8;

/// How long and how forcefully nodes are drained.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrainOptions {
    timeout: Duration,
    on_timeout: OnDrainTimeout,
    delete_bare_pods: bool,
    /// Whether the host keeps its node: then it is not reset if the kubelet is silent.
    stays: bool,
}

impl DrainOptions {
    /// The same, for a node that takes pods again later.
    pub(crate) fn without_reset(self) -> Self {
        Self {
            stays: true,
            ..self
        }
    }
}

impl From<&DrainParams> for DrainOptions {
    fn from(params: &DrainParams) -> Self {
        Self {
            timeout: Duration::from_secs(params.drain_timeout_seconds.into()),
            on_timeout: params.on_drain_timeout,
            delete_bare_pods: params.delete_bare_pods,
            stays: false,
        }
    }
}

/// A node that is being drained, and its host.
pub(crate) struct Drain<'a> {
    pub(crate) api: &'a Api<'a>,
    pub(crate) host: &'a Machine<'a>,
    pub(crate) options: DrainOptions,
}

/// The pods that remain, each with the reason.
type Remaining = Vec<(Pod, String)>;

/// How the pods are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// By evictions, which respect disruption budgets.
    Evicting,
    /// By the cluster's garbage collection, because the node is off.
    NodeOff,
    /// By deletion, because they have not left in time.
    Forced,
}

impl Drain<'_> {
    /// Drains the node, if it exists.
    ///
    /// # Errors
    ///
    /// `drain-blocked` if pods have not left in time, `bare-pods` if a pod without a controller would be lost.
    pub(crate) async fn run(self) -> Result<(), DriverError> {
        let name = &self.host.node.name;
        let (mut stage, mut waited, mut pause) = (Stage::Evicting, Duration::ZERO, MIN_INTERVAL);
        let mut logged = BTreeSet::new();
        loop {
            let Some(node) = self.api.node(name).await? else {
                return Ok(());
            };
            if stage != Stage::NodeOff && node.is_silent() {
                self.treat_as_off().await?;
                (stage, waited, pause) = (Stage::NodeOff, Duration::ZERO, MIN_INTERVAL);
            }
            let remaining = self.evict_pods(&node, stage, &mut logged).await?;
            if remaining.is_empty() {
                return Ok(());
            }
            let limit = if stage == Stage::Evicting {
                self.options.timeout
            } else {
                COLLECTION_TIMEOUT
            };
            if waited >= limit {
                match (stage, self.options.on_timeout) {
                    (Stage::Evicting, OnDrainTimeout::Fail) => return Err(self.blocked(&remaining)),
                    (Stage::Evicting, OnDrainTimeout::Force) => self.force(&remaining).await?,
                    _ => {
                        self.warn(&format!("deleted with the node: {}", names(&remaining)));
                        return Ok(());
                    }
                }
                (stage, waited, pause) = (Stage::Forced, Duration::ZERO, MIN_INTERVAL);
            }
            let reason = waiting_text(name, &remaining);
            self.api.cx.pause(&reason, pause).await?;
            waited += pause;
            pause = (pause * 2).min(MAX_INTERVAL);
        }
    }

    /// Drains a node that takes pods again later; if its pods cannot leave, it takes pods again at once.
    ///
    /// # Errors
    ///
    /// Those of [`Drain::run`].
    pub(crate) async fn run_or_uncordon(self) -> Result<(), DriverError> {
        let (api, name) = (self.api, &self.host.node.name);
        let drained = self.run().await;
        if drained.is_err()
            && let Err(error) = api.uncordon_by_name(name).await
        {
            let cx = api.cx;
            cx.warn(&format!("`{name}` may stay cordoned: {}", error.detail));
        }
        drained
    }

    /// Prepares to treat the node as off. If its host still responds, it is reset first, so that no pod runs twice.
    async fn treat_as_off(&self) -> Result<(), DriverError> {
        if self.options.stays {
            let detail = "its kubelet has stopped reporting: check the host, then retry";
            let refused = self.host.refusal("node-not-ready", PHASE, detail);
            return Err(refused.retryable());
        }
        if self.host.answers().await {
            self.warn("its kubelet does not work: resetting the host first");
            return reset_host(self.host).await;
        }
        self.warn("neither its kubelet nor its host responds: treating it as off");
        Ok(())
    }

    /// Removes the pods on the node, and returns those that remain.
    async fn evict_pods(
        &self,
        node: &ClusterNode,
        stage: Stage,
        logged: &mut BTreeSet<String>,
    ) -> Result<Remaining, DriverError> {
        match stage {
            Stage::NodeOff => self.api.out_of_service(node).await?,
            Stage::Evicting | Stage::Forced => self.api.cordon(node).await?,
        }
        let mut pods = self.api.pods_on(node.name()).await?;
        pods.retain(|pod| !pod.survives_drain());
        if stage == Stage::Evicting {
            self.refuse_bare(&pods)?;
        }
        let mut remaining = Vec::new();
        for pod in pods {
            if pod.has_local_data() && logged.insert(pod.name()) {
                let message = format!(
                    "the emptyDir data of `{}` is lost with the node",
                    pod.name()
                );
                self.api.cx.info(&message);
            }
            let reason = if stage == Stage::NodeOff {
                "its node is off".to_owned()
            } else if pod.is_terminating() {
                TERMINATING.to_owned()
            } else {
                match self.api.evict(&pod).await? {
                    Eviction::Missing => continue,
                    Eviction::Accepted => TERMINATING.to_owned(),
                    Eviction::Blocked(reason) => reason,
                }
            };
            remaining.push((pod, reason));
        }
        Ok(remaining)
    }

    fn refuse_bare(&self, pods: &[Pod]) -> Result<(), DriverError> {
        let bare = pods
            .iter()
            .filter(|pod| pod.is_bare() && !pod.is_terminating());
        let bare: Vec<_> = bare.map(|pod| format!("`{}`", pod.name())).collect();
        if bare.is_empty() || self.options.delete_bare_pods {
            return Ok(());
        }
        let detail = format!(
            "no controller would recreate {}: delete what is not needed and retry, or request it again with \
             `delete_bare_pods: true`",
            bare.join(", ")
        );
        Err(self.host.refusal("bare-pods", PHASE, detail))
    }

    fn blocked(&self, remaining: &[(Pod, String)]) -> DriverError {
        let detail = format!(
            "after {} s there are still pods on the node, which was uncordoned: {}; resolve that and retry, or \
             request it again with `on_drain_timeout: force`",
            self.options.timeout.as_secs(),
            names(remaining),
        );
        self.host
            .refusal("drain-blocked", PHASE, detail)
            .retryable()
    }

    async fn force(&self, remaining: &[(Pod, String)]) -> Result<(), DriverError> {
        self.warn(&format!(
            "force-deleting pods that have not left: {}",
            names(remaining)
        ));
        for (pod, _) in remaining {
            self.api.delete_pod(pod).await?;
        }
        Ok(())
    }

    fn warn(&self, message: &str) {
        self.api
            .cx
            .warn(&format!("`{}`: {message}", self.host.node.name));
    }
}

/// Resets a host that responds, so that nothing of the cluster remains on it. A join that still runs is awaited.
pub(crate) async fn reset_host(host: &Machine<'_>) -> Result<(), DriverError> {
    host.reach_known().await?;
    let join = host.plan.join_step();
    let is_running = host.state(join).await? == StepState::Running;
    if is_running && let Err(error) = host.finish(join).await {
        let name = &host.node.name;
        let failed = format!("`{join}` on `{name}`, which is reset: {}", error.detail);
        host.cx.info(&failed);
    }
    if is_running || host.facts().await?.has_traces() {
        host.forget(join).await?;
        host.step("leave", "kubeadm reset -f").await?;
    }
    Ok(())
}

fn names(remaining: &[(Pod, String)]) -> String {
    let named = remaining.iter().take(MAX_NAMED);
    let mut names: Vec<_> = named
        .map(|(pod, reason)| format!("`{}`: {reason}", pod.name()))
        .collect();
    if remaining.len() > MAX_NAMED {
        names.push(format!("and {} more", remaining.len() - MAX_NAMED));
    }
    names.join("; ")
}

fn waiting_text(node: &str, remaining: &[(Pod, String)]) -> String {
    format!(
        "`{node}` to be drained of {} pods: {}",
        remaining.len(),
        names(remaining)
    )
}
