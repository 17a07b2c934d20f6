//! The rotation of the cluster's CAs, while everything on the cluster keeps running: Kubernetes' own, etcd's and that of the front
//! proxy.
//!
//! ```text
//! trust     every node trusts the old and the new CAs                               ─┐ can be rolled back
//! sign      each control-plane node in turn: its certificates are by the new CAs     │ from here on only forward
//! kubelets  every kubelet gets a client certificate by the new CA                    │
//! keep      every node trusts the new CAs alone; the keys of the old are deleted    ─┘
//! ```
//! After `trust`, `sign` and `keep`, etcd and what uses it restart on one control-plane node after the other, Ready before
//! the next node: etcd never loses its quorum, and each of its members trusts the others whatever phase they are in.
//!
//! `vnfm-ca.sh` does the work on a node, and each of its commands can be repeated. The last phase that has begun is a
//! checkpoint, so that the attempt after a crash continues there. The API server shows the new CA's certificate by the old
//! one as well: who trusts the old CA alone, such as a pod that runs or the VIM's connection until the operation ends, is not
//! interrupted. Tokens of service accounts have a key of their own, and stay valid.

use crate::access::Access;
use crate::api::Api;
use crate::certificates::{self, Restarts, operation_id};
use crate::clocks;
use crate::installer::{Installer, PARALLEL_HOSTS, first_failure, read_ca};
use crate::machine::{FOLDER, Machine};
use crate::plan::{Node, Plan};
use crate::secrets::ca_hash;
use serde::{Deserialize, Serialize};
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "ca";
const SCRIPT: &str = "/run/vnfm/vnfm-ca";
/// Run through `sh`, because `/run` is mounted `noexec` on many images.
const RUN: &str = "sh /run/vnfm/vnfm-ca";
const SCRIPT_TEXT: &str = include_str!("vnfm-ca.sh");
/// The checkpoint with the id of the rotation.
const ROTATION: &str = "ca-rotation";
/// The checkpoint with the last phase that has begun.
const LAST_PHASE: &str = "ca-phase";

/// The components that read at their start which CAs to trust.
const READERS: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager"];

/// The phases in order; `Trust` is the only one that can be rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Trust,
    Sign,
    Kubelets,
    Keep,
}

/// Replaces the CA on all nodes, and returns the VIM with the new one.
///
/// # Errors
///
/// Before anything changes: `ca-unsupported` for a cluster of the vendor's script, `node-silent` if a node does not respond.
/// Later those of the phases; a retry continues.
pub(crate) async fn rotate(
    cx: &HookContext,
    plan: &Plan,
    api: &Api<'_>,
) -> Result<Effects, DriverError> {
    let master = Machine::new(cx, plan, plan.first_control_plane());
    if plan.script().is_some() {
        let detail =
            "the vendor's script has made the CA, and only the vendor knows how to replace it";
        return Err(master.refusal("ca-unsupported", PHASE, detail));
    }
    let rotation = Rotation {
        cx,
        plan,
        api,
        id: operation_id(cx, plan, ROTATION).await?,
    };
    rotation.reach_all().await?;
    clocks::check(cx, plan, plan.nodes()).await?;
    let begun: Option<Phase> = cx.checkpoint(LAST_PHASE).await?;
    for phase in [Phase::Trust, Phase::Sign, Phase::Kubelets, Phase::Keep] {
        if begun.is_some_and(|begun| phase < begun) {
            continue;
        }
        if phase == Phase::Sign {
            cx.rule_out_rollback("certificates by the new CA come into use")
                .await?;
        }
        cx.save_checkpoint(LAST_PHASE, &phase).await?;
        rotation.run(phase).await?;
    }
    let ca = read_ca(&master).await?;
    let access = Access {
        endpoint: plan.url(),
        ca_hash: ca_hash(&ca),
        ca,
        bearer_token: Installer::new(cx, plan).credentials(&master).await?,
        certificate_key: None,
    };
    let effects = certificates::show(cx, plan, Effects::none()).await?;
    let message = format!(
        "VIM `{}` has a new CA, and so have etcd and the front proxy; pods that were started before trust it once they are restarted",
        plan.vim_name
    );
    Ok(effects.register_vim(access.into_vim(plan)).message(message))
}

/// Undoes [`rotate`], if no certificate is by the new CA yet: all nodes trust the old CA alone again.
///
/// # Errors
///
/// `rotation-irreversible` otherwise.
pub(crate) async fn undo(
    cx: &HookContext,
    plan: &Plan,
    api: &Api<'_>,
) -> Result<Effects, DriverError> {
    match cx.checkpoint::<Phase>(LAST_PHASE).await? {
        None => return Ok(Effects::none()),
        Some(Phase::Trust) => {}
        Some(_) => {
            let detail = "certificates by the new CA are in use, and the old CA is not brought back: retry the operation";
            return Err(DriverError::new("rotation-irreversible", detail).phase(PHASE));
        }
    }
    let id = format!("{}-old", operation_id(cx, plan, ROTATION).await?);
    let rotation = Rotation { cx, plan, api, id };
    rotation.reach_all().await?;
    rotation.keep("old").await?;
    Ok(Effects::none().message("all nodes trust the old CA alone"))
}

