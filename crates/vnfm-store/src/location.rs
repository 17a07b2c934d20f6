//! The location of a database, and the options of its reading, maintenance and writing connections.

use crate::fault::Done;
use rusqlite::OpenFlags;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use std::path::PathBuf;
use std::time::Duration;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the writer's statement cache: enough for all of its statements.
const STATEMENTS: usize = 96;

/// SQLite's file system in memory.
const IN_MEMORY: &str = "memdb";

/// A database file, or a database in memory.
pub(crate) enum Location {
    File(PathBuf),
    /// A unique name; one that begins with `/` is shared by the connections of a process.
    Memory(String),
}

impl Location {
    /// Options of reading and maintenance connections.
    pub(crate) fn options(&self) -> SqliteConnectOptions {
        match self {
            Self::File(path) => options().filename(path),
            Self::Memory(name) => options().filename(name).vfs(IN_MEMORY),
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Opens a connection for the writer thread, with the same options.
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
        // The pragma returns the new mode.
        db.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(()))?;
        Ok(db)
    }
}

/// Pragmas of every connection.
pub(crate) fn options() -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // Temporary data stays in memory: a container may have no writable `/tmp`, and secrets must not leave the folder.
        .pragma("temp_store", "MEMORY")
        // Deleted data, such as sealed secrets, is overwritten.
        .pragma("secure_delete", "ON")
}
