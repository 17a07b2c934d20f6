//! Addresses of VIMs that were in use before addresses were checked, which remain allowed. They are recorded when a
//! database of an older version is first opened; a VIM loses its own with the first change of its endpoint or proxy.

use crate::executor::{all, execute, first, one, transaction};
use crate::fault::{Done, Fault};
use crate::location::{Access, open_file};
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Statement};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use vnfm_core::ports::{Change, StoreError, VimRecord};
use vnfm_types::{KeyValuePairs, VimConnectionInfo};

/// An address that remains allowed for a VIM.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UncheckedAddress {
    /// The tenant that owns the VIM.
    pub tenant: String,
    /// The VIM's id in the registry; empty for a connection in a request.
    pub vim_id: String,
    /// `interfaceInfo.endpoint` of the connection at that time.
    pub endpoint: String,
    /// `extra.proxy` at that time; empty if absent.
    pub proxy: String,
}

impl UncheckedAddress {
    fn new(
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
        Self::new(
            &record.tenant,
            Some(&vim.id),
            &vim.interface_info,
            &vim.extra,
        )
    }
}

/// All of them, in memory: drivers check each connection.
#[derive(Default)]
pub(crate) struct KeptAddresses(RwLock<HashSet<UncheckedAddress>>);

impl KeptAddresses {
    pub(crate) fn all(&self) -> Vec<UncheckedAddress> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    pub(crate) fn has(&self, tenant: &str, vim: Option<&str>, info: &VimConnectionInfo) -> bool {
        let addresses = self.0.read().unwrap_or_else(PoisonError::into_inner);
        !addresses.is_empty()
            && addresses.contains(&UncheckedAddress::new(
                tenant,
                vim,
                &info.interface_info,
                &info.extra,
            ))
    }

    /// The addresses that these changes end, because the VIM is removed or gets another address.
    pub(crate) fn ended_by(&self, changes: &[Change]) -> Vec<UncheckedAddress> {
        let addresses = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let ends = |one: &&UncheckedAddress| {
            changes.iter().any(|change| match change {
                Change::PutVim(record) => {
                    let now = UncheckedAddress::of_record(record);
                    (&now.tenant, &now.vim_id) == (&one.tenant, &one.vim_id) && now != **one
                }
                Change::RemoveVim { tenant, id, .. } => (tenant, id) == (&one.tenant, &one.vim_id),
                _ => false,
            })
        };
        if addresses.is_empty() {
            Vec::new()
        } else {
            addresses.iter().filter(ends).cloned().collect()
        }
    }

    pub(crate) fn remove(&self, ended: &[UncheckedAddress]) {
        if !ended.is_empty() {
            let mut addresses = self.0.write().unwrap_or_else(PoisonError::into_inner);
            addresses.retain(|one| !ended.contains(one));
        }
    }
}

/// Removes a changed VIM's addresses other than its current one.
pub(crate) fn changed(record: &VimRecord) -> Statement {
    const GO: &str = "
        DELETE FROM kept_addresses WHERE tenant = $1 AND vim_id = $2 AND (endpoint <> $3 OR proxy <> $4)";
    let now = UncheckedAddress::of_record(record);
    Statement::new(GO)
        .bind(now.tenant)
        .bind(now.vim_id)
        .bind(now.endpoint)
        .bind(now.proxy)
}

/// Removes the addresses of a removed VIM.
pub(crate) fn removed(tenant: &str, id: &str) -> Statement {
    const GO: &str = "DELETE FROM kept_addresses WHERE tenant = $1 AND vim_id = $2";
    Statement::new(GO).bind(tenant).bind(id)
}

/// Reads the recorded addresses; records them first if the migration requested it.
pub(crate) fn read(db: &Connection, keys: &SecretKeys) -> Done<KeptAddresses> {
    const REQUESTED: &str = "DELETE FROM meta WHERE key = 'addresses' RETURNING value";
    transaction(db, |db| {
        let requested: Option<(String,)> = first(db, &Query::new(REQUESTED))?;
        if requested.is_some() {
            for address in in_use(db, keys)? {
                record(db, &address)?;
            }
        }
        Ok(())
    })?;
    Ok(KeptAddresses(RwLock::new(
        listed(db, RECORDED)?.into_iter().collect(),
    )))
}

