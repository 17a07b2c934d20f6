//! Delivers notifications from the outbox.
//!
//! ```text
//!                       ┌─ subscription a ── 7 8 9 ──► callback   in outbox order, one after the other,
//!  outbox ─ one reader ─┼─ subscription b ── 7 8   ──X            retried with growing pauses until accepted;
//!  (7, 8, 9)            └─ subscription c ── 7 8 9 ──► callback   none waits for another
//! ```
//! Each row is read once and queued for the matching subscriptions of its tenant; other subscriptions cost nothing. A slow
//! subscription has one batch queued; what follows it reads from the outbox itself when it gets there.
//!
//! Progress is stored after each batch, so after a crash the last few notifications are sent again: at least once, with
//! the same `id`. A notification not accepted within [`DeliveryTimeouts`] is given up, logged as an error, and counted: an
//! unreachable subscriber gets hours; a notification that is refused gets minutes, and then makes way for the next one.

mod fan_out;

use self::fan_out::{FanOut, Feed, Key, Next};
use crate::ports::{
    Callback, Change, ChangeCounters, Clock, ErrorKind, OutboxRow, PortError, Store, StoreError,
    Subscribers, SubscriptionRecord,
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
use vnfm_types::v1::{self, ApiVersion};
use vnfm_types::{LcmOpOccNotificationVerbosity, SubscriptionAuthentication};

/// Number of notifications that are read at once.
const BATCH_SIZE: usize = 50;
/// The pause after the first failed delivery; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// Members omitted from SHORT notifications: what was changed.
const CHANGE_MEMBERS: &[&str] = &[
    "affectedVnfcs",
    "affectedVirtualLinks",
    "affectedExtLinkPorts",
    "affectedVirtualStorages",
    "affectedVipCps",
    "changedInfo",
    "changedExtConnectivity",
    "modificationsTriggeredByVnfPkgChange",
];

/// How long delivery of a notification is attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryTimeouts {
    /// In any case, from when it was written. Default one day.
    pub unanswered: Duration,
    /// By a subscriber that refuses it, from the first refusal. Default ten minutes: a single bad notification does not
    /// delay the next ones for long, and a wrong callback loses one notification every ten minutes until it is fixed,
    /// not all of them at once.
    pub refused: Duration,
}

impl Default for DeliveryTimeouts {
    fn default() -> Self {
        Self {
            unanswered: Duration::from_hours(24),
            refused: Duration::from_mins(10),
        }
    }
}

/// Delivers notifications to subscribers, in order and at least once.
pub struct Notifier {
    /// Source of the outbox and the subscriptions.
    pub store: Arc<dyn Store>,
    /// Clock for pauses between attempts, and for timeouts.
    pub clock: Arc<dyn Clock>,
    /// Sends notifications to the callback URIs.
    pub subscribers: Arc<dyn Subscribers>,
    /// How long undelivered notifications are retried.
    pub patience: DeliveryTimeouts,
}

/// Completion of a task of the notifier.
enum Event {
    /// The current subscriptions, as of these counters.
    Subscriptions(ChangeCounters, Vec<SubscriptionRecord>),
    /// The subscription was deleted meanwhile.
    Deleted,
}

/// Result of delivering one notification.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Sent,
    Lost,
    /// The subscription was deleted meanwhile.
    Unsubscribed,
}

impl Notifier {
    /// Runs forever. When dropped, the next notifier continues from the stored progress.
    pub async fn run(&self) {
        let fan_out = &FanOut::default();
        // All tasks are polled together: one that is not polled could hold what another one needs.
        let mut tasks = FuturesUnordered::new();
        tasks.push(self.watch_subscriptions(None).boxed());
        tasks.push(self.distribute(fan_out).boxed());
        while let Some(event) = tasks.next().await {
            if let Event::Subscriptions(seen, all) = event {
                for (record, feed) in fan_out.set_subscriptions(all) {
                    tasks.push(self.serve(record, fan_out, feed).boxed());
                }
                tasks.push(self.watch_subscriptions(Some(seen)).boxed());
            }
        }
    }

