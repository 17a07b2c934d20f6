//! How many connections there are: in all, and of each address. An address of IPv6 counts with its /64.

use crate::access::attempts::Source;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for connections.
#[derive(Debug, Clone)]
pub struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    connections: Arc<Counts>,
    requests: Arc<Counts>,
}

/// How many there are of each source.
type Counts = Mutex<HashMap<Source, usize>>;

/// A place, until it is dropped.
pub(super) struct Place {
    _one: Option<OwnedSemaphorePermit>,
    counted: Option<(Source, Arc<Counts>)>,
    of_one: usize,
    connections: Arc<Counts>,
}

impl Places {
    /// Places for `all` connections, and for `of_one` of each address.
    pub fn new(all: usize, of_one: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.clamp(1, Semaphore::MAX_PERMITS)));
        Self { all, of_one: of_one.max(1), connections: Arc::default(), requests: Arc::default() }
    }

    /// A place for a connection, once there is one.
    pub(super) async fn one(&self) -> Place {
        // Nobody closes the semaphore.
        let one = self.all.clone().acquire_owned().await.ok();
        Place {
            _one: one,
            counted: None,
            of_one: self.of_one,
            connections: self.connections.clone(),
        }
    }

    /// A place for a request that a proxy passed on for an address, if that has one left.
    pub(super) fn request_of(&self, address: IpAddr) -> Option<Place> {
        let counted = counted(&self.requests, address, self.of_one)?;
        let connections = self.connections.clone();
        Some(Place { _one: None, counted: Some(counted), of_one: self.of_one, connections })
    }
}

impl Place {
    /// The same as one of an address, if that has one left.
    pub(super) fn of(mut self, address: IpAddr) -> Option<Self> {
        self.counted = Some(counted(&self.connections, address, self.of_one)?);
        Some(self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((source, counts)) = &self.counted else { return };
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = counts.get_mut(source) {
            *own -= 1;
            if *own == 0 {
                counts.remove(source);
            }
        }
    }
}

fn counted(counts: &Arc<Counts>, address: IpAddr, most: usize) -> Option<(Source, Arc<Counts>)> {
    let source = Source::of(Some(address));
    let mut all = counts.lock().unwrap_or_else(PoisonError::into_inner);
    let own = all.entry(source).or_default();
    if *own >= most {
        return None;
    }
    *own += 1;
    Some((source, counts.clone()))
}

#[cfg(test)]
mod tests {
    use super::Places;
    use futures::future::FutureExt as _;
    use std::net::IpAddr;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test]
    async fn one_address_does_not_get_all_places_and_what_ends_is_free_again() {
        let places = Places::new(3, 2);
        let first = places.one().await.of(HERE).unwrap();
        let _second = places.one().await.of(HERE).unwrap();
        assert!(places.one().await.of(HERE).is_none());
        let _other = places.one().await.of(THERE).unwrap();
        assert!(places.one().now_or_never().is_none(), "all are taken");
        drop(first);
        assert!(places.one().await.of(HERE).is_some());
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
