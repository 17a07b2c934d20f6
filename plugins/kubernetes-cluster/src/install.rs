//! The installation, from top to bottom.
//!
//! ```text
//! master   preflight ─ proxy ─ packages ─ runtime ─ init ─┬─ cni ─────────┐
//!                                                         ├─ credentials ─┤
//! worker1  preflight ─ proxy ─ packages ─ runtime ────────┼─ join ────────┼─ ready ─ VIM
//! worker2  preflight ─ proxy ─ packages ─ runtime ────────┴─ join ────────┘
//! ```
//!
//! Every phase is idempotent: it inspects the host and does what is missing. Long commands run on the host as steps that
//! survive the connection, so that the next attempt, after a crash of the VNFM or a retry, finds them running or done.
//! If one host fails, the others finish first: no work is lost.

use crate::config::{self, VIM_TYPE};
use crate::join_tokens::{ControlPlane, TOKENS, control_plane, random_token};
use crate::machine::{FOLDER, Facts, Machine, StepState};
use crate::plan::{Node, Plan};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join, join_all};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

pub(crate) const CA: &str = "/etc/kubernetes/pki/ca.crt";
pub(crate) const KUBECTL: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf";
const READY_TIMEOUT: Duration = Duration::from_mins(10);
/// How long one `kubectl wait` for the nodes lasts.
const READY_WAIT: Duration = Duration::from_secs(20);
/// Interval between two waits that fail at once.
const READY_RETRY_INTERVAL: Duration = Duration::from_millis(300);
const TOKEN_TIMEOUT: Duration = Duration::from_mins(1);
const TOKEN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How to reach the cluster.
pub(crate) struct Access {
    pub(crate) endpoint: String,
    pub(crate) ca: String,
    pub(crate) ca_hash: Option<String>,
    pub(crate) bearer_token: String,
    pub(crate) certificate_key: Option<String>,
}

impl Access {
    /// The cluster as a VIM to register.
    pub(crate) fn into_vim(self, name: &str) -> NewVim {
        let mut vim = NewVim::new(name, VIM_TYPE)
            .interface("endpoint", self.endpoint)
            .access("bearer_token", self.bearer_token);
        if !self.ca.is_empty() {
            vim = vim.interface("ssl_ca_cert", self.ca);
        }
        if let Some(hash) = self.ca_hash {
            vim = vim.extra("ssl_ca_cert_hash", hash);
        }
        if let Some(key) = self.certificate_key {
            // It decrypts the control plane's certificates, so it must not be in a visible member.
            vim = vim.access("certificate_key", key);
        }
        vim
    }
}

/// Installs the cluster of `plan`, or what is missing of it.
///
/// # Errors
///
/// The error of the first host that failed, with host, phase, exit code and last lines.
pub(crate) async fn install(cx: &HookContext, plan: &Plan) -> Result<Access, DriverError> {
    let installer = Installer {
        cx,
        plan,
        percent: AtomicU8::new(0),
    };
    let master = Machine::new(cx, plan, &plan.master);
    installer.report(1, "waiting for the hosts").await;

    let control_plane: BoxFuture<'_, _> = Box::pin(installer.control_plane(&master));
    let control_plane = control_plane.shared();
    let at_master = async {
        let control_plane = control_plane.clone().await?;
        let (cni, token) = join(installer.network(&master), installer.credentials(&master)).await;
        cni?;
        Ok::<_, DriverError>((control_plane, token?))
    };
    let workers: Vec<_> = plan
        .workers
        .iter()
        .map(|node| Machine::new(cx, plan, node))
        .collect();
    let at_workers = workers.iter().map(|worker| {
        let control_plane = control_plane.clone();
        let installer = &installer;
        async move {
            installer.prepare(worker).await?;
            installer.join(worker, &control_plane.await?).await
        }
    });
    let (at_master, at_workers) = join(at_master, join_all(at_workers)).await;
    let (control_plane, bearer_token) = at_master?;
    first_failure(at_workers)?;

    installer.ready(&master, plan.nodes()).await?;
    installer.delete_tokens(&master, &control_plane).await?;
    installer.report(100, "the cluster is ready").await;
    let ControlPlane { ca, ca_hash, .. } = control_plane;
    let endpoint = plan.url();
    Ok(Access {
        endpoint,
        ca,
        ca_hash: Some(ca_hash),
        bearer_token,
        certificate_key: None,
    })
}

/// The first error, in the order of the hosts.
pub(crate) fn first_failure(results: Vec<Result<(), DriverError>>) -> Result<(), DriverError> {
    let mut errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(errors.swap_remove(0))
}

