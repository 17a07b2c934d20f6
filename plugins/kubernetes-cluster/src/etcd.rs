//! Snapshots of etcd: encrypted files on the control-plane nodes and with the VNFM, and the way back to one of them.
//!
//! ```text
//! backup    each control-plane node that responds:  snapshot ─► encrypted ─► `/var/lib/vnfm/etcd/NAME.db.enc`; old ones go
//!           the VNFM:                               a copy of one of them; old ones go
//! restore   no node has the snapshot, or another content:  the VNFM's copy ─► a node
//!           the first that has it:  decrypted, complete, this cluster's? ─► the data of a cluster of one member
//!           all that respond:       the API servers stop, then etcd
//!           the first:              these data take the place of its own ─► both start; the others wait for a heal
//! ```
//!
//! A restore needs neither API server nor quorum, for it is the way back when both are gone. A node that does not respond
//! still has the old data: it must stay off until it is healed. The passphrase is in the request
//! alone: the VNFM does not keep it, and without it a snapshot is of no use. A snapshot's name begins with the cluster's CA, so
//! that it is not restored into another cluster.
//!
//! An upgrade has a snapshot of its own, on the first control-plane node until the upgrade ends ([`copy`], [`put_back`]).

use crate::access::Access;
use crate::certificates::operation_id;
use crate::cluster::names;
use crate::installer::{Installer, PARALLEL_HOSTS, first_failure, read_ca};
use crate::kubectl::KUBECTL;
use crate::machine::Machine;
use crate::node::with_port;
use crate::plan::{Node, Plan};
use crate::secrets::ca_hash;
use futures::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_plugin_sdk::messages::{FileTransfer, StoredFile};
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{ErrorKind, Object};

/// The phase, and the step of what takes long.
pub(crate) const PHASE: &str = "etcd";
const SCRIPT: &str = "/run/vnfm/vnfm-etcd";
/// Run through `sh`, because `/run` is mounted `noexec` on many images.
const RUN: &str = "sh /run/vnfm/vnfm-etcd";
const SCRIPT_TEXT: &str = include_str!("vnfm-etcd.sh");
/// The file with the passphrase, as long as the script needs it.
const PASSPHRASE: &str = "/run/vnfm/etcd-passphrase";
/// Where etcd's members reach each other.
const PEER_PORT: u16 = 2380;
/// Where the snapshots of a node are, and the end of their names there.
const SNAPSHOTS: &str = "/var/lib/vnfm/etcd";
const FILE_END: &str = ".db.enc";
/// The script's exit code for a snapshot of another cluster.
const OTHER_CLUSTER: i32 = 5;
/// The checkpoint with the name of the snapshot that a backup takes.
const NAME: &str = "etcd-snapshot";
/// The checkpoint with the id of a restore that has begun: from then on there is no way back.
const RESTORING: &str = "etcd-restore";
/// How long the API server may take to respond after a restore, and the interval between two looks.
const API_TIMEOUT: Duration = Duration::from_mins(5);
const API_INTERVAL: Duration = Duration::from_secs(1);

/// Which snapshot, and how it is encrypted.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct EtcdParams {
    /// The passphrase that encrypts a snapshot, at least 12 characters; mandatory for a backup and for its restore.
    #[serde(rename = "etcd_passphrase")]
    passphrase: Option<Secret>,
    /// For a restore: the name of the snapshot, as the backup has shown it.
    #[serde(rename = "etcd_snapshot")]
    snapshot: Option<String>,
    /// For a backup: how many snapshots each control-plane node and the VNFM keep; 5 if absent.
    #[serde(rename = "etcd_snapshots_to_keep", default = "five")]
    #[schemars(range(min = 1, max = 1000))]
    keep: u32,
}

fn five() -> u32 {
    5
}

