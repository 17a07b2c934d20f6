//! Converts rows to records. Sealed columns are unsealed last, by the holder of the keys; computed members (whether a
//! package is in use, whether a cancel is pending) is computed here, from rows that cannot disagree.

use crate::fault::{Done, Fault};
use crate::filter::{Bound, INSTANCES, OPS, PACKAGES, Table, condition};
use crate::keys::SecretKeys;
use crate::lease::cancel_mode;
use crate::visibility::{self, List};
use crate::write::{absent, count, status_text};
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, FromRow, Row as _, query, query_as, query_as_with, query_scalar,
    query_with,
};
use std::sync::Arc;
use vnfm_core::ports::{
    InstanceRecord, OpRecord, PackageRecord, SecretJson, StepStatus, StoreError, VimRecord, VimUse,
};
use vnfm_core::query::Query;
use vnfm_types::{PackageUsageState, Tombstone, Vim, VnfLcmOpOcc, VnfPkgInfo};

/// Each field from the column of its name.
macro_rules! from_columns {
    ($row:ident: $($column:ident),+) => {
        impl FromRow<'_, SqliteRow> for $row {
            fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
                Ok(Self { $($column: row.try_get(stringify!($column))?),+ })
            }
        }
    };
}

mod host_keys;
mod logs;
mod steps;
mod subscriptions;
pub(crate) use host_keys::{host_key, host_keys};
pub(crate) use logs::{audit, events, log, outbox};
pub(crate) use steps::{OpenStepRow, journal, left_in_order, open_steps};
pub(crate) use subscriptions::{subscribers, subscription, subscriptions};

from_columns!(InstanceRow: tenant, version, vnf_pkg_id, active_op, vnf, deployment, handle, created_at, changed_ms);
from_columns!(OpRow: tenant, op, request, before, target, control, point_of_no_return, cancel, epoch);
from_columns!(VimRow: tenant, version, vim, access_info);

/// A row of `instances`.
pub(crate) struct InstanceRow {
    tenant: String,
    version: i64,
    vnf_pkg_id: String,
    active_op: Option<String>,
    vnf: String,
    deployment: Option<String>,
    handle: String,
    created_at: Option<String>,
    changed_ms: Option<i64>,
}

impl InstanceRow {
    /// Converts it to the port's record.
    pub(crate) fn record(self, keys: &SecretKeys) -> Done<InstanceRecord> {
        Ok(InstanceRecord {
            tenant: self.tenant,
            version: count(self.version),
            vnf_pkg_id: self.vnf_pkg_id,
            active_op: self.active_op,
            vnf: serde_json::from_str(&self.vnf)?,
            deployment: keys.unseal_some(self.deployment.as_deref())?.map(Arc::new),
            handle: serde_json::from_str(&self.handle)?,
            created_at: self.created_at.as_deref().map(time).transpose()?,
            changed_at: self
                .changed_ms
                .and_then(|at| jiff::Timestamp::from_millisecond(at).ok()),
        })
    }
}

/// One instance.
pub(crate) async fn instance(
    connection: &mut SqliteConnection,
    tenant: &str,
    id: &str,
) -> Done<InstanceRow> {
    const ONE: &str = "
        SELECT tenant, version, vnf_pkg_id, active_op, vnf, deployment, handle, created_at, changed_ms
        FROM instances WHERE tenant = $1 AND id = $2";
    let found = query_as(ONE)
        .bind(tenant)
        .bind(id)
        .fetch_optional(connection)
        .await?;
    found.ok_or_else(|| absent("VNF instance", id).into())
}

/// Instances in order of id, without their sealed columns.
pub(crate) async fn instances(
    connection: &mut SqliteConnection,
    tenant: &str,
    query: &Query,
) -> Done<Vec<InstanceRow>> {
    let (condition, bound) = conditions((&INSTANCES, List::Instances), query)?;
    let sql = format!(
        "SELECT tenant, version, vnf_pkg_id, active_op, vnf, NULL AS deployment, handle, created_at, changed_ms
        FROM instances WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
    );
    let list = query_as_with(AssertSqlSafe(sql), arguments(tenant, query, bound)?);
    Ok(list.fetch_all(connection).await?)
}

/// A row of `ops`.
pub(crate) struct OpRow {
    tenant: String,
    op: String,
    request: Option<String>,
    before: Option<String>,
    target: Option<String>,
    control: Option<String>,
    point_of_no_return: Option<String>,
    cancel: Option<String>,
    epoch: i64,
}

