//! Joins nodes to the cluster: workers in parallel, control-plane nodes one after the other, because each changes the members
//! of etcd. A join that was interrupted is repeated from the beginning.
//!
//! ```text
//!                         still running? wait for it ───────────────┐
//! reach ─ prepare ────┬── complete, in this cluster? ───────────────┼─ joined
//!                     └── otherwise reset what is left ─ `join` ────┘
//! ```
//!
//! kubeadm refuses to join a node that the cluster believes Ready, as it does for a while after the host lost power. So
//! what is left is removed on both sides: on the host, then in the cluster, for a control-plane node also in etcd.

use crate::config;
use crate::installer::{CA, EarlierAttempt, Installer, PARALLEL_HOSTS, first_failure};
use crate::join_tokens::ControlPlane;
use crate::machine::{FOLDER, Facts, Machine, StepState};
use crate::members;
use crate::plan::Node;
use crate::script;
use futures::future::{BoxFuture, Shared};
use futures::lock::Mutex;
use vnfm_plugin_sdk::prelude::*;

/// What is known of a server's node before it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeBefore {
    /// The cluster may not even exist yet.
    Unknown,
    /// The cluster has no such node: what is on the host is outdated.
    Missing,
    /// It has one; it may be that of a predecessor, or of an interrupted join.
    Exists,
}

/// Joins servers as soon as they are prepared and the control plane responds.
pub(crate) struct Joins<'a> {
    pub(crate) installer: &'a Installer<'a>,
    pub(crate) master: &'a Machine<'a>,
    pub(crate) control_plane: Shared<BoxFuture<'a, Result<ControlPlane, DriverError>>>,
    /// Held by the control-plane node that joins; the certificate key, once the certificates are uploaded.
    pub(crate) turn: Mutex<Option<Secret>>,
}

