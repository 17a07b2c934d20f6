//! Numbered migrations. Each is one transaction, applied once, in order; a database that a newer binary wrote is
//! refused before anything is written to it.

use crate::fault::{Done, Fault};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, raw_sql};
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
];

/// The newest schema that this binary knows.
pub(crate) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// The table of versions, and a view with the database's time in milliseconds since 1970, which PostgreSQL would define
/// differently.
const GROUND: &str = "
    CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, applied_at TEXT NOT NULL);
    CREATE VIEW IF NOT EXISTS clock AS SELECT CAST(unixepoch('subsec') * 1000 AS BIGINT) AS now_ms";

/// Brings the database to the newest of `migrations`.
pub(crate) async fn migrate(
    connection: &mut SqliteConnection,
    migrations: &[Migration],
) -> Done<()> {
    refuse_newer(connection, migrations).await?;
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    raw_sql(GROUND).execute(&mut *tx).await?;
    tx.commit().await?;
    for migration in migrations {
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        if version(&mut tx).await? < migration.number {
            raw_sql(migration.sql)
                .execute(&mut *tx)
                .await
                .map_err(|error| {
                    let number = migration.number;
                    Fault::from(error)
                        .with_action(&format!("apply migration {number} to the database"))
                })?;
            sqlx::query(
                "INSERT INTO schema_version (version, applied_at) VALUES ($1, CURRENT_TIMESTAMP)",
            )
            .bind(migration.number)
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
        }
    }
    Ok(())
}

async fn refuse_newer(connection: &mut SqliteConnection, migrations: &[Migration]) -> Done<()> {
    let ours = migrations.last().map_or(0, |migration| migration.number);
    let theirs = version(connection).await?;
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
async fn version(connection: &mut SqliteConnection) -> Done<i64> {
    let known: Option<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table' AND name = $1")
            .bind("schema_version")
            .fetch_optional(&mut *connection)
            .await?;
    if known.is_none() {
        return Ok(0);
    }
    Ok(
        sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM schema_version")
            .fetch_one(connection)
            .await?,
    )
}

#[cfg(test)]
mod tests {
    use super::{MIGRATIONS, Migration, migrate, version};
    use crate::read::host_key;
    use sqlx::Connection as _;
    use sqlx::sqlite::SqliteConnection;
    use vnfm_core::ports::{HostPin, PinnedHost};

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

    async fn y(connection: &mut SqliteConnection) -> i64 {
        sqlx::query_scalar("SELECT y FROM a")
            .fetch_one(connection)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn migrations_run_once_in_order_and_keep_existing_rows() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        migrate(&mut connection, &[FIRST]).await.unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).await.unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).await.unwrap();
        assert_eq!(y(&mut connection).await, 8);
        assert_eq!(version(&mut connection).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_failed_migration_changes_nothing() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let error = migrate(&mut connection, &[FIRST, SECOND, WRONG])
            .await
            .unwrap_err()
            .with_action("open");
        assert!(error.to_string().contains("migration 3"), "{error}");
        assert_eq!(y(&mut connection).await, 8);
        assert_eq!(version(&mut connection).await.unwrap(), 2);
    }

    /// Old pins have no VIM, and those learned at a login no tenant either. They are kept and apply to hosts of that
    /// name, but new pins, and pins forgotten since, take precedence.
    #[tokio::test]
    async fn host_keys_pinned_by_older_versions_still_apply() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let before: Vec<_> = MIGRATIONS.iter().filter(|one| one.number < 12).collect();
        let before: Vec<_> = before
            .iter()
            .map(|one| Migration {
                number: one.number,
                sql: one.sql,
            })
            .collect();
        migrate(&mut connection, &before).await.unwrap();
        let pinned = "
            INSERT INTO host_keys (server_id, instance_id, key)
            VALUES ('server', '', 'AAAA'), ('jump-192.0.2.1', '', 'BBBB')";
        sqlx::query(pinned).execute(&mut connection).await.unwrap();
        migrate(&mut connection, MIGRATIONS).await.unwrap();
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
            let found = host_key(&mut connection, pin).await.unwrap().unwrap();
            assert_eq!(found.key, key);
            assert_ne!(found.at, pin.at, "it must be pinned again");
        }
        let mine = "INSERT INTO pinned_hosts (tenant, vim_id, host, instance_id, key)
            VALUES ('default', 'vim', 'server', '', 'CCCC')";
        sqlx::query(mine).execute(&mut connection).await.unwrap();
        let found = host_key(&mut connection, &server).await.unwrap().unwrap();
        assert_eq!((found.at, &*found.key), (server.at.clone(), "CCCC"));
        let forgotten = "UPDATE pinned_hosts SET key = '' WHERE tenant = 'default'";
        sqlx::query(forgotten)
            .execute(&mut connection)
            .await
            .unwrap();
        assert_eq!(host_key(&mut connection, &server).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_newer_schema_is_refused_and_unchanged() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).await.unwrap();
        let error = migrate(&mut connection, &[FIRST])
            .await
            .unwrap_err()
            .with_action("open");
        assert!(error.to_string().contains("schema 2"), "{error}");
        assert_eq!(version(&mut connection).await.unwrap(), 2);
    }
}
