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
use crate::keys::{Kept, Key, KeyLocation, SecretKeys};
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

/// `keys` with those that the database names, in the order in which they seal. A new database gets its first key from
/// whoever keeps them.
pub(crate) async fn complete(
    connection: &mut SqliteConnection,
    keys: SecretKeys,
) -> Done<SecretKeys> {
    let noted = noted(connection).await?;
    if noted.is_empty() && keys.place().is_none() && !write::is_used(connection).await? {
        let sealer = sealer_of(&keys)?;
        let installation = write::installation(connection).await?;
        let key = kept(&sealer, &installation).await?;
        note(connection, &key).await?;
        return Ok(keys.with_first(key));
    }
    let mut complete = keys;
    for (kept, seals) in noted {
        let key = fetched(&complete, kept).await?;
        complete = if seals {
            complete.with_first(key)
        } else {
            complete.with_last(key)
        };
    }
    Ok(complete)
}

/// Asks for a key that the database names.
async fn fetched(keys: &SecretKeys, (fingerprint, kept): (String, Kept)) -> Done<Key> {
    let id = &kept.secret_uuid;
    let sealer = sealer_of(keys)?;
    let text = sealer
        .key(id)
        .await
        .map_err(|error| StoreError::keys(&error))?;
    let key = Key::parse(text.reveal()).filter(|key| key.fingerprint() == fingerprint);
    let key = key.ok_or_else(|| {
        let detail = format!(
            "the stored key `{id}` is not the key `{fingerprint}` that sealed secrets of this database; hint: bring \
             that one back under an id of its own, and put the id into the table `sealing_keys`"
        );
        StoreError::Keys { kind: ErrorKind::Refused, detail }
    })?;
    Ok(key.kept_by(kept))
}

/// Whoever keeps keys, or why nobody can be asked.
fn sealer_of(keys: &SecretKeys) -> Result<Arc<dyn SecretSealer>, StoreError> {
    keys.sealer().cloned().ok_or_else(|| {
        let detail = "a key is stored in Barbican, but the configuration has none; hint: set `secrets.barbican` of \
                      the configuration, and start the server again";
        StoreError::Keys { kind: ErrorKind::Refused, detail: detail.to_owned() }
    })
}

/// A new key, which `sealer` keeps by now.
async fn kept(sealer: &Arc<dyn SecretSealer>, installation: &str) -> Result<Key, StoreError> {
    let key = Key::generate();
    let secret = Secret::new(key.reveal());
    let id = sealer.store_key(&name(installation), &secret).await;
    let secret_uuid = id.map_err(|error| StoreError::keys(&error))?;
    Ok(key.kept_by(Kept {
        key_type: sealer.key_type().to_owned(),
        secret_uuid,
    }))
}

/// What all keys of an installation are called where they are kept.
fn name(installation: &str) -> String {
    format!("vnfm-{installation}")
}

/// Fingerprint and place of each key that the database names, and whether it seals; the one that does comes last.
async fn noted(connection: &mut SqliteConnection) -> Done<Vec<((String, Kept), bool)>> {
    const ALL: &str = "
        SELECT fingerprint, key_type, secret_uuid, seals FROM sealing_keys ORDER BY seals, fingerprint";
    let rows: Vec<(String, String, String, i64)> = query_as(ALL).fetch_all(connection).await?;
    let row = |(fingerprint, key_type, secret_uuid, seals): (String, String, String, i64)| {
        (
            (
                fingerprint,
                Kept {
                    key_type,
                    secret_uuid,
                },
            ),
            seals == 1,
        )
    };
    Ok(rows.into_iter().map(row).collect())
}

/// That a key seals from now on.
async fn note(connection: &mut SqliteConnection, key: &Key) -> Done<()> {
    const NOTE: &str = "
        INSERT INTO sealing_keys (fingerprint, key_type, secret_uuid, seals) VALUES ($1, $2, $3, 1)";
    let Some(kept) = key.kept() else {
        return seal_by_file(connection).await;
    };
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    seal_by_file(&mut tx).await?;
    query(NOTE)
        .bind(key.fingerprint())
        .bind(&kept.key_type)
        .bind(&kept.secret_uuid)
        .execute(&mut *tx)
        .await?;
    tx.commit().await.map_err(Fault::from)
}

/// That no key which somebody keeps seals any more.
async fn seal_by_file(connection: &mut SqliteConnection) -> Done<()> {
    query("UPDATE sealing_keys SET seals = 0")
        .execute(connection)
        .await?;
    Ok(())
}

impl SqliteStore {
    /// Where the key lies that seals.
    pub fn key_place(&self) -> KeyLocation {
        self.keys().place().unwrap_or(KeyLocation::File)
    }

    /// Which keys sealed how much: after a rotation or migration that was cut short, what is left of it.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub async fn sealed_by(&self) -> Result<Vec<SealedBy>, StoreError> {
        let counted = crate::rotate::counted(&mut *self.reader().await).await;
        let counted = counted.map_err(|e| e.with_action("count sealed values"))?;
        let keys = self.keys();
        let shown = |(fingerprint, values): (String, i64)| {
            let (key_type, secret_uuid) = keys.where_is(&fingerprint);
            let seals = keys.fingerprint() == fingerprint;
            SealedBy {
                fingerprint,
                key_type,
                secret_uuid,
                values: write::count(values),
                seals,
            }
        };
        Ok(counted.into_iter().map(shown).collect())
    }

    /// Makes a new key in a place and seals with it from now on.
    pub(crate) async fn seal_with_new(&self, place: KeyLocation) -> Result<(), StoreError> {
        let key = match place {
            KeyLocation::File => Key::generate(),
            KeyLocation::Sealer => kept(&sealer_of(&self.keys())?, self.installation()).await?,
        };
        // Nobody seals with the one before any more, once this has its turn.
        let mut writer = self.writer().await;
        let keys = self.keys().with_first(key.clone());
        if place == KeyLocation::File {
            keys.save(usize::MAX)?;
        }
        let noted = note(&mut writer, &key).await;
        self.ended(&mut writer, noted, "record the location of the key")
            .await?;
        self.set_keys(keys);
        Ok(())
    }

    /// Takes all keys but the first out of the key file and out of what the database notes; nothing is sealed with them
    /// any more.
    pub(crate) async fn drop_other_keys(&self) -> Result<(), StoreError> {
        const OTHERS: &str = "DELETE FROM sealing_keys WHERE fingerprint <> $1";
        let keys = self.keys();
        keys.save(1)?;
        let mut writer = self.writer().await;
        let gone = query(OTHERS)
            .bind(keys.fingerprint())
            .execute(&mut *writer)
            .await;
        let gone = gone.map(drop).map_err(Fault::from);
        self.ended(&mut writer, gone, "record which keys are needed")
            .await?;
        self.forget_vims();
        Ok(())
    }

    /// The ids of keys that are kept under the name of this installation and that nothing in this database needs; none
    /// where nobody keeps keys.
    ///
    /// # Errors
    ///
    /// `Keys` if the key provider does not respond.
    pub async fn unused_keys(&self) -> Result<Vec<String>, StoreError> {
        let Some(sealer) = self.keys().sealer().cloned() else {
            return Ok(Vec::new());
        };
        let kept = sealer.key_ids(&name(self.installation())).await;
        let mut kept = kept.map_err(|error| StoreError::keys(&error))?;
        let noted = noted(&mut *self.reader().await).await;
        let noted = noted.map_err(|e| e.with_action("read which keys are needed"))?;
        kept.retain(|id| noted.iter().all(|((_, noted), _)| noted.secret_uuid != *id));
        Ok(kept)
    }
}
