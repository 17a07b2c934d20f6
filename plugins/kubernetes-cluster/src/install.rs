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
use crate::machine::{FOLDER, Facts, Machine, State, quote};
use crate::plan::{Node, Plan};
use crate::words::ca_hash;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join, join_all};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

const CA: &str = "/etc/kubernetes/pki/ca.crt";
const KUBECTL: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf";
/// How long nodes may take to get ready, and how long one look at them lasts.
const READY: (Duration, Duration) = (Duration::from_mins(10), Duration::from_secs(20));
/// How long the token of the service account may take.
const TOKEN: (Duration, Duration) = (Duration::from_mins(1), Duration::from_millis(50));
/// The checkpoint with the bootstrap tokens.
pub(crate) const TOKENS: &str = "bootstrap-tokens";

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

/// The control plane, as joins need it.
#[derive(Clone)]
pub(crate) struct Plane {
    pub(crate) ca: String,
    pub(crate) ca_hash: String,
    /// Bootstrap tokens; the last one is good.
    pub(crate) tokens: Vec<Secret>,
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
    cx: &'a HookContext,
    plan: &'a Plan,
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

    /// Preflight, proxy, packages, runtime: afterwards kubeadm can run.
    pub(crate) async fn prepare(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        host.reach().await?;
        let mut facts = host.facts().await?;
        self.tell(5, &format!("`{}` is reached", host.node.name))
            .await;
        if facts.has_joined() {
            return Ok(());
        }
        self.proxy(host, &facts).await?;
        if !facts.missing().is_empty() {
            self.packages(host, &facts).await?;
            facts = host.facts().await?;
            let missing = facts.missing();
            if !missing.is_empty() {
                let detail = format!(
                    "the packages are installed and still there is no {}",
                    missing.join(", ")
                );
                return Err(host.refusal("packages-missing", "packages", detail));
            }
        }
        self.runtime(host, &facts).await
    }

    /// Proxies for the runtime, the kubelet and apt.
    async fn proxy(&self, host: &Machine<'_>, facts: &Facts) -> Result<(), DriverError> {
        let Some((unit, apt)) = config::proxies(self.plan) else {
            return Ok(());
        };
        for service in ["containerd", "kubelet"] {
            let path = format!("/etc/systemd/system/{service}.service.d/90-vnfm-proxy.conf");
            host.put(Upload::new(path, unit.clone()), "proxy").await?;
        }
        let apt = Upload::new("/etc/apt/apt.conf.d/90-vnfm-proxy", apt);
        host.put(apt, "proxy").await?;
        let mut line = "systemctl daemon-reload".to_owned();
        if facts.is("runtime") {
            // It has read its environment already.
            line += " && systemctl restart containerd";
        }
        host.run("proxy", &line).await.map(|_| ())
    }

    /// Installs what is missing: out of the package, else out of the host's repository.
    async fn packages(&self, host: &Machine<'_>, facts: &Facts) -> Result<(), DriverError> {
        let missing = facts.missing();
        self.tell(
            8,
            &format!("installing {} on `{}`", missing.join(", "), host.node.name),
        )
        .await;
        if !self.plan.packages.is_empty() {
            let paths = self.upload(host, &self.plan.packages, "packages").await?;
            return host
                .step("packages", &format!("dpkg -i {}", paths.join(" ")))
                .await;
        }
        let names = missing.join(" ");
        let known = host
            .look(
                "packages",
                &format!("apt-cache policy {names}"),
                Secret::default(),
            )
            .await?;
        let candidates = known.stdout.matches("Candidate: ").count();
        if known.ok() && candidates >= missing.len() && !known.stdout.contains("Candidate: (none)")
        {
            let line = format!("env DEBIAN_FRONTEND=noninteractive apt-get install -y {names}");
            return host.step("packages", &line).await;
        }
        let detail = format!(
            "the host lacks {} and has no repository for it: put Debian archives into the package (parameter \
             `packages`), or use an image that has them",
            missing.join(", ")
        );
        Err(host.refusal("packages-missing", "packages", detail))
    }

    /// Uploads files of the package and returns where they are.
    async fn upload(
        &self,
        host: &Machine<'_>,
        files: &[String],
        phase: &str,
    ) -> Result<Vec<String>, DriverError> {
        let mut paths = Vec::new();
        for file in files {
            let name = file.rsplit('/').next().unwrap_or_default();
            let path = format!("{FOLDER}/{phase}-files/{name}");
            host.put(Upload::artifact(&path, file), phase).await?;
            paths.push(quote(&path));
        }
        Ok(paths)
    }