impl EtcdParams {
    fn passphrase(&self) -> Result<&Secret, DriverError> {
        let usable = |secret: &&Secret| {
            secret.reveal().len() >= 12 && !secret.reveal().contains(['\n', '\0'])
        };
        self.passphrase.as_ref().filter(usable).ok_or_else(|| {
            let detail = "`etcd_passphrase` must be given, one line of at least 12 characters";
            DriverError::new("bad-parameters", detail).phase("preflight")
        })
    }

    fn snapshot(&self) -> Result<&str, DriverError> {
        let is_plain = |name: &&str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        self.snapshot.as_deref().filter(is_plain).ok_or_else(|| {
            let detail =
                "`etcd_snapshot` must name the snapshot to restore, as the backup has shown it";
            DriverError::new("bad-parameters", detail).phase("preflight")
        })
    }
}

/// Refuses a backup or restore whose parameters are not usable.
///
/// # Errors
///
/// `bad-parameters`.
pub(crate) fn check(params: &EtcdParams, is_restore: bool) -> Result<(), DriverError> {
    params.passphrase()?;
    if is_restore {
        params.snapshot()?;
    }
    Ok(())
}

/// Takes a snapshot on each control-plane node that responds, and shows those that exist.
///
/// # Errors
///
/// `etcd-failed` with what failed on the last node, if there is a snapshot on none; `etcd-not-stored` if the VNFM cannot store
/// its copy: a retry copies the snapshot that was taken.
pub(crate) async fn back_up(
    cx: &HookContext,
    plan: &Plan,
    params: &EtcdParams,
) -> Result<Effects, DriverError> {
    let passphrase = params.passphrase()?;
    let mut name: Option<String> = cx.checkpoint(NAME).await?;
    let mut failure = DriverError::new("etcd-failed", "no control-plane node responds")
        .phase(PHASE)
        .retryable();
    let (mut snapshots, mut nodes) = (Object::new(), Vec::new());
    for node in &plan.control_planes {
        let host = Machine::new(cx, plan, node);
        match save(&host, (&mut name, passphrase), params.keep).await {
            Ok(listed) => {
                snapshots.insert(node.name.clone(), listed.into());
                nodes.push(node);
            }
            Err(error) => {
                cx.warn(&format!("no snapshot on `{}`: {}", node.name, error.detail));
                failure = error;
            }
        }
    }
    let Some(name) = name.filter(|_| !nodes.is_empty()) else {
        return Err(failure);
    };
    let first = Machine::new(cx, plan, nodes[0]);
    let is_stored = store_copy(
        &first,
        &name,
        (&snapshots[&nodes[0].name][&name], params.keep),
    )
    .await?;
    let shown: Vec<_> = nodes.iter().map(|node| node.name.clone()).collect();
    let backup = json!({ "snapshot": name, "nodes": shown, "stored": is_stored });
    let nodes = names(nodes);
    let copy = if is_stored {
        " and with the VNFM"
    } else {
        " alone"
    };
    let message = format!(
        "etcd snapshot `{name}` is on {nodes}{copy}, encrypted with the passphrase of the request"
    );
    Ok(Effects::none()
        .metadata("etcdSnapshots", snapshots)
        .metadata("etcdBackup", backup)
        .message(message))
}

/// The file of a snapshot, on a node or with the VNFM.
fn transfer(name: &str) -> FileTransfer {
    let file = format!("{name}{FILE_END}");
    let path = format!("{SNAPSHOTS}/{file}");
    FileTransfer::new(file, path)
}