impl OpRow {
    /// Converts it to the port's record.
    pub(crate) fn record(self, keys: &SecretKeys) -> Done<OpRecord> {
        let mut op: VnfLcmOpOcc = serde_json::from_str(&self.op)?;
        op.cancel_mode = cancel_mode(self.cancel.as_deref())?;
        op.is_cancel_pending = op.cancel_mode.is_some();
        Ok(OpRecord {
            tenant: self.tenant,
            op,
            request: keys.unseal(self.request.as_deref())?,
            before: keys.unseal_some(self.before.as_deref())?.map(Arc::new),
            target: keys.unseal_some(self.target.as_deref())?.map(Arc::new),
            control: self
                .control
                .as_deref()
                .map(serde_json::from_str)
                .transpose()?
                .unwrap_or_default(),
            point_of_no_return: self.point_of_no_return,
            epoch: count(self.epoch),
        })
    }
}

/// One operation.
pub(crate) async fn op(connection: &mut SqliteConnection, tenant: &str, id: &str) -> Done<OpRow> {
    const ONE: &str = "
        SELECT tenant, op, request, before, target, control, point_of_no_return, cancel, epoch
        FROM ops WHERE tenant = $1 AND id = $2";
    let found = query_as(ONE)
        .bind(tenant)
        .bind(id)
        .fetch_optional(connection)
        .await?;
    found.ok_or_else(|| absent("operation", id).into())
}

/// Operations in order of id, without their sealed columns.
pub(crate) async fn ops(
    connection: &mut SqliteConnection,
    tenant: &str,
    query: &Query,
) -> Done<Vec<OpRow>> {
    let (condition, bound) = conditions((&OPS, List::Ops), query)?;
    let sql = format!(
        "SELECT tenant, op, NULL AS request, NULL AS before, NULL AS target, control, point_of_no_return, cancel, epoch
        FROM ops WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
    );
    let list = query_as_with(AssertSqlSafe(sql), arguments(tenant, query, bound)?);
    Ok(list.fetch_all(connection).await?)
}

/// A hook's checkpoint, sealed.
pub(crate) async fn checkpoint(
    connection: &mut SqliteConnection,
    op_id: &str,
    step: &str,
    key: &str,
) -> Done<Option<Option<String>>> {
    let found =
        query_scalar("SELECT value FROM checkpoints WHERE op_id = $1 AND step = $2 AND key = $3");
    Ok(found
        .bind(op_id)
        .bind(step)
        .bind(key)
        .fetch_optional(connection)
        .await?)
}

/// A row of `vims`.
pub(crate) struct VimRow {
    tenant: String,
    version: i64,
    vim: String,
    access_info: Option<String>,
}

impl VimRow {
    /// Converts it to the port's record.
    pub(crate) fn record(self, keys: &SecretKeys) -> Done<VimRecord> {
        let mut vim: Vim = serde_json::from_str(&self.vim)?;
        let location = keys.provider_location(self.access_info.as_deref());
        vim.key_type = location.map(|location| location.key_type.clone());
        vim.secret_uuid = location.map(|location| location.secret_uuid.clone());
        Ok(VimRecord {
            tenant: self.tenant,
            version: count(self.version),
            vim,
            access_info: keys.unseal(self.access_info.as_deref())?,
        })
    }
}

/// A VIM by id or name; the tenant's own takes precedence over a shared one, an id over a name.
pub(crate) async fn vim(
    connection: &mut SqliteConnection,
    tenant: &str,
    id_or_name: &str,
) -> Done<VimRow> {
    const ONE: &str = "
        SELECT tenant, version, vim, access_info FROM vims
        WHERE (tenant = $1 OR shared = 1) AND (id = $2 OR name = $2)
        ORDER BY CASE WHEN tenant = $1 THEN 0 ELSE 1 END, CASE WHEN id = $2 THEN 0 ELSE 1 END, tenant
        LIMIT 1";
    let found = query_as(ONE)
        .bind(tenant)
        .bind(id_or_name)
        .fetch_optional(connection)
        .await?;
    found.ok_or_else(|| absent("VIM", id_or_name).into())
}

/// VIMs in order of name.
pub(crate) async fn vims(connection: &mut SqliteConnection, tenant: &str) -> Done<Vec<VimRow>> {
    const LIST: &str = "
        SELECT tenant, version, vim, access_info FROM vims WHERE tenant = $1 OR shared = 1
        ORDER BY name, tenant";
    Ok(query_as(LIST).bind(tenant).fetch_all(connection).await?)
}

/// The instances of a tenant that use a VIM or the cluster behind it; those of all tenants if it is shared.
pub(crate) async fn uses(
    connection: &mut SqliteConnection,
    tenant: &str,
    vim_id: &str,
) -> Done<Vec<VimUse>> {
    const USES: &str = "
        SELECT tenant, instance_id, vim_id, identity, namespace FROM uses
        WHERE (tenant = $1 OR EXISTS (SELECT 1 FROM vims WHERE tenant = $1 AND id = $2 AND shared = 1))
            AND (vim_id = $2 OR identity = (SELECT identity FROM vims WHERE tenant = $1 AND id = $2))
        ORDER BY instance_id, vim_id, identity";
    let rows = query(USES)
        .bind(tenant)
        .bind(vim_id)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(VimUse {
                tenant: row.try_get("tenant")?,
                instance_id: row.try_get("instance_id")?,
                vim_id: some(row.try_get("vim_id")?),
                identity: some(row.try_get("identity")?),
                namespace: row.try_get("namespace")?,
            })
        })
        .collect()
}

