//! Numbered migrations. Each is one transaction, applied once, in order; a database that a newer binary wrote is
//! refused before anything is written to it.

use crate::executor::{execute, first, one, transaction};
use crate::fault::{Done, Fault};
use crate::statement::Query;
use rusqlite::Connection;
use vnfm_core::ports::StoreError;

/// One migration: its number, and its SQL.
pub(crate) struct Migration {
    number: i64,
    sql: &'static str,
}

/// All migrations of this binary. A released one is never changed.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        sql: include_str!("../migrations/0001_first.sql"),
    },
    Migration {
        number: 2,
        sql: include_str!("../migrations/0002_acts.sql"),
    },
    Migration {
        number: 3,
        sql: include_str!("../migrations/0003_lists.sql"),
    },
    Migration {
        number: 4,
        sql: include_str!("../migrations/0004_changed.sql"),
    },
    Migration {
        number: 5,
        sql: include_str!("../migrations/0005_subscriptions.sql"),
    },
    Migration {
        number: 6,
        sql: include_str!("../migrations/0006_shared.sql"),
    },
    Migration {
        number: 7,
        sql: include_str!("../migrations/0007_keys.sql"),
    },
    Migration {
        number: 8,
        sql: include_str!("../migrations/0008_sight.sql"),
    },
    Migration {
        number: 9,
        sql: include_str!("../migrations/0009_uploads.sql"),
    },
    Migration {
        number: 10,
        sql: include_str!("../migrations/0010_lived.sql"),
    },
    Migration {
        number: 11,
        sql: include_str!("../migrations/0011_lives.sql"),
    },
    Migration {
        number: 12,
        sql: include_str!("../migrations/0012_host_keys.sql"),
    },
    Migration {
        number: 13,
        sql: include_str!("../migrations/0013_quotas.sql"),
    },
    Migration {
        number: 15,
        sql: include_str!("../migrations/0015_kept_addresses.sql"),
    },
    Migration {
        number: 16,
        sql: include_str!("../migrations/0016_deployments.sql"),
    },
    Migration {
        number: 17,
        sql: include_str!("../migrations/0017_on_failure.sql"),
    },
    Migration {
        number: 18,
        sql: include_str!("../migrations/0018_next_packages.sql"),
    },
    Migration {
        number: 19,
        sql: include_str!("../migrations/0019_snapshots.sql"),
    },
    Migration {
        number: 20,
        sql: include_str!("../migrations/0020_links.sql"),
    },
    Migration {
        number: 21,
        sql: include_str!("../migrations/0021_volumes.sql"),
    },
    Migration {
        number: 22,
        sql: include_str!("../migrations/0022_schedules.sql"),
    },
];

/// The newest schema that this binary knows.
pub(crate) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// The table of versions, and a view with the database's time in milliseconds since 1970,
/// which PostgreSQL would define differently.
const GROUND: &str = "
    CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, applied_at TEXT NOT NULL);
    CREATE VIEW IF NOT EXISTS clock AS SELECT CAST(unixepoch('subsec') * 1000 AS BIGINT) AS now_ms";

/// Brings the database to the newest of `migrations`.
pub(crate) fn migrate(db: &Connection, migrations: &[Migration]) -> Done<()> {
    const APPLIED: &str =
        "INSERT INTO schema_version (version, applied_at) VALUES ($1, CURRENT_TIMESTAMP)";
    refuse_newer(db, migrations)?;
    transaction(db, |db| Ok(db.execute_batch(GROUND)?))?;
    for migration in migrations {
        transaction(db, |db| {
            if version(db)? >= migration.number {
                return Ok(());
            }
            db.execute_batch(migration.sql).map_err(|error| {
                let number = migration.number;
                Fault::from(error).with_action(&format!("apply migration {number} to the database"))
            })?;
            execute(db, &Query::new(APPLIED).bind(migration.number)).map(drop)
        })?;
    }
    Ok(())
}

fn refuse_newer(db: &Connection, migrations: &[Migration]) -> Done<()> {
    let ours = migrations.last().map_or(0, |migration| migration.number);
    let theirs = version(db)?;
    if theirs <= ours {
        return Ok(());
    }
    Err(StoreError::Broken(format!(
        "it has schema {theirs}, but this binary supports schemas up to {ours}; hint: start the newer binary that \
         wrote it, nothing was changed"
    ))
    .into())
}