/// Stores a copy of the snapshot with the VNFM, and keeps the last `keep`; false if this VNFM stores no files.
async fn store_copy(
    host: &Machine<'_>,
    name: &str,
    (listed, keep): (&Value, u32),
) -> Result<bool, DriverError> {
    let failed = |error: ServiceError| {
        let detail = format!(
            "the snapshot is on the nodes, but no copy is with the VNFM: {}",
            error.detail
        );
        let failure = DriverError::new("etcd-not-stored", detail).host(&host.node.name);
        let failure = failure.phase(PHASE);
        match error.kind {
            ErrorKind::Unavailable => failure.retryable(),
            _ => failure,
        }
    };
    let Some(mut stored) = stored_snapshots(host.cx).await? else {
        host.cx
            .warn("this VNFM stores no files: copy the snapshot to another place");
        return Ok(false);
    };
    let bytes = listed["bytes"].as_u64().unwrap_or_default();
    let hash = listed["sha256"].as_str().unwrap_or_default();
    let copy = transfer(name).expecting(bytes, hash);
    if stored.get(name).is_none_or(|known| known.sha256 != hash) {
        let copied = host.fetch(copy).await.map_err(failed)?;
        stored.insert(name.to_owned(), copied);
    }
    // The newest last; what precedes the first `-` is the CA.
    let mut names: Vec<_> = stored.into_keys().collect();
    names.sort_by(|one, other| time_in(one).cmp(time_in(other)));
    let old = names.len().saturating_sub(keep as usize);
    for old in &names[..old] {
        let file = format!("{old}{FILE_END}");
        host.cx.remove_file(&file).await.map_err(failed)?;
    }
    Ok(true)
}

/// The time in a snapshot's name.
fn time_in(name: &str) -> &str {
    name.split_once('-').map_or(name, |(_, time)| time)
}

/// The snapshots that are stored with the VNFM, by name; `None` if it does not store files.
async fn stored_snapshots(
    cx: &HookContext,
) -> Result<Option<BTreeMap<String, StoredFile>>, DriverError> {
    let files = match cx.stored_files().await {
        Err(error) if error.kind == ErrorKind::Refused => return Ok(None),
        files => files?,
    };
    let named = |file: StoredFile| Some((file.name.strip_suffix(FILE_END)?.to_owned(), file));
    Ok(Some(files.into_iter().filter_map(named).collect()))
}

/// Takes a snapshot on one node, and names it if it has no name yet; the snapshots on the node.
async fn save(
    host: &Machine<'_>,
    (name, passphrase): (&mut Option<String>, &Secret),
    keep: u32,
) -> Result<Object, DriverError> {
    reach(host).await?;
    let name = if let Some(name) = name {
        name
    } else {
        let new = new_name(host).await?;
        host.cx.save_checkpoint(NAME, &new).await?;
        name.insert(new)
    };
    let line = format!("{RUN} save {name} {PASSPHRASE} {keep}");
    let file = format!("{}\n", passphrase.reveal());
    host.step_with(PHASE, (PASSPHRASE, &file), &line).await?;
    list(host).await
}

/// The snapshots on a node: size in bytes and SHA-256 by name.
async fn list(host: &Machine<'_>) -> Result<Object, DriverError> {
    let listed = host.run(PHASE, &format!("{RUN} list")).await?.stdout;
    let snapshots = listed.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, bytes, hash) = (
            words.next()?,
            words.next()?.parse::<u64>().ok()?,
            words.next()?,
        );
        Some((name.to_owned(), json!({ "bytes": bytes, "sha256": hash })))
    });
    Ok(snapshots.collect())
}

