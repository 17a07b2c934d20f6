//! Resources counted per tenant, for quotas.

use crate::fault::Done;
use crate::write::{Writing, absent, count, number};
use sqlx::query_scalar;
use sqlx::sqlite::SqliteConnection;
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
        QuotaResource::Subscriptions => "SELECT COUNT(*) FROM subscriptions WHERE tenant = $1",
        QuotaResource::Vims => "SELECT COUNT(*) FROM vims WHERE tenant = $1 AND registered_by IS NULL",
        QuotaResource::AuditBytes => {
            "SELECT COALESCE((SELECT bytes FROM audit_sizes WHERE tenant = $1), 0)"
        }
        _ => return None,
    })
}

/// A tenant's amount of `resource`.
pub(crate) async fn used(
    connection: &mut SqliteConnection,
    tenant: &str,
    resource: QuotaResource,
) -> Done<u64> {
    let Some(sql) = sql(resource) else {
        return Err(uncounted(resource).into());
    };
    let found: i64 = query_scalar(sql).bind(tenant).fetch_one(connection).await?;
    Ok(count(found))
}

fn uncounted(resource: QuotaResource) -> StoreError {
    StoreError::Broken(format!("this store does not count {resource}"))
}

/// A tenant's amounts of all resources.
pub(crate) async fn usage(connection: &mut SqliteConnection, tenant: &str) -> Done<Usage> {
    let mut counted = [0; KINDS.len()];
    for (amount, resource) in counted.iter_mut().zip(KINDS) {
        *amount = used(connection, tenant, resource).await?;
    }
    let [
        instances,
        operations,
        packages,
        package_bytes,
        subscriptions,
        vims,
        audit_bytes,
    ] = counted;
    Ok(Usage {
        instances,
        operations,
        packages,
        package_bytes,
        subscriptions,
        vims,
        audit_bytes,
    })
}

const KINDS: [QuotaResource; 7] = [
    QuotaResource::Instances,
    QuotaResource::Operations,
    QuotaResource::Packages,
    QuotaResource::PackageBytes,
    QuotaResource::Subscriptions,
    QuotaResource::Vims,
    QuotaResource::AuditBytes,
];

/// Fails if the tenant exceeds its quota after the preceding changes.
pub(crate) fn within(
    writing: &Writing<'_>,
    tenant: &str,
    resource: QuotaResource,
    (most, adds): (u64, u64),
) -> Done<()> {
    let Some(sql) = sql(resource) else {
        return Err(uncounted(resource).into());
    };
    let total = count(writing.statement(sql).bind(tenant).one()?);
    if total <= most {
        return Ok(());
    }
    let (tenant, used) = (tenant.to_owned(), total.saturating_sub(adds));
    Err(StoreError::QuotaExceeded {
        tenant,
        what: resource,
        used,
        most,
    }
    .into())
}

/// Reserves an amount, replacing a reservation with the same id.
pub(crate) fn reserve(
    writing: &Writing<'_>,
    (tenant, id): (&str, &str),
    resource: QuotaResource,
    amount: u64,
) -> Done<()> {
    const RESERVE: &str = "
        INSERT INTO reservations (id, tenant, kind, amount) VALUES ($1, $2, $3, $4)
        ON CONFLICT (id) DO UPDATE SET amount = excluded.amount";
    let reserve = writing
        .statement(RESERVE)
        .bind(id)
        .bind(tenant)
        .bind(resource.name());
    reserve.bind(number(amount)).run()
}

/// Removes a reservation.
pub(crate) fn release(writing: &Writing<'_>, id: &str) -> Done<()> {
    writing
        .statement("DELETE FROM reservations WHERE id = $1")
        .bind(id)
        .run()
}

/// Records the size of a package's files.
pub(crate) fn package_size(
    writing: &Writing<'_>,
    (tenant, id): (&str, &str),
    bytes: u64,
) -> Done<()> {
    const SIZE: &str = "UPDATE packages SET bytes = $3 WHERE tenant = $1 AND id = $2";
    if writing
        .statement(SIZE)
        .bind(tenant)
        .bind(id)
        .bind(number(bytes))
        .changed()?
    {
        return Ok(());
    }
    Err(absent("VNF package", id).into())
}

/// Packages of unknown size, each with its tenant; versions before quotas did not record it.
pub(crate) async fn unmeasured(connection: &mut SqliteConnection) -> Done<Vec<(String, String)>> {
    const UNMEASURED: &str = "SELECT tenant, id FROM packages WHERE bytes IS NULL";
    Ok(sqlx::query_as(UNMEASURED).fetch_all(connection).await?)
}

/// Every tenant that owns any resource.
pub(crate) async fn tenants(connection: &mut SqliteConnection) -> Done<Vec<String>> {
    const TENANTS: &str = "
        SELECT tenant FROM instances UNION SELECT tenant FROM vims UNION SELECT tenant FROM packages
        UNION SELECT tenant FROM tombstones ORDER BY tenant";
    Ok(query_scalar(TENANTS).fetch_all(connection).await?)
}
