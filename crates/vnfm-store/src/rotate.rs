//! Key rotation: a new key is added, every row is sealed with it, then the old keys are removed. A migration is a
//! rotation to a key stored in another location.
//!
//! ```text
//!  store [new, old] ─ memory [new, old] ─ rows in batches, each one transaction ─ store [new]
//! ```
//! A crash in between leaves keys that unseal everything; the next rotation or migration continues from there.
//! Operations continue meanwhile: they wait for one batch at most.

use crate::database::Database;
use crate::executor::{all, execute, transaction};
use crate::fault::Done;
use crate::files::checkpoint_log;
use crate::group_commit::Writer;
use crate::key_provider::{create_key, location, record, remove_others, sealer_of};
use crate::secret_keys::{Key, SecretKeys};
use crate::statement::Query;
use rusqlite::Connection;
use vnfm_core::ports::{KeyLocation, SealedBy, StoreError};

/// A column with sealed texts: SQL to find those not sealed with the key `$1`, and to replace one.
struct Sealed {
    find: &'static str,
    replace: &'static str,
}

/// Up to three columns of the key, and the sealed text.
type Found = (String, String, String, String);

const SEALED: [Sealed; 12] = [
    Sealed {
        find: "SELECT key, '', '', value FROM meta
               WHERE key = 'key_check' AND value NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE meta SET value = $1 WHERE key = $2 AND '' = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT id, '', '', deployment FROM instances WHERE deployment NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE instances SET deployment = $1 WHERE id = $2 AND '' = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT id, '', '', request FROM ops WHERE request NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE ops SET request = $1 WHERE id = $2 AND '' = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT id, '', '', before FROM ops WHERE before NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE ops SET before = $1 WHERE id = $2 AND '' = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT id, '', '', target FROM ops WHERE target NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE ops SET target = $1 WHERE id = $2 AND '' = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT op_id, step, '', output FROM journal WHERE output NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE journal SET output = $1 WHERE op_id = $2 AND step = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT op_id, step, key, value FROM checkpoints WHERE value NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE checkpoints SET value = $1 WHERE op_id = $2 AND step = $3 AND key = $4",
    },
    Sealed {
        find: "SELECT tenant, id, '', access_info FROM vims WHERE access_info NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE vims SET access_info = $1 WHERE tenant = $2 AND id = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT tenant, id, '', authentication FROM subscriptions
               WHERE authentication NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE subscriptions SET authentication = $1 WHERE tenant = $2 AND id = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT tenant, id, '', deployment FROM snapshots WHERE deployment NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE snapshots SET deployment = $1 WHERE tenant = $2 AND id = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT tenant, id, '', fetching FROM packages WHERE fetching NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE packages SET fetching = $1 WHERE tenant = $2 AND id = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT instance_id, '', '', request FROM schedules WHERE request NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE schedules SET request = $1 WHERE instance_id = $2 AND '' = $3 AND '' = $4",
    },
];

/// Queries for every sealed text.
const TEXTS: [&str; 12] = [
    "SELECT value AS sealed FROM meta WHERE key = 'key_check'",
    "SELECT deployment FROM instances",
    "SELECT request FROM ops",
    "SELECT before FROM ops",
    "SELECT target FROM ops",
    "SELECT output FROM journal",
    "SELECT value FROM checkpoints",
    "SELECT access_info FROM vims",
    "SELECT authentication FROM subscriptions",
    "SELECT deployment FROM snapshots",
    "SELECT fetching FROM packages",
    "SELECT request FROM schedules",
];

/// Number of texts sealed with each key, by fingerprint.
fn counted(db: &Connection) -> Done<Vec<(String, i64)>> {
    let sql = format!(
        "SELECT substr(sealed, 1, 8), COUNT(*) FROM ({}) AS texts
        WHERE sealed IS NOT NULL GROUP BY substr(sealed, 1, 8) ORDER BY 1",
        TEXTS.join(" UNION ALL ")
    );
    all(db, &Query::new(sql))
}

/// The number of values sealed with each key.
pub(crate) async fn sealed_by(database: &Database) -> Result<Vec<SealedBy>, StoreError> {
    let counted = database.read("count sealed values", counted).await?;
    let keys = database.keys();
    let describe = |(fingerprint, values): (String, i64)| {
        let (key_type, secret_uuid) = keys.locate(&fingerprint);
        let seals = keys.fingerprint() == fingerprint;
        SealedBy {
            fingerprint,
            key_type,
            secret_uuid,
            values: u64::try_from(values).unwrap_or_default(),
            seals,
        }
    };
    Ok(counted.into_iter().map(describe).collect())
}

/// Creates a key at `location` and seals with it from now on.
pub(crate) async fn seal_with_new(
    database: &Database,
    location: KeyLocation,
) -> Result<(), StoreError> {
    let key = match location {
        KeyLocation::File => Key::generate(),
        KeyLocation::Sealer => {
            create_key(&sealer_of(&database.keys())?, &database.installation_id).await?
        }
    };
    // In the writing thread, which seals everything: nothing is sealed with the previous key from then on.
    let begin = move |writer: &mut Writer| {
        let keys = writer.shared.keys().with_first(key.clone());
        if location == KeyLocation::File {
            keys.save(usize::MAX)?;
        }
        record(&writer.db, &key)?;
        writer.set_keys(keys);
        Ok(())
    };
    database.task("record the location of the key", begin).await
}

/// Seals every text with the first key, then removes the other keys.
pub(crate) async fn reseal_all(database: &Database) -> Result<u64, StoreError> {
    let mut resealed = 0;
    for sealed in &SEALED {
        loop {
            let batch = |writer: &mut Writer| reseal(&writer.db, &writer.shared.keys(), sealed);
            match database.task("seal secrets with a new key", batch).await? {
                0 => break,
                some => resealed += some,
            }
        }
    }
    // Texts sealed with the old key must leave the log too.
    if !checkpoint_log(database).await? {
        tracing::warn!(
            "the database is being read: secrets sealed with the old key remain in the write-ahead log for a while"
        );
    }
    drop_other_keys(database).await?;
    tracing::info!(resealed, place = ?location(database), "secrets are sealed with a new key");
    Ok(resealed)
}

/// Reseals one batch; returns its number of texts.
fn reseal(db: &Connection, keys: &SecretKeys, sealed: &Sealed) -> Done<u64> {
    transaction(db, |db| {
        let find = Query::new(sealed.find).bind(keys.fingerprint());
        let found: Vec<Found> = all(db, &find)?;
        let mut replaced = 0;
        for (first, second, third, text) in found {
            let replace = Query::new(sealed.replace)
                .bind(keys.reseal(&text)?)
                .bind(first)
                .bind(second)
                .bind(third);
            replaced += execute(db, &replace)?;
        }
        Ok(replaced)
    })
}

/// Removes all keys but the first from the key file and from the database's records; nothing is
/// sealed with them any more.
async fn drop_other_keys(database: &Database) -> Result<(), StoreError> {
    let keys = database.keys();
    keys.save(1)?;
    let remove = move |writer: &mut Writer| remove_others(&writer.db, &keys);
    database
        .task("record which keys are needed", remove)
        .await?;
    Ok(())
}
