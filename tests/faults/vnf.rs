//! The two packages and the operations on their instances, from the engine's list of operations and
//! the requests of the samples.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use vnfm_core::lcm::{Begin, OPERATIONS, find};
use vnfm_core::{Engine, Refusal};
use vnfm_tests::sources::root;
use vnfm_types::{CreateVnfRequest, LcmOperationType};

/// The tenant of every resource.
pub(crate) const TENANT: &str = "default";

/// One of the two packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Vnf {
    /// Servers on OpenStack, on which a plugin installs a cluster.
    A,
    /// Containers, run as pods on a cluster.
    B,
}

/// A requested operation. Earlier versions read the members: they are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Act {
    pub(crate) kind: LcmOperationType,
    /// Applies to a single VNFC.
    pub(crate) one: bool,
    /// A VNF-B runs on the instance meanwhile.
    pub(crate) carries: bool,
    /// Returns to what the instance was before the act of the same kind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) back: bool,
}

impl Act {
    /// On the entire instance, without another one running on it.
    pub(crate) fn complete_vnf(kind: LcmOperationType) -> Self {
        Self {
            kind,
            one: false,
            carries: false,
            back: false,
        }
    }

    /// Its reverse.
    fn back(self) -> Self {
        Self { back: true, ..self }
    }

    /// The variants of an operation.
    fn variants(kind: LcmOperationType, vnf: Vnf) -> Vec<Self> {
        let one = Self {
            kind,
            one: true,
            carries: vnf == Vnf::A,
            back: false,
        };
        match kind {
            LcmOperationType::Heal => vec![one, Self::complete_vnf(kind)],
            LcmOperationType::Operate => {
                let there = Self::complete_vnf(kind);
                vec![there, there.back()]
            }
            _ => vec![Self::complete_vnf(kind)],
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = if self.one { " one VNFC" } else { "" };
        let back = if self.back { " back" } else { "" };
        write!(f, "{}{one}{back}", self.kind)
    }
}

/// Values for requests. Earlier versions read the members: they are fixed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// VIM id of the cloud.
    pub(crate) cloud: String,
    /// VIM id of the standalone cluster.
    pub(crate) cluster: String,
    /// SSH port of all hosts.
    pub(crate) ssh_port: u64,
    /// `vnfdId` of each of the packages.
    pub(crate) vnfds: [String; 2],
    /// `vnfdId` of the next release of VNF-B.
    #[serde(default)]
    pub(crate) next_b: String,
}

impl Vnf {
    pub(crate) const ALL: [Self; 2] = [Self::A, Self::B];

    /// Folder name of its sample.
    pub(crate) fn sample(self) -> &'static str {
        match self {
            Self::A => "vnf-a-k8s-cluster",
            Self::B => "vnf-b-cnf",
        }
    }

    /// The operations of an instance, in order.
    pub(crate) fn acts(self) -> Vec<Act> {
        let kinds = OPERATIONS.iter().map(|operation| operation.kind);
        let between = |kind: &LcmOperationType| {
            let is_other = self == Self::A && *kind == LcmOperationType::ChangeVnfpkg;
            !is_other
                && !matches!(
                    kind,
                    LcmOperationType::Instantiate
                    | LcmOperationType::Terminate
                    // Each of the packages has one flavour; the nodes of a cluster must keep their addresses, and pods have
                    // no external links. VNF-A has no other release. A simulated host does not store its disk, and pods
                    // cannot be stored: `tests/it/engine/faults.rs` has these two on a VIM in memory.
                    | LcmOperationType::ChangeFlavour
                    | LcmOperationType::ChangeExtConn
                    | LcmOperationType::CreateSnapshot
                    | LcmOperationType::RevertToSnapshot
                )
        };
        let mut acts = vec![Act::complete_vnf(LcmOperationType::Instantiate)];
        acts.extend(
            kinds
                .filter(between)
                .flat_map(|kind| Act::variants(kind, self)),
        );
        acts.push(Act::complete_vnf(LcmOperationType::Terminate));
        acts
    }

    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::A => "vnf-a",
            Self::B => "vnf-b",
        }
    }

    /// The request that creates an instance.
    pub(crate) fn create(self, facts: &Facts) -> CreateVnfRequest {
        let vnfd_id = facts.vnfds[usize::from(self == Self::B)].clone();
        CreateVnfRequest {
            vnfd_id,
            ..CreateVnfRequest::default()
        }
    }

    /// Id of its usual VIM.
    pub(crate) fn vim(self, facts: &Facts) -> &str {
        match self {
            Self::A => &facts.cloud,
            Self::B => &facts.cluster,
        }
    }

    /// The sample's request for an operation, or `{}`.
    fn request(self, kind: LcmOperationType, facts: &Facts, on: &Target) -> Result<Value> {
        let folder = root().join("vnfd-samples").join(self.sample());
        let file = folder.join(format!("requests/{}.json", kind.as_str().to_lowercase()));
        if !file.exists() {
            return Ok(json!({}));
        }
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?
            .replace("\"@SSH_PORT@\"", &facts.ssh_port.to_string())
            .replace("@VIM_ID@", &on.vim)
            .replace("@NETWORK_ID@", "provider")
            .replace("@CLUSTER_NAME@", &format!("cluster-{}", on.instance))
            .replace("@SSH_USER@", "ubuntu")
            .replace("@SSH_PASSWORD@", "secret");
        Ok(serde_json::from_str(&text)?)
    }
}

