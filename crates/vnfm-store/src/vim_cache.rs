//! A cache of VIM records. Each call to a VIM reads its connection again, so that a change reaches operations in flight
//! at their next call; the cache saves the query and the unsealing while nothing changes.
//!
//! The writer invalidates the cache after the commit and before any caller gets its result. A reader that began before
//! that may still hold the old row; the count of changes reveals it. All writers are in this process, as the lock on the
//! file proves: on a database with several processes, this cache would have to learn of their changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::{Change, VimRecord};

/// By the caller's tenant and the id or name.
type Key = (String, String);

#[derive(Default)]
pub(crate) struct VimCache(Mutex<State>);

#[derive(Default)]
struct State {
    changes: u64,
    records: HashMap<Key, VimRecord>,
}

impl VimCache {
    /// The record, or the count of changes to give to [`Self::keep`] once it is read.
    pub(crate) fn get(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, u64> {
        let state = self.state();
        let known = state
            .records
            .get(&(tenant.to_owned(), id_or_name.to_owned()));
        known.cloned().ok_or(state.changes)
    }

    /// Caches a record, unless a VIM may have changed since [`Self::get`] returned `changes`.
    pub(crate) fn keep(
        &self,
        changes: u64,
        (tenant, id_or_name): (&str, &str),
        record: &VimRecord,
    ) {
        let mut state = self.state();
        if state.changes == changes {
            state
                .records
                .insert((tenant.to_owned(), id_or_name.to_owned()), record.clone());
        }
    }

    /// Clears the cache if one of these changes may affect a VIM.
    pub(crate) fn invalidate<'a>(&self, mut changes: impl Iterator<Item = &'a Change>) {
        if changes.any(may_touch_a_vim) {
            self.forget();
        }
    }

    /// Clears the cache; reads in progress do not fill it again.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.changes += 1;
        state.records.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// False only for changes known not to affect VIMs.
fn may_touch_a_vim(change: &Change) -> bool {
    !matches!(
        change,
        Change::AddInstance(_)
            | Change::PutInstance(_)
            | Change::AddOp(_)
            | Change::PutOp { .. }
            | Change::Journal(_)
            | Change::Checkpoint { .. }
            | Change::RemoveCheckpoints { .. }
            | Change::AddUse(_)
            | Change::RemoveUses { .. }
            | Change::MarkVimsLeaving { .. }
            | Change::UnmarkVimsLeaving { .. }
            | Change::Outbox(_)
            | Change::AdvanceSubscription { .. }
    )
}
