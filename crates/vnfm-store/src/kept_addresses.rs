//! Addresses of VIMs that were in use before addresses were checked. Whoever first opens a database of an older version
//! notes them; a VIM loses its own with the first change of its endpoint or proxy.

use crate::fault::{Done, Fault};
use crate::keys::SecretKeys;
use crate::write::Writing;
use rusqlite::OpenFlags;
use serde_json::Value;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _, query, query_as, query_scalar};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use vnfm_core::ports::{Change, StoreError, VimRecord};
use vnfm_types::{KeyValuePairs, VimConnectionInfo};

/// An address that a VIM keeps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeptAddress {
    /// Whose VIM it is.
    pub tenant: String,
    /// Its id in the registry; empty for a connection that came with a request.
    pub vim_id: String,
    /// The endpoint that it had.
    pub endpoint: String,
    /// The proxy that it had; empty for none.
    pub proxy: String,
}

impl KeptAddress {
    fn of(
        tenant: &str,
        vim: Option<&str>,
        interface: &KeyValuePairs,
        extra: &KeyValuePairs,
    ) -> Self {
        let text = |members: &KeyValuePairs, name: &str| {
            members
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            tenant: tenant.to_owned(),
            vim_id: vim.unwrap_or_default().to_owned(),
            endpoint: text(interface, "endpoint"),
            proxy: text(extra, "proxy"),
        }
    }

    fn of_record(record: &VimRecord) -> Self {
        let vim = &record.vim;
        Self::of(
            &record.tenant,
            Some(&vim.id),
            &vim.interface_info,
            &vim.extra,
        )
    }
}

/// All of them, in memory: drivers look at each connection.
#[derive(Default)]
pub(crate) struct KeptAddresses(RwLock<HashSet<KeptAddress>>);

impl KeptAddresses {
    pub(crate) fn all(&self) -> Vec<KeptAddress> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    pub(crate) fn has(&self, tenant: &str, vim: Option<&str>, info: &VimConnectionInfo) -> bool {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        !kept.is_empty()
            && kept.contains(&KeptAddress::of(
                tenant,
                vim,
                &info.interface_info,
                &info.extra,
            ))
    }

    /// Those that these changes end: what is written is what the VIM has from now on.
    pub(crate) fn ended_by(&self, changes: &[Change]) -> Vec<KeptAddress> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let ends = |one: &&KeptAddress| {
            changes.iter().any(|change| match change {
                Change::PutVim(record) => {
                    let now = KeptAddress::of_record(record);
                    (&now.tenant, &now.vim_id) == (&one.tenant, &one.vim_id) && now != **one
                }
                Change::RemoveVim { tenant, id, .. } => (tenant, id) == (&one.tenant, &one.vim_id),
                _ => false,
            })
        };
        if kept.is_empty() {
            Vec::new()
        } else {
            kept.iter().filter(ends).cloned().collect()
        }
    }

    pub(crate) fn forget(&self, ended: &[KeptAddress]) {
        if !ended.is_empty() {
            let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|one| !ended.contains(one));
        }
    }
}

/// A VIM that was changed keeps the address that it still has.
pub(crate) fn changed(writing: &Writing<'_>, record: &VimRecord) -> Done<()> {
    const GO: &str = "
        DELETE FROM kept_addresses WHERE tenant = $1 AND vim_id = $2 AND (endpoint <> $3 OR proxy <> $4)";
    let now = KeptAddress::of_record(record);
    let statement = writing.statement(GO).bind(&now.tenant).bind(&now.vim_id);
    statement.bind(&now.endpoint).bind(&now.proxy).run()
}

/// A VIM that is gone keeps none.
pub(crate) fn removed(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    const GO: &str = "DELETE FROM kept_addresses WHERE tenant = $1 AND vim_id = $2";
    writing.statement(GO).bind(tenant).bind(id).run()
}

