//! Resources with a quota per tenant. The store counts them, in the transaction that adds to them; the caller of the
//! store sets the limit ([`super::Change::CheckQuota`]).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A tenant's limit for a resource; `None` if unlimited.
pub type QuotaLimits = Arc<dyn Fn(&str, QuotaResource) -> Option<u64> + Send + Sync>;

/// A resource that counts against a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuotaResource {
    /// VNF instances, instantiated or not.
    Instances,
    /// Operation occurrences that have not ended.
    Operations,
    /// VNF package records, with content or without.
    Packages,
    /// Bytes of all VNF package files, including reservations for packages that are still arriving.
    PackageBytes,
    /// Bytes of the files that are stored with the tenant's instances, including those that are still arriving.
    StoredFileBytes,
    /// Subscriptions to lifecycle change notifications.
    Subscriptions,
    /// VNF snapshots, with contents or without.
    Snapshots,
    /// Shared virtual links, in any state.
    Links,
    /// Retained volumes, in any state.
    Volumes,
    /// VIMs that were not registered by a hook.
    Vims,
    /// Bytes of the tenant's audit entries.
    AuditBytes,
}

impl QuotaResource {
    /// Its name in the configuration, in messages and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Operations => "operations",
            Self::Packages => "packages",
            Self::PackageBytes => "package_bytes",
            Self::StoredFileBytes => "stored_file_bytes",
            Self::Subscriptions => "subscriptions",
            Self::Snapshots => "snapshots",
            Self::Links => "links",
            Self::Volumes => "volumes",
            Self::Vims => "vims",
            Self::AuditBytes => "audit_bytes",
        }
    }
}

impl fmt::Display for QuotaResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
