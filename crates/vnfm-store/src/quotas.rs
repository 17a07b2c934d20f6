//! What tenants may have: whatever adds something that is counted is followed by the condition that there is not too
//! much of it, in the same transaction. So a quota holds for every way to write, also for those to come, and for any
//! number of clients at once.

use std::sync::Arc;
use vnfm_core::ports::{Change, QuotaResource};

/// How much a tenant may have of something; none where there is no limit.
pub type QuotaLimits = Arc<dyn Fn(&str, QuotaResource) -> Option<u64> + Send + Sync>;

/// The quotas of all tenants.
pub(crate) struct Quotas(QuotaLimits);

impl Quotas {
    pub(crate) fn new(most: QuotaLimits) -> Self {
        Self(most)
    }

    /// The same changes, with what has to hold after them.
    pub(crate) fn on(&self, mut changes: Vec<Change>) -> Vec<Change> {
        let conditions: Vec<_> = changes
            .iter()
            .filter_map(|change| self.condition(change))
            .collect();
        changes.extend(conditions);
        changes
    }

    fn condition(&self, change: &Change) -> Option<Change> {
        let (tenant, what, adds) = match change {
            Change::AddInstance(record) => (&record.tenant, QuotaResource::Instances, 1),
            Change::AddOp(record) => (&record.tenant, QuotaResource::Operations, 1),
            Change::AddPackage(record) => (&record.tenant, QuotaResource::Packages, 1),
            Change::AddSubscription(record) => (&record.tenant, QuotaResource::Subscriptions, 1),
            // What a hook registers is taken away again with its instance.
            Change::AddVim(record) if record.vim.registered_by.is_none() => {
                (&record.tenant, QuotaResource::Vims, 1)
            }
            Change::Reserve {
                tenant,
                what,
                amount,
                ..
            } => (tenant, *what, *amount),
            Change::PackageSize { tenant, bytes, .. } => {
                (tenant, QuotaResource::PackageBytes, *bytes)
            }
            _ => return None,
        };
        let most = (self.0)(tenant, what)?;
        Some(Change::CheckQuota {
            tenant: tenant.clone(),
            what,
            most,
            adds,
        })
    }
}