/// Reads what is noted; notes it first where a migration asks for it.
pub(crate) async fn read(
    connection: &mut SqliteConnection,
    keys: &SecretKeys,
) -> Done<KeptAddresses> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let asked: Option<String> = query_scalar("DELETE FROM meta WHERE key = $1 RETURNING value")
        .bind("addresses")
        .fetch_optional(&mut *tx)
        .await?;
    if asked.is_some() {
        for address in in_use(&mut tx, keys).await? {
            note(&mut tx, &address).await?;
        }
    }
    tx.commit().await?;
    let all: Vec<(String, String, String, String)> =
        query_as("SELECT tenant, vim_id, endpoint, proxy FROM kept_addresses")
            .fetch_all(connection)
            .await?;
    let all = all
        .into_iter()
        .map(|(tenant, vim_id, endpoint, proxy)| KeptAddress {
            tenant,
            vim_id,
            endpoint,
            proxy,
        });
    Ok(KeptAddresses(RwLock::new(all.collect())))
}

async fn note(connection: &mut SqliteConnection, address: &KeptAddress) -> Done<()> {
    query(
        "INSERT INTO kept_addresses (tenant, vim_id, endpoint, proxy) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING",
    )
    .bind(&address.tenant)
    .bind(&address.vim_id)
    .bind(&address.endpoint)
    .bind(&address.proxy)
    .execute(connection)
    .await?;
    Ok(())
}

/// The addresses of all VIMs, and of all connections that requests brought.
async fn in_use(connection: &mut SqliteConnection, keys: &SecretKeys) -> Done<Vec<KeptAddress>> {
    let vims: Vec<(String, String)> = query_as("SELECT tenant, vim FROM vims")
        .fetch_all(&mut *connection)
        .await?;
    let mut found = Vec::new();
    for (tenant, vim) in vims {
        let vim: vnfm_types::Vim = serde_json::from_str(&vim)?;
        found.push(KeptAddress::of(
            &tenant,
            Some(&vim.id),
            &vim.interface_info,
            &vim.extra,
        ));
    }
    for (table, column) in [("instances", "deployment"), ("ops", "request")] {
        let ids = format!("SELECT id FROM {table} WHERE {column} IS NOT NULL");
        let ids: Vec<(String,)> = query_as(AssertSqlSafe(ids))
            .fetch_all(&mut *connection)
            .await?;
        let row = format!("SELECT tenant, {column} FROM {table} WHERE id = $1");
        for (id,) in ids {
            let (tenant, sealed): (String, String) = query_as(AssertSqlSafe(row.clone()))
                .bind(&id)
                .fetch_one(&mut *connection)
                .await?;
            found.extend(of_request(&tenant, &*keys.unseal(Some(&sealed))?));
        }
    }
    Ok(found)
}

/// The connections that a request or a deployment brings: those with a login of their own.
fn of_request(tenant: &str, request: &Value) -> Vec<KeptAddress> {
    let given = request["vimConnectionInfo"].as_object();
    let given = given.into_iter().flat_map(|given| given.values());
    let given = given.filter_map(|one| serde_json::from_value(one.clone()).ok());
    let own = given.filter(|one: &VimConnectionInfo| !one.interface_info.is_empty());
    own.map(|one| KeptAddress::of(tenant, None, &one.interface_info, &one.extra))
        .collect()
}

/// The addresses that VIMs of the registry in the database at `path` keep, or will keep once this version opens it;
/// nothing is changed, and who has it open is not disturbed. None where there is no database.
///
/// # Errors
///
/// `Unavailable` where it cannot be read.
pub fn kept_addresses_of_database(path: &Path) -> Result<Vec<KeptAddress>, StoreError> {
    const NOTED: &str = "SELECT tenant, vim_id, endpoint, proxy FROM kept_addresses";
    const REGISTERED: &str = "
        SELECT tenant, id, COALESCE(json_extract(vim, '$.interfaceInfo.endpoint'), ''),
            COALESCE(json_extract(vim, '$.extra.proxy'), '') FROM vims";
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = || -> Done<Vec<KeptAddress>> {
        let db = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let version: i64 = db.query_row(
            "SELECT COALESCE(MAX(version), 0) FROM schema_version",
            [],
            |row| row.get(0),
        )?;
        let mut statement = db.prepare(if version < SINCE { REGISTERED } else { NOTED })?;
        let rows = statement.query_map([], |row| {
            Ok(KeptAddress {
                tenant: row.get(0)?,
                vim_id: row.get(1)?,
                endpoint: row.get(2)?,
                proxy: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    read().map_err(|fault: Fault| fault.with_action("look for addresses that VIMs keep"))
}

/// The migration that notes them.
const SINCE: i64 = 15;
