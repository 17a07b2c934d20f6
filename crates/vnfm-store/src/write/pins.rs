//! Host keys, pinned to a host of one tenant and VIM.

use crate::refusals::{absent, exists};
use crate::statement::Statement;
use vnfm_core::ports::{HostPin, PinnedHost};

/// Pins a host's first key. Pinning the same key again succeeds; another key is refused until the pin is removed.
pub(super) fn pin(pin: &HostPin, key: &str) -> Vec<Statement> {
    const PIN: &str = "
        INSERT INTO pinned_hosts (tenant, vim_id, host, instance_id, key) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant, vim_id, host) DO UPDATE
        SET instance_id = excluded.instance_id, key = excluded.key
        WHERE pinned_hosts.key IN (excluded.key, '')";
    let at = &pin.at;
    let pin = Statement::new(PIN)
        .bind(&at.tenant)
        .bind(&at.vim_id)
        .bind(&at.host)
        .bind(&pin.instance_id)
        .bind(key);
    vec![pin.or(exists("pinned host key of host", &at.host))]
}

/// Removes a pin: the host's next key will be trusted. The row stays without a key, so that a pin of an older version
/// does not take effect again.
pub(super) fn forget(host: &PinnedHost) -> Vec<Statement> {
    const FORGET: &str = "
        UPDATE pinned_hosts SET key = ''
        WHERE tenant = $1 AND vim_id = $2 AND host = $3 AND key <> ''";
    let forget = Statement::new(FORGET)
        .bind(&host.tenant)
        .bind(&host.vim_id)
        .bind(&host.host);
    vec![forget.or(absent("pinned host key", &host.id()))]
}

/// Removes the pins of a VIM's hosts: its tenant's, or all tenants' if it is shared.
pub(super) fn forget_vim(tenant: &str, id: &str) -> Statement {
    const FORGET: &str = "
        DELETE FROM pinned_hosts WHERE vim_id = $2 AND (tenant = $1 OR EXISTS (
            SELECT 1 FROM vims WHERE tenant = $1 AND id = $2 AND shared = 1
        ))";
    Statement::new(FORGET).bind(tenant).bind(id)
}
