//! Host keys: pinned to a host of one tenant and VIM, and forgotten.

use crate::fault::Done;
use crate::write::Writing;
use vnfm_core::ports::{HostPin, PinnedHost, StoreError};

/// The first key of a host stays until it is forgotten; the same one again is a success, another one is refused.
pub(super) fn pin(writing: &Writing<'_>, pin: &HostPin, key: &str) -> Done<()> {
    const PIN: &str = "
        INSERT INTO pinned_hosts (tenant, vim_id, host, instance_id, key) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant, vim_id, host) DO UPDATE
        SET instance_id = excluded.instance_id, key = excluded.key
        WHERE pinned_hosts.key IN (excluded.key, '')";
    let at = &pin.at;
    let statement = writing
        .statement(PIN)
        .bind(&at.tenant)
        .bind(&at.vim_id)
        .bind(&at.host);
    if statement.bind(&pin.instance_id).bind(key).changed()? {
        return Ok(());
    }
    let what = "pinned host key of host";
    Err(StoreError::Exists {
        what,
        id: at.host.clone(),
    }
    .into())
}

/// That the next key of a host is trusted. The row stays, without a key: one that an older version pinned to the host must
/// not count again.
pub(super) fn forget(writing: &Writing<'_>, host: &PinnedHost) -> Done<()> {
    const FORGET: &str = "
        UPDATE pinned_hosts SET key = ''
        WHERE tenant = $1 AND vim_id = $2 AND host = $3 AND key <> ''";
    let statement = writing
        .statement(FORGET)
        .bind(&host.tenant)
        .bind(&host.vim_id);
    if statement.bind(&host.host).changed()? {
        return Ok(());
    }
    Err(StoreError::NotFound {
        what: "pinned host key",
        id: host.id(),
    }
    .into())
}

/// The keys that are pinned on a VIM go with it: of its tenant, of all where it is shared.
pub(super) fn forget_vim(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    const FORGET: &str = "
        DELETE FROM pinned_hosts WHERE vim_id = $2 AND (tenant = $1 OR EXISTS (
            SELECT 1 FROM vims WHERE tenant = $1 AND id = $2 AND shared = 1
        ))";
    writing.statement(FORGET).bind(tenant).bind(id).run()
}
