//! Onboarded VNF packages, parsed once and kept by hash.

use super::PortError;
use async_trait::async_trait;
use std::sync::Arc;
use vnfm_descriptor::Package;

/// Where packages are.
#[async_trait]
pub trait Packages: Send + Sync {
    /// The package with our id `vnf_pkg_id`.
    ///
    /// # Errors
    ///
    /// `Refused` where it is not onboarded, `Unavailable` where its file cannot be read.
    async fn package(&self, tenant: &str, vnf_pkg_id: &str) -> Result<Arc<Package>, PortError>;
}
