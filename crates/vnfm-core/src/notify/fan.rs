//! One reader of the outbox, many subscriptions: a row is handed to those of its tenant that want it.
//!
//! ```text
//! read up to 9 ─┬─ feed: 7 8 9     taken by its subscription, a handful at a time
//!               └─ feed: full ──►  behind: nothing more is handed to it; it reads for itself until it gets to 9
//! ```

use super::{HANDFUL, is_wanted, key};
use crate::ports::{OutboxRow, SubscriptionRecord};
use event_listener::Event;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of a subscription: tenant and id.
pub(super) type Key = (String, String);

/// All feeds, and how far the outbox is read for them.
#[derive(Default)]
pub(super) struct Fan {
    state: Mutex<State>,
    changed: Event,
}

#[derive(Default)]
struct State {
    /// `None` as long as nobody is told.
    read: Option<u64>,
    /// By tenant and id.
    feeds: BTreeMap<String, BTreeMap<String, Arc<Feed>>>,
}

/// What is handed to one subscription.
pub(super) struct Feed {
    record: SubscriptionRecord,
    state: Mutex<Handed>,
    changed: Event,
}

#[derive(Default)]
struct Handed {
    rows: VecDeque<Arc<OutboxRow>>,
    /// What follows on `rows` was not handed to it.
    is_behind: bool,
    is_gone: bool,
}

/// What a subscription does next.
pub(super) enum Next {
    /// Sends these notifications, in order.
    Rows(Vec<Arc<OutboxRow>>),
    /// Reads the outbox by itself until it has caught up.
    Behind,
    /// Ends: the subscription was deleted.
    Gone,
}

impl Fan {
    /// From now on these are told, and no others; those that were not told before, with their feeds.
    pub(super) fn are_told(
        &self,
        all: Vec<SubscriptionRecord>,
    ) -> Vec<(SubscriptionRecord, Arc<Feed>)> {
        let listed: BTreeSet<Key> = all.iter().map(key).collect();
        let mut state = self.state();
        let known = state.feeds.values().flat_map(BTreeMap::values);
        let gone: Vec<Key> = known
            .map(|feed| key(&feed.record))
            .filter(|key| !listed.contains(key))
            .collect();
        for key in &gone {
            state.forget(key);
        }
        if state.read.is_none() {
            state.read = all.iter().map(|record| record.sent).min();
        }
        let mut new = Vec::new();
        for record in all {
            let (tenant, id) = key(&record);
            let read = state.read.unwrap_or_default();
            let of_tenant = state.feeds.entry(tenant).or_default();
            if let Entry::Vacant(place) = of_tenant.entry(id) {
                let handed = Handed {
                    is_behind: record.sent < read,
                    ..Handed::default()
                };
                let state = Mutex::new(handed);
                let feed = Feed {
                    record: record.clone(),
                    state,
                    changed: Event::new(),
                };
                new.push((record, place.insert(Arc::new(feed)).clone()));
            }
        }
        drop(state);
        self.changed.notify(usize::MAX);
        new
    }

    /// Up to where the outbox is read; completes once somebody is to be told.
    pub(super) async fn is_read(&self) -> u64 {
        loop {
            let changed = self.changed.listen();
            if let Some(read) = self.state().read {
                return read;
            }
            changed.await;
        }
    }

    /// Hands out what follows on row `after`.
    pub(super) fn hand_out(&self, after: u64, rows: Vec<OutboxRow>) {
        let mut state = self.state();
        // Meanwhile nobody was told any more, and then somebody else.
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
                feed.hand(&row);
            }
        }
    }

    /// What a subscription that is told up to row `sent` does next.
    pub(super) async fn next(&self, feed: &Feed, sent: u64) -> Next {
        loop {
            let changed = feed.changed.listen();
            {
                let mut handed = feed.handed();
                if handed.is_gone {
                    return Next::Gone;
                }
                handed.rows.retain(|row| row.seq > sent);
                if !handed.rows.is_empty() {
                    let count = handed.rows.len().min(HANDFUL);
                    return Next::Rows(handed.rows.drain(..count).collect());
                }
                if handed.is_behind {
                    return Next::Behind;
                }
            }
            changed.await;
        }
    }

    /// A subscription read up to row `sent` for itself, to the end where `is_end`: where the reader is no further it is
    /// handed what follows. Returns where it is.
    pub(super) fn caught_up(&self, feed: &Feed, sent: u64, is_end: bool) -> u64 {
        let state = self.state();
        let read = state.read.unwrap_or_default();
        // What is not there any more was pruned.
        let sent = if is_end { sent.max(read) } else { sent };
        if sent >= read {
            feed.handed().is_behind = false;
        }
        sent
    }

    /// A subscription is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.state().forget(key);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, (tenant, id): &Key) {
        let Some(of_tenant) = self.feeds.get_mut(tenant) else {
            return;
        };
        if let Some(feed) = of_tenant.remove(id) {
            feed.handed().is_gone = true;
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
    /// Hands it a row, if it wants that and has room; else it reads for itself from there.
    fn hand(&self, row: &Arc<OutboxRow>) {
        let mut handed = self.handed();
        if handed.is_behind || row.seq <= self.record.sent || !is_wanted(&self.record, row) {
            return;
        }
        if handed.rows.len() < HANDFUL {
            handed.rows.push_back(row.clone());
        } else {
            handed.is_behind = true;
        }
        drop(handed);
        self.changed.notify(usize::MAX);
    }

    fn handed(&self) -> MutexGuard<'_, Handed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