const RECORDED: &str = "SELECT tenant, vim_id, endpoint, proxy FROM kept_addresses";

fn listed(db: &Connection, sql: &'static str) -> Done<Vec<UncheckedAddress>> {
    let rows: Vec<(String, String, String, String)> = all(db, &Query::new(sql))?;
    let address = |(tenant, vim_id, endpoint, proxy)| UncheckedAddress {
        tenant,
        vim_id,
        endpoint,
        proxy,
    };
    Ok(rows.into_iter().map(address).collect())
}

fn record(db: &Connection, address: &UncheckedAddress) -> Done<()> {
    const RECORD: &str = "
        INSERT INTO kept_addresses (tenant, vim_id, endpoint, proxy) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING";
    let record = Query::new(RECORD)
        .bind(&address.tenant)
        .bind(&address.vim_id)
        .bind(&address.endpoint)
        .bind(&address.proxy);
    execute(db, &record).map(drop)
}

/// The addresses of all VIMs, and of all connections in requests.
fn in_use(db: &Connection, keys: &SecretKeys) -> Done<Vec<UncheckedAddress>> {
    let vims: Vec<(String, String)> = all(db, &Query::new("SELECT tenant, vim FROM vims"))?;
    let mut found = Vec::new();
    for (tenant, vim) in vims {
        let vim: vnfm_types::Vim = serde_json::from_str(&vim)?;
        found.push(UncheckedAddress::new(
            &tenant,
            Some(&vim.id),
            &vim.interface_info,
            &vim.extra,
        ));
    }
    for (table, column) in [("instances", "deployment"), ("ops", "request")] {
        let ids = format!("SELECT id FROM {table} WHERE {column} IS NOT NULL");
        let ids: Vec<(String,)> = all(db, &Query::new(ids))?;
        let row = format!("SELECT tenant, {column} FROM {table} WHERE id = $1");
        for (id,) in ids {
            let row: Option<(String, String)> = first(db, &Query::new(row.clone()).bind(id))?;
            if let Some((tenant, sealed)) = row {
                found.extend(of_request(&tenant, &*keys.unseal(Some(&sealed))?));
            }
        }
    }
    Ok(found)
}

/// The connections in a request or deployment that have their own `interfaceInfo`.
fn of_request(tenant: &str, request: &Value) -> Vec<UncheckedAddress> {
    let given = request["vimConnectionInfo"].as_object();
    let given = given.into_iter().flat_map(|given| given.values());
    let given = given.filter_map(|one| serde_json::from_value(one.clone()).ok());
    let own = given.filter(|one: &VimConnectionInfo| !one.interface_info.is_empty());
    own.map(|one| UncheckedAddress::new(tenant, None, &one.interface_info, &one.extra))
        .collect()
}

/// The addresses that remain allowed for registered VIMs of the database at `path`, or will once this version opens it.
/// Changes nothing and does not disturb a server that has it open. Empty if there is no database.
///
/// # Errors
///
/// `Unavailable` if it cannot be read.
pub fn unchecked_addresses_of_database(path: &Path) -> Result<Vec<UncheckedAddress>, StoreError> {
    const REGISTERED: &str = "
        SELECT tenant, id, COALESCE(json_extract(vim, '$.interfaceInfo.endpoint'), ''),
            COALESCE(json_extract(vim, '$.extra.proxy'), '') FROM vims";
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = || -> Done<Vec<UncheckedAddress>> {
        let db = open_file(path, Access::Read)?;
        let version = Query::new("SELECT COALESCE(MAX(version), 0) FROM schema_version");
        let version: i64 = one(&db, &version)?;
        listed(
            &db,
            if version < SINCE {
                REGISTERED
            } else {
                RECORDED
            },
        )
    };
    read().map_err(|fault: Fault| fault.with_action("list the addresses that remain allowed"))
}

/// The migration that introduced them.
const SINCE: i64 = 15;
