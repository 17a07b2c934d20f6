//! Queries, and how their rows become records. Sealed columns are unsealed last, with the keys as they are after
//! the query; computed members (whether a package is in use, whether a cancel is pending) are computed here,
//! from rows that cannot disagree.

use crate::fault::Done;
use crate::filter::{INSTANCES, OPS, PACKAGES};
use crate::op_lease::cancel_mode;
use crate::secret_keys::SecretKeys;
use crate::statement::{Query as Sql, Row, json};
use crate::visibility::List;
use jiff::Timestamp;
use std::sync::Arc;
use vnfm_core::ports::{InstanceRecord, OpRecord, PackageRecord, SecretJson, VimRecord, VimUse};
use vnfm_core::query::Query;
use vnfm_types::{PackageUsageState, Tombstone, Vim, VnfPkgInfo};

mod host_keys;
mod links;
mod list;
mod logs;
mod schedules;
mod snapshots;
mod steps;
mod subscriptions;
mod volumes;
use list::list;

pub(crate) use host_keys::{host_key, host_keys, pinned};
pub(crate) use links::{link, link_record, links};
pub(crate) use logs::{audit, audit_entry, events, log, log_line, outbox, outbox_row};
pub(crate) use schedules::{due_schedules, schedule, schedule_record};
pub(crate) use snapshots::{snapshot, snapshot_record, snapshots};
pub(crate) use steps::{journal, journal_row, left_in_order, open_step, open_steps};
pub(crate) use subscriptions::{subscribers, subscription, subscription_record, subscriptions};
pub(crate) use volumes::{volume, volume_record, volumes};

/// One instance of the tenant, by id.
pub(crate) fn instance(tenant: &str, id: &str) -> Sql {
    const ONE: &str = "
        SELECT tenant, version, vnf_pkg_id, active_op, vnf, deployment, handle, on_failure, created_at, changed_ms
        FROM instances WHERE tenant = $1 AND id = $2";
    Sql::new(ONE).bind(tenant).bind(id)
}

/// Instances in order of id, without their sealed columns.
pub(crate) fn instances(tenant: &str, query: &Query) -> Done<Sql> {
    list((&INSTANCES, List::Instances), tenant, query, |condition| {
        format!(
            "SELECT tenant, version, vnf_pkg_id, active_op, vnf, NULL AS deployment, handle, on_failure, created_at, changed_ms
            FROM instances WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
        )
    })
}

/// A row of [`instance`] or [`instances`].
pub(crate) fn instance_record(mut row: Row, keys: &SecretKeys) -> Done<InstanceRecord> {
    Ok(InstanceRecord {
        tenant: row.take()?,
        version: row.count()?,
        vnf_pkg_id: row.take()?,
        active_op: row.take()?,
        vnf: row.json()?,
        deployment: keys
            .unseal_some(row.take::<Option<String>>()?.as_deref())?
            .map(Arc::new),
        handle: row.json()?,
        on_failure: row.some_json()?,
        created_at: row.some_time()?,
        changed_at: row
            .take::<Option<i64>>()?
            .and_then(|at| Timestamp::from_millisecond(at).ok()),
    })
}

/// One operation of the tenant, by id.
pub(crate) fn op(tenant: &str, id: &str) -> Sql {
    const ONE: &str = "
        SELECT tenant, op, request, before, target, control, point_of_no_return, cancel, epoch
        FROM ops WHERE tenant = $1 AND id = $2";
    Sql::new(ONE).bind(tenant).bind(id)
}

/// Operations in order of id, without their sealed columns.
pub(crate) fn ops(tenant: &str, query: &Query) -> Done<Sql> {
    list((&OPS, List::Ops), tenant, query, |condition| {
        format!(
            "SELECT tenant, op, NULL AS request, NULL AS before, NULL AS target, control, point_of_no_return, cancel, epoch
            FROM ops WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
        )
    })
}

/// A row of [`op`] or [`ops`].
pub(crate) fn op_record(mut row: Row, keys: &SecretKeys) -> Done<OpRecord> {
    let sealed = |row: &mut Row| row.take::<Option<String>>();
    let mut record = OpRecord {
        tenant: row.take()?,
        op: row.json()?,
        request: keys.unseal(sealed(&mut row)?.as_deref())?,
        before: keys
            .unseal_some(sealed(&mut row)?.as_deref())?
            .map(Arc::new),
        target: keys
            .unseal_some(sealed(&mut row)?.as_deref())?
            .map(Arc::new),
        control: row.some_json()?.unwrap_or_default(),
        point_of_no_return: row.take()?,
        epoch: 0,
    };
    record.op.cancel_mode = cancel_mode(row.take::<Option<String>>()?.as_deref())?;
    record.op.is_cancel_pending = record.op.cancel_mode.is_some();
    record.epoch = row.count()?;
    Ok(record)
}

/// A hook's checkpoint, sealed; a row with a null holds a null.
pub(crate) fn checkpoint(op_id: &str, step: &str, key: &str) -> Sql {
    Sql::new("SELECT value FROM checkpoints WHERE op_id = $1 AND step = $2 AND key = $3")
        .bind(op_id)
        .bind(step)
        .bind(key)
}

