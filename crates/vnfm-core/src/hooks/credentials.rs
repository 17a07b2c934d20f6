//! Logins to the VIM for programs inside the VNF, which hooks request by `vim.credential`.
//!
//! ```text
//! deployment ── the secret of an earlier operation ──┐
//! checkpoint ── that of an interrupted attempt ──────┼──► the driver creates the login, or adopts its own
//! new secret ── checkpoint, before the login exists ─┘
//! ```
//! The engine chooses the secret and journals it first: an attempt that died after creating the login finds it again. The
//! hook never sees the login of the VIM itself.

use super::host::Host;
use crate::ports::{
    Change, Code, CredentialRequest, Effects, ErrorKind, PortError, SecretJson, Vim as _, VimCall,
    wrong_call,
};
use crate::redact::Redactor;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;
use vnfm_types::Secret;

/// The secrets of logins, by the name of the login.
pub(crate) type CredentialSecrets = BTreeMap<String, Secret>;

/// The output of a hook's step.
#[derive(Default, Serialize)]
pub(crate) struct HookOutput {
    #[serde(flatten)]
    pub(crate) effects: Effects,
    #[serde(flatten)]
    pub(crate) credentials: HookCredentials,
}

/// The part of a hook's output that only the engine knows; absent in older journals.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HookCredentials {
    #[serde(skip_serializing_if = "CredentialSecrets::is_empty")]
    pub(crate) credentials: CredentialSecrets,
}

/// Logins of one hook.
const MAX_CREDENTIALS: usize = 16;
/// Key of the checkpoint that records that a hook has requested a login.
pub(crate) const REQUESTED: &str = "requested";

/// The logins that a hook has requested, with their secrets.
#[derive(Clone, Default)]
pub(crate) struct Requested(Arc<Mutex<CredentialSecrets>>);

impl Requested {
    /// Everything requested so far.
    pub(crate) fn secrets(&self) -> CredentialSecrets {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn add(&self, name: &str, secret: &Secret) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.to_owned(), secret.clone());
    }
}

/// Where the checkpoints about the logins of a hook are, apart from its own.
pub(crate) fn credentials_step(hook: &str) -> String {
    format!("{hook}/credentials")
}

impl Host {
    /// Serves `vim.credential`.
    pub(super) async fn credential(&self, wanted: &CredentialRequest) -> Result<Value, PortError> {
        check(wanted)?;
        if self.terminates {
            let what = "a termination revokes all logins of the instance";
            return Err(wrong_call("vim.credential", what));
        }
        let refused = |what: String| {
            let action = format!("create login `{}` for programs in the VNF", wanted.name);
            PortError::new(&NO_CREDENTIALS, action, what)
        };
        if !self.vim.policy().is_open() {
            let what =
                "the VIM has a policy, or is another tenant's: who has a login is not bound by it";
            return Err(refused(what.to_owned()));
        }
        let Some(driver) = self.infra.credentials() else {
            let kind = self.infra.vim_types()[0];
            return Err(refused(format!("the driver of `{kind}` creates none")));
        };
        driver.check_revocable(&self.vim_call()).await?;
        let secret = self.secret_of(&wanted.name).await?;
        let mut hidden = Redactor::default();
        hidden.add(&json!(secret.reveal()));
        self.live.add_secrets(&hidden);
        let made = driver
            .create_credential(&self.vim_call(), wanted, &secret)
            .await?;
        serde_json::to_value(&made).map_err(|error| wrong_call("vim.credential", error.to_string()))
    }

    /// Serves `vim.outputs`.
    pub(super) async fn outputs(&self) -> Result<Value, PortError> {
        let outputs = self.infra.outputs(&self.vim_call()).await?;
        Ok(Value::Object(outputs))
    }

    fn vim_call(&self) -> VimCall<'_> {
        VimCall {
            vim: &self.vim,
            ownership: &self.ownership,
            clock: &*self.context.ports.clock,
            watcher: &*self.live,
            deadline: self.deadline,
        }
    }

    /// The secret for login `name`; a new one is stored before it is used.
    async fn secret_of(&self, name: &str) -> Result<Secret, PortError> {
        let (store, step) = (self.context.store(), credentials_step(&self.step));
        let key = format!("secret/{name}");
        let op_id = &self.fence.op_id;
        let stored = store.checkpoint(op_id, &step, &key).await?;
        let stored = stored.as_deref().and_then(Value::as_str).map(Secret::new);
        let known = stored.or_else(|| self.earlier_credentials.get(name).cloned());
        if let Some(secret) = known {
            self.requested.add(name, &secret);
            return Ok(secret);
        }
        if self.requested.secrets().len() >= MAX_CREDENTIALS {
            let what = format!("at most {MAX_CREDENTIALS} logins are allowed");
            return Err(wrong_call("vim.credential", what));
        }
        let secret = [Uuid::new_v4(), Uuid::new_v4()].map(|part| part.simple().to_string());
        let secret = Secret::new(secret.concat());
        let checkpoint = |key: &str, value: Value| Change::Checkpoint {
            op_id: op_id.clone(),
            step: step.clone(),
            key: key.to_owned(),
            value: SecretJson::from(value),
        };
        let changes = vec![
            checkpoint(REQUESTED, json!(true)),
            checkpoint(&key, json!(secret.reveal())),
        ];
        store.write(Some(&self.fence), changes).await?;
        self.requested.add(name, &secret);
        Ok(secret)
    }
}

fn check(wanted: &CredentialRequest) -> Result<(), PortError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &wanted.name;
    let is_label = (1..=63).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !is_label {
        let what = "`name` is not a DNS label (RFC 1123)";
        return Err(wrong_call("vim.credential", what));
    }
    match &wanted.expires_at {
        Some(time) if time.parse::<Timestamp>().is_err() => {
            let what = format!("`expiresAt` is `{time}`, which is no time (RFC 3339)");
            Err(wrong_call("vim.credential", what))
        }
        _ => Ok(()),
    }
}

pub(super) const NO_CREDENTIALS: Code = Code {
    name: "hook.no-credentials",
    kind: ErrorKind::Refused,
    means: "a hook requested a login to the VIM, and the VIM's driver cannot create one, or the VIM has a policy",
    next: "use the plugin on an OpenStack VIM without a policy, or leave out what needs a login to the cloud",
};

#[cfg(test)]
mod tests {
    use super::check;
    use crate::ports::CredentialRequest;

    #[test]
    fn a_name_and_a_time_are_checked_before_anything_is_created() {
        assert!(check(&CredentialRequest::new("cloud-provider")).is_ok());
        for name in ["", "-a", "A", "a/b", &"a".repeat(64)] {
            let error = check(&CredentialRequest::new(name)).unwrap_err();
            assert!(error.to_string().contains("DNS label"), "{error}");
        }
        let mut wanted = CredentialRequest::new("a");
        wanted.expires_at = Some("2027-01-01T00:00:00Z".into());
        assert!(check(&wanted).is_ok());
        wanted.expires_at = Some("tomorrow".into());
        let error = check(&wanted).unwrap_err();
        assert!(error.to_string().contains("`tomorrow`"), "{error}");
    }
}
