//! Host keys, pinned to a host of one tenant and VIM.

use crate::fault::Done;
use crate::write::Writing;
use vnfm_core::ports::{HostPin, PinnedHost, StoreError};

/// Pins a host's first key. Pinning the same key again succeeds; another key is refused until the pin is removed.
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

/// Removes a pin: the host's next key will be trusted. The row stays without a key, so that a pin of an older version
/// does not take effect again.
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

/// Removes the pins of a VIM's hosts: its tenant's, or all tenants' if it is shared.
pub(super) fn forget_vim(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    const FORGET: &str = "
        DELETE FROM pinned_hosts WHERE vim_id = $2 AND (tenant = $1 OR EXISTS (
            SELECT 1 FROM vims WHERE tenant = $1 AND id = $2 AND shared = 1
        ))";
    writing.statement(FORGET).bind(tenant).bind(id).run()
}
