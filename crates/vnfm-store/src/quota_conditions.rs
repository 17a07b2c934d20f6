//! Quotas: each change that adds a counted resource is followed, in the same transaction, by the condition that the
//! tenant is within its quota. So quotas hold for every kind of write, including future ones, and under concurrency.

use vnfm_core::ports::{Change, QuotaLimits, QuotaResource};

/// The quotas of all tenants.
pub(crate) struct Quotas(QuotaLimits);

impl Quotas {
    pub(crate) fn new(limit: QuotaLimits) -> Self {
        Self(limit)
    }

    /// Appends the conditions that must hold after the changes.
    pub(crate) fn on(&self, mut changes: Vec<Change>) -> Vec<Change> {
        let conditions: Vec<_> = changes
            .iter()
            .filter_map(|change| self.condition(change))
            .collect();
        changes.extend(conditions);
        changes
    }

    fn condition(&self, change: &Change) -> Option<Change> {
        let (tenant, resource, adds) = match change {
            Change::AddInstance(record) => (&record.tenant, QuotaResource::Instances, 1),
            Change::AddOp(record) => (&record.tenant, QuotaResource::Operations, 1),
            Change::AddPackage(record) => (&record.tenant, QuotaResource::Packages, 1),
            Change::AddSnapshot(record) => (&record.tenant, QuotaResource::Snapshots, 1),
            Change::AddLink(record) => (&record.tenant, QuotaResource::Links, 1),
            Change::AddVolume(record) => (&record.tenant, QuotaResource::Volumes, 1),
            Change::AddSubscription(record) => (&record.tenant, QuotaResource::Subscriptions, 1),
            // VIMs registered by a hook are removed with their instance.
            Change::AddVim(record) if record.vim.registered_by.is_none() => {
                (&record.tenant, QuotaResource::Vims, 1)
            }
            Change::Reserve {
                tenant,
                what: resource,
                amount,
                ..
            } => (tenant, *resource, *amount),
            Change::PackageSize { tenant, bytes, .. } => {
                (tenant, QuotaResource::PackageBytes, *bytes)
            }
            _ => return None,
        };
        let limit = (self.0)(tenant, resource)?;
        Some(Change::CheckQuota {
            tenant: tenant.clone(),
            what: resource,
            most: limit,
            adds,
        })
    }
}
