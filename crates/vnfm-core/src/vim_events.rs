//! Follows VIMs: records of instances follow what changes outside of operations, as far as a VIM can tell
//! ([`Observes`](crate::ports::Observes)).
//!
//! ```text
//! every 30 s: VIMs that have instances and can tell ── each is followed, over one connection
//!   event of an instance ── marked, see `marks` ── observed, 4 at a time ── record written if it differs
//!   events were missed, also at the start ── all instances of the VIM are marked
//! ```
//! An instance with an operation is observed after that. Ids in events are checked against the instances of the VIM: others
//! than we may label pods.
//!
//! Several processes on one database would do the work several times, though each record is written once: then following a
//! VIM becomes a duty with a lease, which is taken in [`Engine::follow_vims`] where a VIM is chosen.

mod marks;

use crate::engine::Engine;
use crate::lcm::{Refreshed, Refresher};
use crate::ports::{PortError, StoreError, VimEvent, VimRecord};
use crate::vims::VimHandle;
use futures_util::future::{BoxFuture, Either, join_all, pending, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use marks::{MIN_INTERVAL, Marks, SETTLE_TIME};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The time between two searches for VIMs that have instances, and between two for the instances of a VIM.
const SEARCH_TIME: SignedDuration = SignedDuration::from_secs(30);
/// VIMs that are followed; each costs a connection.
const MAX_VIMS: usize = 1000;
/// Instances of one VIM that are observed at the same time.
const MAX_OBSERVED: usize = 4;
/// The pause after an observation that failed.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// Tenant and id of a VIM.
type Key = (String, String);

impl Engine {
    /// Follows the VIMs on which instances live, and updates the records of instances that change outside of operations.
    /// Never ends; drop it to stop. One process per database should do it.
    pub async fn follow_vims(&self) {
        let mut followed = BTreeSet::new();
        // One that never ends, so that the others can be awaited when there are none.
        let mut running: FuturesUnordered<BoxFuture<'_, Option<Key>>> = FuturesUnordered::new();
        running.push(pending().boxed());
        loop {
            match self.vims_to_follow(&followed).await {
                Ok(found) => {
                    for key in found {
                        followed.insert(key.clone());
                        running.push(self.follow(key).map(Some).boxed());
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot search for VIMs to follow"),
            }
            let mut next_search = self.context.ports.clock.sleep(SEARCH_TIME.unsigned_abs());
            while let Either::Left((ended, sleep)) = select(running.next(), next_search).await {
                if let Some(Some(key)) = ended {
                    followed.remove(&key);
                }
                next_search = sleep;
            }
        }
    }

    /// The VIMs that have instances, can tell what changes, and are not followed yet.
    async fn vims_to_follow(&self, followed: &BTreeSet<Key>) -> Result<Vec<Key>, StoreError> {
        let (store, drivers) = (self.store(), &self.context.ports.drivers);
        let mut found = Vec::new();
        for tenant in store.tenants().await? {
            for record in store.vims(&tenant).await? {
                let driver = drivers.driver(&record.vim.vim_type);
                let can_tell = driver.is_ok_and(|driver| driver.observes().is_some());
                let key = (record.tenant, record.vim.id);
                if key.0 != tenant || !can_tell || followed.contains(&key) {
                    continue;
                }
                if followed.len() + found.len() >= MAX_VIMS {
                    tracing::warn!(MAX_VIMS, vim = key.1, "too many VIMs; not followed");
                } else if !self.instances_on(&key).await?.is_empty() {
                    found.push(key);
                }
            }
        }
        Ok(found)
    }

    /// The instances on a VIM, each with its tenant. Those that reach its cluster by another registered VIM are of that one.
    async fn instances_on(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        let uses = self.store().uses(&key.0, &key.1).await?;
        let is_its = |vim_id: &Option<String>| vim_id.as_ref().is_none_or(|id| *id == key.1);
        let its = uses.into_iter().filter(|one| is_its(&one.vim_id));
        Ok(its.map(|one| (one.instance_id, one.tenant)).collect())
    }

    /// Follows a VIM until it is removed or has no instances any more; returns its key.
    async fn follow(&self, key: Key) -> Key {
        if let Err(error) = self.follow_while_used(&key).await {
            tracing::warn!(vim = key.1, %error, "a VIM is not followed for now");
        }
        self.context.observer.vim_heard(&key.1, None);
        key
    }

    async fn follow_while_used(&self, key: &Key) -> Result<(), PortError> {
        let record = match self.store().vim(&key.0, &key.1).await {
            Err(StoreError::NotFound { .. }) => return Ok(()),
            record => record?,
        };
        let driver = self.context.ports.drivers.driver(&record.vim.vim_type)?;
        let Some(observes) = driver.observes() else {
            return Ok(());
        };
        let vim = VimHandle::registered(&self.context, &record, &record.tenant, &record.vim.id);
        let (store, clock) = (self.store(), &*self.context.ports.clock);
        let mut events = observes.events(&vim, store.installation_id(), clock);
        let mut follower = Follower::new(self, key, &record).await?;
        while !follower.instances.is_empty() {
            match select(events.next(), clock.sleep(follower.pause())).await {
                Either::Left((Some(event), _)) => follower.take_event(event).await?,
                Either::Left((None, _)) => return Ok(()),
                Either::Right(_) => follower.observe_due().await?,
            }
        }
        Ok(())
    }
}

/// What is known about a VIM that is followed.
struct Follower<'a> {
    engine: &'a Engine,
    key: &'a Key,
    name: String,
    /// Its instances, each with its tenant, as of `read_at`.
    instances: BTreeMap<String, String>,
    read_at: Timestamp,
    marks: Marks,
    is_failing: bool,
}

impl<'a> Follower<'a> {
    async fn new(engine: &'a Engine, key: &'a Key, record: &VimRecord) -> Result<Self, StoreError> {
        Ok(Self {
            engine,
            key,
            name: record.vim.name.clone(),
            read_at: engine.now(),
            instances: engine.instances_on(key).await?,
            marks: Marks::default(),
            is_failing: false,
        })
    }

    /// Until the next instance is to be observed, or the instances are to be read again.
    fn pause(&self) -> Duration {
        let read = self.read_at + SEARCH_TIME;
        let next = self.marks.next_due().map_or(read, |due| due.min(read));
        let left = next.duration_since(self.engine.now());
        Duration::try_from(left).unwrap_or_default()
    }

    async fn take_event(&mut self, event: Result<VimEvent, PortError>) -> Result<(), StoreError> {
        let now = self.engine.now();
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    let vim = &self.name;
                    tracing::warn!(vim, %error, "cannot follow a VIM: records of its instances may be outdated");
                }
                return Ok(());
            }
        };
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(vim = self.name, "following a VIM again");
        }
        self.engine
            .context
            .observer
            .vim_heard(&self.key.1, Some(now));
        match event {
            VimEvent::Unchanged => {}
            VimEvent::Changed(id) if self.marks.mark(&id, now) => {}
            VimEvent::Changed(_) | VimEvent::Missed => {
                self.read_instances().await?;
                self.marks.mark_all(self.instances.keys(), now);
            }
        }
        Ok(())
    }

    async fn read_instances(&mut self) -> Result<(), StoreError> {
        self.read_at = self.engine.now();
        self.instances = self.engine.instances_on(self.key).await?;
        Ok(())
    }

    /// Observes the next instances that are due.
    async fn observe_due(&mut self) -> Result<(), StoreError> {
        let now = self.engine.now();
        let ids = self.marks.take(MAX_OBSERVED, now);
        let age = now.duration_since(self.read_at);
        // An instance is on the VIM before its VNFCs are, so a list that is younger than the event has it.
        let is_unknown = ids.iter().any(|id| !self.instances.contains_key(id));
        if age >= SEARCH_TIME || is_unknown && age >= SETTLE_TIME {
            self.read_instances().await?;
        }
        let known = ids.iter().filter_map(|id| self.instances.get_key_value(id));
        let observed = known.map(|(id, tenant)| self.observe(tenant, id));
        let observed = join_all(observed).await;
        for (id, again) in observed.into_iter().flatten() {
            self.marks.mark_later(&id, self.engine.now() + again);
        }
        Ok(())
    }

    /// Updates the record of an instance; if it has to be observed again without another event, its id and when.
    async fn observe(&self, tenant: &str, id: &str) -> Option<(String, SignedDuration)> {
        let refresher = Refresher {
            context: &self.engine.context,
            operation: None,
            watcher: &(),
            deadline: Timestamp::MAX,
        };
        let (vim, again) = (&self.name, |after| Some((id.to_owned(), after)));
        match refresher.refresh(tenant, id).await {
            Ok(Refreshed::Current) => None,
            Ok(Refreshed::Busy) => again(MIN_INTERVAL),
            Ok(Refreshed::Written(changed)) => {
                let (added, removed) = (changed.added, changed.removed);
                tracing::info!(
                    vnf_instance = id,
                    vim,
                    added,
                    removed,
                    "VNFCs changed outside of operations; the record was updated"
                );
                None
            }
            Err(error) => {
                tracing::warn!(vnf_instance = id, vim, %error, "cannot observe an instance; its record may be outdated");
                again(RETRY_INTERVAL)
            }
        }
    }
}
