//! Where a database is, and how those connect who read it, look after it, or write.

use crate::fault::Done;
use rusqlite::OpenFlags;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use std::path::PathBuf;
use std::time::Duration;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Those that the thread which writes keeps compiled: all that there are.
const STATEMENTS: usize = 96;

/// SQLite's file system in memory.
const IN_MEMORY: &str = "memdb";

/// Where the database is.
pub(crate) enum Location {
    File(PathBuf),
    /// By a name that nobody else has; one that begins with `/` is shared by the connections of a process.
    Memory(String),
}

impl Location {
    /// How those connect who read it or look after it.
    pub(crate) fn options(&self) -> SqliteConnectOptions {
        match self {
            Self::File(path) => options().filename(path),
            Self::Memory(name) => options().filename(name).vfs(IN_MEMORY),
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// A connection for the thread that writes, which is like the others.
    pub(crate) fn open(&self) -> Done<rusqlite::Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = match self {
            Self::File(path) => rusqlite::Connection::open_with_flags(path, flags)?,
            Self::Memory(name) => {
                rusqlite::Connection::open_with_flags_and_vfs(name, flags, IN_MEMORY)?
            }
        };
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        for (pragma, value) in [
            ("synchronous", "FULL"),
            ("foreign_keys", "ON"),
            ("temp_store", "MEMORY"),
        ] {
            db.pragma_update(None, pragma, value)?;
        }
        // It answers with what it is from now on.
        db.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(()))?;
        Ok(db)
    }
}

/// How every connection is.
pub(crate) fn options() -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // What a transaction puts aside, too: a container has no `/tmp` to write to, and what is sealed stays here.
        .pragma("temp_store", "MEMORY")
        // What is deleted, a sealed secret too, is overwritten.
        .pragma("secure_delete", "ON")
}
