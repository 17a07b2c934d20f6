//! The packages and the operations on their instances, from the engine's list of operations and
//! the requests of the samples.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use vnfm_core::lcm::{Begin, OPERATIONS, find};
use vnfm_core::ports::{RETAIN_PARAM, REUSE_PARAM};
use vnfm_core::query::{Query, VisibilityScope};
use vnfm_core::{Engine, Refusal};
use vnfm_tests::package_image;
use vnfm_tests::sources::root;
use vnfm_types::{
    CreateVnfRequest, CreateVnfSnapshotInfoRequest, LcmOperationState, LcmOperationType,
    RetainedVolume, VnfSnapshot,
};

/// The tenant of every resource.
pub(crate) const TENANT: &str = "default";

/// One of the packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Vnf {
    /// Servers on OpenStack, on which a plugin installs a cluster.
    A,
    /// Containers, run as pods on a cluster.
    B,
    /// Plain servers on OpenStack, in two flavours.
    C,
    /// Four servers on OpenStack, of which two at a time get the next release.
    D,
    /// Two servers with a volume each, in a zone without room: one volume was retained before, and both are in the end.
    E,
    /// VNF-B, whose package brings the image of its containers.
    F,
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
            LcmOperationType::Operate
            | LcmOperationType::ChangeFlavour
            | LcmOperationType::ChangeExtConn => {
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
    /// `vnfdId` of VNF-C.
    #[serde(default)]
    pub(crate) vnfd_c: String,
    /// `vnfdId` of both releases of VNF-D.
    #[serde(default)]
    pub(crate) vnfds_d: [String; 2],
    /// `vnfdId` of VNF-E.
    #[serde(default)]
    pub(crate) vnfd_e: String,
    /// `vnfdId` of VNF-F.
    #[serde(default)]
    pub(crate) vnfd_f: String,
}

impl Vnf {
    pub(crate) const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Folder name of its sample.
    pub(crate) fn sample(self) -> &'static str {
        match self {
            Self::A => "vnf-a-k8s-cluster",
            Self::B => "vnf-b-cnf",
            Self::C => "vnf-flavours",
            Self::D => "vnf-rolling-1",
            Self::E => "vnf-ha-pair",
            Self::F => package_image::SAMPLE,
        }
    }

    /// The operations of an instance, in order. Those that one package lacks are run on another: see the test.
    pub(crate) fn acts(self) -> Vec<Act> {
        use LcmOperationType::{Instantiate, Terminate};
        let kinds = OPERATIONS.iter().map(|operation| operation.kind);
        let between =
            |kind: &LcmOperationType| !matches!(kind, Instantiate | Terminate) && self.plays(*kind);
        let mut acts = vec![Act::complete_vnf(Instantiate)];
        acts.extend(
            kinds
                .filter(between)
                .flat_map(|kind| Act::variants(kind, self)),
        );
        acts.push(Act::complete_vnf(Terminate));
        acts
    }

    /// Whether its instances show this operation: those that they do not support, others show.
    fn plays(self, kind: LcmOperationType) -> bool {
        let is_new_release = kind == LcmOperationType::ChangeVnfpkg;
        match self {
            // One flavour and one release; the nodes of a cluster must keep their addresses, and do not store their disks.
            Self::A => !OF_PLAIN_SERVERS.contains(&kind) && !is_new_release,
            // One flavour; pods have no external links, and a snapshot of pods without claims has the record only.
            Self::B => !OF_PLAIN_SERVERS.contains(&kind),
            // No aspects, and one release; the others are what servers of VNF-A do, with hooks.
            Self::C => OF_PLAIN_SERVERS.contains(&kind),
            Self::D => is_new_release,
            // Their volumes, zone and image matter when they come and go.
            Self::E | Self::F => false,
        }
    }

    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::A => "vnf-a",
            Self::B => "vnf-b",
            Self::C => "vnf-c",
            Self::D => "vnf-d",
            Self::E => "vnf-e",
            Self::F => "vnf-f",
        }
    }

    /// The request that creates an instance.
    pub(crate) fn create(self, facts: &Facts) -> CreateVnfRequest {
        let [a, b] = &facts.vnfds;
        let vnfd_id = match self {
            Self::A => a,
            Self::B => b,
            Self::C => &facts.vnfd_c,
            Self::D => &facts.vnfds_d[0],
            Self::E => &facts.vnfd_e,
            Self::F => &facts.vnfd_f,
        };
        let vnfd_id = vnfd_id.clone();
        CreateVnfRequest {
            vnfd_id,
            ..CreateVnfRequest::default()
        }
    }

    /// Id of its usual VIM.
    pub(crate) fn vim(self, facts: &Facts) -> &str {
        match self {
            Self::A | Self::C | Self::D | Self::E => &facts.cloud,
            Self::B | Self::F => &facts.cluster,
        }
    }

    /// The sample's request for an act, or `{}`.
    fn request(self, act: Act, facts: &Facts, on: &Target) -> Result<Value> {
        let folder = root().join("vnfd-samples").join(self.sample());
        let kind = act.kind.as_str().to_lowercase();
        let file = |back: &str| folder.join(format!("requests/{kind}{back}.json"));
        let back = Some(file("_back")).filter(|file| act.back && file.exists());
        let file = back.unwrap_or_else(|| file(""));
        if !file.exists() {
            return Ok(json!({}));
        }
        let is_elsewhere = act.kind == LcmOperationType::ChangeExtConn && !act.back;
        let network = if is_elsewhere { ELSEWHERE } else { AT_HOME };
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?
            .replace("\"@SSH_PORT@\"", &facts.ssh_port.to_string())
            .replace("@VIM_ID@", &on.vim)
            .replace("@NETWORK_ID@", network)
            .replace("@CLUSTER_NAME@", &format!("cluster-{}", on.instance))
            .replace("@SSH_USER@", "ubuntu")
            .replace("@SSH_PASSWORD@", "secret");
        Ok(serde_json::from_str(&text)?)
    }
}

