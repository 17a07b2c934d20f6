//! The mark of a database that was restored from a backup: it is in recovery until an operator confirms the restore.

use crate::database::Database;
use crate::executor::{execute, first};
use crate::fault::Done;
use crate::statement::{Query, json};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Value;
use vnfm_core::ports::{Recovery, StoreError};

/// Key of the mark in the table `meta`.
const MARK: &str = "recovery";

pub(crate) async fn read(database: &Database) -> Result<Option<Recovery>, StoreError> {
    let read = |db: &Connection| {
        let query = Query::new("SELECT value FROM meta WHERE key = $1").bind(MARK);
        let mark: Option<(String,)> = first(db, &query)?;
        mark.map(|(mark,)| Ok(recovery_of(&json(&mark)?)))
            .transpose()
    };
    let mark = database.read("read the recovery mark", read).await?;
    Ok(mark.flatten())
}

pub(crate) async fn end(database: &Database) -> Result<(), StoreError> {
    database
        .task("end the recovery", |writer| remove(&writer.db))
        .await
}

/// Marks a restored database, replacing the mark that it may have from the backup.
pub(crate) fn mark(db: &Connection, mark: &str) -> Done<()> {
    remove(db)?;
    let add = Query::new("INSERT INTO meta (key, value) VALUES ($1, $2)");
    execute(db, &add.bind(MARK).bind(mark)).map(drop)
}

fn remove(db: &Connection) -> Done<()> {
    let remove = Query::new("DELETE FROM meta WHERE key = $1").bind(MARK);
    execute(db, &remove).map(drop)
}

fn recovery_of(mark: &Value) -> Option<Recovery> {
    let at = |name: &str| -> Option<Timestamp> { mark[name].as_str()?.parse().ok() };
    Some(Recovery {
        restored_at: at("restoredAt")?,
        backup_at: at("backupAt")?,
    })
}
