//! The bootstrap tokens with which workers join. A token is stored as a checkpoint before it becomes valid, so that a
//! later attempt, after a crash, can delete it.

use crate::config;
use crate::installer::{CA, Installer, KUBECTL, read_ca};
use crate::machine::Machine;
use crate::secrets::ca_hash;
use vnfm_plugin_sdk::prelude::*;

/// The checkpoint with the bootstrap tokens.
pub(crate) const TOKENS: &str = "bootstrap-tokens";

/// What workers need to join the control plane.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    pub(crate) ca: String,
    pub(crate) ca_hash: String,
    /// Bootstrap tokens; only the last one is valid.
    pub(crate) tokens: Vec<Secret>,
}

impl Installer<'_> {
    /// Creates a token for joining an existing control plane.
    pub(crate) async fn with_new_token(
        &self,
        master: &Machine<'_>,
    ) -> Result<ControlPlane, DriverError> {
        let mut tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        self.add_token(master, &mut tokens).await?;
        control_plane(master, tokens).await
    }

    /// Creates a bootstrap token. It is stored before it becomes valid, so that a later attempt deletes
    /// it even after a crash.
    pub(crate) async fn add_token(
        &self,
        master: &Machine<'_>,
        tokens: &mut Vec<Secret>,
    ) -> Result<(), DriverError> {
        let token = random_token(master)?;
        tokens.push(token.clone());
        self.cx.save_checkpoint(TOKENS, tokens).await?;
        let version = master.run("init", "kubeadm version -o short").await?.stdout;
        let text = config::init(self.plan, version.trim(), token.reveal());
        // sshd's standard input cannot be opened through /dev/stdin; a pipe can.
        let line = "cat | kubeadm token create --kubeconfig /etc/kubernetes/admin.conf --config /dev/stdin";
        master
            .run_with_input("init", line, Secret::new(text))
            .await
            .map(|_| ())
    }

    /// Deletes our bootstrap tokens, so that nothing else can join with them.
    pub(crate) async fn delete_tokens(&self, master: &Machine<'_>) -> Result<(), DriverError> {
        let tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        let names: Vec<_> = tokens.iter().filter_map(token_secret_name).collect();
        delete_secrets(master, &names).await
    }
}

/// The control plane, with these tokens.
pub(crate) async fn control_plane(
    master: &Machine<'_>,
    tokens: Vec<Secret>,
) -> Result<ControlPlane, DriverError> {
    let ca = read_ca(master).await?;
    let ca_hash = ca_hash(&ca).ok_or_else(|| {
        master.refusal(
            "init-failed",
            "init",
            format!("`{CA}` is not a certificate"),
        )
    })?;
    Ok(ControlPlane {
        ca,
        ca_hash,
        tokens,
    })
}

/// The name of the Kubernetes secret that holds a bootstrap token.
pub(crate) fn token_secret_name(token: &Secret) -> Option<String> {
    let id = token.reveal().split_once('.')?.0;
    Some(format!("bootstrap-token-{id}"))
}

/// Deletes secrets in `kube-system`. A missing secret is fine: tokens expire, and a control plane that was reset
/// never had the earlier ones.
pub(crate) async fn delete_secrets(
    master: &Machine<'_>,
    names: &[String],
) -> Result<(), DriverError> {
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
pub(crate) fn random_token(master: &Machine<'_>) -> Result<Secret, DriverError> {
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
