//! Notifications leave from the outbox.
//!
//! ```text
//!              ┌─ subscription a ── 7 8 9 ──► callback     each in the order of the outbox, one after the other,
//!  outbox ─────┼─ subscription b ── 7 8   ──X               again with growing pauses until it is taken
//!  (7, 8, 9)   └─ subscription c ── 7 8 9 ──► callback     nobody waits for another one
//! ```
//! How far a subscription is, is stored behind each handful, so after a crash the last few are sent again: at least
//! once, with the same `id`. What is not taken for [`Patience`] is given up, said loudly, and counted.

use crate::ports::{
    Change, Clock, News, OutboxRow, Store, StoreError, Subscribers, SubscriptionRecord,
};
use crate::subscriptions::wants;
use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use vnfm_types::{LcmOpOccNotificationVerbosity, SubscriptionAuthentication};

/// How many notifications are read at once.
const HANDFUL: usize = 50;
/// The first pause after a notification was not taken; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Members that say what was changed.
const CHANGES: &[&str] = &[
    "affectedVnfcs",
    "affectedVirtualLinks",
    "affectedExtLinkPorts",
    "affectedVirtualStorages",
    "affectedVipCps",
    "changedInfo",
    "changedExtConnectivity",
    "modificationsTriggeredByVnfPkgChange",
];

/// How long a notification is offered, counted from when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience(pub Duration);

impl Default for Patience {
    fn default() -> Self {
        Self(Duration::from_hours(24))
    }
}

/// Sends what subscriptions want.
pub struct Notifier {
    /// The database.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Those who are told.
    pub subscribers: Arc<dyn Subscribers>,
    /// For how long.
    pub patience: Patience,
}

/// Of a subscription.
type Key = (String, String);

/// What a notifier hears of itself.
enum Event {
    /// Who is told, as of this news.
    Known(News, Vec<SubscriptionRecord>),
    /// A subscription that is gone.
    Gone(Key),
}

/// What became of a notification.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Sent,
    Lost,
    /// The subscription is gone.
    Unwanted,
}

impl Notifier {
    /// Sends for ever. Dropped, it has sent what it has sent; the next one goes on from there.
    pub async fn run(&self) {
        let mut served = BTreeSet::new();
        // Everything that waits is in here, and so always goes on: one that stood still could hold what another needs.
        let mut going = FuturesUnordered::new();
        going.push(self.look(None).boxed());
        while let Some(event) = going.next().await {
            match event {
                Event::Gone(key) => {
                    served.remove(&key);
                }
                Event::Known(seen, all) => {
                    for record in all {
                        if served.insert(key(&record)) {
                            going.push(self.serve(record).map(Event::Gone).boxed());
                        }
                    }
                    going.push(self.look(Some(seen)).boxed());
                }
            }
        }
    }

    /// Who is told, once that is another list than the one that was `seen`.
    async fn look(&self, seen: Option<News>) -> Event {
        let mut now = seen.unwrap_or_default();
        while seen.is_some_and(|seen| seen.subscriptions == now.subscriptions) {
            now = self.store.news(now).await;
        }
        loop {
            match self.store.subscribers().await {
                Ok(all) => return Event::Known(now, all),
                Err(error) => {
                    tracing::warn!(%error, "cannot read who is told of lifecycle changes");
                    self.clock.sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Sends what one subscription wants, until it is gone.
    async fn serve(&self, mut record: SubscriptionRecord) -> Key {
        let key = key(&record);
        let login = serde_json::from_value(record.authentication.0.clone()).ok();
        let mut seen = News::default();
        loop {
            match self.handful(&mut record, login.as_ref()).await {
                Ok(Some(0)) => {
                    let before = seen.subscriptions;
                    seen = self.store.news(seen).await;
                    if seen.subscriptions != before && self.is_gone(&key).await {
                        return key;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return key,
                Err(error) => {
                    tracing::warn!(subscription = key.1, %error, "cannot send notifications for now");
                    self.clock.sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Sends what comes next, if anything does; how many rows that were. `None`: the subscription is gone.
    async fn handful(
        &self,
        record: &mut SubscriptionRecord,
        login: Option<&SubscriptionAuthentication>,
    ) -> Result<Option<usize>, StoreError> {
        let rows = self.store.outbox(record.sent, HANDFUL).await?;
        let Some(last) = rows.last().map(|row| row.seq) else { return Ok(Some(0)) };
        let (mut to_note, mut lost) = (rows.len() == HANDFUL, 0);
        for row in &rows {
            if row.tenant != record.tenant || !wants(&record.subscription, row) {
                continue;
            }
            if self.is_gone(&key(record)).await {
                return Ok(None);
            }
            match self.deliver(record, row, login).await {
                Outcome::Sent => {}
                Outcome::Lost => lost += 1,
                Outcome::Unwanted => return Ok(None),
            }
            to_note = true;
        }
        record.sent = last;
        if to_note {
            let (tenant, id) = key(record);
            let sent = Change::Sent { tenant, id, seq: last, lost };
            self.store.write(None, vec![sent]).await?;
        }
        Ok(Some(rows.len()))
    }

    /// Offers one notification until it is taken.
    async fn deliver(
        &self,
        record: &SubscriptionRecord,
        row: &OutboxRow,
        login: Option<&SubscriptionAuthentication>,
    ) -> Outcome {
        let callback = &record.subscription.callback_uri;
        let told = told(record, row, self.store.installation_id());
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.subscribers.tell(callback, login, &told).await else {
                return Outcome::Sent;
            };
            let id = &record.subscription.id;
            let age = self.clock.now().duration_since(row.at).unsigned_abs();
            if age >= self.patience.0 {
                let (kind, of) = (&row.kind, &row.instance_id);
                tracing::error!(subscription = id, callback, kind, vnf_instance = of, %error, "a notification was given up");
                return Outcome::Lost;
            }
            tracing::warn!(subscription = id, callback, %error, "a notification was not taken; it is sent again");
            self.clock.sleep(pause).await;
            if self.is_gone(&key(record)).await {
                return Outcome::Unwanted;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn is_gone(&self, (tenant, id): &Key) -> bool {
        matches!(self.store.subscription(tenant, id).await, Err(StoreError::NotFound { .. }))
    }
}

fn key(record: &SubscriptionRecord) -> Key {
    (record.tenant.clone(), record.subscription.id.clone())
}

/// A notification as this subscription is told it. Its `id` is the same for all of them, and each time that it is sent.
fn told(record: &SubscriptionRecord, row: &OutboxRow, installation_id: &str) -> Value {
    let subscription = &record.subscription;
    let link = |path: String| json!({"href": format!("{}/vnflcm/v2/{path}", record.root)});
    let mut body = row.body.clone();
    let id =
        Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{installation_id}/{}", row.seq).as_bytes());
    body["id"] = id.to_string().into();
    body["subscriptionId"] = subscription.id.clone().into();
    let mut links = json!({
        "vnfInstance": link(format!("vnf_instances/{}", row.instance_id)),
        "subscription": link(format!("subscriptions/{}", subscription.id)),
    });
    if let Some(op_id) = row.body["vnfLcmOpOccId"].as_str() {
        links["vnfLcmOpOcc"] = link(format!("vnf_lcm_op_occs/{op_id}"));
        body["verbosity"] = serde_json::to_value(subscription.verbosity).unwrap_or_default();
        if subscription.verbosity == LcmOpOccNotificationVerbosity::Short
            && let Some(members) = body.as_object_mut()
        {
            members.retain(|name, _| !CHANGES.contains(&name.as_str()));
        }
    }
    body["_links"] = links;
    body
}
