//! The installation, top to bottom.
//!
//! ```text
//! master   preflight ─ proxy ─ packages ─ runtime ─ init ─┬─ cni ─────────┐
//!                                                         ├─ credentials ─┤
//! worker1  preflight ─ proxy ─ packages ─ runtime ────────┼─ join ────────┼─ ready ─ VIM
//! worker2  preflight ─ proxy ─ packages ─ runtime ────────┴─ join ────────┘
//! ```
//!
//! Every phase says "make it so": it looks at the host first and does what is missing. What takes long runs
//! on the host as a step of its own, so whoever comes again, after a crash of the VNFM or with a retry, finds it
//! running or done. A failure on one host lets the others come to their end first: nothing that worked is lost.
//! Proxies come before packages, which may need them.

use crate::VIM_TYPE;
use crate::config;
use crate::join_tokens::{Plane, TOKENS, plane, random_token};
use crate::machine::{FOLDER, Facts, Machine, State};
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
/// How long nodes may take to get ready, and how long one look at them lasts.
const READY: (Duration, Duration) = (Duration::from_mins(10), Duration::from_secs(20));
/// How long the token of the service account may take.
const TOKEN: (Duration, Duration) = (Duration::from_mins(1), Duration::from_millis(50));
/// How the cluster is reached.
pub(crate) struct Access {
    pub(crate) endpoint: String,
    pub(crate) ca: String,
    pub(crate) ca_hash: Option<String>,
    pub(crate) bearer_token: String,
    pub(crate) certificate_key: Option<String>,
}

impl Access {
    /// The VIM that the cluster is.
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
            // It opens the control plane's certificates: nothing for a field that is shown.
            vim = vim.access("certificate_key", key);
        }
        vim
    }
}

/// Installs the cluster of `plan`, or what is missing of it.
///
/// # Errors
///
/// What kept the first host that failed; it names host, phase, exit code and last lines.
pub(crate) async fn install(cx: &HookContext, plan: &Plan) -> Result<Access, DriverError> {
    let story = Story {
        cx,
        plan,
        percent: AtomicU8::new(0),
    };
    let master = Machine::new(cx, plan, &plan.master);
    story.tell(1, "waiting for the hosts").await;

    let plane: BoxFuture<'_, _> = Box::pin(story.control_plane(&master));
    let plane = plane.shared();
    let at_master = async {
        let plane = plane.clone().await?;
        let (cni, token) = join(story.network(&master), story.credentials(&master)).await;
        cni?;
        Ok::<_, DriverError>((plane, token?))
    };
    let workers: Vec<_> = plan
        .workers
        .iter()
        .map(|node| Machine::new(cx, plan, node))
        .collect();
    let at_workers = workers.iter().map(|worker| {
        let plane = plane.clone();
        let story = &story;
        async move {
            story.prepare(worker).await?;
            story.join(worker, &plane.await?).await
        }
    });
    let (at_master, at_workers) = join(at_master, join_all(at_workers)).await;
    let (plane, bearer_token) = at_master?;
    first_failure(at_workers)?;

    story.ready(&master, plan.nodes()).await?;
    story.forget_tokens(&master, &plane).await?;
    story.tell(100, "the cluster is ready").await;
    let Plane { ca, ca_hash, .. } = plane;
    let endpoint = plan.url();
    Ok(Access {
        endpoint,
        ca,
        ca_hash: Some(ca_hash),
        bearer_token,
        certificate_key: None,
    })
}

/// The first of the errors, in the order of the hosts.
pub(crate) fn first_failure(results: Vec<Result<(), DriverError>>) -> Result<(), DriverError> {
    let mut errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(errors.swap_remove(0))
}

/// The phases, with what all of them share.
pub(crate) struct Story<'a> {
    pub(crate) cx: &'a HookContext,
    pub(crate) plan: &'a Plan,
    percent: AtomicU8,
}

impl<'a> Story<'a> {
    /// For those who play only some of the phases.
    pub(crate) fn new(cx: &'a HookContext, plan: &'a Plan) -> Self {
        Self {
            cx,
            plan,
            percent: AtomicU8::new(0),
        }
    }

