//! Which packages and instances use which MgmtDriver: what an operator needs to know before removing a library.

use crate::deployment::PLUGINS_MEMBER;
use crate::engine::Engine;
use crate::hooks;
use crate::ports::{DriverId, PackageRecord};
use crate::query::{Query, VisibilityScope};
use crate::refusal::Refusal;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_descriptor::Flavour;
use vnfm_types::{PackageOnboardingState, PackageUsageState};

/// A package with a hook that a MgmtDriver serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PluginUse {
    /// The driver that serves new operations.
    #[serde(skip)]
    pub driver: DriverId,
    /// `id` of the VNF package.
    pub vnf_pkg_id: String,
    /// `vnfdId` of the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnfd_id: Option<String>,
    /// Product name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_product_name: Option<String>,
    /// Whether instances of the package exist.
    pub usage_state: PackageUsageState,
}

/// An instance that a MgmtDriver serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServedInstance {
    /// `VnfInstance.id`.
    pub id: String,
    /// Name for people, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
}

impl Engine {
    /// The onboarded packages of `tenant` within `scope`, with each MgmtDriver that serves one of their hooks. Omits hooks
    /// without a driver and packages whose file cannot be read: other lists report those.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn plugin_uses(
        &self,
        tenant: &str,
        scope: &VisibilityScope,
    ) -> Result<Vec<PluginUse>, Refusal> {
        let mut uses = Vec::new();
        let seen = Query {
            scope: scope.clone(),
            ..Query::default()
        };
        for record in self.store().package_records(tenant, &seen).await? {
            if record.info.onboarding_state == PackageOnboardingState::Onboarded {
                uses.extend(self.uses_of(tenant, &record).await);
            }
        }
        Ok(uses)
    }

    /// The instances of `tenant` within `scope`, by the `name@version` of the MgmtDriver that instantiated them and serves them
    /// until they are terminated.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn plugin_instances(
        &self,
        tenant: &str,
        scope: &VisibilityScope,
    ) -> Result<BTreeMap<String, Vec<ServedInstance>>, Refusal> {
        let mut served: BTreeMap<String, Vec<ServedInstance>> = BTreeMap::new();
        let seen = Query {
            scope: scope.clone(),
            ..Query::default()
        };
        for record in self.store().instances(tenant, &seen).await? {
            let vnf = record.vnf;
            let info = vnf.instantiated_vnf_info.as_ref();
            let drivers = info.and_then(|info| info.metadata.get(PLUGINS_MEMBER)?.as_object());
            let drivers: BTreeSet<_> = drivers
                .into_iter()
                .flatten()
                .filter_map(|(_, driver)| driver.as_str())
                .collect();
            for driver in drivers {
                served
                    .entry(driver.to_owned())
                    .or_default()
                    .push(ServedInstance {
                        id: vnf.id.clone(),
                        vnf_instance_name: vnf.vnf_instance_name.clone(),
                    });
            }
        }
        Ok(served)
    }

    async fn uses_of(&self, tenant: &str, record: &PackageRecord) -> Vec<PluginUse> {
        let info = &record.info;
        let Ok(package) = self.context.ports.packages.package(tenant, &info.id).await else {
            return Vec::new();
        };
        let hooks = package.vnfd().flavours.values().flat_map(Flavour::hooks);
        let drivers =
            hooks.filter_map(|hook| hooks::driver_of(&self.context, None, &package, hook).ok());
        // One entry per driver, however many hooks it serves.
        let named: BTreeMap<_, _> = drivers
            .map(|driver| driver.id())
            .map(|id| ((id.name.clone(), id.version.clone()), id))
            .collect();
        let used = |driver| PluginUse {
            driver,
            vnf_pkg_id: info.id.clone(),
            vnfd_id: info.vnfd_id.clone(),
            vnf_product_name: info.vnf_product_name.clone(),
            usage_state: info.usage_state,
        };
        named.into_values().map(used).collect()
    }
}
