//! A node gives its pods away, before its server goes.
//!
//! ```text
//!        its kubelet works:   cordon ─► evict, as disruption budgets allow ─► its pods have ended
//! look ─┤
//!        it does not:         (reset the host, where that answers) ─► out of service ─► its pods are collected
//! ```
//!
//! Every look begins anew, so whoever comes again goes on, and a host whose power goes in the middle is noticed. Daemons
//! and static pods stay; what lies in an `emptyDir` goes with the node, which is said. What has not left in time is an
//! error with names and budgets, or is deleted where the request says so.

use crate::api::{Api, Eviction, NodeSeen, PodSeen};
use crate::machine::Machine;
use crate::params::{HealParams, OnDrainTimeout};
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "drain";
/// Between two looks: the first pause and the longest one.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// How long the cluster may take to collect the pods of a node that is off, or that were deleted by force. They go with
/// the node in the end.
const COLLECT: Duration = Duration::from_mins(1);
const ENDING: &str = "it is about to end";
/// How many pods an error names.
const NAMED: usize = 8;

/// How nodes are drained.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    at_most: Duration,
    on_timeout: OnDrainTimeout,
    bare_too: bool,
}

impl From<&HealParams> for Way {
    fn from(params: &HealParams) -> Self {
        Self {
            at_most: Duration::from_secs(params.drain_timeout_seconds.into()),
            on_timeout: params.on_drain_timeout,
            bare_too: params.delete_bare_pods,
        }
    }
}

/// A node that is being drained, and its host.
pub(crate) struct Drain<'a> {
    pub(crate) api: &'a Api<'a>,
    pub(crate) host: &'a Machine<'a>,
    pub(crate) way: Way,
}

/// What has not gone yet, and what keeps it.
type Left = Vec<(PodSeen, String)>;

/// How the pods are made to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// By evictions.
    Asked,
    /// By the cluster, because the node is off.
    Off,
    /// By force, because they have not gone in time.
    Forced,
}

impl Drain<'_> {
    /// Drains the node; nothing happens where there is none.
    ///
    /// # Errors
    ///
    /// `drain-blocked` where pods have not left in time, `bare-pods` where one would be lost.
    pub(crate) async fn run(self) -> Result<(), DriverError> {
        let name = &self.host.node.name;
        let (mut stage, mut waited, mut pause) = (Stage::Asked, Duration::ZERO, PAUSE.0);
        let mut said = BTreeSet::new();
        loop {
            let Some(node) = self.api.node(name).await? else {
                return Ok(());
            };
            if stage != Stage::Off && node.is_silent() {
                self.take_for_off().await?;
                (stage, waited, pause) = (Stage::Off, Duration::ZERO, PAUSE.0);
            }
            let left = self.look(&node, stage, &mut said).await?;
            if left.is_empty() {
                return Ok(());
            }
            let limit = if stage == Stage::Asked {
                self.way.at_most
            } else {
                COLLECT
            };
            if waited >= limit {
                match (stage, self.way.on_timeout) {
                    (Stage::Asked, OnDrainTimeout::Fail) => return Err(self.blocked(&left)),
                    (Stage::Asked, OnDrainTimeout::Force) => self.force(&left).await?,
                    _ => {
                        self.warn(&format!("gone with the node: {}", names(&left)));
                        return Ok(());
                    }
                }
                (stage, waited, pause) = (Stage::Forced, Duration::ZERO, PAUSE.0);
            }
            self.api.cx.waiting(&waits_for(name, &left)).await;
            self.api.cx.check_cancelled().await?;
            self.api.cx.sleep(pause).await?;
            waited += pause;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// The node is off for good. A host that answers although its kubelet does not is emptied first, so that nothing
    /// runs twice.
    async fn take_for_off(&self) -> Result<(), DriverError> {
        if self.host.answers().await {
            self.warn("its kubelet does not work: emptying the host first");
            return leave(self.host).await;
        }
        self.warn("the cluster has lost it and its host does not answer: it is off");
        Ok(())
    }

    /// Sees what is left on the node and makes it go.
    async fn look(
        &self,
        node: &NodeSeen,
        stage: Stage,
        said: &mut BTreeSet<String>,
    ) -> Result<Left, DriverError> {
        match stage {
            Stage::Off => self.api.out_of_service(node).await?,
            Stage::Asked | Stage::Forced => self.api.cordon(node).await?,
        }
        let mut pods = self.api.pods_on(node.name()).await?;
        pods.retain(|pod| !pod.stays());
        if stage == Stage::Asked {
            self.refuse_bare(&pods)?;
        }
        let mut left = Vec::new();
        for pod in pods {
            if pod.has_local_data() && said.insert(pod.name()) {
                let what = format!(
                    "what `{}` keeps in an emptyDir goes with the node",
                    pod.name()
                );
                self.api.cx.info(&what);
            }
            let why = if stage == Stage::Off {
                "its node is off".to_owned()
            } else if pod.is_going() {
                ENDING.to_owned()
            } else {
                match self.api.evict(&pod).await? {
                    Eviction::Gone => continue,
                    Eviction::Accepted => ENDING.to_owned(),
                    Eviction::Blocked(why) => why,
                }
            };
            left.push((pod, why));
        }
        Ok(left)
    }

    fn refuse_bare(&self, pods: &[PodSeen]) -> Result<(), DriverError> {
        let bare = pods.iter().filter(|pod| pod.is_bare() && !pod.is_going());
        let bare: Vec<_> = bare.map(|pod| format!("`{}`", pod.name())).collect();
        if bare.is_empty() || self.way.bare_too {
            return Ok(());
        }
        let detail = format!(
            "nothing would make {} again: delete what is not needed and retry, or heal with `delete_bare_pods: true`",
            bare.join(", ")
        );
        Err(self.host.refusal("bare-pods", PHASE, detail))
    }

    fn blocked(&self, left: &[(PodSeen, String)]) -> DriverError {
        let detail = format!(
            "after {} s there are still pods on the node, which takes pods again: {}; let them go and retry, or heal \
             with `on_drain_timeout: force`",
            self.way.at_most.as_secs(),
            names(left),
        );
        self.host
            .refusal("drain-blocked", PHASE, detail)
            .retryable()
    }

    async fn force(&self, left: &[(PodSeen, String)]) -> Result<(), DriverError> {
        self.warn(&format!(
            "deleting by force what has not left: {}",
            names(left)
        ));
        for (pod, _) in left {
            self.api.delete_pod(pod).await?;
        }
        Ok(())
    }

    fn warn(&self, what: &str) {
        self.api
            .cx
            .warn(&format!("`{}`: {what}", self.host.node.name));
    }
}

/// Empties a host that answers: nothing of the cluster runs or lies on it afterwards.
pub(crate) async fn leave(host: &Machine<'_>) -> Result<(), DriverError> {
    host.find().await?;
    if host.facts().await?.has_traces() {
        host.step("leave", "kubeadm reset -f").await?;
    }
    Ok(())
}

fn names(left: &[(PodSeen, String)]) -> String {
    let shown = left.iter().take(NAMED);
    let mut names: Vec<_> = shown
        .map(|(pod, why)| format!("`{}`: {why}", pod.name()))
        .collect();
    if left.len() > NAMED {
        names.push(format!("and {} more", left.len() - NAMED));
    }
    names.join("; ")
}

fn waits_for(node: &str, left: &[(PodSeen, String)]) -> String {
    format!(
        "`{node}` to be drained of {} pods: {}",
        left.len(),
        names(left)
    )
}