/// An instance and its VIM. Earlier versions read the members: they are fixed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    /// Which VNF the instance belongs to.
    pub(crate) vnf: Vnf,
    /// Id of the VNF instance.
    pub(crate) instance: String,
    pub(crate) vim: String,
    /// The instance on its cluster.
    pub(crate) guest: Option<Box<Target>>,
}

impl Target {
    /// The instance and the one on its cluster.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Self> {
        [Some(self), self.guest.as_deref()].into_iter().flatten()
    }
}

/// Begins an operation; its id.
pub(crate) async fn begin(
    engine: &Engine,
    facts: &Facts,
    target: &Target,
    act: Act,
) -> Result<String, Refusal> {
    let id = &target.instance;
    let mut request = target
        .vnf
        .request(act.kind, facts, target)
        .map_err(|why| unready(&why))?;
    if act.back {
        request = json!({"changeStateTo": "STARTED"});
    }
    if act.kind == LcmOperationType::ChangeVnfpkg {
        request = json!({"vnfdId": other_release(engine, id, facts).await?});
    }
    if act.one {
        request["vnfcInstanceId"] = json!(one_of(engine, id).await?);
    }
    let unknown = || unready(&anyhow::anyhow!("unknown operation {}", act.kind));
    let operation = find(OPERATIONS, act.kind).ok_or_else(unknown)?;
    engine
        .begin(TENANT, id, Begin::new(operation, request))
        .await
}

/// The release of VNF-B that the instance does not have.
async fn other_release(engine: &Engine, id: &str, facts: &Facts) -> Result<String, Refusal> {
    let instance = engine.store().instance(TENANT, id).await?;
    let [_, first] = &facts.vnfds;
    let is_first = instance.vnf.vnfd_id == *first;
    Ok(if is_first { &facts.next_b } else { first }.clone())
}

/// The instance's last VNFC: of VNF-A a worker.
async fn one_of(engine: &Engine, id: &str) -> Result<Vec<String>, Refusal> {
    let instance = engine.store().instance(TENANT, id).await?;
    let info = instance.vnf.instantiated_vnf_info.unwrap_or_default();
    let last = info
        .vnfc_resource_info
        .into_iter()
        .max_by(|a, b| a.vdu_id.cmp(&b.vdu_id));
    Ok(last.map(|vnfc| vnfc.id).into_iter().collect())
}

fn unready(why: &anyhow::Error) -> Refusal {
    Refusal::unprocessable(vnfm_core::ports::PortError::new(
        &crate::ports::INJECTED,
        "begin an operation",
        format!("{why:#}"),
    ))
}
