//! Key rotation: a new key is added, every row is sealed with it, then the old keys are removed. A migration is a
//! rotation to a key stored in another location.
//!
//! ```text
//!  store [new, old] ─ memory [new, old] ─ rows in batches, each one transaction ─ store [new]
//! ```
//! A crash in between leaves keys that unseal everything; the next rotation or migration continues from there.
//! Operations continue meanwhile: they wait for one batch at most.

use crate::fault::{Done, Fault};
use crate::keys::{KeyLocation, SecretKeys};
use crate::sqlite::SqliteStore;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _, query, query_as};
use vnfm_core::ports::StoreError;

/// A column with sealed texts: SQL to find those not sealed with the key `$1`, and to replace one.
struct Sealed {
    find: &'static str,
    replace: &'static str,
}

/// Up to three columns of the key, and the sealed text.
type Found = (String, String, String, String);

const SEALED: [Sealed; 10] = [
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
        find: "SELECT tenant, id, '', fetching FROM packages WHERE fetching NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE packages SET fetching = $1 WHERE tenant = $2 AND id = $3 AND '' = $4",
    },
];

/// Queries for every sealed text.
const TEXTS: [&str; 10] = [
    "SELECT value AS sealed FROM meta WHERE key = 'key_check'",
    "SELECT deployment FROM instances",
    "SELECT request FROM ops",
    "SELECT before FROM ops",
    "SELECT target FROM ops",
    "SELECT output FROM journal",
    "SELECT value FROM checkpoints",
    "SELECT access_info FROM vims",
    "SELECT authentication FROM subscriptions",
    "SELECT fetching FROM packages",
];

/// Number of texts sealed with each key, by fingerprint.
pub(crate) async fn counted(connection: &mut SqliteConnection) -> Done<Vec<(String, i64)>> {
    let sql = format!(
        "SELECT substr(sealed, 1, 8), COUNT(*) FROM ({}) AS texts
        WHERE sealed IS NOT NULL GROUP BY substr(sealed, 1, 8) ORDER BY 1",
        TEXTS.join(" UNION ALL ")
    );
    Ok(query_as(AssertSqlSafe(sql)).fetch_all(connection).await?)
}

impl SqliteStore {
    /// Seals everything with a new key and removes the old keys. Returns the number of resealed texts. Until it is
    /// reopened, the store still unseals with the old keys too.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails, `Keys` if the key provider fails, `Broken` if a row cannot be unsealed. The old
    /// keys then stay, and the next rotation continues.
    pub async fn rotate(&self) -> Result<u64, StoreError> {
        let _guard = self.lock_rotation().await;
        self.seal_with_new(self.key_location()).await?;
        self.reseal_all().await
    }

    /// Seals everything with a key stored in another location and removes the keys elsewhere. Returns the number of
    /// resealed texts. Continues an interrupted migration; does nothing if all keys are at that location.
    ///
    /// # Errors
    ///
    /// As [`Self::rotate`].
    pub async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError> {
        let _guard = self.lock_rotation().await;
        if self.key_location() != to {
            self.seal_with_new(to).await?;
        }
        self.reseal_all().await
    }

    /// Seals every text with the first key, then removes the other keys.
    async fn reseal_all(&self) -> Result<u64, StoreError> {
        let keys = self.keys();
        let mut resealed = 0;
        for sealed in &SEALED {
            loop {
                let mut writer = self.writer().await;
                let batch = reseal(&mut writer, &keys, sealed).await;
                let batch = self
                    .ended(&mut writer, batch, "seal secrets with a new key")
                    .await?;
                if batch == 0 {
                    break;
                }
                resealed += batch;
            }
        }
        // Texts sealed with the old key must leave the log too.
        if !self.try_fold().await? {
            tracing::warn!(
                "the database is being read: secrets sealed with the old key remain in the write-ahead log for a while"
            );
        }
        self.drop_other_keys().await?;
        tracing::info!(resealed, place = ?self.key_location(), "secrets are sealed with a new key");
        Ok(resealed)
    }
}

/// Reseals one batch; returns its number of texts.
async fn reseal(
    connection: &mut SqliteConnection,
    keys: &SecretKeys,
    sealed: &Sealed,
) -> Done<u64> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let found: Vec<Found> = query_as(sealed.find)
        .bind(keys.fingerprint())
        .fetch_all(&mut *tx)
        .await?;
    let mut replaced = 0;
    for (first, second, third, text) in found {
        let resealed = keys.reseal(&text)?;
        let row = query(sealed.replace)
            .bind(resealed)
            .bind(&first)
            .bind(&second)
            .bind(&third);
        replaced += row.execute(&mut *tx).await?.rows_affected();
    }
    tx.commit().await.map_err(Fault::from)?;
    Ok(replaced)
}
