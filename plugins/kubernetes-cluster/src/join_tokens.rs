//! The bootstrap tokens with which nodes join, and the certificate key with which control-plane nodes do. A token is stored
//! as a checkpoint before it becomes valid, so that a later attempt, after a crash, can delete it. The key is stored nowhere:
//! each attempt encrypts the certificates with a new one.

use crate::config;
use crate::installer::{CA, Installer, read_ca};
use crate::machine::{FOLDER, Machine, StepState};
use crate::record;
use crate::secrets::ca_hash;
use crate::versions::Version;
use vnfm_plugin_sdk::prelude::*;

/// The checkpoint with the bootstrap tokens.
pub(crate) const TOKENS: &str = "bootstrap-tokens";

/// The Kubernetes secret with the control plane's certificates, encrypted with the certificate key.
pub(crate) const CERTIFICATES: &str = "kubeadm-certs";

/// What nodes need to join the control plane.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    pub(crate) ca: String,
    pub(crate) ca_hash: String,
    /// Bootstrap tokens; only the last one is valid.
    pub(crate) tokens: Vec<Secret>,
    /// The version of a cluster that may have been upgraded since its hosts' images were made.
    pub(crate) version: Option<Version>,
}

impl Installer<'_> {
    /// Creates a token for joining an existing control plane.
    pub(crate) async fn with_new_token(
        &self,
        master: &Machine<'_>,
    ) -> Result<ControlPlane, DriverError> {
        let mut tokens: Vec<Secret> = self.cx.checkpoint(TOKENS).await?.unwrap_or_default();
        self.add_token(master, &mut tokens).await?;
        let joined = control_plane(master, tokens).await?;
        let version = record::version_on(master).await?;
        Ok(ControlPlane { version, ..joined })
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
        let text = config::init(
            self.plan,
            (master.node, version.trim()),
            (token.reveal(), None),
        );
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
        let mut names: Vec<_> = tokens.iter().filter_map(token_secret_name).collect();
        if self.plan.control_planes.len() > 1 {
            names.extend(certificate_secrets(master).await?);
        }
        delete_secrets(master, &names).await
    }

    /// Encrypts the control plane's certificates with a new key and stores them in the cluster, for nodes that join it.
    pub(crate) async fn upload_certificates(
        &self,
        master: &Machine<'_>,
        token: &Secret,
    ) -> Result<Secret, DriverError> {
        let step = "certificates";
        if master.state(step).await? == StepState::Running
            && let Err(error) = master.finish(step).await
        {
            // It belongs to an earlier attempt, whose key is unknown.
            self.cx.info(&error.detail);
        }
        // Its token would stay until it expires.
        delete_secrets(master, &certificate_secrets(master).await?).await?;
        let key = Secret::new(hex::encode(random_bytes::<32>(master)?));
        let version = master.run("join", "kubeadm version -o short").await?.stdout;
        let text = config::init(
            self.plan,
            (master.node, version.trim()),
            (token.reveal(), Some(&key)),
        );
        let path = format!("{FOLDER}/certificates.yaml");
        let line = format!(
            "kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config {path}"
        );
        master.step_with(step, (&path, &text), &line).await?;
        Ok(key)
    }
}

/// The secret with the certificates, and the token secret whose expiry deletes it.
async fn certificate_secrets(master: &Machine<'_>) -> Result<Vec<String>, DriverError> {
    let arguments = format!(
        "-n kube-system get secret {CERTIFICATES} --ignore-not-found -o jsonpath='{{.metadata.ownerReferences[0].name}}'"
    );
    let found = master.kubectl("credentials", (&arguments, Secret::default()));
    let owner = found.await?.stdout.trim().to_owned();
    let owner = Some(owner).filter(|name| !name.is_empty());
    Ok(owner.into_iter().chain([CERTIFICATES.to_owned()]).collect())
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
        version: None,
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
    let names = names.join(" ");
    let arguments = format!("-n kube-system delete --ignore-not-found secret {names}");
    let deletion = master.kubectl("credentials", (&arguments, Secret::default()));
    deletion.await.map(|_| ())
}

/// A bootstrap token, `[a-z0-9]{6}.[a-z0-9]{16}`, from the kernel's randomness.
pub(crate) fn random_token(master: &Machine<'_>) -> Result<Secret, DriverError> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bytes = random_bytes::<22>(master)?;
    let text: String = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect();
    Ok(Secret::new(format!("{}.{}", &text[..6], &text[6..])))
}

fn random_bytes<const N: usize>(master: &Machine<'_>) -> Result<[u8; N], DriverError> {
    use std::io::Read as _;
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|error| {
            master.refusal(
                "no-randomness",
                "init",
                format!("cannot read `/dev/urandom`: {error}"),
            )
        })?;
    Ok(bytes)
}
