//! What goes wrong inside, until the public function adds what it was doing and on what.

use std::ffi::c_int;
use vnfm_core::ports::StoreError;

/// Result of everything that speaks SQL.
pub(crate) type Done<T> = Result<T, Fault>;

/// A failed condition, or the database's own words.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Already said as the port says it.
    Said(StoreError),
    /// What SQL says where it is read, or looked after.
    Sql(sqlx::Error),
    /// What SQL says to the thread that writes.
    Write(rusqlite::Error),
    /// A row that is not what we wrote.
    Json(serde_json::Error),
}

impl Fault {
    /// As the port says it; `doing` is such as "write the journal".
    pub(crate) fn told(self, doing: &str) -> StoreError {
        match self {
            Self::Said(error) => error,
            Self::Json(error) => StoreError::Broken(format!("cannot {doing}: {error}")),
            Self::Sql(error) => told(may_pass(&error), format!("cannot {doing}: {error}")),
            Self::Write(error) => {
                let passes = error
                    .sqlite_error()
                    .is_some_and(|e| passes(e.extended_code));
                told(passes, format!("cannot {doing}: {error}"))
            }
        }
    }

    /// True where the database itself failed, and not a condition.
    pub(crate) fn is_of_the_database(&self) -> bool {
        matches!(self, Self::Sql(_) | Self::Write(_))
    }

    /// True where a unique constraint refused the row.
    pub(crate) fn is_duplicate(&self) -> bool {
        let Self::Write(error) = self else {
            return false;
        };
        error
            .sqlite_error()
            .is_some_and(|e| DUPLICATE.contains(&e.extended_code))
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Write(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Said(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

fn told(may_pass: bool, text: String) -> StoreError {
    if may_pass {
        StoreError::Unavailable(text)
    } else {
        StoreError::Broken(text)
    }
}

/// True where the same call may work later: a busy or full or unreachable disk, a lost connection.
fn may_pass(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed
        | sqlx::Error::InvalidSavePointStatement
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| code.parse().is_ok_and(passes)),
        _ => false,
    }
}

/// Primary result codes of SQLite that are about the moment and not about the database: PERM, BUSY, LOCKED, NOMEM,
/// READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL.
fn passes(code: c_int) -> bool {
    const PASSING: [c_int; 10] = [3, 5, 6, 7, 8, 9, 10, 13, 14, 15];
    PASSING.contains(&(code & 0xff))
}

/// SQLite's extended result codes of a key that another row has: `CONSTRAINT_PRIMARYKEY`, `CONSTRAINT_UNIQUE`.
const DUPLICATE: [c_int; 2] = [1555, 2067];

#[cfg(test)]
mod tests {
    use super::{Fault, passes};
    use vnfm_core::ports::StoreError;

    #[test]
    fn a_busy_or_full_disk_passes_and_a_damaged_one_does_not() {
        // BUSY, BUSY_SNAPSHOT, FULL, IOERR_FSYNC
        assert!([5, 517, 13, 1034].into_iter().all(passes));
        // ERROR, CORRUPT, CONSTRAINT_UNIQUE, NOTADB
        assert!(![1, 11, 2067, 26].into_iter().any(passes));
    }

    #[test]
    fn it_says_what_we_were_doing() {
        let told = Fault::Sql(sqlx::Error::WorkerCrashed).told("write the journal");
        assert!(
            matches!(&told, StoreError::Unavailable(text) if text.starts_with("cannot write the journal: "))
        );
        let told = Fault::Sql(sqlx::Error::RowNotFound).told("read");
        assert!(matches!(told, StoreError::Broken(_)));
    }
}
