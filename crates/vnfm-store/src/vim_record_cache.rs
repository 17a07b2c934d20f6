//! A cache of VIM records by the rows that they were read from. Each call to a VIM reads its row again, so a change by any
//! process reaches operations in flight at their next call; the cache saves unsealing and parsing a row that is known.

use crate::fault::Done;
use crate::read::{VimRow, vim_record};
use crate::secret_keys::SecretKeys;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use vnfm_core::ports::VimRecord;

/// Maximum number of rows; then the cache begins again.
const MAX_ROWS: usize = 1024;

#[derive(Default)]
pub(crate) struct VimCache(Mutex<HashMap<VimRow, VimRecord>>);

impl VimCache {
    /// The record of a row. Each sealing of a secret differs, so equal rows are of equal records, even of a VIM that was
    /// removed and registered again.
    pub(crate) fn record(&self, row: VimRow, keys: &SecretKeys) -> Done<VimRecord> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = known.get(&row) {
            return Ok(record.clone());
        }
        let record = vim_record(row.clone(), keys)?;
        known.retain(|_, old| old.vim.id != record.vim.id);
        if known.len() >= MAX_ROWS {
            known.clear();
        }
        known.insert(row, record.clone());
        Ok(record)
    }
}