/// The newest migration applied to the database; 0 for a new one.
fn version(db: &Connection) -> Done<i64> {
    const TABLE: &str =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'";
    let known: Option<(String,)> = first(db, &Query::new(TABLE))?;
    match known {
        None => Ok(0),
        Some(_) => one(
            db,
            &Query::new("SELECT COALESCE(MAX(version), 0) FROM schema_version"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{MIGRATIONS, Migration, migrate, version};
    use crate::executor::{one, rows};
    use crate::read::{host_key, pinned};
    use crate::statement::Query;
    use rusqlite::Connection;
    use vnfm_core::ports::{HostPin, PinnedHost, PinnedKey};

    const FIRST: Migration = Migration {
        number: 1,
        sql: "CREATE TABLE a (x BIGINT); INSERT INTO a VALUES (7)",
    };
    const SECOND: Migration = Migration {
        number: 2,
        sql: "ALTER TABLE a ADD COLUMN y BIGINT; UPDATE a SET y = x + 1",
    };
    const WRONG: Migration = Migration {
        number: 3,
        sql: "UPDATE a SET y = 0; UPDATE nothing SET y = 0",
    };

    fn y(db: &Connection) -> i64 {
        one(db, &Query::new("SELECT y FROM a")).unwrap()
    }

    fn key_of(db: &Connection, pin: &HostPin) -> Option<PinnedKey> {
        let row = rows(db, &host_key(pin)).unwrap().pop();
        let found = row.map(|row| pinned(row).unwrap());
        found.filter(|pinned| !pinned.key.is_empty())
    }

    #[test]
    fn migrations_run_once_in_order_and_keep_existing_rows() {
        let db = Connection::open_in_memory().unwrap();
        migrate(&db, &[FIRST]).unwrap();
        migrate(&db, &[FIRST, SECOND]).unwrap();
        migrate(&db, &[FIRST, SECOND]).unwrap();
        assert_eq!(y(&db), 8);
        assert_eq!(version(&db).unwrap(), 2);
    }

    #[test]
    fn a_failed_migration_changes_nothing() {
        let db = Connection::open_in_memory().unwrap();
        let error = migrate(&db, &[FIRST, SECOND, WRONG])
            .unwrap_err()
            .with_action("open");
        assert!(error.to_string().contains("migration 3"), "{error}");
        assert_eq!(y(&db), 8);
        assert_eq!(version(&db).unwrap(), 2);
    }

    /// Old pins have no VIM, and those learned at a login no tenant either. They are kept and apply to hosts of that
    /// name, but new pins, and pins forgotten since, take precedence.
    #[test]
    fn host_keys_pinned_by_older_versions_still_apply() {
        let db = Connection::open_in_memory().unwrap();
        let before: Vec<_> = MIGRATIONS.iter().filter(|one| one.number < 12).collect();
        let before: Vec<_> = before
            .iter()
            .map(|one| Migration {
                number: one.number,
                sql: one.sql,
            })
            .collect();
        migrate(&db, &before).unwrap();
        let old = "
            INSERT INTO host_keys (server_id, instance_id, key)
            VALUES ('server', '', 'AAAA'), ('jump-192.0.2.1', '', 'BBBB')";
        db.execute_batch(old).unwrap();
        migrate(&db, MIGRATIONS).unwrap();
        let pin = |tenant: &str, host: &str, formerly: &str| HostPin {
            at: PinnedHost {
                tenant: tenant.into(),
                vim_id: "vim".into(),
                host: host.into(),
            },
            instance_id: String::new(),
            legacy_host: formerly.into(),
        };
        let (server, jump) = (
            pin("default", "server", "server"),
            pin("other", "192.0.2.1:22", "jump-192.0.2.1"),
        );
        for (pin, key) in [(&server, "AAAA"), (&jump, "BBBB")] {
            let found = key_of(&db, pin).unwrap();
            assert_eq!(found.key, key);
            assert_ne!(found.at, pin.at, "it must be pinned again");
        }
        let mine = "INSERT INTO pinned_hosts (tenant, vim_id, host, instance_id, key)
            VALUES ('default', 'vim', 'server', '', 'CCCC')";
        db.execute_batch(mine).unwrap();
        let found = key_of(&db, &server).unwrap();
        assert_eq!((found.at, &*found.key), (server.at.clone(), "CCCC"));
        let forgotten = "UPDATE pinned_hosts SET key = '' WHERE tenant = 'default'";
        db.execute_batch(forgotten).unwrap();
        assert_eq!(key_of(&db, &server), None);
    }

    #[test]
    fn a_newer_schema_is_refused_and_unchanged() {
        let db = Connection::open_in_memory().unwrap();
        migrate(&db, &[FIRST, SECOND]).unwrap();
        let error = migrate(&db, &[FIRST]).unwrap_err().with_action("open");
        assert!(error.to_string().contains("schema 2"), "{error}");
        assert_eq!(version(&db).unwrap(), 2);
    }
}