/// Runs the phases of an installation.
pub(crate) struct Installer<'a> {
    pub(crate) cx: &'a HookContext,
    pub(crate) plan: &'a Plan,
    percent: AtomicU8,
}

impl<'a> Installer<'a> {
    /// An installer at 0 %.
    pub(crate) fn new(cx: &'a HookContext, plan: &'a Plan) -> Self {
        Self {
            cx,
            plan,
            percent: AtomicU8::new(0),
        }
    }

    /// Reports progress; the percentage never decreases, although hosts work in parallel.
    pub(crate) async fn report(&self, percent: u8, message: &str) {
        let percent = self
            .percent
            .fetch_max(percent, Ordering::Relaxed)
            .max(percent);
        self.cx.progress(percent, message).await;
    }

    /// Runs `kubeadm init`, or continues an earlier attempt.
    async fn control_plane(&self, master: &Machine<'_>) -> Result<ControlPlane, DriverError> {
        self.prepare(master).await?;
        if let Some(cni) = &self.plan.cni {
            master
                .put(Upload::artifact(format!("{FOLDER}/cni.yaml"), cni), "cni")
                .await?;
        }
        self.report(20, &format!("`kubeadm init` on `{}`", master.node.name))
            .await;
        let mut tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        match self.earlier_attempt(master, "init").await? {
            EarlierAttempt::NotStarted(facts) => tokens.push(self.init(master, &facts).await?),
            // It has just finished, so its token is still valid.
            EarlierAttempt::JustFinished if !tokens.is_empty() => {}
            EarlierAttempt::AlreadyDone | EarlierAttempt::JustFinished => {
                self.add_token(master, &mut tokens).await?;
            }
        }
        self.report(55, "the control plane responds").await;
        control_plane(master, tokens).await
    }

    async fn init(&self, master: &Machine<'_>, facts: &Facts) -> Result<Secret, DriverError> {
        let token = random_token(master)?;
        // The next attempt needs it for the joins, after a crash.
        self.cx.save_checkpoint(TOKENS, &[&token]).await?;
        let path = format!("{FOLDER}/init.yaml");
        let text = config::init(self.plan, facts.kubeadm(), token.reveal());
        master.put(Upload::new(&path, text), "init").await?;
        let line = format!("kubeadm init --config {path} --skip-token-print");
        master.step_with("init", &path, &line).await?;
        Ok(token)
    }

    /// Finds out how far an earlier attempt got with `init` or `join`. A half-finished one is reset.
    async fn earlier_attempt(
        &self,
        host: &Machine<'_>,
        step: &str,
    ) -> Result<EarlierAttempt, DriverError> {
        let mut state = host.state(step).await?;
        if state == StepState::Running {
            let name = &host.node.name;
            self.cx.info(&format!(
                "`{step}` is still running on `{name}`: waiting for it"
            ));
            match host.finish(step).await {
                Ok(()) => return Ok(EarlierAttempt::JustFinished),
                Err(error) if error.code.starts_with(step) => state = StepState::Lost,
                Err(error) => return Err(error),
            }
        }
        let facts = host.facts().await?;
        let complete = facts.has_joined() && (step != "init" || facts.is("admin"));
        if complete && matches!(state, StepState::Done(0) | StepState::Absent) {
            return Ok(EarlierAttempt::AlreadyDone);
        }
        if facts.has_traces() {
            let name = &host.node.name;
            self.cx
                .warn(&format!("`{step}` is incomplete on `{name}`: resetting it"));
            host.step("reset", "kubeadm reset -f").await?;
        }
        Ok(EarlierAttempt::NotStarted(facts))
    }

    /// Applies the network plugin's manifest.
    async fn network(&self, master: &Machine<'_>) -> Result<(), DriverError> {
        master
            .run("cni", &format!("{KUBECTL} apply -f {FOLDER}/cni.yaml"))
            .await
            .map(|_| ())
    }

