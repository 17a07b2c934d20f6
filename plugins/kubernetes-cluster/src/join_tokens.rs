//! The bootstrap tokens with which workers join. A token is stored as a checkpoint before it becomes valid, so that a
//! later attempt, after a crash, can delete it.

use crate::config;
use crate::install::{CA, KUBECTL, Story, authority};
use crate::machine::Machine;
use crate::words::ca_hash;
use vnfm_plugin_sdk::prelude::*;

/// The checkpoint with the bootstrap tokens.
pub(crate) const TOKENS: &str = "bootstrap-tokens";

/// The control plane, as joins need it.
#[derive(Clone)]
pub(crate) struct Plane {
    pub(crate) ca: String,
    pub(crate) ca_hash: String,
    /// Bootstrap tokens; the last one is good.
    pub(crate) tokens: Vec<Secret>,
}

impl Story<'_> {
    /// Another token for joins, of a control plane that stays as it is.
    pub(crate) async fn reopened(&self, master: &Machine<'_>) -> Result<Plane, DriverError> {
        let mut tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        self.another_token(master, &mut tokens).await?;
        plane(master, tokens).await
    }

    /// Makes a token for joins, of a control plane that has been there for a while. It is remembered before it is
    /// good: whoever comes after a crash takes it away with the others.
    pub(crate) async fn another_token(
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

    /// Nobody else joins by our tokens.
    pub(crate) async fn forget_tokens(
        &self,
        master: &Machine<'_>,
        plane: &Plane,
    ) -> Result<(), DriverError> {
        let names: Vec<_> = plane.tokens.iter().filter_map(token_name).collect();
        forget(master, &names).await
    }
}

/// The control plane that has these tokens.
pub(crate) async fn plane(master: &Machine<'_>, tokens: Vec<Secret>) -> Result<Plane, DriverError> {
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
