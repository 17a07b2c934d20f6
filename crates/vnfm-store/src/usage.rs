//! What tenants have, counted.

use crate::fault::Done;
use crate::write::{Writing, absent, count, number};
use sqlx::query_scalar;
use sqlx::sqlite::SqliteConnection;
use vnfm_core::ports::{QuotaResource, StoreError, Usage};

/// How much of something the tenant `$1` has.
fn sql(what: QuotaResource) -> Option<&'static str> {
    Some(match what {
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

/// How much of `what` a tenant has.
pub(crate) async fn used(
    connection: &mut SqliteConnection,
    tenant: &str,
    what: QuotaResource,
) -> Done<u64> {
    let Some(sql) = sql(what) else {
        return Err(uncounted(what).into());
    };
    let found: i64 = query_scalar(sql).bind(tenant).fetch_one(connection).await?;
    Ok(count(found))
}

fn uncounted(what: QuotaResource) -> StoreError {
    StoreError::Broken(format!("this store does not count {what}"))
}

/// How much a tenant has.
pub(crate) async fn usage(connection: &mut SqliteConnection, tenant: &str) -> Done<Usage> {
    let mut counted = [0; KINDS.len()];
    for (place, what) in counted.iter_mut().zip(KINDS) {
        *place = used(connection, tenant, what).await?;
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

/// Refuses the list of changes where the tenant has too much with them.
pub(crate) fn within(
    writing: &Writing<'_>,
    tenant: &str,
    what: QuotaResource,
    (most, adds): (u64, u64),
) -> Done<()> {
    let Some(sql) = sql(what) else {
        return Err(uncounted(what).into());
    };
    let total = count(writing.statement(sql).bind(tenant).one()?);
    if total <= most {
        return Ok(());
    }
    let (tenant, used) = (tenant.to_owned(), total.saturating_sub(adds));
    Err(StoreError::QuotaExceeded {
        tenant,
        what,
        used,
        most,
    }
    .into())
}

/// Sets an amount aside, in place of what was set aside under the same id.
pub(crate) fn reserve(
    writing: &Writing<'_>,
    (tenant, id): (&str, &str),
    what: QuotaResource,
    amount: u64,
) -> Done<()> {
    const RESERVE: &str = "
        INSERT INTO reservations (id, tenant, kind, amount) VALUES ($1, $2, $3, $4)
        ON CONFLICT (id) DO UPDATE SET amount = excluded.amount";
    let reserve = writing
        .statement(RESERVE)
        .bind(id)
        .bind(tenant)
        .bind(what.name());
    reserve.bind(number(amount)).run()
}

/// Releases what was set aside.
pub(crate) fn release(writing: &Writing<'_>, id: &str) -> Done<()> {
    writing
        .statement("DELETE FROM reservations WHERE id = $1")
        .bind(id)
        .run()
}

/// How many bytes the files of a package have.
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

/// Packages of which it is not known how many bytes they have: a database from before they were counted. Each with its
/// tenant.
pub(crate) async fn unmeasured(connection: &mut SqliteConnection) -> Done<Vec<(String, String)>> {
    const UNMEASURED: &str = "SELECT tenant, id FROM packages WHERE bytes IS NULL";
    Ok(sqlx::query_as(UNMEASURED).fetch_all(connection).await?)
}

/// Every tenant that has something.
pub(crate) async fn tenants(connection: &mut SqliteConnection) -> Done<Vec<String>> {
    const TENANTS: &str = "
        SELECT tenant FROM instances UNION SELECT tenant FROM vims UNION SELECT tenant FROM packages
        UNION SELECT tenant FROM tombstones ORDER BY tenant";
    Ok(query_scalar(TENANTS).fetch_all(connection).await?)
}
