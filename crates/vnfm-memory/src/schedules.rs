//! Schedules of instances.

use crate::MemoryStore;
use crate::instances;
use crate::state::{State, absent};
use async_trait::async_trait;
use jiff::Timestamp;
use vnfm_core::ports::{ScheduleRecord, Schedules, StoreError};

const WHAT: &str = "schedule of VNF instance";

#[async_trait]
impl Schedules for MemoryStore {
    async fn schedule(
        &self,
        tenant: &str,
        instance_id: &str,
    ) -> Result<ScheduleRecord, StoreError> {
        find(&self.state(), tenant, instance_id)
    }

    async fn due_schedules(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        Ok(due(&self.state(), now, limit))
    }
}

pub(crate) fn find(state: &State, tenant: &str, id: &str) -> Result<ScheduleRecord, StoreError> {
    let found = state.schedules.get(&id.to_owned());
    let found = found.filter(|record| record.tenant == tenant);
    found.cloned().ok_or_else(|| absent(WHAT, id))
}

/// The schedules that are due, or whose last operation is not known to have ended.
pub(crate) fn due(state: &State, now: Timestamp, limit: usize) -> Vec<ScheduleRecord> {
    let all = state.schedules.iter().map(|(_, record)| record);
    let is_due = |record: &&ScheduleRecord| record.running || record.schedule.next_at <= now;
    let mut due: Vec<_> = all.filter(is_due).cloned().collect();
    due.sort_by_key(|record| record.schedule.next_at);
    due.truncate(limit);
    due
}

pub(crate) fn set(state: &mut State, record: ScheduleRecord) -> Result<(), StoreError> {
    instances::find(state, &record.tenant, &record.instance_id)?;
    let known = state.schedules.get(&record.instance_id);
    let version = known.map_or(0, |known| known.version + 1);
    let key = record.instance_id.clone();
    state
        .schedules
        .put(key, ScheduleRecord { version, ..record });
    Ok(())
}

pub(crate) fn put(state: &mut State, record: ScheduleRecord) -> Result<(), StoreError> {
    let id = record.instance_id.clone();
    if find(state, &record.tenant, &id)?.version != record.version {
        return Err(StoreError::Changed { what: WHAT, id });
    }
    let version = record.version + 1;
    state
        .schedules
        .put(id, ScheduleRecord { version, ..record });
    Ok(())
}

pub(crate) fn remove(state: &mut State, tenant: &str, id: &str) -> Result<(), StoreError> {
    find(state, tenant, id)?;
    state.schedules.remove(&id.to_owned());
    Ok(())
}
