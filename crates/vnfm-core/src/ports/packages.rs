//! Onboarded VNF packages, parsed once and cached by hash.

use super::PortError;
use async_trait::async_trait;
use std::sync::Arc;
use vnfm_descriptor::Package;

/// Reads the packages that were onboarded.
#[async_trait]
pub trait Packages: Send + Sync {
    /// The package with this id.
    ///
    /// # Errors
    ///
    /// `Refused` if it is not onboarded, `Unavailable` if its file cannot be read.
    async fn package(&self, tenant: &str, vnf_pkg_id: &str) -> Result<Arc<Package>, PortError>;
}