    /// Tells how far it is; hosts work side by side, and the figure never goes back.
    pub(crate) async fn tell(&self, percent: u8, message: &str) {
        let percent = self
            .percent
            .fetch_max(percent, Ordering::Relaxed)
            .max(percent);
        self.cx.progress(percent, message).await;
    }

    /// `kubeadm init`, or what an earlier attempt began of it.
    async fn control_plane(&self, master: &Machine<'_>) -> Result<Plane, DriverError> {
        self.prepare(master).await?;
        if let Some(cni) = &self.plan.cni {
            master
                .put(Upload::artifact(format!("{FOLDER}/cni.yaml"), cni), "cni")
                .await?;
        }
        self.tell(20, &format!("`kubeadm init` on `{}`", master.node.name))
            .await;
        let mut tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        match self.begun(master, "init").await? {
            Begun::Not(facts) => tokens.push(self.init(master, &facts).await?),
            // It ran just now, so the token that it was given is good.
            Begun::Finished if !tokens.is_empty() => {}
            Begun::Before | Begun::Finished => self.another_token(master, &mut tokens).await?,
        }
        self.tell(55, "the control plane answers").await;
        plane(master, tokens).await
    }

    async fn init(&self, master: &Machine<'_>, facts: &Facts) -> Result<Secret, DriverError> {
        let token = random_token(master)?;
        // Whoever comes after a crash needs it for the joins.
        self.cx.save_checkpoint(TOKENS, &[&token]).await?;
        let path = format!("{FOLDER}/init.yaml");
        let text = config::init(self.plan, facts.kubeadm(), token.reveal());
        master.put(Upload::new(&path, text), "init").await?;
        let line = format!("kubeadm init --config {path} --skip-token-print");
        master.step_with("init", &path, &line).await?;
        Ok(token)
    }

    /// What became of an `init` or `join` that an earlier attempt began. What is half done is reset, so that
    /// it can be begun anew.
    async fn begun(&self, host: &Machine<'_>, step: &str) -> Result<Begun, DriverError> {
        let mut state = host.state(step).await?;
        if state == State::Running {
            let name = &host.node.name;
            self.cx
                .info(&format!("`{step}` still runs on `{name}`: waiting for it"));
            match host.finish(step).await {
                Ok(()) => return Ok(Begun::Finished),
                Err(error) if error.code.starts_with(step) => state = State::Lost,
                Err(error) => return Err(error),
            }
        }
        let facts = host.facts().await?;
        let complete = facts.has_joined() && (step != "init" || facts.is("admin"));
        if complete && matches!(state, State::Done(0) | State::Absent) {
            return Ok(Begun::Before);
        }
        if facts.has_traces() {
            let name = &host.node.name;
            self.cx.warn(&format!(
                "`{name}` is in the middle of `{step}`: resetting it"
            ));
            host.step("reset", "kubeadm reset -f").await?;
        }
        Ok(Begun::Not(facts))
    }

    /// The network plugin, out of the package.
    async fn network(&self, master: &Machine<'_>) -> Result<(), DriverError> {
        master
            .run("cni", &format!("{KUBECTL} apply -f {FOLDER}/cni.yaml"))
            .await
            .map(|_| ())
    }

