//! The logins of the VIM: tokens of the service account `vnfm`, each in a Kubernetes secret of its own.
//!
//! They are numbered: `vnfm-token`, `vnfm-token-2`, and so on; the last one is used. A renewal adds one, which the VNFM tries
//! and registers once the hook has ended. What was registered before stays valid until then, and until the next operation
//! deletes it: the instance's metadata name the secret of the registered login.

use crate::access::Access;
use crate::api::Api;
use crate::cluster::names;
use crate::config;
use crate::installer::Installer;
use crate::join_tokens::delete_secrets;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::secrets::ca_hash;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;
use std::time::Duration;
use vnfm_plugin_sdk::Instance;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "credentials";
const TOKEN_TIMEOUT: Duration = Duration::from_mins(1);
const TOKEN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The member of the instance's metadata with the secret of the registered login.
const REGISTERED: &str = "kubernetesLogin";
/// The checkpoint with the number of the login that a renewal adds.
const ADDED: &str = "login";

/// The name of the secret with this number.
fn secret_name(number: u32) -> String {
    match number {
        1 => config::TOKEN_SECRET.to_owned(),
        _ => format!("{}-{number}", config::TOKEN_SECRET),
    }
}

/// The number of the secret with this name, if it is a login.
fn number(name: &str) -> Option<u32> {
    match name.strip_prefix(config::TOKEN_SECRET)? {
        "" => Some(1),
        rest => rest
            .strip_prefix('-')?
            .parse()
            .ok()
            .filter(|number| *number > 1),
    }
}

impl Installer<'_> {
    /// The token of the last login; creates service account and login if they do not exist.
    pub(crate) async fn credentials(&self, master: &Machine<'_>) -> Result<String, DriverError> {
        let last = logins(master).await?.last().copied();
        if last.is_none() {
            apply(
                master,
                config::account() + &config::token_secret(&secret_name(1)),
            )
            .await?;
        }
        self.token(master, last.unwrap_or(1)).await
    }

    /// Waits for the token of a login.
    async fn token(&self, master: &Machine<'_>, number: u32) -> Result<String, DriverError> {
        let arguments = format!(
            "-n {} get secret {} -o jsonpath='{{.data.token}}'",
            config::NAMESPACE,
            secret_name(number),
        );
        let look = || async {
            let token = master.kubectl(PHASE, (&arguments, Secret::default()));
            let token = token.await?.stdout;
            Ok(Some(token.trim().to_owned()).filter(|token| !token.is_empty() && token != "null"))
        };
        let condition = "the service account's token";
        let encoded = self
            .cx
            .wait_until(condition, TOKEN_POLL_INTERVAL, TOKEN_TIMEOUT, look)
            .await?;
        let bytes = STANDARD.decode(encoded).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| {
            master.refusal("credentials-failed", PHASE, "the token is not base64 text")
        })
    }
}

/// The numbers of the logins that exist, in order.
async fn logins(master: &Machine<'_>) -> Result<Vec<u32>, DriverError> {
    let arguments = format!("-n {} get secret -o name", config::NAMESPACE);
    let listed = master.kubectl(PHASE, (&arguments, Secret::default()));
    let names = listed.await?.stdout;
    let mut numbers: Vec<_> = names
        .lines()
        .filter_map(|name| number(name.rsplit('/').next()?))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

async fn apply(master: &Machine<'_>, manifests: String) -> Result<(), DriverError> {
    let applied = master.kubectl(PHASE, ("apply -f -", Secret::new(manifests)));
    applied.await.map(|_| ())
}

/// Adds a login, and returns it as that of the VIM. The nodes get the parameters' registry, whose login may have changed.
///
/// # Errors
///
/// `login-unsupported` for a cluster that the vendor's script installed; those of [`Installer::registry_of_nodes`]; `timed-out` if
/// the cluster issues no token.
pub(crate) async fn renew(
    cx: &HookContext,
    plan: &Plan,
    api: &Api<'_>,
) -> Result<Effects, DriverError> {
    let master = Machine::new(cx, plan, plan.responding_control_plane());
    if plan.script().is_some() {
        let detail = "the vendor's script has made the VIM's login, and only the vendor knows how to renew it";
        return Err(master.refusal("login-unsupported", PHASE, detail));
    }
    let installer = Installer::new(cx, plan);
    let without_registry = installer.registry_of_nodes().await?;
    let added = if let Some(added) = cx.checkpoint(ADDED).await? {
        added
    } else {
        let added = logins(&master).await?.last().copied().unwrap_or(0) + 1;
        cx.save_checkpoint(ADDED, &added).await?;
        added
    };
    let name = secret_name(added);
    apply(&master, config::account() + &config::token_secret(&name)).await?;
    let access = Access {
        endpoint: plan.url(),
        ca: api.ca.clone(),
        ca_hash: ca_hash(&api.ca),
        bearer_token: installer.token(&master, added).await?,
        certificate_key: None,
    };
    let mut message = format!(
        "VIM `{}` has a new login; the next action on the cluster, such as `check`, deletes the old one",
        plan.vim_name
    );
    if !without_registry.is_empty() {
        let silent = names(without_registry);
        // Writing to a `String` cannot fail.
        let _ = write!(
            message,
            "; not told of the registry, because they do not respond: {silent}"
        );
    }
    let effects = Effects::none().register_vim(access.into_vim(plan));
    Ok(effects.metadata(REGISTERED, name).message(message))
}

/// Deletes the logins that are older than the registered one.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn delete_old(
    cx: &HookContext,
    plan: &Plan,
    instance: &Instance,
) -> Result<(), DriverError> {
    let registered = instance
        .metadata
        .get(REGISTERED)
        .and_then(|name| name.as_str());
    let Some(registered) = registered.and_then(number) else {
        return Ok(());
    };
    let master = Machine::new(cx, plan, plan.responding_control_plane());
    let exist = logins(&master).await?;
    if !exist.contains(&registered) {
        cx.warn(&format!(
            "the login `{}`, which is registered, does not exist: no other is deleted",
            secret_name(registered)
        ));
        return Ok(());
    }
    let old: Vec<_> = exist
        .into_iter()
        .filter(|number| *number < registered)
        .map(secret_name)
        .collect();
    if !old.is_empty() {
        cx.info(&format!("deleting old logins: {}", old.join(", ")));
    }
    delete_secrets(&master, &old).await
}

#[cfg(test)]
mod tests {
    use super::{number, secret_name};

    #[test]
    fn logins_are_numbered() {
        for known in [1, 2, 17] {
            assert_eq!(number(&secret_name(known)), Some(known));
        }
        for other in [
            "vnfm-token-x",
            "vnfm-token-1",
            "vnfm-token-",
            "vnfm-tokens",
            "bootstrap-token-abcdef",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
