//! Limits for connections: in total and per address. IPv6 addresses count by their /64.
//!
//! If no slot is free, an inactive connection is closed: one without a request yet, otherwise an idle one, otherwise
//! one whose request body is incomplete. The oldest goes first; for the total limit, from the address with the most
//! connections. So incomplete requests cannot lock anyone out, wherever they come from. The newest connection stays: its
//! request may be on its way, and a slot is freed before the next client connects.

use super::activity::{Activity, Idleness};
use crate::client_address::Source;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits for the connections of a listener.
#[derive(Clone)]
pub(crate) struct ConnectionLimits {
    all: Arc<Semaphore>,
    per_address: usize,
    book: Arc<Mutex<Open>>,
}

/// The connections that are open, in total and by address.
#[derive(Default)]
struct Open {
    next: u64,
    /// With a sequence number, the oldest first.
    connections: HashMap<Source, Vec<(u64, Arc<Activity>)>>,
    /// Requests by way of proxies.
    requests: HashMap<Source, usize>,
}

/// A slot, until it is dropped.
pub(super) struct Permit {
    _slot: Option<OwnedSemaphorePermit>,
    entry: Entry,
    book: Arc<Mutex<Open>>,
}

/// What dropping the permit removes from [`Open`].
enum Entry {
    None,
    Connection(Source, u64),
    Request(Source),
}

impl ConnectionLimits {
    /// At most `all` connections, and `per_address` for each address.
    pub(crate) fn new(all: usize, per_address: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.clamp(1, Semaphore::MAX_PERMITS)));
        Self {
            all,
            per_address: per_address.max(1),
            book: Arc::default(),
        }
    }

    /// Waits for a free slot.
    pub(super) async fn acquire(&self) -> Permit {
        if self.all.available_permits() == 0 {
            locked(&self.book).make_room();
        }
        // The semaphore is never closed.
        let slot = self.all.clone().acquire_owned().await.ok();
        Permit {
            _slot: slot,
            entry: Entry::None,
            book: self.book.clone(),
        }
    }

    /// Assigns the permit to an address; `None` if that has too many connections. A proxy's address has no limit.
    pub(super) fn register(
        &self,
        mut permit: Permit,
        (address, is_proxy): (IpAddr, bool),
        activity: &Arc<Activity>,
    ) -> Option<Permit> {
        let source = Source::from_address(Some(address));
        let mut book = locked(&self.book);
        book.next += 1;
        let number = book.next;
        let own = book.connections.entry(source).or_default();
        // An evicted connection may not have closed yet.
        let remaining = own
            .iter()
            .filter(|(_, activity)| !activity.is_evicted())
            .count();
        if !is_proxy && remaining >= self.per_address && !evict_idlest(own, None) {
            return None;
        }
        own.push((number, activity.clone()));
        permit.entry = Entry::Connection(source, number);
        Some(permit)
    }

    /// A permit for a request that a proxy forwarded for `address`; `None` if that has too many.
    pub(super) fn acquire_request(&self, address: IpAddr) -> Option<Permit> {
        let source = Source::from_address(Some(address));
        let mut book = locked(&self.book);
        let own = book.requests.entry(source).or_default();
        if *own >= self.per_address {
            return None;
        }
        *own += 1;
        Some(Permit {
            _slot: None,
            entry: Entry::Request(source),
            book: self.book.clone(),
        })
    }
}

impl Open {
    /// Evicts the idlest connection of the address that has the most, unless an eviction is already
    /// pending; not the newest one.
    fn make_room(&mut self) {
        let mut all = self.connections.values().flatten();
        if all.any(|(_, activity)| activity.is_evicted()) {
            return;
        }
        let mut all: Vec<_> = self.connections.values().collect();
        all.sort_by_key(|own| std::cmp::Reverse(own.len()));
        let _ = all
            .into_iter()
            .any(|own| evict_idlest(own, Some(self.next)));
    }
}

