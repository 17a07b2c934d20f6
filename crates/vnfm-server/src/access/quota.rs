//! How much a tenant may have. The store counts it in the transaction that adds to it ([`Access::quotas`]), so clients
//! at once do not get past a quota, whichever way something comes in, and nothing is held while a body arrives. Here is
//! what is configured, and a look before a request is handled: whoever has no room left hears so at once.
//!
//! Requests that wait for events are counted here: they end with this process.
//!
//! [`Access::quotas`]: super::Access::quotas

use crate::problem::{Answer, Problem};
use crate::state::AppState;
use axum::http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use vnfm_core::ports::{QuotaResource, StoreError};

/// What one tenant may have; what is absent and has no default has no limit.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// VNF instances, instantiated or not.
    pub instances: Option<u64>,
    /// Operation occurrences that are not ended, FAILED_TEMP among them.
    pub operations: Option<u64>,
    /// Records of VNF packages, with content or without; 10000 where absent.
    pub packages: Option<u64>,
    /// Bytes of all VNF packages, wherever they come from, with their external artifacts.
    pub package_bytes: Option<u64>,
    /// Subscriptions; 1000 where absent.
    pub subscriptions: Option<u64>,
    /// VIMs that were registered by hand; 1000 where absent.
    pub vims: Option<u64>,
    /// Requests that wait for events at a time, at most half of all connections; 500 where absent.
    pub watchers: Option<u64>,
    /// Bytes of the audit; 1 GiB where absent. Refused requests are noted up to half of it; once all of it is used, changes
    /// are refused until `retention` or the quota makes room.
    pub audit_bytes: Option<u64>,
}

/// What a tenant may have where nothing else is configured.
const PACKAGES: u64 = 10_000;
const SUBSCRIPTIONS: u64 = 1_000;
const VIMS: u64 = 1_000;
const WATCHERS: u64 = 500;
const AUDIT_BYTES: u64 = 1 << 30;

impl Quota {
    fn most(&self, what: QuotaResource) -> Option<u64> {
        match what {
            QuotaResource::Instances => self.instances,
            QuotaResource::Operations => self.operations,
            QuotaResource::Packages => self.packages.or(Some(PACKAGES)),
            QuotaResource::PackageBytes => self.package_bytes,
            QuotaResource::Subscriptions => self.subscriptions.or(Some(SUBSCRIPTIONS)),
            QuotaResource::Vims => self.vims.or(Some(VIMS)),
            QuotaResource::AuditBytes => self.audit_bytes.or(Some(AUDIT_BYTES)),
            _ => None,
        }
    }
}

/// `access.tenants.<name>`.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tenant {
    /// What it may have, in place of `access.quota`.
    pub quota: Quota,
}

/// The quotas of all tenants.
#[derive(Default)]
pub struct Quotas {
    all: Quota,
    tenants: BTreeMap<String, Tenant>,
    watching: Mutex<HashMap<String, u64>>,
    /// Connections that requests may wait on, where there are fewer than quotas say.
    connections: OnceLock<u64>,
}

/// A request that waits for events, until this is dropped.
pub struct Watching {
    quotas: Arc<Quotas>,
    tenant: String,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watching = self
            .quotas
            .watching
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = watching.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                watching.remove(&self.tenant);
            }
        }
    }
}

impl Quotas {
    /// As configured.
    pub fn new(all: Quota, tenants: BTreeMap<String, Tenant>) -> Self {
        Self {
            all,
            tenants,
            watching: Mutex::default(),
            connections: OnceLock::new(),
        }
    }

    /// No tenant gets more than half of so many connections for requests that wait.
    pub fn on_connections(&self, connections: usize) {
        let half = u64::try_from(connections / 2).unwrap_or(u64::MAX);
        let _ = self.connections.set(half.max(1));
    }

    fn of(&self, tenant: &str) -> Quota {
        self.tenants
            .get(tenant)
            .map_or(self.all, |tenant| tenant.quota)
    }

    /// How much a tenant may have; `None` where there is no limit.
    pub fn most(&self, tenant: &str, what: QuotaResource) -> Option<u64> {
        self.of(tenant).most(what)
    }

    /// Looks whether a tenant has room for what a request adds.
    ///
    /// # Errors
    ///
    /// 403 with the quota and what is used, where there is none.
    pub async fn has_room(
        &self,
        app: &AppState,
        tenant: &str,
        (method, path): (&Method, &str),
    ) -> Answer<()> {
        match added(method, path) {
            Some(what) => self.left(app, tenant, what).await.map(drop),
            None => Ok(()),
        }
    }

    /// Looks whether a change of a tenant can be noted.
    ///
    /// # Errors
    ///
    /// 403 where its audit is full.
    pub async fn has_room_for_audit(&self, app: &AppState, tenant: &str) -> Answer<()> {
        self.left(app, tenant, QuotaResource::AuditBytes)
            .await
            .map(drop)
    }