    /// Kernel, swap, container runtime, images.
    async fn runtime(&self, host: &Machine<'_>, facts: &Facts) -> Result<(), DriverError> {
        host.put(
            Upload::new("/etc/sysctl.d/90-vnfm.conf", config::SYSCTL).mode("0644"),
            "runtime",
        )
        .await?;
        // The bridge's setting exists only where its module does; the other one must be.
        let mut line = "modprobe overlay; modprobe br_netfilter; \
                        sysctl -q -e -w net.bridge.bridge-nf-call-iptables=1; \
                        sysctl -q -w net.ipv4.ip_forward=1"
            .to_owned();
        if facts.is("swap") {
            line += " && swapoff -a";
        }
        if !facts.is("runtime") {
            line += " && systemctl enable --now containerd";
        }
        host.run("runtime", &line).await?;
        for path in self.upload(host, &self.plan.images, "images").await? {
            host.step("images", &format!("ctr -n k8s.io images import {path}"))
                .await?;
        }
        Ok(())
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

    /// Another token for joins, of a control plane that stays as it is.
    pub(crate) async fn reopened(&self, master: &Machine<'_>) -> Result<Plane, DriverError> {
        let mut tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        self.another_token(master, &mut tokens).await?;
        plane(master, tokens).await
    }

    /// Makes a token for joins, of a control plane that has been there for a while. It is remembered before it is
    /// good: whoever comes after a crash takes it away with the others.
    async fn another_token(
        &self,
        master: &Machine<'_>,
        tokens: &mut Vec<Secret>,
    ) -> Result<(), DriverError> {
        let token = random_token(master)?;
        tokens.push(token.clone());
        self.cx.save_checkpoint(TOKENS, tokens).await?;
        let version = master.run("init", "kubeadm version -o short").await?.stdout;
        let text = config::init(self.plan, version.trim(), token.reveal());
        // What sshd gives a command to read cannot be opened by its path, a pipe can.
        let line = "cat | kubeadm token create --kubeconfig /etc/kubernetes/admin.conf --config /dev/stdin";
        master
            .feed("init", line, Secret::new(text))
            .await
            .map(|_| ())
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

    /// Nobody else joins by our tokens.
    pub(crate) async fn forget_tokens(
        &self,
        master: &Machine<'_>,
        plane: &Plane,
    ) -> Result<(), DriverError> {
        let names: Vec<_> = plane.tokens.iter().filter_map(token_name).collect();
        forget(master, &names).await
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

/// The control plane that has these tokens.
async fn plane(master: &Machine<'_>, tokens: Vec<Secret>) -> Result<Plane, DriverError> {
    let ca = authority(master).await?;
    let ca_hash = ca_hash(&ca).ok_or_else(|| {
        master.refusal("init-failed", "init", format!("`{CA}` is no certificate"))
    })?;
    Ok(Plane {
        ca,
        ca_hash,
        tokens,
    })
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

/// The name of the Kubernetes secret that makes a bootstrap token good.
pub(crate) fn token_name(token: &Secret) -> Option<String> {
    let id = token.reveal().split_once('.')?.0;
    Some(format!("bootstrap-token-{id}"))
}

/// Deletes secrets of `kube-system`. That one is gone is as good: tokens end by themselves, and a control plane that
/// was begun anew never had the first one's.
pub(crate) async fn forget(master: &Machine<'_>, names: &[String]) -> Result<(), DriverError> {
    if names.is_empty() {
        return Ok(());
    }
    let line = format!(
        "{KUBECTL} -n kube-system delete --ignore-not-found secret {}",
        names.join(" ")
    );
    master.run("credentials", &line).await.map(|_| ())
}

/// A bootstrap token, `[a-z0-9]{6}.[a-z0-9]{16}`, from the kernel's randomness.
fn random_token(master: &Machine<'_>) -> Result<Secret, DriverError> {
    use std::io::Read as _;
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0; 22];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|error| {
            master.refusal(
                "no-randomness",
                "init",
                format!("cannot read `/dev/urandom`: {error}"),
            )
        })?;
    let text: String = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect();
    Ok(Secret::new(format!("{}.{}", &text[..6], &text[6..])))
}
