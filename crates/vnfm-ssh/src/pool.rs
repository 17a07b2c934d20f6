//! Connections that live on between calls, one per host and login.

use crate::connect::{Busy, Connection, connect};
use crate::host_keys::HostKeys;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, interval_at};
use vnfm_core::ports::{PortError, SshTarget};
use vnfm_outbound::Destinations;

/// How long a connection stays without use.
const IDLE: Duration = Duration::from_mins(1);

/// The place of one connection; whoever connects holds its lock, so that a host sees one login and not many.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

/// All connections.
pub(crate) struct Pool {
    host_keys: Arc<dyn HostKeys>,
    to: Destinations,
    slots: Mutex<Vec<(SshTarget, Slot)>>,
}

impl Pool {
    pub(crate) fn new(host_keys: Arc<dyn HostKeys>, to: Destinations) -> Self {
        Self {
            host_keys,
            to,
            slots: Mutex::default(),
        }
    }

    /// How many hosts it knows.
    pub(crate) fn len(&self) -> usize {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// A living connection to `target`, made where there is none.
    pub(crate) fn connection<'a>(
        self: &'a Arc<Self>,
        target: &'a SshTarget,
    ) -> Pin<Box<dyn Future<Output = Result<Busy, PortError>> + Send + 'a>> {
        Box::pin(async move {
            let slot = self.slot(target);
            let mut place = slot.lock().await;
            if let Some(alive) = place.as_ref().filter(|held| !held.handle.is_closed()) {
                return Ok(alive.begin());
            }
            let jump = match &target.jump {
                Some(jump) => Some(self.connection(jump).await?.shared()),
                None => None,
            };
            let made = Arc::new(connect(target, jump, (self.host_keys.as_ref(), &self.to)).await?);
            *place = Some(made.clone());
            self.close_when_idle();
            Ok(made.begin())
        })
    }

    /// Forgets the connection to `target`; commands on it run to their end.
    pub(crate) fn forget(&self, target: &SshTarget) {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(known, _)| known != target);
    }

    /// Drops what is closed or was not used for `idle`.
    pub(crate) fn sweep(&self, idle: Duration) {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(_, slot)| {
                let Ok(place) = slot.try_lock() else {
                    return true;
                };
                place.as_ref().is_some_and(|held| {
                    !held.handle.is_closed()
                        && (Arc::strong_count(held) > 1 || !held.idle_for(idle))
                })
            });
    }

    fn slot(&self, target: &SshTarget) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = slots.iter().find(|(known, _)| known == target) {
            return slot.clone();
        }
        let slot = Slot::default();
        slots.push((target.clone(), slot.clone()));
        slot
    }

    /// Sweeps until nothing is left; ends with the pool.
    fn close_when_idle(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut pace = interval_at(Instant::now() + IDLE, IDLE);
            loop {
                pace.tick().await;
                let Some(pool) = pool.upgrade() else { return };
                pool.sweep(IDLE);
                if pool.len() == 0 {
                    return;
                }
            }
        });
    }
}