    /// How much more a tenant may have; `None` where there is no limit.
    ///
    /// # Errors
    ///
    /// 403 where that is nothing.
    pub async fn left(
        &self,
        app: &AppState,
        tenant: &str,
        what: QuotaResource,
    ) -> Answer<Option<u64>> {
        let Some(most) = self.most(tenant, what) else {
            return Ok(None);
        };
        let used = app.engine.store().used(tenant, what).await?;
        if used >= most {
            let tenant = tenant.to_owned();
            return Err(StoreError::QuotaExceeded {
                tenant,
                what,
                used,
                most,
            }
            .into());
        }
        Ok(Some(most - used))
    }

    /// A place among the requests of a tenant that wait for events.
    ///
    /// # Errors
    ///
    /// 403 where there is none.
    pub fn watch(self: &Arc<Self>, tenant: &str) -> Answer<Watching> {
        let most = self.of(tenant).watchers.unwrap_or(WATCHERS);
        let most = self
            .connections
            .get()
            .map_or(most, |connections| most.min(*connections));
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let own = watching.get(tenant).copied().unwrap_or_default();
        if own >= most {
            let what = format!(
                "the quota `watchers` of the tenant `{tenant}` is {most}, and as many requests wait for events"
            );
            let problem = Problem::new(axum::http::StatusCode::FORBIDDEN, "access.quota", what);
            return Err(
                problem.next("let fewer clients wait, or ask the operator for a larger quota")
            );
        }
        watching.insert(tenant.to_owned(), own + 1);
        Ok(Watching {
            quotas: self.clone(),
            tenant: tenant.to_owned(),
        })
    }
}

/// What a request adds to.
fn added(method: &Method, path: &str) -> Option<QuotaResource> {
    let segments: Vec<_> = path.split('/').skip(1).collect();
    match (method, segments.as_slice()) {
        (&Method::POST, ["vnflcm", _, "vnf_instances"]) => Some(QuotaResource::Instances),
        (&Method::POST, ["vnflcm", _, "vnf_instances", _, _])
        | (&Method::PATCH, ["vnflcm", _, "vnf_instances", _]) => Some(QuotaResource::Operations),
        (&Method::POST, ["vnflcm", _, "subscriptions"]) => Some(QuotaResource::Subscriptions),
        (&Method::POST, ["vnfpkgm", _, "vnf_packages"]) => Some(QuotaResource::Packages),
        (&Method::PUT, ["vnfpkgm", _, "vnf_packages", _, "package_content"])
        | (&Method::POST, ["vnfpkgm", _, "vnf_packages", _, "package_content", _]) => {
            Some(QuotaResource::PackageBytes)
        }
        (&Method::POST, ["vnfm", _, "vims"]) => Some(QuotaResource::Vims),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Quota, Quotas, added};
    use axum::http::Method;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use vnfm_core::ports::QuotaResource;

    #[test]
    fn what_begins_something_takes_from_a_quota_and_nothing_else() {
        let vnf = "/vnflcm/v2/vnf_instances";
        assert_eq!(added(&Method::POST, vnf), Some(QuotaResource::Instances));
        assert_eq!(
            added(&Method::POST, &format!("{vnf}/i/heal")),
            Some(QuotaResource::Operations)
        );
        assert_eq!(
            added(&Method::PATCH, &format!("{vnf}/i")),
            Some(QuotaResource::Operations)
        );
        assert_eq!(added(&Method::DELETE, &format!("{vnf}/i")), None);
        assert_eq!(
            added(&Method::POST, "/vnflcm/v2/vnf_lcm_op_occs/o/retry"),
            None
        );
        let content = "/vnfpkgm/v2/vnf_packages/p/package_content";
        assert_eq!(
            added(&Method::PUT, content),
            Some(QuotaResource::PackageBytes)
        );
        let from_uri = format!("{content}/upload_from_uri");
        assert_eq!(
            added(&Method::POST, &from_uri),
            Some(QuotaResource::PackageBytes)
        );
        assert_eq!(
            added(&Method::POST, "/vnflcm/v1/subscriptions"),
            Some(QuotaResource::Subscriptions)
        );
    }

    #[test]
    fn a_tenant_has_no_more_requests_that_wait_than_its_quota_and_each_counts_until_it_ends() {
        let all = Quota {
            watchers: Some(2),
            ..Quota::default()
        };
        let quotas = Arc::new(Quotas::new(all, BTreeMap::new()));
        let (one, _two) = (quotas.watch("acme").unwrap(), quotas.watch("acme").unwrap());
        let refused = quotas.watch("acme").err().unwrap();
        assert_eq!(refused.details().status, 403);
        assert!(quotas.watch("other").is_ok());
        drop(one);
        assert!(quotas.watch("acme").is_ok());
    }

    #[test]
    fn some_quotas_are_there_although_none_is_configured() {
        let quotas = Quotas::default();
        assert_eq!(
            quotas.most("acme", QuotaResource::Subscriptions),
            Some(1_000)
        );
        assert_eq!(
            quotas.most("acme", QuotaResource::AuditBytes),
            Some(1 << 30)
        );
        assert_eq!(quotas.most("acme", QuotaResource::Instances), None);
    }
}
