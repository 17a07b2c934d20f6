//! What a tenant may have only so much of. The store counts it, in the transaction that adds to it; how much is
//! allowed is for whoever writes to say ([`super::Change::Within`]).

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is counted for a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Counted {
    /// VNF instances, instantiated or not.
    Instances,
    /// Operation occurrences that are not ended.
    Operations,
    /// Records of VNF packages, with content or without.
    Packages,
    /// Bytes of all files of VNF packages, and those that are set aside for packages that are still arriving.
    PackageBytes,
    /// Subscriptions.
    Subscriptions,
    /// VIMs that were registered by hand.
    Vims,
    /// Bytes of the audit.
    AuditBytes,
}

impl Counted {
    /// Its name in the configuration, in messages and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Operations => "operations",
            Self::Packages => "packages",
            Self::PackageBytes => "package_bytes",
            Self::Subscriptions => "subscriptions",
            Self::Vims => "vims",
            Self::AuditBytes => "audit_bytes",
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
