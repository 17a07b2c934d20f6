//! The two packages, what an instance can be asked for, and how that begins: by the engine's own list of operations, with
//! the samples' own requests.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use vnfm_core::lcm::OPERATIONS;
use vnfm_core::{Engine, Refusal};
use vnfm_tests::sources::root;
use vnfm_types::{CreateVnfRequest, LcmOperationType};

/// Whose everything is.
pub(crate) const TENANT: &str = "default";

/// A package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Vnf {
    /// Servers on OpenStack, which a plugin makes a cluster.
    A,
    /// Pods on a cluster.
    B,
}

/// What an instance is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Act {
    /// The kind of operation.
    pub(crate) kind: LcmOperationType,
    /// Only one of its VNFCs is meant.
    pub(crate) one: bool,
    /// A VNF-B lives on it meanwhile.
    pub(crate) carries: bool,
}

impl Act {
    /// On the whole instance, on which nobody lives.
    pub(crate) fn whole(kind: LcmOperationType) -> Self {
        Self {
            kind,
            one: false,
            carries: false,
        }
    }

    /// What a kind of operation can be asked to do.
    fn of(kind: LcmOperationType, vnf: Vnf) -> Vec<Self> {
        let one = Self {
            kind,
            one: true,
            carries: vnf == Vnf::A,
        };
        match kind {
            LcmOperationType::Heal => vec![one, Self::whole(kind)],
            _ => vec![Self::whole(kind)],
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = if self.one { " one VNFC" } else { "" };
        write!(f, "{}{one}", self.kind)
    }
}

/// What requests need to know of a world.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// The VIM that is a cloud.
    pub(crate) cloud: String,
    /// The VIM that is a cluster.
    pub(crate) cluster: String,
    /// Where the hosts' sshd listen.
    pub(crate) ssh_port: u64,
    /// The VNFD of each package.
    pub(crate) vnfds: [String; 2],
}

impl Vnf {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::A, Self::B];

    /// Its folder among the samples.
    pub(crate) fn sample(self) -> &'static str {
        match self {
            Self::A => "vnf-a-k8s-cluster",
            Self::B => "vnf-b-cnf",
        }
    }

    /// What an instance is asked for, in the order in which it lives through it.
    pub(crate) fn acts(self) -> Vec<Act> {
        let kinds = OPERATIONS.iter().map(|operation| operation.kind);
        let between = |kind: &LcmOperationType| {
            !matches!(
                kind,
                LcmOperationType::Instantiate | LcmOperationType::Terminate
            )
        };
        let mut acts = vec![Act::whole(LcmOperationType::Instantiate)];
        acts.extend(kinds.filter(between).flat_map(|kind| Act::of(kind, self)));
        acts.push(Act::whole(LcmOperationType::Terminate));
        acts
    }

    /// Its package's id.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::A => "vnf-a",
            Self::B => "vnf-b",
        }
    }

    /// The request that makes an instance of it.
    pub(crate) fn create(self, facts: &Facts) -> CreateVnfRequest {
        let vnfd_id = facts.vnfds[usize::from(self == Self::B)].clone();
        CreateVnfRequest {
            vnfd_id,
            ..CreateVnfRequest::default()
        }
    }

    /// The VIM that it lives on, where nothing else is said.
    pub(crate) fn vim(self, facts: &Facts) -> &str {
        match self {
            Self::A => &facts.cloud,
            Self::B => &facts.cluster,
        }
    }

    /// The sample's own request for an operation; the plainest where it has none.
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

/// An instance, and where it is to live.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    /// Of which package.
    pub(crate) vnf: Vnf,
    /// Its id.
    pub(crate) instance: String,
    /// The VIM.
    pub(crate) vim: String,
    /// Who lives on it.
    pub(crate) guest: Option<Box<Target>>,
}

impl Target {
    /// It, and who lives on it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Self> {
        [Some(self), self.guest.as_deref()].into_iter().flatten()
    }
}

/// Begins what is asked for, and returns its occurrence.
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
    if act.one {
        request["vnfcInstanceId"] = json!(one_of(engine, id).await?);
    }
    engine.begin(act.kind, (TENANT, id), request).await
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