/// Restores a snapshot, and returns the cluster's login at that time as that of the VIM.
///
/// # Errors
///
/// Before anything changes: `no-snapshot` if neither a node that responds nor the VNFM has it, `other-cluster` if it is that of
/// another cluster, `etcd-failed` if the passphrase is another or the snapshot is damaged.
pub(crate) async fn restore(
    cx: &HookContext,
    plan: &Plan,
    params: &EtcdParams,
) -> Result<Effects, DriverError> {
    let (name, passphrase) = (params.snapshot()?, params.passphrase()?);
    let Found {
        node,
        others,
        silent,
    } = find(cx, plan, name).await?;
    let host = Machine::new(cx, plan, node);
    unpack(&host, name, passphrase).await?;
    cx.rule_out_rollback("what was written since the snapshot is not brought back")
        .await?;
    let id = operation_id(cx, plan, RESTORING).await?;
    for pod in ["kube-apiserver", "etcd"] {
        cx.progress(10, &format!("stopping `{pod}` on all nodes"))
            .await;
        let stops = others.iter().copied().chain([node]);
        let stops = stops.map(|node| async move {
            let host = Machine::new(cx, plan, node);
            host.step(PHASE, &format!("{RUN} stop {pod}")).await
        });
        first_failure(join_all_limited(PARALLEL_HOSTS, stops).await)?;
    }
    cx.progress(30, &format!("restoring `{name}` on `{}`", node.name))
        .await;
    host.step(PHASE, &format!("{RUN} restore {id}")).await?;
    wait_for_api(&host).await?;
    let ca = read_ca(&host).await?;
    let access = Access {
        endpoint: plan.url(),
        ca_hash: ca_hash(&ca),
        ca,
        bearer_token: Installer::new(cx, plan).credentials(&host).await?,
        certificate_key: None,
    };
    let message = format!(
        "the cluster has the data of `{name}` on `{}`{}",
        node.name,
        what_is_left(&others, &silent)
    );
    Ok(Effects::none()
        .register_vim(access.into_vim(plan))
        .message(message))
}

/// What the operator must do after a restore, for the end of its message.
fn what_is_left(others: &[&Node], silent: &[&Node]) -> String {
    let all = names(silent.iter().chain(others).copied());
    let dead = names(silent.iter().copied());
    match (others, silent) {
        ([], []) => String::new(),
        (_, []) => format!("; heal {all} one after the other"),
        _ => format!(
            "; heal {all} one after the other, and do not power on {dead} before: the old data are still there"
        ),
    }
}

/// Decrypts a snapshot, checks that it is complete and this cluster's, and makes the data of a cluster of one member of it. What
/// etcd uses stays as it is.
async fn unpack(host: &Machine<'_>, name: &str, passphrase: &Secret) -> Result<(), DriverError> {
    let (member, address) = (&host.node.name, with_port(&host.node.address, PEER_PORT));
    let line = format!("{RUN} unpack {name} {PASSPHRASE} {member} https://{address}");
    let file = format!("{}\n", passphrase.reveal());
    match host.step_with(PHASE, (PASSPHRASE, &file), &line).await {
        Err(error) if error.exit_code == Some(OTHER_CLUSTER) => {
            Err(host.refusal("other-cluster", "preflight", error.detail.clone()))
        }
        unpacked => unpacked,
    }
}

/// The control-plane nodes at the beginning of a restore.
struct Found<'a> {
    /// The one with the snapshot.
    node: &'a Node,
    /// The others that respond.
    others: Vec<&'a Node>,
    /// Those that do not.
    silent: Vec<&'a Node>,
}

