//! What a tenant uses of what quotas limit.

use super::QuotaResource;

/// What a tenant uses of each quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of instances, instantiated or not.
    pub instances: u64,
    /// Operations that have not ended.
    pub operations: u64,
    /// Package records, with content or without.
    pub packages: u64,
    /// Bytes of packages, including reservations for packages that are still arriving.
    pub package_bytes: u64,
    /// Bytes of the files that are stored with instances, including those that are still arriving.
    pub stored_file_bytes: u64,
    /// Number of subscriptions to lifecycle changes.
    pub subscriptions: u64,
    /// VNF snapshots, with contents or without.
    pub snapshots: u64,
    /// Shared virtual links, in any state.
    pub links: u64,
    /// Retained volumes, in any state.
    pub volumes: u64,
    /// VIMs that were not registered by a hook.
    pub vims: u64,
    /// Size of all audit entries, in bytes.
    pub audit_bytes: u64,
}

impl Usage {
    /// The usage of one kind of resource.
    pub fn amount(&self, what: QuotaResource) -> u64 {
        match what {
            QuotaResource::Instances => self.instances,
            QuotaResource::Operations => self.operations,
            QuotaResource::Packages => self.packages,
            QuotaResource::PackageBytes => self.package_bytes,
            QuotaResource::StoredFileBytes => self.stored_file_bytes,
            QuotaResource::Subscriptions => self.subscriptions,
            QuotaResource::Snapshots => self.snapshots,
            QuotaResource::Links => self.links,
            QuotaResource::Volumes => self.volumes,
            QuotaResource::Vims => self.vims,
            QuotaResource::AuditBytes => self.audit_bytes,
        }
    }
}
