//! Subscriptions to lifecycle changes, and the last notification sent to each.

use super::{Writing, absent, number};
use crate::fault::Done;
use crate::visibility;
use vnfm_core::ports::{StoreError, SubscriptionRecord};

const KIND: &str = "subscription";

/// Adds a subscription; notifications already in the outbox are not sent to it.
pub(super) fn add(writing: &Writing<'_>, record: &SubscriptionRecord) -> Done<()> {
    const ADD: &str = "
        INSERT INTO subscriptions (tenant, id, callback, subscription, authentication, root, sent, lost, sight)
        SELECT $1, $2, $3, $4, $5, $6, CASE WHEN value > newest THEN value ELSE newest END, 0, $7
        FROM counters, (SELECT COALESCE(MAX(seq), 0) AS newest FROM outbox) AS rows WHERE name = 'outbox'
        ON CONFLICT DO NOTHING";
    let keys = writing.keys;
    let added = writing
        .statement(ADD)
        .bind(&record.tenant)
        .bind(&record.subscription.id)
        .bind(&record.subscription.callback_uri)
        .bind(serde_json::to_string(&record.subscription)?)
        .bind(keys.seal(&record.authentication)?)
        .bind(&record.root)
        .bind(visibility::stored(&record.scope)?)
        .changed()?;
    if added {
        return Ok(());
    }
    Err(StoreError::Exists {
        what: KIND,
        id: record.subscription.id.clone(),
    }
    .into())
}

pub(super) fn remove(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    const REMOVE: &str = "DELETE FROM subscriptions WHERE tenant = $1 AND id = $2";
    if writing.statement(REMOVE).bind(tenant).bind(id).changed()? {
        return Ok(());
    }
    Err(absent(KIND, id).into())
}

/// Records that everything up to `seq` was sent. Succeeds if the subscription no longer exists.
pub(super) fn sent(
    writing: &Writing<'_>,
    (tenant, id): (&str, &str),
    (seq, lost): (u64, u64),
) -> Done<()> {
    const SENT: &str = "
        UPDATE subscriptions SET sent = $3, lost = lost + $4 WHERE tenant = $1 AND id = $2 AND sent < $3";
    let sent = writing.statement(SENT).bind(tenant).bind(id);
    sent.bind(number(seq)).bind(number(lost)).run()
}