    /// One worker joins. One that is part of another cluster, whose control plane is gone, leaves that first.
    pub(crate) async fn join(
        &self,
        worker: &Machine<'_>,
        plane: &Plane,
    ) -> Result<(), DriverError> {
        let name = &worker.node.name;
        let begun = match self.begun(worker, "join").await? {
            Begun::Before if !has_authority(worker, &plane.ca).await? => {
                self.cx.warn(&format!(
                    "`{name}` is part of another cluster: resetting it"
                ));
                worker.step("reset", "kubeadm reset -f").await?;
                Begun::Not(worker.facts().await?)
            }
            begun => begun,
        };
        if let Begun::Not(facts) = begun {
            self.tell(60, &format!("`kubeadm join` on `{name}`")).await;
            let (path, known) = (
                format!("{FOLDER}/join.yaml"),
                format!("{FOLDER}/discovery.conf"),
            );
            worker
                .put(
                    Upload::new(&known, config::discovery(self.plan, &plane.ca)),
                    "join",
                )
                .await?;
            let token = plane.tokens.last().map_or("", Secret::reveal);
            let text = config::join(worker.node, facts.kubeadm(), (token, &known));
            worker.put(Upload::new(&path, text), "join").await?;
            worker
                .step_with("join", &path, &format!("kubeadm join --config {path}"))
                .await?;
        }
        self.tell(75, &format!("`{name}` has joined")).await;
        Ok(())
    }

    /// The service account and its token.
    pub(crate) async fn credentials(&self, master: &Machine<'_>) -> Result<String, DriverError> {
        let phase = "credentials";
        let account = Secret::new(config::account());
        master
            .feed(phase, &format!("{KUBECTL} apply -f -"), account)
            .await?;
        let line = format!(
            "{KUBECTL} -n {} get secret {} -o jsonpath='{{.data.token}}'",
            config::NAMESPACE,
            config::TOKEN_SECRET,
        );
        let (at_most, every) = TOKEN;
        let encoded = self
            .cx
            .wait_until("the service account's token", every, at_most, || async {
                let said = master.run(phase, &line).await?.stdout;
                Ok(Some(said.trim().to_owned())
                    .filter(|token| !token.is_empty() && token != "null"))
            })
            .await?;
        let bytes = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        bytes.ok_or_else(|| {
            master.refusal("credentials-failed", phase, "the token is no base64 text")
        })
    }

    /// These nodes are Ready.
    pub(crate) async fn ready(
        &self,
        master: &Machine<'_>,
        nodes: impl Iterator<Item = &Node>,
    ) -> Result<(), DriverError> {
        self.tell(85, "waiting for the nodes to be ready").await;
        let nodes: Vec<_> = nodes.map(|node| format!("node/{}", node.name)).collect();
        let (at_most, look) = READY;
        let line = format!(
            "{KUBECTL} wait --for=condition=Ready {} --timeout={}s",
            nodes.join(" "),
            look.as_secs(),
        );
        let mut left = at_most;
        loop {
            let output = master.look("ready", &line, Secret::default()).await?;
            if output.ok() {
                return Ok(());
            }
            left = left.saturating_sub(look);
            if left.is_zero() {
                return Err(master.failure("ready", output.exit_code, &output.stderr));
            }
            self.cx.waiting(output.stderr.trim()).await;
            self.cx.check_cancelled().await?;
            if !output.stderr.contains("timed out") {
                // It failed at once: a node that is not listed yet, or an API server that restarts.
                self.cx.sleep(Duration::from_millis(300)).await?;
                left = left
                    .saturating_add(look)
                    .saturating_sub(Duration::from_millis(300));
            }
        }
    }

    /// Logs in everywhere: for the vendor's script, which does the rest.
    pub(crate) async fn reach_all(&self, hosts: &[Machine<'_>]) -> Result<(), DriverError> {
        first_failure(join_all(hosts.iter().map(Machine::reach)).await)
    }
}

/// What an earlier attempt left.
enum Begun {
    /// Nothing, or nothing any more; and what the host is like.
    Not(Facts),
    /// All of it, before this attempt.
    Before,
    /// All of it: it ended while we waited.
    Finished,
}

/// The certificate of the control plane's authority.
pub(crate) async fn authority(master: &Machine<'_>) -> Result<String, DriverError> {
    Ok(master.run("init", &format!("cat {CA}")).await?.stdout)
}

/// Whether the host's cluster has this certificate authority.
async fn has_authority(host: &Machine<'_>, ca: &str) -> Result<bool, DriverError> {
    let known = host
        .look("join", &format!("cat {CA}"), Secret::default())
        .await?;
    Ok(known.stdout.trim() == ca.trim())
}
