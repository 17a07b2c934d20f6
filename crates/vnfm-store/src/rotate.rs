//! Rotation of the keys that seal: new key first, then every row anew, then the old keys out of the file.
//!
//! ```text
//!  file [new, old] ─ memory [new, old] ─ rows in batches, each one transaction ─ file [new]
//! ```
//! A crash in between leaves a file that unseals everything; the next rotation goes on from there. Operations go on
//! meanwhile: they wait for one batch at most.

use crate::fault::{Done, Fault};
use crate::keys::SecretKeys;
use crate::sqlite::SqliteStore;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, query, query_as, raw_sql};
use vnfm_core::ports::StoreError;

/// Where sealed texts lie: how to find those that another key than `$1` sealed, and how to replace one.
struct Sealed {
    find: &'static str,
    replace: &'static str,
}

/// Up to three columns of the key, and the sealed text.
type Found = (String, String, String, String);

const SEALED: [Sealed; 7] = [
    Sealed {
        find: "SELECT key, '', '', value FROM meta
               WHERE key = 'key_check' AND value NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE meta SET value = $1 WHERE key = $2 AND '' = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT id, '', '', request FROM instances WHERE request NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE instances SET request = $1 WHERE id = $2 AND '' = $3 AND '' = $4",
    },
    Sealed {
        find: "SELECT id, '', '', request FROM ops WHERE request NOT LIKE $1 || ':%' LIMIT 500",
        replace: "UPDATE ops SET request = $1 WHERE id = $2 AND '' = $3 AND '' = $4",
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
];

impl SqliteStore {
    /// Seals everything with a new key and takes the old keys out of the key file. Says how many texts were sealed
    /// anew. The store unseals with the old keys as well until it is opened again.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk does not take it, `Broken` where a row cannot be unsealed; the old keys stay in
    /// the file then, and a further rotation goes on.
    pub async fn rotate(&self) -> Result<u64, StoreError> {
        {
            let _alone = self.writer().await;
            let keys = self.keys().with_new_key()?;
            self.set_keys(keys);
        }
        let keys = self.keys();
        let mut resealed = 0;
        for sealed in &SEALED {
            loop {
                let mut writer = self.writer().await;
                let batch = reseal(&mut writer, &keys, sealed).await;
                let batch = self.ended(&mut writer, batch, "seal secrets with a new key").await?;
                if batch == 0 {
                    break;
                }
                resealed += batch;
            }
        }
        self.forget_old_pages().await.map_err(|e| e.told("fold the write-ahead log"))?;
        keys.save(1)?;
        tracing::info!(resealed, "secrets are sealed with a new key");
        Ok(resealed)
    }

    /// What the old key sealed leaves the write-ahead log too.
    async fn forget_old_pages(&self) -> Done<()> {
        let mut writer = self.writer().await;
        raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut *writer).await?;
        Ok(())
    }
}

/// One batch; how many texts it held.
async fn reseal(
    connection: &mut SqliteConnection,
    keys: &SecretKeys,
    sealed: &Sealed,
) -> Done<u64> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let found: Vec<Found> =
        query_as(sealed.find).bind(keys.fingerprint()).fetch_all(&mut *tx).await?;
    let mut replaced = 0;
    for (first, second, third, text) in found {
        let anew = keys.reseal(&text)?;
        let row = query(sealed.replace).bind(anew).bind(&first).bind(&second).bind(&third);
        replaced += row.execute(&mut *tx).await?.rows_affected();
    }
    tx.commit().await.map_err(Fault::from)?;
    Ok(replaced)
}