/// Evicts the idlest connection other than `kept`; false if all others are busy.
fn evict_idlest(own: &[(u64, Arc<Activity>)], kept: Option<u64>) -> bool {
    let idle = |(_, activity): &&(u64, Arc<Activity>)| activity.idleness() != Idleness::Responding;
    let remaining = own
        .iter()
        .filter(|(number, activity)| !activity.is_evicted() && Some(*number) != kept)
        .filter(idle);
    let least = remaining.min_by_key(|(number, activity)| (activity.idleness(), *number));
    if let Some((_, activity)) = least {
        activity.evict();
    }
    least.is_some()
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut book = locked(&self.book);
        match self.entry {
            Entry::None => {}
            Entry::Connection(source, number) => {
                if let Some(own) = book.connections.get_mut(&source) {
                    own.retain(|(one, _)| *one != number);
                    if own.is_empty() {
                        book.connections.remove(&source);
                    }
                }
            }
            Entry::Request(source) => {
                if let Some(own) = book.requests.get_mut(&source) {
                    *own -= 1;
                    if *own == 0 {
                        book.requests.remove(&source);
                    }
                }
            }
        }
    }
}

fn locked(book: &Mutex<Open>) -> MutexGuard<'_, Open> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::activity::{Activity, Busy};
    use super::{ConnectionLimits, Permit};
    use futures::future::FutureExt as _;
    use std::net::IpAddr;
    use std::sync::Arc;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// A connection; `is_busy`: with a response in progress.
    async fn connect(
        limits: &ConnectionLimits,
        address: IpAddr,
        is_busy: bool,
    ) -> Option<(Permit, Arc<Activity>, Option<Busy>)> {
        let activity = Arc::new(Activity::default());
        let permit = limits.register(limits.acquire().await, (address, false), &activity)?;
        let busy = is_busy.then(|| Busy::new(activity.clone()));
        Some((permit, activity, busy))
    }

    #[tokio::test]
    async fn one_address_cannot_take_all_slots_and_closed_connections_free_them() {
        let limits = ConnectionLimits::new(3, 2);
        let first = connect(&limits, ADDRESS, true).await.unwrap();
        let _second = connect(&limits, ADDRESS, true).await.unwrap();
        assert!(connect(&limits, ADDRESS, true).await.is_none());
        let _other = connect(&limits, OTHER, true).await.unwrap();
        assert!(limits.acquire().now_or_never().is_none(), "all are busy");
        drop(first);
        assert!(connect(&limits, ADDRESS, true).await.is_some());
    }

    #[tokio::test]
    async fn an_idle_connection_is_evicted_and_a_busy_one_stays() {
        let limits = ConnectionLimits::new(4, 2);
        let (_permit, busy, _guard) = connect(&limits, ADDRESS, true).await.unwrap();
        let (_idle_permit, silent, _) = connect(&limits, ADDRESS, false).await.unwrap();
        let next = connect(&limits, ADDRESS, false).await;
        assert!(next.is_some(), "an idle one of its address made room");
        assert!(silent.is_evicted() && !busy.is_evicted());
    }

    #[tokio::test]
    async fn at_the_total_limit_the_address_with_the_most_connections_is_evicted() {
        let limits = ConnectionLimits::new(4, 4);
        let victim = connect(&limits, OTHER, false).await.unwrap();
        let mut flood = Vec::new();
        for _ in 0..3 {
            flood.push(connect(&limits, ADDRESS, false).await.unwrap());
        }
        assert!(
            limits.acquire().now_or_never().is_none(),
            "it waits for the evicted one"
        );
        let evicted: Vec<_> = flood
            .iter()
            .map(|(_, activity, _)| activity.is_evicted())
            .collect();
        assert_eq!(evicted, [true, false, false], "the oldest");
        for _ in 0..9 {
            assert!(limits.acquire().now_or_never().is_none());
        }
        assert!(
            !flood[1].1.is_evicted() && !victim.1.is_evicted(),
            "one slot, one eviction"
        );
        drop(flood.remove(0));
        assert!(connect(&limits, OTHER, false).await.is_some());
    }

    #[tokio::test]
    async fn the_newest_connection_stays_although_its_request_has_not_arrived() {
        let limits = ConnectionLimits::new(2, 2);
        let (_stalled_permit, stalled, _guard) = connect(&limits, OTHER, true).await.unwrap();
        stalled.set_waiting_for_body(true);
        let (_permit, newest, _) = connect(&limits, ADDRESS, false).await.unwrap();
        assert!(limits.acquire().now_or_never().is_none());
        assert!(stalled.is_evicted() && !newest.is_evicted());
    }

    #[test]
    fn forwarded_requests_count_for_the_address_of_the_client() {
        let limits = ConnectionLimits::new(1, 1);
        let first = limits.acquire_request(ADDRESS).unwrap();
        assert!(
            limits.acquire_request(ADDRESS).is_none() && limits.acquire_request(OTHER).is_some()
        );
        drop(first);
        assert!(limits.acquire_request(ADDRESS).is_some());
    }
}
