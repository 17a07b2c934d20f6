//! Our own API: an operation that begins at an interval, and files that are stored with an instance (`vnfmctl cluster backup`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An `operate` operation that begins at an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Seconds from one beginning to the next.
    pub every_seconds: u32,
    /// When the next operation begins.
    pub next_at: Timestamp,
    /// When it last had its turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_at: Option<Timestamp>,
    /// The last operation that it has begun.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_op_occ_id: Option<String>,
    /// State of the last operation, or why none began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_result: Option<String>,
}

impl Schedule {
    /// Lower bound of `everySeconds`.
    pub const MIN_SECONDS: u32 = 60;
    /// Upper bound of `everySeconds`: 31 days.
    pub const MAX_SECONDS: u32 = 31 * 86_400;
}

/// A file that is stored with an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredFile {
    /// Letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Size, in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// When it was stored.
    pub stored_at: Timestamp,
}
