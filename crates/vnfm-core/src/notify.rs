//! Notifications leave from the outbox.
//!
//! ```text
//!                       ┌─ subscription a ── 7 8 9 ──► callback     each in the order of the outbox, one after the other,
//!  outbox ─ one reader ─┼─ subscription b ── 7 8   ──X               again with growing pauses until it is taken
//!  (7, 8, 9)            └─ subscription c ── 7 8 9 ──► callback     nobody waits for another one
//! ```
//! Each row is read once and handed to the subscriptions of its tenant that want it: those of others cost nothing. One
//! that is slow has a handful handed to it; what comes after that it reads for itself, once it gets there.
//!
//! How far a subscription is, is stored behind each handful, so after a crash the last few are sent again: at least
//! once, with the same `id`. What is not taken for [`Patience`] is given up, said loudly, and counted: a subscriber that
//! cannot be reached gets hours, a notification that it refuses gets minutes and then makes room for the next one.

mod fan;

use self::fan::{Fan, Feed, Key, Next};
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
        Self {
            unanswered: Duration::from_hours(24),
            refused: Duration::from_mins(10),
        }
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

/// What a notifier hears of itself.
enum Event {
    /// Who is told, as of this news.
    Known(News, Vec<SubscriptionRecord>),
    /// A subscription that is gone.
    Gone,
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
        let fan = &Fan::default();
        // Everything that waits is in here, and so always goes on: one that stood still could hold what another needs.
        let mut going = FuturesUnordered::new();
        going.push(self.look(None).boxed());
        going.push(self.hand_out(fan).boxed());
        while let Some(event) = going.next().await {
            if let Event::Known(seen, all) = event {
                for (record, feed) in fan.are_told(all) {
                    going.push(self.serve(record, fan, feed).boxed());
                }
                going.push(self.look(Some(seen)).boxed());
            }
        }
    }

    /// Reads the outbox, once for all subscriptions.
    async fn hand_out(&self, fan: &Fan) -> Event {
        let mut seen = News::default();
        loop {
            let after = fan.is_read().await;
            match self.store.outbox(after, HANDFUL).await {
                Ok(rows) if rows.is_empty() => {
                    let outbox = seen.outbox;
                    while seen.outbox == outbox {
                        seen = self.store.news(seen).await;
                    }
                }
                Ok(rows) => fan.hand_out(after, rows),
                Err(error) => {
                    tracing::warn!(%error, "cannot read what subscribers are to be told");
                    self.clock.sleep(FIRST_PAUSE).await;
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
    async fn serve(&self, mut record: SubscriptionRecord, fan: &Fan, feed: Arc<Feed>) -> Event {
        let login = SubscriptionAuthentication::deserialize(&*record.authentication).ok();
        loop {
            let sent = match fan.next(&feed, record.sent).await {
                Next::Gone => return Event::Gone,
                Next::Rows(rows) => self.send(&mut record, (&rows, true), login.as_ref()).await,
                Next::Behind => {
                    self.catch_up(&mut record, (fan, &feed), login.as_ref())
                        .await
                }
            };
            match sent {
                Ok(true) => {}
                Ok(false) => {
                    fan.forget(&key(&record));
                    return Event::Gone;
                }
                Err(error) => {
                    let id = &record.subscription.id;
                    tracing::warn!(subscription = id, %error, "cannot send notifications for now");
                    self.clock.sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Reads for a subscription alone what it has not been handed, a handful at a time. False: it is gone.
    async fn catch_up(
        &self,
        record: &mut SubscriptionRecord,
        (fan, feed): (&Fan, &Feed),
        login: Option<&SubscriptionAuthentication>,
    ) -> Result<bool, StoreError> {
        let rows: Vec<_> = self
            .store
            .outbox(record.sent, HANDFUL)
            .await?
            .into_iter()
            .map(Arc::new)
            .collect();
        let is_whole = rows.len() == HANDFUL;
        if !rows.is_empty() && !self.send(record, (&rows, is_whole), login).await? {
            return Ok(false);
        }
        record.sent = fan.caught_up(feed, record.sent, rows.is_empty());
        Ok(true)
    }

    /// Sends what of these is wanted, and notes how far it is. False: the subscription is gone.
    async fn send(
        &self,
        record: &mut SubscriptionRecord,
        (rows, mut to_note): (&[Arc<OutboxRow>], bool),
        login: Option<&SubscriptionAuthentication>,
    ) -> Result<bool, StoreError> {
        let mut lost = 0;
        for row in rows.iter().filter(|row| row.seq > record.sent) {
            if !is_wanted(record, row) {
                continue;
            }
            if self.is_gone(&key(record)).await {
                return Ok(false);
            }
            match self.deliver(record, row, login).await {
                Outcome::Sent => {}
                Outcome::Lost => lost += 1,
                Outcome::Unwanted => return Ok(false),
            }
            to_note = true;
        }
        let Some(last) = rows.last().map(|row| row.seq) else {
            return Ok(true);
        };
        record.sent = record.sent.max(last);
        if to_note {
            let (tenant, id) = key(record);
            let sent = Change::Sent {
                tenant,
                id,
                seq: last,
                lost,
            };
            self.store.write(None, vec![sent]).await?;
        }
        Ok(true)
    }

    /// Offers one notification until it is taken, and lets whoever measures know that it waits.
    async fn deliver(
        &self,
        record: &SubscriptionRecord,
        row: &OutboxRow,
        login: Option<&SubscriptionAuthentication>,
    ) -> Outcome {
        self.subscribers
            .waits(&record.subscription.id, Some(row.at));
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
        let callback = Callback {
            uri,
            login,
            edition: record.edition(),
        };
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
        matches!(
            self.store.subscription(tenant, id).await,
            Err(StoreError::NotFound { .. })
        )
    }
}

/// Whether a subscription is to be told of it.
fn is_wanted(record: &SubscriptionRecord, row: &OutboxRow) -> bool {
    let is_seen = row.tenant == record.tenant && record.sight.sees(&row.about);
    is_seen && wants(&record.subscription, row)
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
    let id = Uuid::new_v5(
        &Uuid::NAMESPACE_OID,
        format!("{installation_id}/{}", row.seq).as_bytes(),
    );
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
