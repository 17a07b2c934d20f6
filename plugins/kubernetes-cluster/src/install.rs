//! The installation, from top to bottom.
//!
//! ```text
//! master1  preflight ─ proxy ─ packages ─ runtime ─ init ─┬─ cni ─────────┐
//!                                                         ├─ credentials ─┤
//! master2  preflight ─ proxy ─ packages ─ runtime ────────┼─ join ┐       │
//! master3  preflight ─ proxy ─ packages ─ runtime ────────┼───────┴ join ─┤
//! worker1  preflight ─ proxy ─ packages ─ runtime ────────┼─ join ────────┼─ ready ─ VIM
//! worker2  preflight ─ proxy ─ packages ─ runtime ────────┴─ join ────────┘
//! ```
//! Between `ready` and `VIM`: `cni` and `CoreDNS` healthy, then the add-ons one after the other and the smoke test, if the
//! parameters have them.
//!
//! Every phase is idempotent: it inspects the host and does what is missing. Long commands run on the host as steps that
//! survive the connection, so that the next attempt, after a crash of the VNFM or a retry, finds them running or done.
//! If one host fails, the others finish first: no work is lost.

use crate::access::Access;
use crate::installer::{EarlierAttempt, Installer};
use crate::join::{Joins, NodeBefore};
use crate::join_tokens::{ControlPlane, TOKENS, control_plane, random_token};
use crate::machine::{FOLDER, Facts, Machine};
use crate::plan::Plan;
use crate::{addons, built_in, config, external_etcd, smoke_test};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join};
use futures::lock::Mutex;
use vnfm_plugin_sdk::prelude::*;

/// Installs the cluster of `plan`, or what is missing of it.
///
/// # Errors
///
/// The error of the first host that failed, with host, phase, exit code and last lines.
pub(crate) async fn install(cx: &HookContext, plan: &Plan) -> Result<Access, DriverError> {
    let installer = Installer::new(cx, plan);
    let master = Machine::new(cx, plan, plan.first_control_plane());
    installer.report(1, "waiting for the hosts").await;

    let control_plane: BoxFuture<'_, _> = Box::pin(installer.control_plane(&master));
    let control_plane = control_plane.shared();
    let at_master = async {
        let control_plane = control_plane.clone().await?;
        let (cni, token) = join(
            built_in::apply_network(&master),
            installer.credentials(&master),
        )
        .await;
        cni?;
        Ok::<_, DriverError>((control_plane, token?))
    };
    let joins = Joins {
        installer: &installer,
        master: &master,
        control_plane: control_plane.clone(),
        turn: Mutex::default(),
    };
    let others = plan.nodes().skip(1);
    let others = others.map(|node| (node, NodeBefore::Unknown)).collect();
    let (at_master, at_others) = join(at_master, joins.run(others)).await;
    let (control_plane, bearer_token) = at_master?;
    at_others?;

    installer.ready(&master, plan.nodes()).await?;
    installer.delete_tokens(&master).await?;
    addons::install(&installer, &master).await?;
    smoke_test::run(&installer, &master).await?;
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

impl Installer<'_> {
    /// Runs `kubeadm init`, or continues an earlier attempt.
    async fn control_plane(&self, master: &Machine<'_>) -> Result<ControlPlane, DriverError> {
        self.prepare(master).await?;
        self.report(20, &format!("`kubeadm init` on `{}`", master.node.name))
            .await;
        let mut tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        match self.earlier_attempt(master, "init").await? {
            EarlierAttempt::NotStarted(facts) => tokens.push(self.init(master, &facts).await?),
            EarlierAttempt::Incomplete(facts) => {
                master.reset().await?;
                tokens.push(self.init(master, &facts).await?);
            }
            // It has just finished, so its token is still valid.
            EarlierAttempt::JustFinished if !tokens.is_empty() => {}
            EarlierAttempt::AlreadyDone(_) | EarlierAttempt::JustFinished => {
                self.add_token(master, &mut tokens).await?;
            }
        }
        if self.plan.api.is_kube_vip() {
            self.serve_endpoint(master).await?;
        }
        self.report(55, "the control plane responds").await;
        control_plane(master, tokens).await
    }

    async fn init(&self, master: &Machine<'_>, facts: &Facts) -> Result<Secret, DriverError> {
        let token = random_token(master)?;
        // The next attempt needs it for the joins, after a crash.
        self.cx.save_checkpoint(TOKENS, &[&token]).await?;
        let path = format!("{FOLDER}/init.yaml");
        let text = config::init(
            self.plan,
            (master.node, facts.kubeadm()),
            (token.reveal(), None),
        );
        self.serve_endpoint_for_init(master, facts.kubeadm())
            .await?;
        external_etcd::put_login(master).await?;
        let line = format!("kubeadm init --config {path} --skip-token-print");
        master.step_with("init", (&path, &text), &line).await?;
        Ok(token)
    }
}