    /// Joins one worker. One that belongs to another cluster, whose control plane is lost, is reset first.
    pub(crate) async fn join(
        &self,
        worker: &Machine<'_>,
        control_plane: &ControlPlane,
    ) -> Result<(), DriverError> {
        let name = &worker.node.name;
        let earlier_attempt = match self.earlier_attempt(worker, "join").await? {
            EarlierAttempt::AlreadyDone if !has_ca(worker, &control_plane.ca).await? => {
                self.cx.warn(&format!(
                    "`{name}` belongs to another cluster: resetting it"
                ));
                worker.step("reset", "kubeadm reset -f").await?;
                EarlierAttempt::NotStarted(worker.facts().await?)
            }
            earlier_attempt => earlier_attempt,
        };
        if let EarlierAttempt::NotStarted(facts) = earlier_attempt {
            self.report(60, &format!("`kubeadm join` on `{name}`"))
                .await;
            let (path, known) = (
                format!("{FOLDER}/join.yaml"),
                format!("{FOLDER}/discovery.conf"),
            );
            worker
                .put(
                    Upload::new(&known, config::discovery(self.plan, &control_plane.ca)),
                    "join",
                )
                .await?;
            let token = control_plane.tokens.last().map_or("", Secret::reveal);
            let text = config::join(worker.node, facts.kubeadm(), (token, &known));
            worker.put(Upload::new(&path, text), "join").await?;
            worker
                .step_with("join", &path, &format!("kubeadm join --config {path}"))
                .await?;
        }
        self.report(75, &format!("`{name}` has joined")).await;
        Ok(())
    }

    /// Creates the VIM's service account, and returns its token.
    pub(crate) async fn credentials(&self, master: &Machine<'_>) -> Result<String, DriverError> {
        let phase = "credentials";
        let account = Secret::new(config::account());
        master
            .run_with_input(phase, &format!("{KUBECTL} apply -f -"), account)
            .await?;
        let line = format!(
            "{KUBECTL} -n {} get secret {} -o jsonpath='{{.data.token}}'",
            config::NAMESPACE,
            config::TOKEN_SECRET,
        );
        let encoded = self
            .cx
            .wait_until(
                "the service account's token",
                TOKEN_POLL_INTERVAL,
                TOKEN_TIMEOUT,
                || async {
                    let token = master.run(phase, &line).await?.stdout;
                    Ok(Some(token.trim().to_owned())
                        .filter(|token| !token.is_empty() && token != "null"))
                },
            )
            .await?;
        let bytes = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        bytes.ok_or_else(|| {
            master.refusal("credentials-failed", phase, "the token is not base64 text")
        })
    }

    /// Waits until these nodes are Ready.
    pub(crate) async fn ready(
        &self,
        master: &Machine<'_>,
        nodes: impl Iterator<Item = &Node>,
    ) -> Result<(), DriverError> {
        self.report(85, "waiting for the nodes to be ready").await;
        let nodes: Vec<_> = nodes.map(|node| format!("node/{}", node.name)).collect();
        let line = format!(
            "{KUBECTL} wait --for=condition=Ready {} --timeout={}s",
            nodes.join(" "),
            READY_WAIT.as_secs(),
        );
        let mut left = READY_TIMEOUT;
        loop {
            let output = master.try_run("ready", &line, Secret::default()).await?;
            if output.ok() {
                return Ok(());
            }
            left = left.saturating_sub(READY_WAIT);
            if left.is_zero() {
                return Err(master.failure("ready", output.exit_code, &output.stderr));
            }
            let reason = output.stderr.trim();
            if reason.contains("timed out") {
                self.cx.pause(reason, Duration::ZERO).await?;
            } else {
                // It failed immediately: a node is not listed yet, or the API server restarts.
                self.cx.pause(reason, READY_RETRY_INTERVAL).await?;
                left = left
                    .saturating_add(READY_WAIT)
                    .saturating_sub(READY_RETRY_INTERVAL);
            }
        }
    }

    /// Waits for a login to all hosts; the vendor's script does the rest.
    pub(crate) async fn reach_all(&self, hosts: &[Machine<'_>]) -> Result<(), DriverError> {
        first_failure(join_all(hosts.iter().map(Machine::reach)).await)
    }
}

/// How far an earlier attempt got.
enum EarlierAttempt {
    /// Not started, or reset; with the facts about the host.
    NotStarted(Facts),
    /// It was complete before this attempt.
    AlreadyDone,
    /// It completed while we waited for it.
    JustFinished,
}

/// Reads the control plane's CA certificate.
pub(crate) async fn read_ca(master: &Machine<'_>) -> Result<String, DriverError> {
    Ok(master.run("init", &format!("cat {CA}")).await?.stdout)
}

/// Whether the host's cluster has this CA certificate.
async fn has_ca(host: &Machine<'_>, ca: &str) -> Result<bool, DriverError> {
    let known = host
        .try_run("join", &format!("cat {CA}"), Secret::default())
        .await?;
    Ok(known.stdout.trim() == ca.trim())
}
