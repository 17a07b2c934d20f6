//! What goes wrong inside, until the public function adds what it was doing and on what.

use vnfm_core::ports::StoreError;

/// Result of everything that speaks SQL.
pub(crate) type Done<T> = Result<T, Fault>;

/// A failed condition, or the database's own words.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Already said as the port says it.
    Said(StoreError),
    /// What SQL says.
    Sql(sqlx::Error),
    /// A row that is not what we wrote.
    Json(serde_json::Error),
    /// It is no part of a batch: it has to look before it writes, or is too long.
    NoBatch,
}

impl Fault {
    /// As the port says it; `doing` is such as "write the journal".
    pub(crate) fn told(self, doing: &str) -> StoreError {
        match self {
            Self::Said(error) => error,
            Self::Json(error) => StoreError::Broken(format!("cannot {doing}: {error}")),
            Self::NoBatch => StoreError::Broken(format!("cannot {doing} with others")),
            Self::Sql(error) => {
                let text = format!("cannot {doing}: {error}");
                if may_pass(&error) {
                    StoreError::Unavailable(text)
                } else {
                    StoreError::Broken(text)
                }
            }
        }
    }

    /// True where the database itself failed, and not a condition.
    pub(crate) fn is_of_the_database(&self) -> bool {
        matches!(self, Self::Sql(_))
    }

    /// True where a unique constraint refused the row.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Sql(sqlx::Error::Database(e)) if e.is_unique_violation())
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
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

/// True where the same call may work later: a busy or full or unreachable disk, a lost connection.
fn may_pass(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed
        | sqlx::Error::InvalidSavePointStatement
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| passing_code(&code)),
        _ => false,
    }
}

/// Primary result codes of SQLite that are about the moment and not about the database: PERM, BUSY, LOCKED, NOMEM,
/// READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL.
fn passing_code(code: &str) -> bool {
    const PASSING: [u32; 10] = [3, 5, 6, 7, 8, 9, 10, 13, 14, 15];
    code.parse::<u32>().is_ok_and(|code| PASSING.contains(&(code & 0xff)))
}

#[cfg(test)]
mod tests {
    use super::{Fault, passing_code};
    use vnfm_core::ports::StoreError;

    #[test]
    fn a_busy_or_full_disk_passes_and_a_damaged_one_does_not() {
        // BUSY, BUSY_SNAPSHOT, FULL, IOERR_FSYNC
        assert!(["5", "517", "13", "1034"].iter().all(|code| passing_code(code)));
        // ERROR, CORRUPT, CONSTRAINT_UNIQUE, NOTADB, none of SQLite's
        assert!(["1", "11", "2067", "26", "x"].iter().all(|code| !passing_code(code)));
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
