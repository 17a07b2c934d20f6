//! Keys outside the key file. The database has their ids; the keys themselves are fetched from the key provider (the
//! port [`SecretSealer`], Barbican) when the database is opened.
//!
//! ```text
//! a new key:  stored at the provider ─ recorded in `sealing_keys` as the one that seals ─ used
//! an old one: no secret is sealed with it any more ─ its record is deleted
//! ```
//! So no text is ever sealed with a key that the database does not know. An old key is not deleted at the provider: a
//! backup, or a database restored from one, may need it. [`unused_keys`] lists those that this database does not need.

use crate::database::Database;
use crate::executor::{all, execute, transaction};
use crate::fault::Done;
use crate::opening;
use crate::secret_keys::{Key, ProviderLocation, SecretKeys};
use crate::statement::Query;
use rusqlite::Connection;
use std::sync::Arc;
use vnfm_core::ports::{ErrorKind, KeyLocation, SecretSealer, StoreError};
use vnfm_types::Secret;

/// `keys` together with those that the database records, the sealing key first. A new database gets its first
/// key from the key provider.
pub(crate) async fn complete(db: &mut Connection, keys: SecretKeys) -> Done<SecretKeys> {
    let recorded = recorded(db)?;
    if recorded.is_empty() && keys.sealing_location().is_none() && !opening::is_used(db)? {
        let sealer = sealer_of(&keys)?;
        let installation = opening::installation(db)?;
        let key = create_key(&sealer, &installation).await?;
        record(db, &key)?;
        return Ok(keys.with_first(key));
    }
    let mut complete = keys;
    for (location, seals) in recorded {
        let key = fetched(&complete, location).await?;
        complete = if seals {
            complete.with_first(key)
        } else {
            complete.with_last(key)
        };
    }
    Ok(complete)
}

/// Fetches a key that the database records from the provider.
async fn fetched(
    keys: &SecretKeys,
    (fingerprint, location): (String, ProviderLocation),
) -> Done<Key> {
    let id = &location.secret_uuid;
    let sealer = sealer_of(keys)?;
    let text = sealer
        .key(id)
        .await
        .map_err(|error| StoreError::keys(&error))?;
    let key = Key::parse(text.reveal()).filter(|key| key.fingerprint() == fingerprint);
    let key = key.ok_or_else(|| {
        let detail = format!(
            "the stored key `{id}` is not the key `{fingerprint}` that sealed secrets of this database; hint: store \
             that key again, and put its new id into the table `sealing_keys`"
        );
        StoreError::Keys { kind: ErrorKind::Refused, detail }
    })?;
    Ok(key.stored_at(location))
}

/// The key provider; an error if none is configured.
pub(crate) fn sealer_of(keys: &SecretKeys) -> Result<Arc<dyn SecretSealer>, StoreError> {
    keys.sealer().cloned().ok_or_else(|| {
        let detail = "a key is stored in Barbican, but the configuration has none; hint: set `secrets.barbican` in \
                      the configuration and restart the server";
        StoreError::Keys { kind: ErrorKind::Refused, detail: detail.to_owned() }
    })
}

/// Creates a key and stores it at the provider.
pub(crate) async fn create_key(
    sealer: &Arc<dyn SecretSealer>,
    installation: &str,
) -> Result<Key, StoreError> {
    let key = Key::generate();
    let secret = Secret::new(key.reveal());
    let id = sealer.store_key(&key_name(installation), &secret).await;
    let secret_uuid = id.map_err(|error| StoreError::keys(&error))?;
    Ok(key.stored_at(ProviderLocation {
        key_type: sealer.key_type().to_owned(),
        secret_uuid,
    }))
}

/// The name at the provider of all keys of an installation.
fn key_name(installation: &str) -> String {
    format!("vnfm-{installation}")
}

/// Fingerprint and location of each key that the database records, and whether it seals; the sealing key comes last.
fn recorded(db: &Connection) -> Done<Vec<((String, ProviderLocation), bool)>> {
    const ALL: &str = "
        SELECT fingerprint, key_type, secret_uuid, seals FROM sealing_keys ORDER BY seals, fingerprint";
    let rows: Vec<(String, String, String, bool)> = all(db, &Query::new(ALL))?;
    let row = |(fingerprint, key_type, secret_uuid, seals)| {
        let location = ProviderLocation {
            key_type,
            secret_uuid,
        };
        ((fingerprint, location), seals)
    };
    Ok(rows.into_iter().map(row).collect())
}

/// Records that a key seals from now on.
pub(crate) fn record(db: &Connection, key: &Key) -> Done<()> {
    const NOTE: &str = "
        INSERT INTO sealing_keys (fingerprint, key_type, secret_uuid, seals) VALUES ($1, $2, $3, 1)";
    transaction(db, |db| {
        // None of the others seals any more.
        execute(db, &Query::new("UPDATE sealing_keys SET seals = 0"))?;
        if let Some(location) = key.provider_location() {
            let note = Query::new(NOTE)
                .bind(key.fingerprint())
                .bind(&location.key_type)
                .bind(&location.secret_uuid);
            execute(db, &note)?;
        }
        Ok(())
    })
}

/// Removes the records of all keys but the one that seals.
pub(crate) fn remove_others(db: &Connection, keys: &SecretKeys) -> Done<()> {
    let others = Query::new("DELETE FROM sealing_keys WHERE fingerprint <> $1");
    execute(db, &others.bind(keys.fingerprint())).map(drop)
}

/// Where the sealing key is stored.
pub(crate) fn location(database: &Database) -> KeyLocation {
    database
        .keys()
        .sealing_location()
        .unwrap_or(KeyLocation::File)
}

/// The ids of keys at the provider that have this installation's name and that this database does not
/// need; empty without a provider.
pub(crate) async fn unused_keys(database: &Database) -> Result<Vec<String>, StoreError> {
    let Some(sealer) = database.keys().sealer().cloned() else {
        return Ok(Vec::new());
    };
    let stored = sealer.key_ids(&key_name(&database.installation_id)).await;
    let mut stored = stored.map_err(|error| StoreError::keys(&error))?;
    let recorded = database
        .read("read which keys are needed", recorded)
        .await?;
    let is_recorded = |id: &String| {
        let mut all = recorded.iter();
        all.any(|((_, location), _)| location.secret_uuid == *id)
    };
    stored.retain(|id| !is_recorded(id));
    Ok(stored)
}
