//! Pinned SSH host keys.

use crate::fault::Done;
use sqlx::query_as;
use sqlx::sqlite::SqliteConnection;
use vnfm_core::ports::{HostPin, PinnedHost, PinnedKey};

/// The key pinned for a host; otherwise one that an older version pinned for a host of that name. The most specific
/// row wins, even if its key was forgotten.
pub(crate) async fn host_key(
    connection: &mut SqliteConnection,
    pin: &HostPin,
) -> Done<Option<PinnedKey>> {
    const FIND: &str = "
        SELECT tenant, vim_id, host, instance_id, key FROM pinned_hosts
        WHERE (tenant = $1 AND vim_id = $2 AND host = $3)
            OR (tenant IN ($1, '') AND vim_id = '' AND host = $4)
        ORDER BY vim_id DESC, tenant DESC LIMIT 1";
    let at = &pin.at;
    let found = query_as(FIND)
        .bind(&at.tenant)
        .bind(&at.vim_id)
        .bind(&at.host)
        .bind(&pin.legacy_host);
    let found = found.fetch_optional(connection).await?.map(pinned);
    Ok(found.filter(|pinned| !pinned.key.is_empty()))
}

/// All keys pinned for a tenant.
pub(crate) async fn host_keys(
    connection: &mut SqliteConnection,
    tenant: &str,
) -> Done<Vec<PinnedKey>> {
    const ALL: &str = "
        SELECT tenant, vim_id, host, instance_id, key FROM pinned_hosts
        WHERE tenant = $1 AND key <> '' ORDER BY vim_id, host";
    let rows = query_as(ALL).bind(tenant).fetch_all(connection).await?;
    Ok(rows.into_iter().map(pinned).collect())
}

fn pinned(
    (tenant, vim_id, host, instance_id, key): (String, String, String, String, String),
) -> PinnedKey {
    PinnedKey {
        at: PinnedHost {
            tenant,
            vim_id,
            host,
        },
        instance_id,
        key,
    }
}
