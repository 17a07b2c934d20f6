//! Statistics and a write probe, for monitoring, and interrupted onboardings.

use crate::database::Database;
use crate::executor::{all, execute, one};
use crate::fault::Done;
use crate::read;
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Row};
use rusqlite::Connection;
use vnfm_core::ports::{PackageRecord, Statistics, StoreError, VimExpiry};
use vnfm_types::PackageOnboardingState::{Processing, Uploading};
use vnfm_types::Vim;

/// Reads the numbers and expiry dates for the metrics.
pub(crate) async fn count(database: &Database) -> Result<Statistics, StoreError> {
    database.read("read the statistics", counted).await
}

/// Writes a small row durably.
pub(crate) async fn probe(database: &Database) -> Result<(), StoreError> {
    const PROBE: &str = "
        INSERT INTO meta (key, value) VALUES ('probed', CURRENT_TIMESTAMP)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    database
        .task("write to the database", |writer| {
            execute(&writer.db, &Query::new(PROBE)).map(drop)
        })
        .await
}

/// The packages of all tenants whose onboarding was interrupted when the previous process ended.
pub(crate) async fn unfinished_packages(
    database: &Database,
) -> Result<Vec<PackageRecord>, StoreError> {
    let action = "look for packages that were left in the middle";
    let all = database.unsealed(action, read::all_packages(), interrupted);
    let mut found = all.await?;
    found.retain(|record| matches!(record.info.onboarding_state, Uploading | Processing));
    Ok(found)
}

fn counted(db: &Connection) -> Done<Statistics> {
    const OPEN: &str =
        "SELECT operation, state, COUNT(*) FROM ops WHERE ended = 0 GROUP BY operation, state";
    const GIVEN_UP: &str = "SELECT CAST(COALESCE(SUM(lost), 0) AS BIGINT) FROM subscriptions";
    let instances = Query::new("SELECT state, COUNT(*) FROM instances GROUP BY state");
    let vims: Vec<(String, String)> = all(db, &Query::new("SELECT id, vim FROM vims ORDER BY id"))?;
    let expiry = |(id, vim): (String, String)| {
        let vim: Option<Vim> = serde_json::from_str(&vim).ok();
        VimExpiry {
            id,
            expires_at: vim.and_then(|vim| vim.expires_at),
        }
    };
    Ok(Statistics {
        open_ops: all(db, &Query::new(OPEN))?,
        instances: all(db, &instances)?,
        given_up: one(db, &Query::new(GIVEN_UP))?,
        vims: vims.into_iter().map(expiry).collect(),
    })
}

/// A package with the request that fetches it, if that can be unsealed; without it the package must be uploaded again.
fn interrupted(row: Row, keys: &SecretKeys) -> Done<PackageRecord> {
    let (record, sealed) = read::sealed_package(row)?;
    match keys.unseal(sealed.as_deref()) {
        Ok(fetching) => Ok(PackageRecord { fetching, ..record }),
        Err(fault) => {
            let error = fault.with_action("unseal how a VNF package was fetched");
            tracing::warn!(id = record.info.id, %error, "it is not fetched on");
            Ok(record)
        }
    }
}