    /// Reads the outbox once for all subscriptions.
    async fn distribute(&self, fan_out: &FanOut) -> Event {
        let mut seen = ChangeCounters::default();
        loop {
            let after = fan_out.position().await;
            match self.store.outbox(after, BATCH_SIZE).await {
                Ok(rows) if rows.is_empty() => {
                    let outbox = seen.outbox;
                    while seen.outbox == outbox {
                        seen = self.store.wait_for_changes(seen).await;
                    }
                }
                Ok(rows) => fan_out.distribute(after, rows),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the outbox");
                    self.clock.sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Waits until the subscriber list differs from `seen`, then returns it.
    async fn watch_subscriptions(&self, seen: Option<ChangeCounters>) -> Event {
        let mut now = seen.unwrap_or_default();
        while seen.is_some_and(|seen| seen.subscriptions == now.subscriptions) {
            now = self.store.wait_for_changes(now).await;
        }
        loop {
            match self.store.subscribers().await {
                Ok(all) => return Event::Subscriptions(now, all),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the subscriptions");
                    self.clock.sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Delivers to one subscription until it is deleted.
    async fn serve(
        &self,
        mut record: SubscriptionRecord,
        fan_out: &FanOut,
        feed: Arc<Feed>,
    ) -> Event {
        let login = SubscriptionAuthentication::deserialize(&*record.authentication).ok();
        loop {
            let sent = match fan_out.next(&feed, record.sent).await {
                Next::Deleted => return Event::Deleted,
                Next::Rows(rows) => self.send(&mut record, &rows, true, login.as_ref()).await,
                Next::Behind => {
                    self.catch_up(&mut record, fan_out, &feed, login.as_ref())
                        .await
                }
            };
            match sent {
                Ok(true) => {}
                Ok(false) => {
                    fan_out.remove(&key(&record));
                    return Event::Deleted;
                }
                Err(error) => {
                    let id = &record.subscription.id;
                    tracing::warn!(subscription = id, %error, "cannot deliver notifications for now");
                    self.clock.sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Reads one batch from the outbox for a subscription that is behind. False if it was deleted.
    async fn catch_up(
        &self,
        record: &mut SubscriptionRecord,
        fan_out: &FanOut,
        feed: &Feed,
        login: Option<&SubscriptionAuthentication>,
    ) -> Result<bool, StoreError> {
        let rows: Vec<_> = self
            .store
            .outbox(record.sent, BATCH_SIZE)
            .await?
            .into_iter()
            .map(Arc::new)
            .collect();
        let is_full = rows.len() == BATCH_SIZE;
        if !rows.is_empty() && !self.send(record, &rows, is_full, login).await? {
            return Ok(false);
        }
        record.sent = fan_out.caught_up(feed, record.sent, rows.is_empty());
        Ok(true)
    }

    /// Delivers the matching rows and stores the progress; with `must_store` also if no row matched. False if the subscription was deleted.
    async fn send(
        &self,
        record: &mut SubscriptionRecord,
        rows: &[Arc<OutboxRow>],
        mut must_store: bool,
        login: Option<&SubscriptionAuthentication>,
    ) -> Result<bool, StoreError> {
        let mut lost = 0;
        for row in rows.iter().filter(|row| row.seq > record.sent) {
            if !is_wanted(record, row) {
                continue;
            }
            if self.is_deleted(&key(record)).await {
                return Ok(false);
            }
            match self.deliver(record, row, login).await {
                Outcome::Sent => {}
                Outcome::Lost => lost += 1,
                Outcome::Unsubscribed => return Ok(false),
            }
            must_store = true;
        }
        let Some(last) = rows.last().map(|row| row.seq) else {
            return Ok(true);
        };
        record.sent = record.sent.max(last);
        if must_store {
            let (tenant, id) = key(record);
            let sent = Change::AdvanceSubscription {
                tenant,
                id,
                seq: last,
                lost,
            };
            self.store.write(None, vec![sent]).await?;
        }
        Ok(true)
    }

    /// Delivers one notification, and reports while it waits.
    async fn deliver(
        &self,
        record: &SubscriptionRecord,
        row: &OutboxRow,
        login: Option<&SubscriptionAuthentication>,
    ) -> Outcome {
        self.subscribers
            .report_waiting(&record.subscription.id, Some(row.at));
        let outcome = self.offer(record, row, login).await;
        self.subscribers
            .report_waiting(&record.subscription.id, None);
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
            api_version: record.api_version(),
        };
        let body = body_for(record, row, self.store.installation_id());
        let (mut pause, mut refused_since) = (FIRST_PAUSE, None);
        loop {
            let Err(error) = self.subscribers.notify(&callback, &body).await else {
                return Outcome::Sent;
            };
            if self.should_give_up(row, &error, &mut refused_since) {
                let (id, kind, of) = (&record.subscription.id, &row.kind, &row.instance_id);
                tracing::error!(subscription = id, callback = uri, kind, vnf_instance = of, %error, "notification given up");
                return Outcome::Lost;
            }
            let id = &record.subscription.id;
            tracing::warn!(subscription = id, callback = uri, %error, "notification not accepted; it will be sent again");
            self.clock.sleep(pause).await;
            if self.is_deleted(&key(record)).await {
                return Outcome::Unsubscribed;
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Whether to give up a notification.
    fn should_give_up(
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

    async fn is_deleted(&self, (tenant, id): &Key) -> bool {
        matches!(
            self.store.subscription(tenant, id).await,
            Err(StoreError::NotFound { .. })
        )
    }
}

/// Whether a notification is visible to a subscription and matches its filter.
fn is_wanted(record: &SubscriptionRecord, row: &OutboxRow) -> bool {
    let is_seen = row.tenant == record.tenant && record.scope.sees(&row.about);
    is_seen && wants(&record.subscription, row)
}

fn key(record: &SubscriptionRecord) -> Key {
    (record.tenant.clone(), record.subscription.id.clone())
}

/// The notification for one subscription. Its `id` is the same for all subscriptions and all attempts.
fn body_for(record: &SubscriptionRecord, row: &OutboxRow, installation_id: &str) -> Value {
    let subscription = &record.subscription;
    let edition = record.api_version();
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
        body["verbosity"] = json!(subscription.verbosity);
        if subscription.verbosity == LcmOpOccNotificationVerbosity::Short
            && let Some(members) = body.as_object_mut()
        {
            members.retain(|name, _| !CHANGE_MEMBERS.contains(&name.as_str()));
        }
    }
    body["_links"] = links;
    if edition == ApiVersion::V1 {
        v1::notification(&mut body);
    }
    body
}
