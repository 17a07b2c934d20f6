//! The queries for pinned SSH host keys.

use crate::fault::Done;
use crate::statement::{Query, Row};
use vnfm_core::ports::{HostPin, PinnedHost, PinnedKey};

/// The key pinned for a host; otherwise one that an older version pinned for a host of that name. The most specific
/// row wins, even if its key was forgotten and so is empty.
pub(crate) fn host_key(pin: &HostPin) -> Query {
    const FIND: &str = "
        SELECT tenant, vim_id, host, instance_id, key FROM pinned_hosts
        WHERE (tenant = $1 AND vim_id = $2 AND host = $3)
            OR (tenant IN ($1, '') AND vim_id = '' AND host = $4)
        ORDER BY vim_id DESC, tenant DESC LIMIT 1";
    let at = &pin.at;
    Query::new(FIND)
        .bind(&at.tenant)
        .bind(&at.vim_id)
        .bind(&at.host)
        .bind(&pin.legacy_host)
}

/// All keys pinned for a tenant.
pub(crate) fn host_keys(tenant: &str) -> Query {
    const ALL: &str = "
        SELECT tenant, vim_id, host, instance_id, key FROM pinned_hosts
        WHERE tenant = $1 AND key <> '' ORDER BY vim_id, host";
    Query::new(ALL).bind(tenant)
}

/// A row of [`host_key`] or [`host_keys`].
pub(crate) fn pinned(mut row: Row) -> Done<PinnedKey> {
    Ok(PinnedKey {
        at: PinnedHost {
            tenant: row.take()?,
            vim_id: row.take()?,
            host: row.take()?,
        },
        instance_id: row.take()?,
        key: row.take()?,
    })
}
