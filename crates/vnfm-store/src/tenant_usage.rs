//! Resources counted per tenant, for quotas.

use crate::executor::{all, one};
use crate::fault::Done;
use crate::refusals::{absent, first};
use crate::statement::{Query, Statement};
use rusqlite::Connection;
use vnfm_core::ports::{QuotaResource, StoreError, Usage};

/// SQL for the tenant `$1`'s amount of a resource; `None` if this store does not count it.
fn sql(resource: QuotaResource) -> Option<&'static str> {
    Some(match resource {
        QuotaResource::Instances => "SELECT COUNT(*) FROM instances WHERE tenant = $1",
        QuotaResource::Operations => "SELECT COUNT(*) FROM ops WHERE tenant = $1 AND ended = 0",
        QuotaResource::Packages => "SELECT COUNT(*) FROM packages WHERE tenant = $1",
        QuotaResource::PackageBytes => {
            "SELECT (SELECT COALESCE(SUM(bytes), 0) FROM packages WHERE tenant = $1)
                + (SELECT COALESCE(SUM(amount), 0) FROM reservations WHERE tenant = $1 AND kind = 'package_bytes')"
        }
        QuotaResource::StoredFileBytes => {
            "SELECT COALESCE(SUM(amount), 0) FROM reservations WHERE tenant = $1 AND kind = 'stored_file_bytes'"
        }
        QuotaResource::Subscriptions => "SELECT COUNT(*) FROM subscriptions WHERE tenant = $1",
        QuotaResource::Snapshots => "SELECT COUNT(*) FROM snapshots WHERE tenant = $1",
        QuotaResource::Links => "SELECT COUNT(*) FROM links WHERE tenant = $1",
        QuotaResource::Volumes => "SELECT COUNT(*) FROM volumes WHERE tenant = $1",
        QuotaResource::Vims => "SELECT COUNT(*) FROM vims WHERE tenant = $1 AND registered_by IS NULL",
        QuotaResource::AuditBytes => {
            "SELECT COALESCE((SELECT bytes FROM audit_sizes WHERE tenant = $1), 0)"
        }
        _ => return None,
    })
}

/// A tenant's amount of `resource`.
pub(crate) fn used(db: &Connection, tenant: &str, resource: QuotaResource) -> Done<u64> {
    let Some(sql) = sql(resource) else {
        return Err(uncounted(resource).into());
    };
    let found: i64 = one(db, &Query::new(sql).bind(tenant))?;
    Ok(u64::try_from(found).unwrap_or_default())
}

fn uncounted(resource: QuotaResource) -> StoreError {
    StoreError::Broken(format!("this store does not count {resource}"))
}

/// A tenant's amounts of all resources.
pub(crate) fn usage(db: &Connection, tenant: &str) -> Done<Usage> {
    let mut counted = [0; KINDS.len()];
    for (amount, resource) in counted.iter_mut().zip(KINDS) {
        *amount = used(db, tenant, resource)?;
    }
    let [
        instances,
        operations,
        packages,
        package_bytes,
        stored_file_bytes,
        subscriptions,
        snapshots,
        links,
        volumes,
        vims,
        audit_bytes,
    ] = counted;
    Ok(Usage {
        instances,
        operations,
        packages,
        package_bytes,
        stored_file_bytes,
        subscriptions,
        snapshots,
        links,
        volumes,
        vims,
        audit_bytes,
    })
}

const KINDS: [QuotaResource; 11] = [
    QuotaResource::Instances,
    QuotaResource::Operations,
    QuotaResource::Packages,
    QuotaResource::PackageBytes,
    QuotaResource::StoredFileBytes,
    QuotaResource::Subscriptions,
    QuotaResource::Snapshots,
    QuotaResource::Links,
    QuotaResource::Volumes,
    QuotaResource::Vims,
    QuotaResource::AuditBytes,
];

/// Fails if the tenant exceeds its quota after the preceding changes.
pub(crate) fn within(
    tenant: &str,
    resource: QuotaResource,
    (most, adds): (u64, u64),
) -> Done<Vec<Statement>> {
    let Some(sql) = sql(resource) else {
        return Err(uncounted(resource).into());
    };
    let sql = format!("SELECT used FROM (SELECT ({sql}) AS used) AS counted WHERE used > $2");
    let owner = tenant.to_owned();
    let within = Statement::new(sql).bind(tenant).bind(most);
    Ok(vec![within.none_or(move |rows| {
        let (used,): (i64,) = first(rows)?;
        let used = u64::try_from(used).unwrap_or_default();
        Ok(StoreError::QuotaExceeded {
            tenant: owner.clone(),
            what: resource,
            used: used.saturating_sub(adds),
            most,
        })
    })])
}

/// Reserves an amount, replacing a reservation with the same id.
pub(crate) fn reserve(
    (tenant, id): (&str, &str),
    resource: QuotaResource,
    amount: u64,
) -> Vec<Statement> {
    const RESERVE: &str = "
        INSERT INTO reservations (id, tenant, kind, amount) VALUES ($1, $2, $3, $4)
        ON CONFLICT (id) DO UPDATE SET amount = excluded.amount";
    let reserve = Statement::new(RESERVE)
        .bind(id)
        .bind(tenant)
        .bind(resource.name());
    vec![reserve.bind(amount)]
}

/// Removes a reservation; succeeds if it does not exist.
pub(crate) fn release(id: &str) -> Vec<Statement> {
    vec![Statement::new("DELETE FROM reservations WHERE id = $1").bind(id)]
}

/// Records the size of a package's files.
pub(crate) fn package_size((tenant, id): (&str, &str), bytes: u64) -> Vec<Statement> {
    const SIZE: &str = "UPDATE packages SET bytes = $3 WHERE tenant = $1 AND id = $2";
    let size = Statement::new(SIZE).bind(tenant).bind(id).bind(bytes);
    vec![size.or(absent("VNF package", id))]
}

/// Packages of unknown size, each with its tenant; versions before quotas did not record it.
pub(crate) fn unmeasured(db: &Connection) -> Done<Vec<(String, String)>> {
    all(
        db,
        &Query::new("SELECT tenant, id FROM packages WHERE bytes IS NULL"),
    )
}

/// The instances of all tenants, each with its tenant, ordered by id.
pub(crate) fn instances(db: &Connection) -> Done<Vec<(String, String)>> {
    all(
        db,
        &Query::new("SELECT tenant, id FROM instances ORDER BY id"),
    )
}

/// Every tenant that owns any resource.
pub(crate) fn tenants(db: &Connection) -> Done<Vec<String>> {
    const TENANTS: &str = "
        SELECT tenant FROM instances UNION SELECT tenant FROM vims UNION SELECT tenant FROM packages
        UNION SELECT tenant FROM snapshots UNION SELECT tenant FROM links UNION SELECT tenant FROM volumes
        UNION SELECT tenant FROM tombstones ORDER BY tenant";
    let rows: Vec<(String,)> = all(db, &Query::new(TENANTS))?;
    Ok(rows.into_iter().map(|(tenant,)| tenant).collect())
}
