//! Notifications leave from the outbox.
//!
//! ```text
//!              ┌─ subscription a ── 7 8 9 ──► callback     each in the order of the outbox, one after the other,
//!  outbox ─────┼─ subscription b ── 7 8   ──X               again with growing pauses until it is taken
//!  (7, 8, 9)   └─ subscription c ── 7 8 9 ──► callback     nobody waits for another one
//! ```
//! How far a subscription is, is stored behind each handful, so after a crash the last few are sent again: at least
//! once, with the same `id`. What is not taken for [`Patience`] is given up, said loudly, and counted: a subscriber that
//! cannot be reached gets hours, a notification that it refuses gets minutes and then makes room for the next one.

use crate::ports::{
    Callback, Change, Clock, ErrorKind, News, OutboxRow, PortError, Store, StoreError, Subscribers,
    SubscriptionRecord,
};
use crate::subscriptions::wants;
use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use vnfm_types::v1::{self, Edition};
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

/// How long a notification is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Whatever stands in the way, counted from when it was written. Default one day.
    pub unanswered: Duration,
    /// To a subscriber that refuses it, counted from when it was refused first. Default ten minutes: what is wrong with
    /// one notification does not hold the next one back for long, and a callback that is wrong as a whole costs a
    /// notification each ten minutes until it is mended, not all of them at once.
    pub refused: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { unanswered: Duration::from_hours(24), refused: Duration::from_mins(10) }
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
        let login = SubscriptionAuthentication::deserialize(&*record.authentication).ok();
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
            let is_seen = row.tenant == record.tenant && record.sight.sees(&row.about);
            if !is_seen || !wants(&record.subscription, row) {
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

    /// Offers one notification until it is taken, and lets whoever measures know that it waits.
    async fn deliver(
        &self,
        record: &SubscriptionRecord,
        row: &OutboxRow,
        login: Option<&SubscriptionAuthentication>,
    ) -> Outcome {
        self.subscribers.waits(&record.subscription.id, Some(row.at));
        let outcome = self.offer(record, row, login).await;
        self.subscribers.waits(&record.subscription.id, None);
        outcome
    }

    async fn offer(
        &self,
        record: &SubscriptionRecord,
        row: &OutboxRow,
        login: Option<&SubscriptionAuthentication>,
    ) -> Outcome {
        let uri = &record.subscription.callback_uri;
        let callback = Callback { uri, login, edition: record.edition() };
        let told = told(record, row, self.store.installation_id());
        let (mut pause, mut refused_since) = (FIRST_PAUSE, None);
        loop {
            let Err(error) = self.subscribers.tell(&callback, &told).await else {
                return Outcome::Sent;
            };
            if self.is_enough(row, &error, &mut refused_since) {
                let (id, kind, of) = (&record.subscription.id, &row.kind, &row.instance_id);
                tracing::error!(subscription = id, callback = uri, kind, vnf_instance = of, %error, "a notification was given up");
                return Outcome::Lost;
            }
            let id = &record.subscription.id;
            tracing::warn!(subscription = id, callback = uri, %error, "a notification was not taken; it is sent again");
            self.clock.sleep(pause).await;
            if self.is_gone(&key(record)).await {
                return Outcome::Unwanted;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether a notification that was not taken is given up.
    fn is_enough(
        &self,
        row: &OutboxRow,
        error: &PortError,
        refused_since: &mut Option<Timestamp>,
    ) -> bool {
        let now = self.clock.now();
        let passed = |since: Timestamp| now.duration_since(since).unsigned_abs();
        let refused = error.kind() == ErrorKind::Refused
            && passed(*refused_since.get_or_insert(now)) >= self.patience.refused;
        refused || passed(row.at) >= self.patience.unanswered
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
    let edition = record.edition();
    let link = |path: String| json!({"href": format!("{}/{path}", record.api())});
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
    if edition == Edition::V1 {
        v1::notification(&mut body);
    }
    body
}
