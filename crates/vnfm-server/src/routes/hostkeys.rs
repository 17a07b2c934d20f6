//! Host keys that hooks trusted when they logged in for the first time: seen, and forgotten where a host was rebuilt.

use crate::access::Principal;
use crate::problem::Answer;
use crate::state::App;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use vnfm_core::ports::{Change, PinnedKey, StoreError};

pub(super) async fn list(State(app): State<App>, who: Principal) -> Answer<Json<Vec<Value>>> {
    Ok(Json(seen(&app, &who).await?.iter().map(shown).collect()))
}

pub(super) async fn forget(
    State(app): State<App>,
    who: Principal,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let seen = seen(&app, &who).await?;
    let Some(pinned) = seen.into_iter().find(|pinned| pinned.at.id() == id) else {
        return Err(StoreError::NotFound {
            what: "pinned host key",
            id,
        }
        .into());
    };
    app.engine
        .store()
        .write(None, vec![Change::RemoveHostKey(pinned.at)])
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Those of one's tenant, for those who are not narrowed; whoever looks after the server also sees those that an older version pinned for whomever.
async fn seen(app: &App, who: &Principal) -> Answer<Vec<PinnedKey>> {
    let store = app.engine.store();
    let mut keys = store.host_keys(&who.tenant).await?;
    if who.is_operator() {
        keys.extend(store.host_keys("").await?);
    }
    if !who.only.is_unlimited() {
        keys.clear();
    }
    Ok(keys)
}

fn shown(pinned: &PinnedKey) -> Value {
    let at = &pinned.at;
    let fingerprints: Vec<_> = pinned.key.lines().filter_map(fingerprint).collect();
    let mut shown = json!({"id": at.id(), "host": at.host, "fingerprints": fingerprints});
    if !at.vim_id.is_empty() && !at.vim_id.starts_with("instance/") {
        shown["vimId"] = json!(at.vim_id);
    }
    if !pinned.instance_id.is_empty() {
        shown["vnfInstanceId"] = json!(pinned.instance_id);
    }
    shown
}

/// A key as people compare it, and as `ssh-keygen -l` shows it.
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
