//! Subscriptions, and the last notification sent to each.

use super::{arguments, conditions};
use crate::fault::Done;
use crate::filter::SUBSCRIPTIONS;
use crate::keys::SecretKeys;
use crate::visibility::List;
use crate::write::{absent, count};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, FromRow, Row as _, query_as, query_as_with};
use vnfm_core::ports::SubscriptionRecord;
use vnfm_core::query::Query;

from_columns!(SubscriptionRow: tenant, subscription, authentication, root, sent, lost, sight);

/// A row of `subscriptions`.
pub(crate) struct SubscriptionRow {
    tenant: String,
    subscription: String,
    authentication: Option<String>,
    root: String,
    sent: i64,
    lost: i64,
    sight: Option<String>,
}

impl SubscriptionRow {
    /// Converts it to the port's record.
    pub(crate) fn record(self, keys: &SecretKeys) -> Done<SubscriptionRecord> {
        Ok(SubscriptionRecord {
            tenant: self.tenant,
            subscription: serde_json::from_str(&self.subscription)?,
            authentication: keys.unseal(self.authentication.as_deref())?,
            root: self.root,
            sent: count(self.sent),
            lost: count(self.lost),
            scope: self
                .sight
                .as_deref()
                .map(serde_json::from_str)
                .transpose()?
                .unwrap_or_default(),
        })
    }
}

/// One subscription.
pub(crate) async fn subscription(
    connection: &mut SqliteConnection,
    tenant: &str,
    id: &str,
) -> Done<SubscriptionRow> {
    const ONE: &str = "
        SELECT tenant, subscription, authentication, root, sent, lost, sight
        FROM subscriptions WHERE tenant = $1 AND id = $2";
    let found = query_as(ONE)
        .bind(tenant)
        .bind(id)
        .fetch_optional(connection)
        .await?;
    found.ok_or_else(|| absent("subscription", id).into())
}

/// Subscriptions in order of id, without their sealed columns.
pub(crate) async fn subscriptions(
    connection: &mut SqliteConnection,
    tenant: &str,
    query: &Query,
) -> Done<Vec<SubscriptionRow>> {
    let (condition, bound) = conditions((&SUBSCRIPTIONS, List::Subscriptions), query)?;
    let sql = format!(
        "SELECT tenant, subscription, NULL AS authentication, root, sent, lost, sight
        FROM subscriptions WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
    );
    let list = query_as_with(AssertSqlSafe(sql), arguments(tenant, query, bound)?);
    Ok(list.fetch_all(connection).await?)
}

/// The subscriptions of all tenants.
pub(crate) async fn subscribers(connection: &mut SqliteConnection) -> Done<Vec<SubscriptionRow>> {
    const ALL: &str = "
        SELECT tenant, subscription, authentication, root, sent, lost, sight FROM subscriptions
        ORDER BY tenant, id";
    Ok(query_as(ALL).fetch_all(connection).await?)
}
