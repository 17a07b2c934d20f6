//! The first transactions on a database that is being opened.

use crate::executor::{execute, first, one, run, transaction};
use crate::fault::Done;
use crate::op_lease;
use crate::secret_keys::SecretKeys;
use crate::statement::Query;
use rusqlite::Connection;
use uuid::Uuid;

/// Key in `meta` of a text that the keys must unseal before a database is used.
const KEY_CHECK: &str = "key_check";

/// Prepares a database for use: checks the keys, takes over the leases of dead processes, removes their reservations, and
/// returns the installation id. Call it only while the lock on the file proves that no other process has it open.
pub(crate) fn prepare(db: &Connection, keys: &SecretKeys) -> Done<String> {
    transaction(db, |db| {
        if let Some(sealed) = check_text(db)? {
            keys.unseal(Some(&sealed))?;
        } else {
            let sealed = keys.seal(&serde_json::Value::from("vnfm").into())?;
            let add = Query::new("INSERT INTO meta (key, value) VALUES ($1, $2)");
            execute(db, &add.bind(KEY_CHECK).bind(sealed))?;
        }
        let id = installation(db)?;
        run(
            db,
            &op_lease::take_over(&format!("opened-{}", Uuid::new_v4())),
        )?;
        execute(db, &Query::new("DELETE FROM reservations"))?;
        Ok(id)
    })
}

/// The id of the installation; created with the database.
pub(crate) fn installation(db: &Connection) -> Done<String> {
    const ADD: &str = "
        INSERT INTO meta (key, value) VALUES ('installation_id', $1) ON CONFLICT (key) DO NOTHING";
    execute(db, &Query::new(ADD).bind(Uuid::new_v4().to_string()))?;
    one(
        db,
        &Query::new("SELECT value FROM meta WHERE key = 'installation_id'"),
    )
}

/// True if the database has sealed values.
pub(crate) fn is_used(db: &Connection) -> Done<bool> {
    Ok(check_text(db)?.is_some())
}

fn check_text(db: &Connection) -> Done<Option<String>> {
    let query = Query::new("SELECT value FROM meta WHERE key = $1").bind(KEY_CHECK);
    let found: Option<(String,)> = first(db, &query)?;
    Ok(found.map(|(sealed,)| sealed))
}
