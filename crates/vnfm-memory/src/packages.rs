//! Packages onboarded by the program, retained as long as the process.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use vnfm_core::ports::{Change, Code, ErrorKind, PackageRecord, Packages, PortError, Store};
use vnfm_descriptor::Package;

pub(crate) const ABSENT: Code = Code {
    name: "package.not-in-memory",
    kind: ErrorKind::Refused,
    means: "the VNF package was not onboarded in memory",
    next: "onboard it with `MemoryPackages::onboard`; it is lost when the process ends",
};

/// VNF packages by tenant and id.
#[derive(Default)]
pub struct MemoryPackages(RwLock<BTreeMap<(String, String), Arc<Package>>>);

impl MemoryPackages {
    /// Onboards a package with the id `vnf_pkg_id`, and adds its record to `store`: onboarded and enabled. Read a
    /// package with [`Package::from_bytes`] or [`Package::open`].
    ///
    /// # Errors
    ///
    /// The store's error: id or VNFD belong to another package.
    pub async fn onboard(
        &self,
        store: &dyn Store,
        (tenant, vnf_pkg_id): (&str, &str),
        package: Arc<Package>,
    ) -> Result<(), PortError> {
        let vnfd = package.vnfd();
        let mut record = PackageRecord::onboarded(tenant, vnf_pkg_id, &vnfd.descriptor_id);
        record.info.vnf_provider = Some(vnfd.provider.clone());
        record.info.vnf_product_name = Some(vnfd.product_name.clone());
        record.info.vnf_software_version = Some(vnfd.software_version.clone());
        record.info.vnfd_version = Some(vnfd.descriptor_version.clone());
        store
            .write(None, vec![Change::AddPackage(Box::new(record))])
            .await?;
        let key = (tenant.to_owned(), vnf_pkg_id.to_owned());
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, package);
        Ok(())
    }
}

#[async_trait]
impl Packages for MemoryPackages {
    async fn package(&self, tenant: &str, vnf_pkg_id: &str) -> Result<Arc<Package>, PortError> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant.to_owned(), vnf_pkg_id.to_owned());
        known.get(&key).cloned().ok_or_else(|| {
            let doing = format!("find the VNF package `{vnf_pkg_id}`");
            PortError::new(&ABSENT, doing, "it was not onboarded").on(vnf_pkg_id)
        })
    }
}