/// One package's record.
pub(crate) async fn package(
    connection: &mut SqliteConnection,
    (tenant, id): (&str, &str),
) -> Done<SqliteRow> {
    const ONE: &str = "
        SELECT tenant, info, fetching, EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = packages.id) AS used
        FROM packages WHERE tenant = $1 AND id = $2";
    let found = query(ONE)
        .bind(tenant)
        .bind(id)
        .fetch_optional(connection)
        .await?;
    found.ok_or_else(|| absent("VNF package", id).into())
}

/// Packages in order of id, without their sealed columns.
pub(crate) async fn packages(
    connection: &mut SqliteConnection,
    tenant: &str,
    query: &Query,
) -> Done<Vec<PackageRecord>> {
    let (condition, bound) = conditions((&PACKAGES, List::Packages), query)?;
    let sql = format!(
        "SELECT tenant, info, EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = packages.id) AS used
        FROM packages WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
    );
    let list = query_with(AssertSqlSafe(sql), arguments(tenant, query, bound)?);
    list.fetch_all(connection)
        .await?
        .iter()
        .map(package_of)
        .collect()
}

/// The conditions on a list's rows, in addition to the tenant: its filter and the caller's visibility scope.
fn conditions((table, list): (&Table, List), query: &Query) -> Done<(String, Vec<Bound>)> {
    let (mut sql, mut bound) = condition(table, &query.filter, FIRST);
    let (seen, more) = visibility::condition(list, &query.scope, FIRST + bound.len())?;
    sql += &seen;
    bound.extend(more);
    Ok((sql, bound))
}

/// The number of the first value of a list's filter, after those of [`arguments`] that every list has.
const FIRST: usize = 4;

/// The values of a list: tenant, last id, limit, and those of its filter.
fn arguments(tenant: &str, query: &Query, bound: Vec<Bound>) -> Done<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    let mut add = |value: Bound| match value {
        Bound::Text(text) => arguments.add(text),
        Bound::Whole(number) => arguments.add(number),
        Bound::Real(number) => arguments.add(number),
    };
    let after = query.after.clone().unwrap_or_default();
    let common = [
        Bound::Text(tenant.to_owned()),
        Bound::Text(after),
        Bound::Whole(limit(query.limit)),
    ];
    common
        .into_iter()
        .chain(bound)
        .try_for_each(&mut add)
        .map_err(sqlx::Error::Encode)?;
    Ok(arguments)
}

/// A package's record, with whether it is `used`.
pub(crate) fn package_of(row: &SqliteRow) -> Done<PackageRecord> {
    let mut info: VnfPkgInfo = serde_json::from_str(row.try_get("info")?)?;
    let used: bool = row.try_get("used")?;
    info.usage_state = if used {
        PackageUsageState::InUse
    } else {
        PackageUsageState::NotInUse
    };
    Ok(PackageRecord {
        tenant: row.try_get("tenant")?,
        info,
        fetching: SecretJson::default(),
    })
}

/// A package's record including its sealed columns.
pub(crate) fn unsealed_package_of(row: &SqliteRow, keys: &SecretKeys) -> Done<PackageRecord> {
    let fetching: Option<String> = row.try_get("fetching")?;
    Ok(PackageRecord {
        fetching: keys.unseal(fetching.as_deref())?,
        ..package_of(row)?
    })
}

/// Tombstones of abandoned instances, in order of id.
pub(crate) async fn tombstones(
    connection: &mut SqliteConnection,
    tenant: &str,
) -> Done<Vec<Tombstone>> {
    const ROWS: &str = "SELECT tombstone FROM tombstones WHERE tenant = $1 ORDER BY instance_id";
    let rows: Vec<String> = query_scalar(ROWS)
        .bind(tenant)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| Ok(serde_json::from_str(row)?))
        .collect()
}

fn status(stored: &str) -> Done<StepStatus> {
    const ALL: [StepStatus; 5] = [
        StepStatus::Started,
        StepStatus::Done,
        StepStatus::Skipped,
        StepStatus::Undoing,
        StepStatus::Undone,
    ];
    ALL.into_iter()
        .find(|status| status_text(*status) == stored)
        .ok_or_else(|| broken(format!("`{stored}` is not a step status")))
}

fn time(stored: &str) -> Done<jiff::Timestamp> {
    stored
        .parse()
        .map_err(|error| broken(format!("`{stored}` is not a time: {error}")))
}

fn broken(why: String) -> Fault {
    StoreError::Broken(why).into()
}

/// A limit for SQL; 0 means unlimited.
fn limit(most: usize) -> i64 {
    match most {
        0 => i64::MAX,
        most => i64::try_from(most).unwrap_or(i64::MAX),
    }
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
