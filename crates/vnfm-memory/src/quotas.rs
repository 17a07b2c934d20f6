//! Usage of quotas by tenant.

use crate::state::State;
use vnfm_core::ports::{QuotaResource, StoreError, Usage};

pub(crate) fn usage(state: &State, tenant: &str) -> Usage {
    let own = state
        .instances
        .iter()
        .filter(|(_, row)| row.record.tenant == tenant);
    let open = state.ops.iter().filter(|(_, row)| {
        row.record.tenant == tenant && !row.record.op.operation_state.is_final()
    });
    let packages: Vec<_> = state
        .packages
        .iter()
        .filter(|(_, record)| record.tenant == tenant)
        .collect();
    let sizes = packages
        .iter()
        .filter_map(|(id, _)| state.package_sizes.get(id));
    let reserved = |resource| {
        let rows = state.reservations.iter();
        rows.filter_map(move |(_, (whose, what, amount))| {
            (whose == tenant && *what == resource).then_some(amount)
        })
    };
    let aside = reserved(QuotaResource::PackageBytes);
    let vims = state
        .vims
        .iter()
        .filter(|((whose, _), record)| whose == tenant && record.vim.registered_by.is_none());
    let subscriptions = state
        .subscriptions
        .iter()
        .filter(|((whose, _), _)| whose == tenant);
    let snapshots = state.snapshots.iter();
    let snapshots = snapshots.filter(|((whose, _), _)| whose == tenant);
    let links = state.links.iter();
    let links = links.filter(|((whose, _), _)| whose == tenant);
    let volumes = state.volumes.iter();
    let volumes = volumes.filter(|((whose, _), _)| whose == tenant);
    let audit = state.audit.iter().filter(|(_, (whose, _))| whose == tenant);
    let audit = audit
        .map(|(_, (_, entry))| serde_json::to_string(entry).map_or(0, |text| text.len() as u64));
    Usage {
        instances: own.count() as u64,
        operations: open.count() as u64,
        packages: packages.len() as u64,
        package_bytes: sizes.chain(aside).sum(),
        stored_file_bytes: reserved(QuotaResource::StoredFileBytes).sum(),
        subscriptions: subscriptions.count() as u64,
        snapshots: snapshots.count() as u64,
        links: links.count() as u64,
        volumes: volumes.count() as u64,
        vims: vims.count() as u64,
        audit_bytes: audit.sum(),
    }
}

/// Refuses the list of changes if the tenant exceeds the limit with them.
pub(crate) fn within(
    state: &State,
    tenant: String,
    what: QuotaResource,
    (most, adds): (u64, u64),
) -> Result<(), StoreError> {
    let total = usage(state, &tenant).amount(what);
    if total <= most {
        return Ok(());
    }
    Err(StoreError::QuotaExceeded {
        tenant,
        what,
        used: total.saturating_sub(adds),
        most,
    })
}