impl Joins<'_> {
    /// Joins these servers. If one fails, the others finish first.
    ///
    /// # Errors
    ///
    /// The error of the first one that failed.
    pub(crate) async fn run(&self, servers: Vec<(&Node, NodeBefore)>) -> Result<(), DriverError> {
        let joins = servers.into_iter().map(|(node, before)| async move {
            let worker = Machine::new(self.installer.cx, self.installer.plan, node);
            self.join(&worker, before).await?;
            let joined = format!("`{}` has joined", node.name);
            self.installer.report(75, &joined).await;
            Ok(())
        });
        first_failure(join_all_limited(PARALLEL_HOSTS, joins).await)
    }

    async fn join(&self, worker: &Machine<'_>, before: NodeBefore) -> Result<(), DriverError> {
        if let Some(path) = self.installer.plan.script() {
            return self.join_by_script(worker, before, path).await;
        }
        let is_control_plane = worker.plan.is_control_plane(worker.node);
        self.installer.prepare(worker).await?;
        if is_control_plane {
            // In parallel; only the join itself waits for its turn.
            self.installer.serve_endpoint(worker).await?;
        }
        let control_plane = self.control_plane.clone().await?;
        if let Some(version) = control_plane.version {
            self.installer.match_version(worker, version).await?;
        }
        if is_control_plane {
            let mut key = self.turn.lock().await;
            self.join_prepared(worker, before, (&control_plane, Some(&mut *key)))
                .await?;
            members::wait_until_healthy(self.installer, self.master, worker.node).await
        } else {
            self.join_prepared(worker, before, (&control_plane, None))
                .await
        }
    }

    async fn join_prepared(
        &self,
        worker: &Machine<'_>,
        before: NodeBefore,
        (control_plane, key): (&ControlPlane, Option<&mut Option<Secret>>),
    ) -> Result<(), DriverError> {
        let facts = match self.installer.earlier_attempt(worker, "join").await? {
            EarlierAttempt::JustFinished => return Ok(()),
            EarlierAttempt::AlreadyDone(facts) => {
                if before != NodeBefore::Missing && has_ca(worker, &control_plane.ca).await? {
                    return Ok(());
                }
                let name = &worker.node.name;
                let left = format!("`{name}` does not belong to this cluster: resetting it");
                self.installer.cx.warn(&left);
                self.remove(worker).await?;
                facts
            }
            EarlierAttempt::Incomplete(facts) => {
                self.remove(worker).await?;
                facts
            }
            EarlierAttempt::NotStarted(facts) => {
                if before == NodeBefore::Exists {
                    self.delete_node(worker).await?;
                }
                if before != NodeBefore::Unknown && key.is_some() {
                    self.remove_member(worker).await?;
                }
                facts
            }
        };
        let key = match key {
            None => None,
            Some(slot) => {
                if slot.is_none() {
                    let token = control_plane.tokens.last().cloned().unwrap_or_default();
                    let uploaded = self.installer.upload_certificates(self.master, &token);
                    *slot = Some(uploaded.await?);
                }
                slot.as_ref()
            }
        };
        self.run_kubeadm(worker, &facts, (control_plane, key)).await
    }

    async fn join_by_script(
        &self,
        worker: &Machine<'_>,
        before: NodeBefore,
        path: &str,
    ) -> Result<(), DriverError> {
        worker.reach().await?;
        self.installer.add_software(worker).await?;
        let control_plane = self.control_plane.clone().await?;
        let state = worker.state(worker.plan.join_step()).await?;
        let is_outdated = before == NodeBefore::Missing && worker.facts().await?.has_traces();
        if is_outdated && state != StepState::Running {
            worker.forget(worker.plan.join_step()).await?;
            self.remove(worker).await?;
        } else if before == NodeBefore::Exists
            && !matches!(state, StepState::Running | StepState::Done(0))
        {
            self.delete_node(worker).await?;
        }
        script::join(worker, path, &control_plane).await
    }

    /// Removes what an earlier attempt left, on the host and in the cluster.
    async fn remove(&self, worker: &Machine<'_>) -> Result<(), DriverError> {
        worker.reset().await?;
        if worker.plan.is_control_plane(worker.node) {
            self.remove_member(worker).await?;
        }
        self.delete_node(worker).await
    }

    async fn remove_member(&self, worker: &Machine<'_>) -> Result<(), DriverError> {
        let node = worker.node;
        members::remove(self.master, (&node.name, &node.address)).await
    }

    async fn delete_node(&self, worker: &Machine<'_>) -> Result<(), DriverError> {
        let name = &worker.node.name;
        let arguments = format!("delete node {name} --ignore-not-found");
        let deletion = self.master.kubectl("join", (&arguments, Secret::default()));
        deletion.await.map(|_| ())
    }

    async fn run_kubeadm(
        &self,
        worker: &Machine<'_>,
        facts: &Facts,
        (control_plane, key): (&ControlPlane, Option<&Secret>),
    ) -> Result<(), DriverError> {
        let plan = self.installer.plan;
        if key.is_some() {
            self.installer.serve_endpoint(worker).await?;
        }
        let message = format!("`kubeadm join` on `{}`", worker.node.name);
        self.installer.report(60, &message).await;
        let [path, known] = ["join.yaml", "discovery.conf"].map(|file| format!("{FOLDER}/{file}"));
        let discovery = config::discovery(plan, &control_plane.ca);
        worker.put(Upload::new(&known, discovery), "join").await?;
        let token = control_plane.tokens.last().map_or("", Secret::reveal);
        let text = config::join(worker.node, facts.kubeadm(), (token, &known), key);
        let line = format!("kubeadm join --config {path}");
        worker.step_with("join", (&path, &text), &line).await
    }
}

/// Whether the host's cluster has this CA certificate.
async fn has_ca(host: &Machine<'_>, ca: &str) -> Result<bool, DriverError> {
    let line = format!("cat {CA}");
    let known = host.try_run("join", &line, Secret::default()).await?;
    Ok(known.stdout.trim() == ca.trim())
}
