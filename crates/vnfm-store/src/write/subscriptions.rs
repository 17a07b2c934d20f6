//! Subscriptions to lifecycle changes, and the last notification sent to each.

use crate::fault::Done;
use crate::refusals::{absent, exists};
use crate::secret_keys::SecretKeys;
use crate::statement::Statement;
use crate::visibility;
use vnfm_core::ports::SubscriptionRecord;

const KIND: &str = "subscription";

/// Adds a subscription; notifications already in the outbox are not sent to it.
pub(super) fn add(record: &SubscriptionRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const ADD: &str = "
        INSERT INTO subscriptions (tenant, id, callback, subscription, authentication, root, sent, lost, sight)
        SELECT $1, $2, $3, $4, $5, $6, CASE WHEN value > newest THEN value ELSE newest END, 0, $7
        FROM counters, (SELECT COALESCE(MAX(seq), 0) AS newest FROM outbox) AS rows WHERE name = 'outbox'
        ON CONFLICT DO NOTHING";
    let add = Statement::new(ADD)
        .bind(&record.tenant)
        .bind(&record.subscription.id)
        .bind(&record.subscription.callback_uri)
        .bind(serde_json::to_string(&record.subscription)?)
        .bind(keys.seal(&record.authentication)?)
        .bind(&record.root)
        .bind(visibility::stored(&record.scope)?)
        .or(exists(KIND, &record.subscription.id));
    Ok(vec![add])
}

pub(super) fn remove(tenant: &str, id: &str) -> Vec<Statement> {
    const REMOVE: &str = "DELETE FROM subscriptions WHERE tenant = $1 AND id = $2";
    let remove = Statement::new(REMOVE).bind(tenant).bind(id);
    vec![remove.or(absent(KIND, id))]
}

/// Records that everything up to `seq` was sent. Succeeds if the subscription no longer exists.
pub(super) fn sent((tenant, id): (&str, &str), (seq, lost): (u64, u64)) -> Vec<Statement> {
    const SENT: &str = "
        UPDATE subscriptions SET sent = $3, lost = lost + $4 WHERE tenant = $1 AND id = $2 AND sent < $3";
    let sent = Statement::new(SENT).bind(tenant).bind(id);
    vec![sent.bind(seq).bind(lost)]
}
