//! The VIMs as they were last read. Each call to a VIM asks for its connection anew, so that a change reaches
//! operations in flight at their next call; as long as nothing was written, that costs no query and no unsealing.
//!
//! The one writer says when something may have changed, after the commit and before anybody hears of it. A reader
//! that began before that may still hold the old row: it is told apart by the count of changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::{Change, VimRecord};

/// By who asks, and id or name.
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

    /// Keeps a record that was read, unless something was written since `changes` was told.
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

    /// Forgets them all where one of these changes may have touched a VIM.
    pub(crate) fn heed<'a>(&self, mut changes: impl Iterator<Item = &'a Change>) {
        if changes.any(may_touch_a_vim) {
            self.forget();
        }
    }

    /// Forgets them all.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.changes += 1;
        state.records.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything but what is known not to.
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
