//! Subscriptions, and the last notification sent to each.

use super::list::list;
use crate::fault::Done;
use crate::filter::SUBSCRIPTIONS;
use crate::secret_keys::SecretKeys;
use crate::statement::{Query as Sql, Row};
use crate::visibility::List;
use vnfm_core::ports::SubscriptionRecord;
use vnfm_core::query::Query;

/// One subscription of the tenant, by id.
pub(crate) fn subscription(tenant: &str, id: &str) -> Sql {
    const ONE: &str = "
        SELECT tenant, subscription, authentication, root, sent, lost, sight
        FROM subscriptions WHERE tenant = $1 AND id = $2";
    Sql::new(ONE).bind(tenant).bind(id)
}

/// Subscriptions in order of id, without their sealed columns.
pub(crate) fn subscriptions(tenant: &str, query: &Query) -> Done<Sql> {
    let from = (&SUBSCRIPTIONS, List::Subscriptions);
    list(from, tenant, query, |condition| {
        format!(
            "SELECT tenant, subscription, NULL AS authentication, root, sent, lost, sight
            FROM subscriptions WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
        )
    })
}

/// The subscriptions of all tenants.
pub(crate) fn subscribers() -> Sql {
    const ALL: &str = "
        SELECT tenant, subscription, authentication, root, sent, lost, sight FROM subscriptions
        ORDER BY tenant, id";
    Sql::new(ALL)
}

/// A row of [`subscription`], [`subscriptions`] or [`subscribers`].
pub(crate) fn subscription_record(mut row: Row, keys: &SecretKeys) -> Done<SubscriptionRecord> {
    Ok(SubscriptionRecord {
        tenant: row.take()?,
        subscription: row.json()?,
        authentication: keys.unseal(row.take::<Option<String>>()?.as_deref())?,
        root: row.take()?,
        sent: row.count()?,
        lost: row.count()?,
        scope: row.some_json()?.unwrap_or_default(),
    })
}
