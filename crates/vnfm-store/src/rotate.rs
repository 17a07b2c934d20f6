//! Rotation of the keys that seal: new key first, then every row anew, then the old keys out of where they lie.
//! A migration is a rotation to a key in another place.
//!
//! ```text
//!  place [new, old] ─ memory [new, old] ─ rows in batches, each one transaction ─ place [new]
//! ```
//! A crash in between leaves keys that unseal everything; the next rotation or migration goes on from there.
//! Operations go on meanwhile: they wait for one batch at most.

use crate::fault::{Done, Fault};
use crate::keys::{KeyLocation, SecretKeys};
use crate::sqlite::SqliteStore;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _, query, query_as};
use vnfm_core::ports::StoreError;

/// Where sealed texts lie: how to find those that another key than `$1` sealed, and how to replace one.
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

/// Every sealed text, whichever key sealed it.
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

/// How many texts each key sealed, by its fingerprint.
pub(crate) async fn counted(connection: &mut SqliteConnection) -> Done<Vec<(String, i64)>> {
    let sql = format!(
        "SELECT substr(sealed, 1, 8), COUNT(*) FROM ({}) AS texts
        WHERE sealed IS NOT NULL GROUP BY substr(sealed, 1, 8) ORDER BY 1",
        TEXTS.join(" UNION ALL ")
    );
    Ok(query_as(AssertSqlSafe(sql)).fetch_all(connection).await?)
}

impl SqliteStore {
    /// Seals everything with a new key and takes the old keys out of where they lie. Says how many texts were sealed
    /// anew. The store unseals with the old keys as well until it is opened again.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk does not take it, `Keys` where whoever keeps them does not; `Broken` where a row
    /// cannot be unsealed. The old keys stay where they are then, and a further rotation goes on.
    pub async fn rotate(&self) -> Result<u64, StoreError> {
        let _one = self.turning_keys().await;
        self.seal_with_new(self.key_place()).await?;
        self.all_anew().await
    }

    /// Seals everything with a key in another place, and takes the keys that lie elsewhere out of there. Says how many
    /// texts were sealed anew. One that was cut short goes on; where everything is in that place, nothing is done.
    ///
    /// # Errors
    ///
    /// As [`Self::rotate`].
    pub async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError> {
        let _one = self.turning_keys().await;
        if self.key_place() != to {
            self.seal_with_new(to).await?;
        }
        self.all_anew().await
    }

    /// Every text with the first key, and the other keys out of where they lie.
    async fn all_anew(&self) -> Result<u64, StoreError> {
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
        // What the old key sealed leaves the log too.
        if !self.is_folded().await? {
            tracing::warn!(
                "the database is being read: secrets sealed with the old key remain in the write-ahead log for a while"
            );
        }
        self.drop_other_keys().await?;
        tracing::info!(resealed, place = ?self.key_place(), "secrets are sealed with a new key");
        Ok(resealed)
    }
}

/// One batch; how many texts it held.
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
        let anew = keys.reseal(&text)?;
        let row = query(sealed.replace)
            .bind(anew)
            .bind(&first)
            .bind(&second)
            .bind(&third);
        replaced += row.execute(&mut *tx).await?.rows_affected();
    }
    tx.commit().await.map_err(Fault::from)?;
    Ok(replaced)
}
