//! Keys outside the key file. The database has their ids; the keys themselves are fetched from the key provider (the
//! port [`SecretSealer`], Barbican) when the database is opened.
//!
//! ```text
//! a new key:  stored at the provider ─ recorded in `sealing_keys` as the one that seals ─ used
//! an old one: no secret is sealed with it any more ─ its record is deleted
//! ```
//! So no text is ever sealed with a key that the database does not know. An old key is not deleted at the provider: a
//! backup, or a database restored from one, may need it. [`SqliteStore::unused_keys`] lists those that this database
//! does not need.

use crate::fault::{Done, Fault};
use crate::keys::{Key, KeyLocation, ProviderLocation, SecretKeys};
use crate::sqlite::SqliteStore;
use crate::write;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, query, query_as};
use std::sync::Arc;
use vnfm_core::ports::{ErrorKind, SecretSealer, StoreError};
use vnfm_types::Secret;

/// A key, and the number of values sealed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedBy {
    /// Fingerprint of the key, which does not reveal it.
    pub fingerprint: String,
    /// Where it is stored: `fernet_key` for the key file, `barbican_key`, or `missing`.
    pub key_type: String,
    /// Its id at the key provider, if it is there.
    pub secret_uuid: Option<String>,
    /// Number of values sealed with it.
    pub values: u64,
    /// Whether new values are sealed with it.
    pub seals: bool,
}

/// `keys` together with those that the database records, the sealing key first. A new database gets its first key from
/// the key provider.
pub(crate) async fn complete(
    connection: &mut SqliteConnection,
    keys: SecretKeys,
) -> Done<SecretKeys> {
    let recorded = recorded(connection).await?;
    if recorded.is_empty()
        && keys.sealing_location().is_none()
        && !write::is_used(connection).await?
    {
        let sealer = sealer_of(&keys)?;
        let installation = write::installation(connection).await?;
        let key = create_key(&sealer, &installation).await?;
        record(connection, &key).await?;
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
fn sealer_of(keys: &SecretKeys) -> Result<Arc<dyn SecretSealer>, StoreError> {
    keys.sealer().cloned().ok_or_else(|| {
        let detail = "a key is stored in Barbican, but the configuration has none; hint: set `secrets.barbican` in \
                      the configuration and restart the server";
        StoreError::Keys { kind: ErrorKind::Refused, detail: detail.to_owned() }
    })
}

/// Creates a key and stores it at the provider.
async fn create_key(sealer: &Arc<dyn SecretSealer>, installation: &str) -> Result<Key, StoreError> {
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
async fn recorded(
    connection: &mut SqliteConnection,
) -> Done<Vec<((String, ProviderLocation), bool)>> {
    const ALL: &str = "
        SELECT fingerprint, key_type, secret_uuid, seals FROM sealing_keys ORDER BY seals, fingerprint";
    let rows: Vec<(String, String, String, i64)> = query_as(ALL).fetch_all(connection).await?;
    let row = |(fingerprint, key_type, secret_uuid, seals): (String, String, String, i64)| {
        (
            (
                fingerprint,
                ProviderLocation {
                    key_type,
                    secret_uuid,
                },
            ),
            seals == 1,
        )
    };
    Ok(rows.into_iter().map(row).collect())
}

/// Records that a key seals from now on.
async fn record(connection: &mut SqliteConnection, key: &Key) -> Done<()> {
    const NOTE: &str = "
        INSERT INTO sealing_keys (fingerprint, key_type, secret_uuid, seals) VALUES ($1, $2, $3, 1)";
    let Some(location) = key.provider_location() else {
        return seal_by_file(connection).await;
    };
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    seal_by_file(&mut tx).await?;
    query(NOTE)
        .bind(key.fingerprint())
        .bind(&location.key_type)
        .bind(&location.secret_uuid)
        .execute(&mut *tx)
        .await?;
    tx.commit().await.map_err(Fault::from)
}

/// Records that no key at the provider seals any more.
async fn seal_by_file(connection: &mut SqliteConnection) -> Done<()> {
    query("UPDATE sealing_keys SET seals = 0")
        .execute(connection)
        .await?;
    Ok(())
}

impl SqliteStore {
    /// Where the sealing key is stored.
    pub fn key_location(&self) -> KeyLocation {
        self.keys().sealing_location().unwrap_or(KeyLocation::File)
    }

    /// The number of values sealed with each key; shows what an interrupted rotation or migration still has to do.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub async fn sealed_by(&self) -> Result<Vec<SealedBy>, StoreError> {
        let counted = crate::rotate::counted(&mut *self.reader().await).await;
        let counted = counted.map_err(|e| e.with_action("count sealed values"))?;
        let keys = self.keys();
        let describe = |(fingerprint, values): (String, i64)| {
            let (key_type, secret_uuid) = keys.locate(&fingerprint);
            let seals = keys.fingerprint() == fingerprint;
            SealedBy {
                fingerprint,
                key_type,
                secret_uuid,
                values: write::count(values),
                seals,
            }
        };
        Ok(counted.into_iter().map(describe).collect())
    }

    /// Creates a key at `location` and seals with it from now on.
    pub(crate) async fn seal_with_new(&self, location: KeyLocation) -> Result<(), StoreError> {
        let key = match location {
            KeyLocation::File => Key::generate(),
            KeyLocation::Sealer => {
                create_key(&sealer_of(&self.keys())?, self.installation()).await?
            }
        };
        // Once this has the writer, nothing is sealed with the previous key.
        let mut writer = self.writer().await;
        let keys = self.keys().with_first(key.clone());
        if location == KeyLocation::File {
            keys.save(usize::MAX)?;
        }
        let recorded = record(&mut writer, &key).await;
        self.ended(&mut writer, recorded, "record the location of the key")
            .await?;
        self.set_keys(keys);
        Ok(())
    }

    /// Removes all keys but the first from the key file and from the database's records; nothing is sealed with them any
    /// more.
    pub(crate) async fn drop_other_keys(&self) -> Result<(), StoreError> {
        const OTHERS: &str = "DELETE FROM sealing_keys WHERE fingerprint <> $1";
        let keys = self.keys();
        keys.save(1)?;
        let mut writer = self.writer().await;
        let removed = query(OTHERS)
            .bind(keys.fingerprint())
            .execute(&mut *writer)
            .await;
        let removed = removed.map(drop).map_err(Fault::from);
        self.ended(&mut writer, removed, "record which keys are needed")
            .await?;
        self.forget_vims();
        Ok(())
    }

    /// The ids of keys at the provider that have this installation's name and that this database does not need; empty
    /// without a provider.
    ///
    /// # Errors
    ///
    /// `Keys` if the key provider does not respond.
    pub async fn unused_keys(&self) -> Result<Vec<String>, StoreError> {
        let Some(sealer) = self.keys().sealer().cloned() else {
            return Ok(Vec::new());
        };
        let stored = sealer.key_ids(&key_name(self.installation())).await;
        let mut stored = stored.map_err(|error| StoreError::keys(&error))?;
        let recorded = recorded(&mut *self.reader().await).await;
        let recorded = recorded.map_err(|e| e.with_action("read which keys are needed"))?;
        stored.retain(|id| {
            recorded
                .iter()
                .all(|((_, recorded), _)| recorded.secret_uuid != *id)
        });
        Ok(stored)
    }
}
