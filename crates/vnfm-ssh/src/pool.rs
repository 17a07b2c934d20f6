//! Connections that are reused between calls, one per host and login.

use crate::connect::{Connection, InUse, connect};
use crate::host_keys::HostKeys;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, interval_at};
use vnfm_core::ports::{PinnedTarget, PortError};
use vnfm_outbound::Destinations;

/// How long an unused connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// One connection; locked while connecting, so that a host gets one login instead of many.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

/// All connections of a client.
pub(crate) struct Pool {
    host_keys: Arc<dyn HostKeys>,
    to: Destinations,
    slots: Mutex<Vec<(PinnedTarget, Slot)>>,
}

impl Pool {
    pub(crate) fn new(host_keys: Arc<dyn HostKeys>, to: Destinations) -> Self {
        Self {
            host_keys,
            to,
            slots: Mutex::default(),
        }
    }

    /// The number of connections, including those being opened.
    pub(crate) fn len(&self) -> usize {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// The open connection to `target`, or a new one.
    pub(crate) fn connection<'a>(
        self: &'a Arc<Self>,
        target: &'a PinnedTarget,
    ) -> Pin<Box<dyn Future<Output = Result<InUse, PortError>> + Send + 'a>> {
        Box::pin(async move {
            let slot = self.slot(target);
            let mut connection = slot.lock().await;
            if let Some(alive) = connection.as_ref().filter(|open| !open.handle.is_closed()) {
                return Ok(alive.acquire());
            }
            let jump = match &target.jump {
                Some(jump) => Some(self.connection(jump).await?.shared()),
                None => None,
            };
            let opened =
                Arc::new(connect(target, jump, (self.host_keys.as_ref(), &self.to)).await?);
            *connection = Some(opened.clone());
            self.spawn_idle_closer();
            Ok(opened.acquire())
        })
    }

    /// Removes the connection to `target`; commands on it run to their end.
    pub(crate) fn remove(&self, target: &PinnedTarget) {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(known, _)| known != target);
    }

    /// Drops connections that are closed or have been unused for `idle`.
    pub(crate) fn close_idle(&self, idle: Duration) {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(_, slot)| {
                let Ok(connection) = slot.try_lock() else {
                    return true;
                };
                connection.as_ref().is_some_and(|held| {
                    !held.handle.is_closed()
                        && (Arc::strong_count(held) > 1 || !held.idle_for(idle))
                })
            });
    }

    fn slot(&self, target: &PinnedTarget) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = slots.iter().find(|(known, _)| known == target) {
            return slot.clone();
        }
        let slot = Slot::default();
        slots.push((target.clone(), slot.clone()));
        slot
    }

    /// Spawns a task that closes idle connections; it ends with the last connection, or with the pool.
    fn spawn_idle_closer(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut pace = interval_at(Instant::now() + IDLE_TIMEOUT, IDLE_TIMEOUT);
            loop {
                pace.tick().await;
                let Some(pool) = pool.upgrade() else { return };
                pool.close_idle(IDLE_TIMEOUT);
                if pool.len() == 0 {
                    return;
                }
            }
        });
    }
}
