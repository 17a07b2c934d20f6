//! Statistics and a write probe, for monitoring.

use crate::fault::Done;
use crate::keys::SecretKeys;
use crate::read::{package_of, unsealed_package_of};
use crate::sqlite::SqliteStore;
use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{query, query_as};
use vnfm_core::ports::{PackageRecord, StoreError};
use vnfm_types::PackageOnboardingState::{Processing, Uploading};
use vnfm_types::Vim;

/// Counts over all tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Operations that have not ended: type, state, count.
    pub open_ops: Vec<(String, String, i64)>,
    /// Instances: state, count.
    pub instances: Vec<(String, i64)>,
    /// Undeliverable notifications of the current subscriptions.
    pub given_up: i64,
    /// Every VIM in the registry.
    pub vims: Vec<VimExpiry>,
}

/// The expiry of a VIM's login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VimExpiry {
    /// The VIM's id.
    pub id: String,
    /// The earliest expiry among its login and its certificates.
    pub expires_at: Option<Timestamp>,
}

impl SqliteStore {
    /// Reads the statistics.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn statistics(&self) -> Result<Statistics, StoreError> {
        let counted = counted(&mut *self.reader().await).await;
        counted.map_err(|fault| fault.with_action("count what there is"))
    }

    /// The packages of all tenants whose onboarding was interrupted when the previous process ended.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn unfinished_packages(&self) -> Result<Vec<PackageRecord>, StoreError> {
        let rows = packages(&mut *self.reader().await).await;
        let keys = self.keys();
        let all = rows.and_then(|rows| rows.iter().map(|row| left(row, &keys)).collect());
        let mut found: Vec<PackageRecord> = all
            .map_err(|fault| fault.with_action("look for packages that were left in the middle"))?;
        found.retain(|record| matches!(record.info.onboarding_state, Uploading | Processing));
        Ok(found)
    }

    /// Writes a small row durably, to check that the disk accepts it.
    ///
    /// # Errors
    ///
    /// If the write fails.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let mut writer = self.writer().await;
        let written = query(
            "INSERT INTO meta (key, value) VALUES ('probed', CURRENT_TIMESTAMP)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )
        .execute(&mut *writer)
        .await;
        let outcome = written.map(drop).map_err(Into::into);
        self.ended(&mut writer, outcome, "write to the database")
            .await
    }
}

async fn counted(connection: &mut SqliteConnection) -> Done<Statistics> {
    let open_ops = query_as(
        "SELECT operation, state, COUNT(*) FROM ops WHERE ended = 0 GROUP BY operation, state",
    )
    .fetch_all(&mut *connection)
    .await?;
    let instances = query_as("SELECT state, COUNT(*) FROM instances GROUP BY state")
        .fetch_all(&mut *connection)
        .await?;
    let (given_up,): (i64,) =
        query_as("SELECT CAST(COALESCE(SUM(lost), 0) AS BIGINT) FROM subscriptions")
            .fetch_one(&mut *connection)
            .await?;
    let vims: Vec<(String, String)> = query_as("SELECT id, vim FROM vims ORDER BY id")
        .fetch_all(connection)
        .await?;
    let end = |(id, vim): (String, String)| {
        let vim: Option<Vim> = serde_json::from_str(&vim).ok();
        VimExpiry {
            id,
            expires_at: vim.and_then(|vim| vim.expires_at),
        }
    };
    Ok(Statistics {
        open_ops,
        instances,
        given_up,
        vims: vims.into_iter().map(end).collect(),
    })
}

async fn packages(connection: &mut SqliteConnection) -> Done<Vec<SqliteRow>> {
    const ALL: &str = "SELECT tenant, info, fetching, FALSE AS used FROM packages ORDER BY id";
    Ok(query(ALL).fetch_all(connection).await?)
}

/// A package with the request that fetches it, if that can be unsealed; without it the package must be uploaded again.
fn left(row: &SqliteRow, keys: &SecretKeys) -> Done<PackageRecord> {
    unsealed_package_of(row, keys).or_else(|fault| {
        let record = package_of(row)?;
        let (id, error) = (
            &record.info.id,
            fault.with_action("unseal how a VNF package was fetched"),
        );
        tracing::warn!(id, %error, "it is not fetched on");
        Ok(record)
    })
}
