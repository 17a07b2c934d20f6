//! Internal errors, before the public function adds the action that failed.

use std::ffi::c_int;
use vnfm_core::ports::StoreError;

/// Result of functions that use SQL.
pub(crate) type Done<T> = Result<T, Fault>;

/// A failed condition, or an error of the database.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Already an error of the port.
    Port(StoreError),
    /// An error that SQLite reported.
    Sql(rusqlite::Error),
    /// A row whose JSON cannot be parsed.
    Json(serde_json::Error),
}

impl Fault {
    /// Converts it to an error of the port; `action` is what failed, such as "write the journal".
    pub(crate) fn with_action(self, action: &str) -> StoreError {
        match self {
            Self::Port(error) => error,
            Self::Json(error) => StoreError::Broken(format!("cannot {action}: {error}")),
            Self::Sql(error) => {
                let may_pass = error
                    .sqlite_error()
                    .is_some_and(|e| passes(e.extended_code));
                let text = format!("cannot {action}: {error}");
                if may_pass {
                    StoreError::Unavailable(text)
                } else {
                    StoreError::Broken(text)
                }
            }
        }
    }

    /// True if the database itself failed, rather than a condition.
    pub(crate) fn is_database_error(&self) -> bool {
        matches!(self, Self::Sql(_))
    }

    /// True if a unique constraint rejected the row.
    pub(crate) fn is_duplicate(&self) -> bool {
        let Self::Sql(error) = self else {
            return false;
        };
        error
            .sqlite_error()
            .is_some_and(|e| DUPLICATE.contains(&e.extended_code))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Port(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

/// True for primary result codes of SQLite for transient conditions: PERM, BUSY, LOCKED, NOMEM,
/// READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL.
fn passes(code: c_int) -> bool {
    const PASSING: [c_int; 10] = [3, 5, 6, 7, 8, 9, 10, 13, 14, 15];
    PASSING.contains(&(code & 0xff))
}

/// SQLite's extended result codes for a duplicate key: `CONSTRAINT_PRIMARYKEY`, `CONSTRAINT_UNIQUE`.
const DUPLICATE: [c_int; 2] = [1555, 2067];

#[cfg(test)]
mod tests {
    use super::{Fault, passes};
    use rusqlite::ffi;
    use vnfm_core::ports::StoreError;

    #[test]
    fn a_busy_database_or_full_disk_is_transient_and_damage_is_not() {
        // BUSY, BUSY_SNAPSHOT, FULL, IOERR_FSYNC
        assert!([5, 517, 13, 1034].into_iter().all(passes));
        // ERROR, CORRUPT, CONSTRAINT_UNIQUE, NOTADB
        assert!(![1, 11, 2067, 26].into_iter().any(passes));
    }

    #[test]
    fn errors_name_the_failed_action() {
        let full = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
        let store_error = Fault::Sql(full).with_action("write the journal");
        assert!(
            matches!(&store_error, StoreError::Unavailable(text) if text.starts_with("cannot write the journal: "))
        );
        let store_error = Fault::Sql(rusqlite::Error::QueryReturnedNoRows).with_action("read");
        assert!(matches!(store_error, StoreError::Broken(_)));
    }
}
