//! How many connections there are: in all, and of each address. An address of IPv6 counts with its /64.
//!
//! Where there is no place for one more, a connection that does nothing makes room: one that has not sent a request yet,
//! else an idle one, else one whose request does not come to its end; the oldest first, and in all of the address that
//! has the most. So half requests keep nobody out, whoever sends them from wherever.

use super::watched::{Activity, Idleness};
use crate::access::attempts::Source;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for connections.
#[derive(Clone)]
pub struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    book: Arc<Mutex<Book>>,
}

/// Who is there.
#[derive(Default)]
struct Book {
    next: u64,
    /// By their number, so the oldest comes first.
    connections: HashMap<Source, Vec<(u64, Arc<Activity>)>>,
    /// Requests that proxies passed on.
    requests: HashMap<Source, usize>,
}

/// A place of a connection, until it is dropped.
pub(super) struct Place {
    _one: Option<OwnedSemaphorePermit>,
    entry: Entry,
    book: Arc<Mutex<Book>>,
}

/// What of the book ends with a place.
enum Entry {
    None,
    Connection(Source, u64),
    Request(Source),
}

impl Places {
    /// Places for `all` connections, and for `of_one` of each address.
    pub fn new(all: usize, of_one: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.clamp(1, Semaphore::MAX_PERMITS)));
        Self {
            all,
            of_one: of_one.max(1),
            book: Arc::default(),
        }
    }

    /// A place for a connection, once there is one.
    pub(super) async fn one(&self) -> Place {
        if self.all.available_permits() == 0 {
            locked(&self.book).make_room();
        }
        // Nobody closes the semaphore.
        let one = self.all.clone().acquire_owned().await.ok();
        Place {
            _one: one,
            entry: Entry::None,
            book: self.book.clone(),
        }
    }

    /// The same for a connection of an address; of a proxy there may be any number.
    pub(super) fn of(
        &self,
        mut place: Place,
        (address, is_proxy): (IpAddr, bool),
        activity: &Arc<Activity>,
    ) -> Option<Place> {
        let source = Source::of(Some(address));
        let mut book = locked(&self.book);
        book.next += 1;
        let number = book.next;
        let own = book.connections.entry(source).or_default();
        // One that was told to go may still be there.
        let staying = own
            .iter()
            .filter(|(_, activity)| !activity.is_told_to_go())
            .count();
        if !is_proxy && staying >= self.of_one && !let_go(own) {
            return None;
        }
        own.push((number, activity.clone()));
        place.entry = Entry::Connection(source, number);
        Some(place)
    }

    /// A place for a request that a proxy passed on for an address, if that has one left.
    pub(super) fn request_of(&self, address: IpAddr) -> Option<Place> {
        let source = Source::of(Some(address));
        let mut book = locked(&self.book);
        let own = book.requests.entry(source).or_default();
        if *own >= self.of_one {
            return None;
        }
        *own += 1;
        Some(Place {
            _one: None,
            entry: Entry::Request(source),
            book: self.book.clone(),
        })
    }
}

impl Book {
    /// Of the address that has the most connections, and has one that does nothing, that one makes room; nobody does
    /// while somebody is about to.
    fn make_room(&mut self) {
        let mut everybody = self.connections.values().flatten();
        if everybody.any(|(_, activity)| activity.is_told_to_go()) {
            return;
        }
        let mut all: Vec<_> = self.connections.values().collect();
        all.sort_by_key(|own| std::cmp::Reverse(own.len()));
        let _ = all.into_iter().any(|own| let_go(own));
    }
}

/// Tells the one that does least to go; false where each is at work.
fn let_go(own: &[(u64, Arc<Activity>)]) -> bool {
    let idle = |(_, activity): &&(u64, Arc<Activity>)| activity.idleness() != Idleness::AtWork;
    let staying = own
        .iter()
        .filter(|(_, activity)| !activity.is_told_to_go())
        .filter(idle);
    let least = staying.min_by_key(|(number, activity)| (activity.idleness(), *number));
    if let Some((_, activity)) = least {
        activity.go();
    }
    least.is_some()
}

impl Drop for Place {
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

fn locked(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::watched::{Activity, Busy};
    use super::{Place, Places};
    use futures::future::FutureExt as _;
    use std::net::IpAddr;
    use std::sync::Arc;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// A connection, with a request that is being answered where it is `at_work`.
    async fn one(
        places: &Places,
        address: IpAddr,
        at_work: bool,
    ) -> Option<(Place, Arc<Activity>, Option<Busy>)> {
        let activity = Arc::new(Activity::default());
        let place = places.of(places.one().await, (address, false), &activity)?;
        let busy = at_work.then(|| Busy::new(activity.clone()));
        Some((place, activity, busy))
    }

    #[tokio::test]
    async fn one_address_does_not_get_all_places_and_what_ends_is_free_again() {
        let places = Places::new(3, 2);
        let first = one(&places, HERE, true).await.unwrap();
        let _second = one(&places, HERE, true).await.unwrap();
        assert!(one(&places, HERE, true).await.is_none());
        let _other = one(&places, THERE, true).await.unwrap();
        assert!(places.one().now_or_never().is_none(), "all are at work");
        drop(first);
        assert!(one(&places, HERE, true).await.is_some());
    }

    #[tokio::test]
    async fn who_does_nothing_makes_room_and_who_is_at_work_stays() {
        let places = Places::new(4, 2);
        let (_place, at_work, _held) = one(&places, HERE, true).await.unwrap();
        let (_idle_place, silent, _) = one(&places, HERE, false).await.unwrap();
        let next = one(&places, HERE, false).await;
        assert!(next.is_some(), "of its own address");
        assert!(silent.is_told_to_go() && !at_work.is_told_to_go());
    }

    #[tokio::test]
    async fn where_all_are_taken_the_address_with_the_most_makes_room() {
        let places = Places::new(4, 4);
        let victim = one(&places, THERE, false).await.unwrap();
        let mut flood = Vec::new();
        for _ in 0..3 {
            flood.push(one(&places, HERE, false).await.unwrap());
        }
        assert!(
            places.one().now_or_never().is_none(),
            "it waits for the one that goes"
        );
        let gone: Vec<_> = flood
            .iter()
            .map(|(_, activity, _)| activity.is_told_to_go())
            .collect();
        assert_eq!(gone, [true, false, false], "the oldest");
        for _ in 0..9 {
            assert!(places.one().now_or_never().is_none());
        }
        assert!(
            !flood[1].1.is_told_to_go() && !victim.1.is_told_to_go(),
            "one place, one that goes"
        );
        drop(flood.remove(0));
        assert!(one(&places, THERE, false).await.is_some());
    }

    #[test]
    fn requests_that_a_proxy_passes_on_count_for_whom_it_does() {
        let places = Places::new(1, 1);
        let first = places.request_of(HERE).unwrap();
        assert!(places.request_of(HERE).is_none() && places.request_of(THERE).is_some());
        drop(first);
        assert!(places.request_of(HERE).is_some());
    }
}
