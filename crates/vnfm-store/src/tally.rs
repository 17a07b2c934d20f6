//! What tenants have, counted.

use crate::fault::Done;
use crate::write::count;
use sqlx::query_scalar;
use sqlx::sqlite::SqliteConnection;
use vnfm_core::ports::Usage;

/// How much a tenant has.
pub(crate) async fn usage(connection: &mut SqliteConnection, tenant: &str) -> Done<Usage> {
    const INSTANCES: &str = "SELECT COUNT(*) FROM instances WHERE tenant = $1";
    const OPERATIONS: &str = "SELECT COUNT(*) FROM ops WHERE tenant = $1 AND ended = 0";
    let instances: i64 = query_scalar(INSTANCES).bind(tenant).fetch_one(&mut *connection).await?;
    let operations: i64 = query_scalar(OPERATIONS).bind(tenant).fetch_one(connection).await?;
    Ok(Usage { instances: count(instances), operations: count(operations) })
}

/// Every tenant that has something.
pub(crate) async fn tenants(connection: &mut SqliteConnection) -> Done<Vec<String>> {
    const TENANTS: &str = "
        SELECT tenant FROM instances UNION SELECT tenant FROM vims UNION SELECT tenant FROM packages
        UNION SELECT tenant FROM tombstones ORDER BY tenant";
    Ok(query_scalar(TENANTS).fetch_all(connection).await?)
}