/// A rotation on the nodes of one cluster.
struct Rotation<'a> {
    cx: &'a HookContext,
    plan: &'a Plan,
    api: &'a Api<'a>,
    /// Marks the restarts of this operation.
    id: String,
}

impl<'a> Rotation<'a> {
    async fn run(&self, phase: Phase) -> Result<(), DriverError> {
        match phase {
            Phase::Trust => self.trust().await,
            Phase::Sign => self.sign().await,
            Phase::Kubelets => {
                self.cx
                    .progress(60, "renewing the kubelets' certificates")
                    .await;
                self.on_all("kubelet", |node| node.name.clone()).await
            }
            Phase::Keep => {
                self.keep("new").await?;
                let master = self.machine(self.plan.first_control_plane());
                step(&master, "publish", "").await
            }
        }
    }

    fn machine(&self, node: &'a Node) -> Machine<'a> {
        Machine::new(self.cx, self.plan, node)
    }

    /// Uploads the script to all nodes; refuses if one of them does not respond, because it would be lost.
    async fn reach_all(&self) -> Result<(), DriverError> {
        let reached = self.plan.nodes().map(|node| async move {
            let host = self.machine(node);
            if !host.answers().await {
                let detail = "it does not respond, and would not trust the new CA: end this operation with `vnfmctl op rollback` \
                              or `vnfmctl op fail`, heal the node or scale it away, and request it again";
                return Err(host.refusal("node-silent", "preflight", detail));
            }
            host.reach_node().await?;
            let script = Upload::new(SCRIPT, SCRIPT_TEXT).mode("0700");
            host.put(script, PHASE).await
        });
        first_failure(join_all_limited(PARALLEL_HOSTS, reached).await)
    }

    /// Runs a command of the script on all nodes, some at a time.
    async fn on_all(
        &self,
        command: &str,
        argument: impl Fn(&Node) -> String,
    ) -> Result<(), DriverError> {
        let runs = self.plan.nodes().map(|node| {
            let (host, argument) = (self.machine(node), argument(node));
            async move { step(&host, command, &argument).await }
        });
        first_failure(join_all_limited(PARALLEL_HOSTS, runs).await)
    }

    async fn trust(&self) -> Result<(), DriverError> {
        self.cx
            .progress(10, "all nodes get to know the new CAs")
            .await;
        let first = self.machine(self.plan.first_control_plane());
        step(&first, "create", "").await?;
        let certificate = first
            .run(PHASE, &format!("{RUN} certificate"))
            .await?
            .stdout;
        let exported = first.run(PHASE, &format!("{RUN} export")).await?.stdout;
        let exported = Secret::new(exported);
        for node in self.plan.control_planes.iter().skip(1) {
            let (host, file) = (self.machine(node), format!("{FOLDER}/new-ca"));
            let line = format!("{RUN} import {file}");
            host.step_with("ca-import", (&file, exported.reveal()), &line)
                .await?;
        }
        let file = format!("{FOLDER}/new-ca.crt");
        for node in self.plan.nodes() {
            let upload = Upload::new(&file, certificate.as_str());
            self.machine(node).put(upload, PHASE).await?;
        }
        self.on_all("trust", |_| file.clone()).await?;
        self.restart_in_turn("trust").await
    }

    /// Each control-plane node in turn, so that with several of them one always responds.
    async fn sign(&self) -> Result<(), DriverError> {
        for node in &self.plan.control_planes {
            let message = format!("renewing the certificates on `{}`", node.name);
            self.cx.progress(30, &message).await;
            let host = self.machine(node);
            step(&host, "sign", "").await?;
            let components = host.kubernetes(PHASE, "components").await?;
            let components: Vec<_> = components.split_whitespace().collect();
            self.restarts(host, "sign").restart(&components).await?;
        }
        Ok(())
    }

    /// All nodes trust the old or the new CA alone.
    async fn keep(&self, which: &str) -> Result<(), DriverError> {
        let message = format!("all nodes trust the {which} CA alone");
        self.cx.progress(80, &message).await;
        self.on_all("keep", |_| which.to_owned()).await?;
        self.restart_in_turn("keep").await
    }

    /// Restarts what reads at its start which CAs to trust: at the same time on one control-plane node, and one node after the
    /// other.
    async fn restart_in_turn(&self, phase: &str) -> Result<(), DriverError> {
        for node in &self.plan.control_planes {
            let host = self.machine(node);
            let components = host.kubernetes(PHASE, "components").await?;
            let components: Vec<_> = components.split_whitespace().collect();
            let readers: Vec<_> = components
                .into_iter()
                .filter(|component| READERS.contains(component))
                .collect();
            self.restarts(host, phase).restart(&readers).await?;
        }
        Ok(())
    }

    fn restarts(&self, host: Machine<'a>, phase: &str) -> Restarts<'a> {
        let id = format!("{}-{phase}", self.id);
        Restarts {
            api: self.api,
            host,
            id,
        }
    }
}

/// Runs a command of the script, each under a name of its own: an attempt that finds one still running waits for that one.
async fn step(host: &Machine<'_>, command: &str, argument: &str) -> Result<(), DriverError> {
    let line = format!("{RUN} {command} {argument}");
    host.step(&format!("ca-{command}"), line.trim_end()).await
}