/// What only VNF-C shows.
const OF_PLAIN_SERVERS: [LcmOperationType; 4] = [
    LcmOperationType::ChangeFlavour,
    LcmOperationType::ChangeExtConn,
    LcmOperationType::CreateSnapshot,
    LcmOperationType::RevertToSnapshot,
];
/// The storage of VNF-E whose volume was retained before.
pub(crate) const REUSED: &str = "activeData";
/// The zone that has no room.
pub(crate) const FULL_ZONE: &str = "edge";
/// The network of external links.
const AT_HOME: &str = "provider";
/// The network to which `change_ext_conn` moves them.
pub(crate) const ELSEWHERE: &str = "nfv-net";
/// The flavour to which `change_flavour` changes.
pub(crate) const THERE: &str = "simple";

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
        .request(act, facts, target)
        .map_err(|why| unready(&why))?;
    match act.kind {
        LcmOperationType::Operate if act.back => request = json!({"changeStateTo": "STARTED"}),
        LcmOperationType::ChangeVnfpkg => {
            request["vnfdId"] = json!(other_release(engine, target, facts).await?);
        }
        LcmOperationType::CreateSnapshot => {
            request["vnfSnapshotInfoId"] = json!(empty_snapshot(engine).await?);
        }
        LcmOperationType::RevertToSnapshot => {
            request["vnfSnapshotInfoId"] = json!(complete_snapshot(engine, id).await?);
        }
        LcmOperationType::Instantiate if target.vnf == Vnf::E => {
            let volumes = free_volumes(engine).await?;
            let reused = volumes
                .iter()
                .filter(|one| one.virtual_storage_desc_id == REUSED);
            let first: Vec<_> = reused.map(|one| &one.id).take(1).collect();
            request["additionalParams"] = json!({REUSE_PARAM: first});
        }
        LcmOperationType::Terminate if target.vnf == Vnf::E => {
            request["terminationType"] = json!("FORCEFUL");
            // Also what a failed termination has retained; of what another failed operation left nothing is retained.
            if has_retained(engine, id).await? || !has_failed(engine, id).await? {
                request["additionalParams"] = json!({RETAIN_PARAM: "all"});
            }
        }
        _ => {}
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

/// The release that the instance does not have.
async fn other_release(engine: &Engine, target: &Target, facts: &Facts) -> Result<String, Refusal> {
    let instance = engine.store().instance(TENANT, &target.instance).await?;
    let [first, next] = match target.vnf {
        Vnf::D => facts.vnfds_d.each_ref(),
        _ => [&facts.vnfds[1], &facts.next_b],
    };
    let is_first = instance.vnf.vnfd_id == *first;
    Ok(if is_first { next } else { first }.clone())
}

/// The retained volumes that no instance uses.
pub(crate) async fn free_volumes(engine: &Engine) -> Result<Vec<RetainedVolume>, Refusal> {
    let all = engine.store().volumes(TENANT, &Query::default()).await?;
    let volumes = all.into_iter().map(|record| record.volume);
    Ok(volumes.filter(|one| one.used_by.is_none()).collect())
}

/// Whether an instance has volumes that it retained itself.
async fn has_retained(engine: &Engine, id: &str) -> Result<bool, Refusal> {
    let instance = engine.store().instance(TENANT, id).await?;
    let deployment = instance.deployment.unwrap_or_default();
    let all = engine.store().volumes(TENANT, &Query::default()).await?;
    let own = all.iter().map(|record| &record.volume).filter(|volume| {
        let mut reused = deployment.reused_volumes.iter();
        volume.used_by.as_deref() == Some(id) && !reused.any(|one| one.id == volume.id)
    });
    Ok(own.count() > 0)
}

/// Whether an operation of the instance was failed.
async fn has_failed(engine: &Engine, id: &str) -> Result<bool, Refusal> {
    let filter = Query::of_instance(id.to_owned());
    let all = engine.store().ops(TENANT, &filter).await?;
    let mut states = all.iter().map(|record| record.op.operation_state);
    Ok(states.any(|state| state == LcmOperationState::Failed))
}

/// A new snapshot without contents.
async fn empty_snapshot(engine: &Engine) -> Result<String, Refusal> {
    let (scope, request) = (
        VisibilityScope::default(),
        CreateVnfSnapshotInfoRequest::default(),
    );
    let created = engine.create_snapshot_info(TENANT, &scope, request).await?;
    Ok(created.info.id)
}

/// The snapshot to which the instance can return, or none.
pub(crate) async fn complete_snapshot(
    engine: &Engine,
    id: &str,
) -> Result<Option<String>, Refusal> {
    let all = engine.store().snapshots(TENANT, &Query::default()).await?;
    let is_complete = |contents: &VnfSnapshot| {
        contents.vnf_instance_id == id && contents.creation_finished_at.is_some()
    };
    let mut complete = all.into_iter().filter(|record| {
        let contents = record.info.vnf_snapshot.as_deref();
        contents.is_some_and(is_complete)
    });
    Ok(complete.next().map(|record| record.info.id))
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

#[cfg(test)]
mod tests {
    use super::Vnf;
    use vnfm_core::lcm::OPERATIONS;

    #[test]
    fn every_operation_is_run_on_one_of_the_packages() {
        for operation in OPERATIONS {
            let kind = operation.kind;
            let mut acts = Vnf::ALL.into_iter().flat_map(Vnf::acts);
            assert!(acts.any(|act| act.kind == kind), "{kind} is never run");
        }
    }
}
