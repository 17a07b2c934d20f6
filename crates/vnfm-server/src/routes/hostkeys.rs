//! SSH host keys that hooks pinned at their first login: listed, and removed after a host was rebuilt.

use crate::access::Principal;
use crate::problem::HandlerResult;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use vnfm_core::Engine;
use vnfm_core::ports::{Change, PinnedKey, StoreError};

pub(super) async fn list(
    State(engine): State<Engine>,
    principal: Principal,
) -> HandlerResult<Json<Vec<Value>>> {
    Ok(Json(
        visible(&engine, &principal)
            .await?
            .iter()
            .map(describe)
            .collect(),
    ))
}

pub(super) async fn forget(
    State(engine): State<Engine>,
    principal: Principal,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    let visible = visible(&engine, &principal).await?;
    let Some(pinned) = visible.into_iter().find(|pinned| pinned.at.id() == id) else {
        return Err(StoreError::NotFound {
            what: "pinned host key",
            id,
        }
        .into());
    };
    engine
        .store()
        .write(None, vec![Change::RemoveHostKey(pinned.at)])
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The tenant's keys; none for callers with a limited scope. Operators also see keys that an older
/// version pinned without a tenant.
async fn visible(engine: &Engine, principal: &Principal) -> HandlerResult<Vec<PinnedKey>> {
    let store = engine.store();
    let mut keys = store.host_keys(&principal.tenant).await?;
    if principal.is_operator() {
        keys.extend(store.host_keys("").await?);
    }
    if !principal.scope.is_unlimited() {
        keys.clear();
    }
    Ok(keys)
}

fn describe(pinned: &PinnedKey) -> Value {
    let at = &pinned.at;
    let fingerprints: Vec<_> = pinned.key.lines().filter_map(fingerprint).collect();
    let mut entry = json!({"id": at.id(), "host": at.host, "fingerprints": fingerprints});
    if !at.vim_id.is_empty() && !at.vim_id.starts_with("instance/") {
        entry["vimId"] = json!(at.vim_id);
    }
    if !pinned.instance_id.is_empty() {
        entry["vnfInstanceId"] = json!(pinned.instance_id);
    }
    entry
}

/// A key's fingerprint, as `ssh-keygen -l` prints it.
fn fingerprint(key: &str) -> Option<String> {
    let mut words = key.split_whitespace();
    let (algorithm, blob) = (words.next()?, STANDARD.decode(words.next()?).ok()?);
    Some(format!(
        "SHA256:{} ({algorithm})",
        STANDARD_NO_PAD.encode(Sha256::digest(blob))
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_fingerprint_is_that_of_ssh_keygen() {
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
        let expected = "SHA256:T7SvZ2cslqpPj6nKzitCBHHlpVF3r3MvLwmFL0fk0IE (ssh-ed25519)";
        assert_eq!(super::fingerprint(key).as_deref(), Some(expected));
        assert_eq!(super::fingerprint("no key"), None);
    }
}
