//! Which VIMs fit a package: what its ASD or VNFD requires, compared with what each Kubernetes cluster offers.

use super::Engine;
use crate::cluster_match::{RequirementOutcome, match_cluster};
use crate::ports::{ClusterCapabilities, StoreError, VimRecord};
use crate::refusal::Refusal;
use crate::vims::VimHandle;
use crate::vnfd_match::{match_units, requirements};
use futures_util::StreamExt as _;
use serde::Serialize;
use vnfm_descriptor::Package;

/// How many clusters are read at the same time.
const CONCURRENT_VIMS: usize = 4;

/// Which VIMs fit a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageMatch {
    /// The `vimType` that the package needs; absent if its flavours need different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vim_type: Option<String>,
    /// The VIMs that were compared.
    pub vims: Vec<VimMatch>,
}

/// Whether a VIM fits a package, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VimMatch {
    /// Id of the VIM.
    pub id: String,
    /// Name of the VIM.
    pub name: String,
    /// `vimType`, as SOL003 spells it.
    pub vim_type: String,
    /// Whether nothing mandatory is missing; false also if the VIM does not respond.
    pub fits: bool,
    /// Why it could not be compared, such as another type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The outcome of each requirement of the ASD or VNFD.
    pub requirements: Vec<RequirementOutcome>,
}

impl Engine {
    /// What a Kubernetes cluster offers.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant may use no such VIM; `Unprocessable` if it is no Kubernetes cluster; `Unavailable` if it does
    /// not respond.
    pub async fn vim_capabilities(
        &self,
        tenant: &str,
        id_or_name: &str,
    ) -> Result<ClusterCapabilities, Refusal> {
        let record = self.store().vim(tenant, id_or_name).await?;
        self.capabilities_of(tenant, &record).await
    }

    async fn capabilities_of(
        &self,
        tenant: &str,
        record: &VimRecord,
    ) -> Result<ClusterCapabilities, Refusal> {
        let drivers = &self.context.ports.drivers;
        let (driver, _) = drivers
            .for_vim(&record.vim.vim_type)
            .map_err(Refusal::unprocessable)?;
        let vim = VimHandle::registered(&self.context, record, tenant, &record.vim.id);
        driver
            .capabilities(&vim, tenant)
            .await
            .map_err(Refusal::of_vim)
    }

    /// Compares a package with one VIM, or with all that the tenant may use and `is_visible` accepts by id.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant has no such package or VIM. A VIM that does not respond is no error: it does not fit.
    pub async fn match_package(
        &self,
        tenant: &str,
        vnf_pkg_id: &str,
        vim: Option<&str>,
        is_visible: impl Fn(&str) -> bool + Send,
    ) -> Result<PackageMatch, Refusal> {
        self.store().package_record(tenant, vnf_pkg_id).await?;
        let package = self
            .context
            .ports
            .packages
            .package(tenant, vnf_pkg_id)
            .await;
        let package = package.map_err(Refusal::unprocessable)?;
        let mut records = match vim {
            Some(vim) => vec![self.store().vim(tenant, vim).await?],
            None => self.store().vims(tenant).await?,
        };
        records.retain(|record| is_visible(&record.vim.id));
        if let Some(vim) = vim.filter(|_| records.is_empty()) {
            let (what, id) = ("VIM", vim.to_owned());
            return Err(StoreError::NotFound { what, id }.into());
        }
        let needed = needed_type(&package);
        let package = &package;
        let compared: Vec<_> = records
            .into_iter()
            .map(|record| self.compared(tenant, record, package, needed))
            .collect();
        let vims = futures_util::stream::iter(compared)
            .buffered(CONCURRENT_VIMS)
            .collect()
            .await;
        let vim_type = needed.map(str::to_owned);
        Ok(PackageMatch { vim_type, vims })
    }

    async fn compared(
        &self,
        tenant: &str,
        record: VimRecord,
        package: &Package,
        needed: Option<&str>,
    ) -> VimMatch {
        let outcome = match needed.filter(|needed| !serves(needed, &record.vim.vim_type)) {
            Some(needed) => Err(format!("the package needs a VIM of the type `{needed}`")),
            None => self.outcomes(tenant, &record, package).await,
        };
        let (reason, requirements) = match outcome {
            Ok(requirements) => (None, requirements),
            Err(reason) => (Some(reason), Vec::new()),
        };
        let is_prevented = requirements.iter().any(RequirementOutcome::prevents);
        VimMatch {
            fits: reason.is_none() && !is_prevented,
            id: record.vim.id,
            name: record.vim.name,
            vim_type: record.vim.vim_type,
            reason,
            requirements,
        }
    }

    async fn outcomes(
        &self,
        tenant: &str,
        record: &VimRecord,
        package: &Package,
    ) -> Result<Vec<RequirementOutcome>, String> {
        let asd = package.asd();
        let required = asd.and_then(|asd| asd.enhanced_cluster_capabilities.as_ref());
        let units = requirements(package);
        if required.is_none() && units.is_empty() {
            return Ok(Vec::new());
        }
        let offered = self.capabilities_of(tenant, record).await;
        let offered = offered.map_err(|refusal| refusal.to_string())?;
        let mut outcomes = required.map_or_else(Vec::new, |all| match_cluster(all, &offered));
        outcomes.extend(match_units(&units, &offered));
        Ok(outcomes)
    }
}

/// The type of VIM that a package needs: Kubernetes for an ASD, an order file and containers, else OpenStack. `None` if it
/// has flavours of both kinds.
fn needed_type(package: &Package) -> Option<&'static str> {
    if package.asd().is_some() || package.order_file().is_some() {
        return Some(vnfm_types::KUBERNETES);
    }
    let mut flavours = package.vnfd().flavours.values();
    let first = flavours.next().map(has_containers)?;
    if flavours.any(|flavour| has_containers(flavour) != first) {
        return None;
    }
    Some(if first {
        vnfm_types::KUBERNETES
    } else {
        vnfm_types::OPENSTACK
    })
}

fn has_containers(flavour: &vnfm_descriptor::Flavour) -> bool {
    !flavour.containers.is_empty() || !flavour.mciops.is_empty()
}

/// Whether a VIM of type `vim_type` is of the kind of `needed`: a cluster can be registered for helm, too.
fn serves(needed: &str, vim_type: &str) -> bool {
    vim_type == needed || (needed == vnfm_types::KUBERNETES && vim_type == vnfm_types::HELM)
}
