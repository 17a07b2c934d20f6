//! The location of a database, and the options of its connections.

use crate::fault::Done;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of a connection's statement cache: enough for all of the writer's statements.
const STATEMENTS: usize = 96;

/// SQLite's file system in memory.
const IN_MEMORY: &str = "memdb";

/// A database file, or a database in memory.
pub(crate) enum Location {
    File(PathBuf),
    /// A unique name; one that begins with `/` is shared by the connections of a process.
    Memory(String),
}

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Location {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Opens a connection with the settings that every one needs.
    pub(crate) fn open(&self, access: Access) -> Done<Connection> {
        match self {
            Self::File(path) => open_file(path, access),
            Self::Memory(name) => {
                let flags = flags(Access::Write);
                let db = Connection::open_with_flags_and_vfs(name, flags, IN_MEMORY)?;
                configured(db)
            }
        }
    }
}

/// Opens a connection to the existing file at `path`.
pub(crate) fn open_file(path: &Path, access: Access) -> Done<Connection> {
    let db = configured(Connection::open_with_flags(path, flags(access))?)?;
    if access == Access::Write {
        db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    }
    Ok(db)
}

fn flags(access: Access) -> OpenFlags {
    OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match access {
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        }
}

/// Sets the options of every connection.
fn configured(db: Connection) -> Done<Connection> {
    db.busy_timeout(BUSY_TIMEOUT)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    for (pragma, value) in [
        ("synchronous", "FULL"),
        ("foreign_keys", "ON"),
        // Temporary data stays in memory: a container may have no writable `/tmp`, and secrets must not leave the folder.
        ("temp_store", "MEMORY"),
    ] {
        db.pragma_update(None, pragma, value)?;
    }
    // Deleted data, such as sealed secrets, is overwritten. The pragma returns the new mode.
    db.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(()))?;
    Ok(db)
}