/// A VIM by id or name; the tenant's own takes precedence over a shared one, an id over a name.
pub(crate) fn vim(tenant: &str, id_or_name: &str) -> Sql {
    const ONE: &str = "
        SELECT tenant, version, vim, access_info FROM vims
        WHERE (tenant = $1 OR shared = 1) AND (id = $2 OR name = $2)
        ORDER BY CASE WHEN tenant = $1 THEN 0 ELSE 1 END, CASE WHEN id = $2 THEN 0 ELSE 1 END, tenant
        LIMIT 1";
    Sql::new(ONE).bind(tenant).bind(id_or_name)
}

/// VIMs in order of name.
pub(crate) fn vims(tenant: &str) -> Sql {
    const LIST: &str = "
        SELECT tenant, version, vim, access_info FROM vims WHERE tenant = $1 OR shared = 1
        ORDER BY name, tenant";
    Sql::new(LIST).bind(tenant)
}

/// A row of [`vim`] or [`vims`]: tenant, version, VIM, sealed `accessInfo`.
pub(crate) type VimRow = (String, i64, String, Option<String>);

/// Converts a row to a record.
pub(crate) fn vim_record(row: VimRow, keys: &SecretKeys) -> Done<VimRecord> {
    let (tenant, version, vim, sealed) = row;
    let mut vim: Vim = json(&vim)?;
    let location = keys.provider_location(sealed.as_deref());
    vim.key_type = location.map(|location| location.key_type.clone());
    vim.secret_uuid = location.map(|location| location.secret_uuid.clone());
    Ok(VimRecord {
        tenant,
        version: u64::try_from(version).unwrap_or_default(),
        vim,
        access_info: keys.unseal(sealed.as_deref())?,
    })
}

/// The instances of a tenant that use a VIM or the cluster behind it; those of all tenants if it is shared.
pub(crate) fn uses(tenant: &str, vim_id: &str) -> Sql {
    const USES: &str = "
        SELECT tenant, instance_id, vim_id, identity, namespace FROM uses
        WHERE (tenant = $1 OR EXISTS (SELECT 1 FROM vims WHERE tenant = $1 AND id = $2 AND shared = 1))
            AND (vim_id = $2 OR identity = (SELECT identity FROM vims WHERE tenant = $1 AND id = $2))
        ORDER BY instance_id, vim_id, identity";
    Sql::new(USES).bind(tenant).bind(vim_id)
}

/// Converts a row of [`uses`] to a record.
pub(crate) fn vim_use(mut row: Row) -> Done<VimUse> {
    Ok(VimUse {
        tenant: row.take()?,
        instance_id: row.take()?,
        vim_id: some(row.take()?),
        identity: some(row.take()?),
        namespace: row.take()?,
    })
}

/// One package of the tenant, by id.
pub(crate) fn package(tenant: &str, id: &str) -> Sql {
    const ONE: &str = "
        SELECT tenant, info, (EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = packages.id)
            OR EXISTS (SELECT 1 FROM ops WHERE next_pkg_id = packages.id AND ended = 0)) AS used, fetching
        FROM packages WHERE tenant = $1 AND id = $2";
    Sql::new(ONE).bind(tenant).bind(id)
}

/// Packages in order of id, without their sealed columns.
pub(crate) fn packages(tenant: &str, query: &Query) -> Done<Sql> {
    list((&PACKAGES, List::Packages), tenant, query, |condition| {
        format!(
            "SELECT tenant, info, (EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = packages.id)
            OR EXISTS (SELECT 1 FROM ops WHERE next_pkg_id = packages.id AND ended = 0)) AS used, NULL AS fetching
            FROM packages WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
        )
    })
}

/// Every package of every tenant. Whether it is in use does not matter here.
pub(crate) fn all_packages() -> Sql {
    Sql::new("SELECT tenant, info, 0 AS used, fetching FROM packages ORDER BY id")
}

/// A row of [`package`], [`packages`] or [`all_packages`], and its sealed column.
pub(crate) fn sealed_package(mut row: Row) -> Done<(PackageRecord, Option<String>)> {
    let (tenant, mut info): (String, VnfPkgInfo) = (row.take()?, row.json()?);
    info.usage_state = if row.take()? {
        PackageUsageState::InUse
    } else {
        PackageUsageState::NotInUse
    };
    let record = PackageRecord {
        tenant,
        info,
        fetching: SecretJson::default(),
    };
    Ok((record, row.take()?))
}

/// A row of [`package`] or [`packages`].
pub(crate) fn package_record(row: Row, keys: &SecretKeys) -> Done<PackageRecord> {
    let (record, sealed) = sealed_package(row)?;
    Ok(PackageRecord {
        fetching: keys.unseal(sealed.as_deref())?,
        ..record
    })
}

/// Tombstones of abandoned instances, in order of id.
pub(crate) fn tombstones(tenant: &str) -> Sql {
    Sql::new("SELECT tombstone FROM tombstones WHERE tenant = $1 ORDER BY instance_id").bind(tenant)
}

/// Converts a row of [`tombstones`] to a record.
pub(crate) fn tombstone(mut row: Row) -> Done<Tombstone> {
    row.json()
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