/// The first control-plane node with the snapshot, and the others. If none has it, or another content than the VNFM's copy,
/// that copy is sent to the first that responds.
async fn find<'a>(cx: &HookContext, plan: &'a Plan, name: &str) -> Result<Found<'a>, DriverError> {
    let stored = stored_snapshots(cx).await?.unwrap_or_default().remove(name);
    let has_content = |listed: &Value| {
        let expected = stored.as_ref().map(|stored| stored.sha256.as_str());
        expected.is_none_or(|hash| listed["sha256"] == hash)
    };
    let (mut responding, mut silent, mut found) = (Vec::new(), Vec::new(), None);
    let hosts = plan.control_planes.iter();
    let hosts: Vec<_> = hosts.map(|node| Machine::new(cx, plan, node)).collect();
    let responses = join_all(hosts.iter().map(Machine::answers)).await;
    for ((node, host), responds) in plan.control_planes.iter().zip(&hosts).zip(responses) {
        if !responds {
            silent.push(node);
            continue;
        }
        reach(host).await?;
        let has_it = list(host).await?.get(name).is_some_and(has_content);
        found = found.or(has_it.then_some(responding.len()));
        responding.push(node);
    }
    let source = found.or(stored.is_some().then_some(0));
    let Some(source) = source.filter(|source| *source < responding.len()) else {
        let detail = format!(
            "neither a control-plane node that responds nor the VNFM has the snapshot `{name}`: name a file with \
             `vnfmctl cluster restore --from`, or put its file `{name}{FILE_END}` into `{SNAPSHOTS}` of a node"
        );
        return Err(DriverError::new("no-snapshot", detail).phase("preflight"));
    };
    let node = responding.remove(source);
    let host = Machine::new(cx, plan, node);
    if name.split('-').next() != new_name(&host).await?.split('-').next() {
        let detail = format!(
            "snapshot `{name}` is that of a cluster with another CA: its data are of no use here"
        );
        return Err(host.refusal("other-cluster", "preflight", detail));
    }
    if found.is_none() {
        cx.progress(5, &format!("copying `{name}` to `{}`", node.name))
            .await;
        let sent = host.send(transfer(name)).await;
        sent.map_err(|error| DriverError::from(error).host(&node.name).phase(PHASE))?;
    }
    Ok(Found {
        node,
        others: responding,
        silent,
    })
}

/// Refuses to undo a restore that has begun.
///
/// # Errors
///
/// `restore-irreversible`.
pub(crate) async fn undo_restore(cx: &HookContext) -> Result<Effects, DriverError> {
    if cx.checkpoint::<String>(RESTORING).await?.is_none() {
        return Ok(Effects::none());
    }
    let detail = "the restore has begun, and what was written since the snapshot is not brought back: retry the operation; the \
                  data before it are in `vnfm-before` of etcd's folder";
    Err(DriverError::new("restore-irreversible", detail).phase(PHASE))
}

/// Takes a snapshot next to the host's copies for an upgrade, unless there is one.
///
/// # Errors
///
/// `etcd-failed`.
pub(crate) async fn copy(host: &Machine<'_>) -> Result<(), DriverError> {
    reach(host).await?;
    host.step(PHASE, &format!("{RUN} copy")).await
}

/// Gives etcd and the API server on the host the manifests that were copied, and the only member of an etcd that was changed
/// also the data of [`copy`], which is then deleted. `is_applied`: the upgrade of the control plane has ended well, so that its
/// data are changed.
///
/// # Errors
///
/// `etcd-failed`; nothing was put back or deleted then that another call does not need.
pub(crate) async fn put_back(host: &Machine<'_>, is_applied: bool) -> Result<(), DriverError> {
    reach(host).await?;
    let applied = if is_applied { " applied" } else { "" };
    host.step(PHASE, &format!("{RUN} back{applied}")).await
}

async fn reach(host: &Machine<'_>) -> Result<(), DriverError> {
    host.reach_known().await?;
    host.put(Upload::new(SCRIPT, SCRIPT_TEXT).mode("0700"), PHASE)
        .await
}

/// A name for a new snapshot. What precedes the `-` identifies the cluster: the beginning of its CA's SHA-256.
async fn new_name(host: &Machine<'_>) -> Result<String, DriverError> {
    let name = host.run(PHASE, &format!("{RUN} name")).await?.stdout;
    Ok(name.trim().to_owned())
}

async fn wait_for_api(host: &Machine<'_>) -> Result<(), DriverError> {
    let line = format!("{KUBECTL} get --raw /readyz");
    let responds = || async {
        let output = host.try_run(PHASE, &line, Secret::default()).await?;
        Ok(output.ok().then_some(()))
    };
    let condition = format!("the API server on `{}` to be ready", host.node.name);
    host.cx
        .wait_until(&condition, API_INTERVAL, API_TIMEOUT, responds)
        .await
}
