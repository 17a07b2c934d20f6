//! Fan-out: one reader of the outbox, many subscriptions. A row is queued for the matching ones of its tenant.
//!
//! ```text
//! read up to 9 ─┬─ feed: 7 8 9    consumed by its subscription in batches
//!               └─ feed: full ──► behind: nothing more is queued; it reads the outbox itself until it gets to 9
//! ```

use super::{BATCH_SIZE, is_wanted, key};
use crate::ports::{OutboxRow, SubscriptionRecord};
use event_listener::Event;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tenant and id of a subscription.
pub(super) type Key = (String, String);

/// All feeds, and how far the outbox has been read for them.
#[derive(Default)]
pub(super) struct FanOut {
    state: Mutex<State>,
    changed: Event,
}

#[derive(Default)]
struct State {
    /// `None` while there are no subscriptions.
    read: Option<u64>,
    /// By tenant, then by id.
    feeds: BTreeMap<String, BTreeMap<String, Arc<Feed>>>,
}

/// The queue of one subscription.
pub(super) struct Feed {
    record: SubscriptionRecord,
    state: Mutex<Queue>,
    changed: Event,
}

#[derive(Default)]
struct Queue {
    rows: VecDeque<Arc<OutboxRow>>,
    /// True if rows after `rows` were not queued.
    is_behind: bool,
    is_deleted: bool,
}

/// What a subscription does next.
pub(super) enum Next {
    /// Deliver these notifications, in order.
    Rows(Vec<Arc<OutboxRow>>),
    /// Read the outbox itself until it has caught up.
    Behind,
    /// End: the subscription was deleted.
    Deleted,
}

impl FanOut {
    /// Replaces the list of subscriptions; returns the new ones with their feeds.
    pub(super) fn set_subscriptions(
        &self,
        all: Vec<SubscriptionRecord>,
    ) -> Vec<(SubscriptionRecord, Arc<Feed>)> {
        let listed: BTreeSet<Key> = all.iter().map(key).collect();
        let mut state = self.state();
        let known = state.feeds.values().flat_map(BTreeMap::values);
        let deleted: Vec<Key> = known
            .map(|feed| key(&feed.record))
            .filter(|key| !listed.contains(key))
            .collect();
        for key in &deleted {
            state.remove(key);
        }
        if state.read.is_none() {
            state.read = all.iter().map(|record| record.sent).min();
        }
        let mut new = Vec::new();
        for record in all {
            let (tenant, id) = key(&record);
            let read = state.read.unwrap_or_default();
            let of_tenant = state.feeds.entry(tenant).or_default();
            if let Entry::Vacant(slot) = of_tenant.entry(id) {
                let queue = Queue {
                    is_behind: record.sent < read,
                    ..Queue::default()
                };
                let state = Mutex::new(queue);
                let feed = Feed {
                    record: record.clone(),
                    state,
                    changed: Event::new(),
                };
                new.push((record, slot.insert(Arc::new(feed)).clone()));
            }
        }
        drop(state);
        self.changed.notify(usize::MAX);
        new
    }

    /// The position up to which the outbox was read; waits while there are no subscriptions.
    pub(super) async fn position(&self) -> u64 {
        loop {
            let changed = self.changed.listen();
            if let Some(read) = self.state().read {
                return read;
            }
            changed.await;
        }
    }

    /// Queues the rows that follow row `after`.
    pub(super) fn distribute(&self, after: u64, rows: Vec<OutboxRow>) {
        let mut state = self.state();
        // Meanwhile all subscriptions were deleted, and others were created.
        if state.read != Some(after) {
            return;
        }
        for row in rows {
            state.read = Some(row.seq);
            let Some(of_tenant) = state.feeds.get(&row.tenant) else {
                continue;
            };
            let row = Arc::new(row);
            for feed in of_tenant.values() {
                feed.push(&row);
            }
        }
    }

    /// What a subscription that has progressed to row `sent` does next.
    pub(super) async fn next(&self, feed: &Feed, sent: u64) -> Next {
        loop {
            let changed = feed.changed.listen();
            {
                let mut queue = feed.queue();
                if queue.is_deleted {
                    return Next::Deleted;
                }
                queue.rows.retain(|row| row.seq > sent);
                if !queue.rows.is_empty() {
                    let count = queue.rows.len().min(BATCH_SIZE);
                    return Next::Rows(queue.rows.drain(..count).collect());
                }
                if queue.is_behind {
                    return Next::Behind;
                }
            }
            changed.await;
        }
    }

    /// A subscription has read the outbox up to row `sent` itself, up to the end if `is_end`. If the reader is not further, new
    /// rows are queued for it again. Returns its position.
    pub(super) fn caught_up(&self, feed: &Feed, sent: u64, is_end: bool) -> u64 {
        let state = self.state();
        let read = state.read.unwrap_or_default();
        // Rows up to there were pruned.
        let sent = if is_end { sent.max(read) } else { sent };
        if sent >= read {
            feed.queue().is_behind = false;
        }
        sent
    }

    pub(super) fn remove(&self, key: &Key) {
        self.state().remove(key);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, (tenant, id): &Key) {
        let Some(of_tenant) = self.feeds.get_mut(tenant) else {
            return;
        };
        if let Some(feed) = of_tenant.remove(id) {
            feed.queue().is_deleted = true;
            feed.changed.notify(usize::MAX);
        }
        if of_tenant.is_empty() {
            self.feeds.remove(tenant);
        }
        if self.feeds.is_empty() {
            self.read = None;
        }
    }
}

impl Feed {
    /// Queues a matching row if there is room; otherwise the subscription reads on from there itself.
    fn push(&self, row: &Arc<OutboxRow>) {
        let mut queue = self.queue();
        if queue.is_behind || row.seq <= self.record.sent || !is_wanted(&self.record, row) {
            return;
        }
        if queue.rows.len() < BATCH_SIZE {
            queue.rows.push_back(row.clone());
        } else {
            queue.is_behind = true;
        }
        drop(queue);
        self.changed.notify(usize::MAX);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
