//! Quotas of tenants. The store enforces them in the transaction that adds an object ([`Access::quotas`]), so
//! concurrent clients cannot exceed a quota, and nothing is reserved while a body arrives. This module has the
//! settings, and a check before a request is handled, to refuse it early.
//!
//! Requests that wait for events are counted here, in memory: they end with this process.
//!
//! [`Access::quotas`]: super::Access::quotas

use crate::problem::{HandlerResult, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use vnfm_core::ports::{QuotaResource, Store, StoreError};

/// Limits of one tenant; a member without a default is unlimited if absent.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Quota {
    /// VNF instances, instantiated or not.
    pub instances: Option<u64>,
    /// Operation occurrences that have not ended, including FAILED_TEMP.
    pub operations: Option<u64>,
    /// VNF package records, with or without content. Default: 10000.
    pub packages: Option<u64>,
    /// Total bytes of VNF packages from any source, including external artifacts.
    pub package_bytes: Option<u64>,
    /// Total bytes of the files that are stored with VNF instances, such as snapshots of etcd. Default: 10 GiB.
    pub stored_file_bytes: Option<u64>,
    /// Subscriptions to lifecycle changes. Default: 1000.
    pub subscriptions: Option<u64>,
    /// VNF snapshots, with contents or without. Default: 1000.
    pub snapshots: Option<u64>,
    /// Shared virtual links. Default: 1000.
    pub links: Option<u64>,
    /// Retained volumes. Default: 1000.
    pub volumes: Option<u64>,
    /// VIMs registered through the API. Default: 1000.
    pub vims: Option<u64>,
    /// Concurrent requests that wait for events, at most half of all connections. Default: 500.
    pub watchers: Option<u64>,
    /// Bytes of audit entries. Default: 1 GiB. Refused requests are recorded up to half of it; when all of it is used,
    /// changes are refused until `retention` or a larger quota frees space.
    pub audit_bytes: Option<u64>,
}

/// The defaults, for tenants without their own.
const PACKAGES: u64 = 10_000;
const STORED_FILE_BYTES: u64 = 10 << 30;
const SUBSCRIPTIONS: u64 = 1_000;
const SNAPSHOTS: u64 = 1_000;
const LINKS: u64 = 1_000;
const VOLUMES: u64 = 1_000;
const VIMS: u64 = 1_000;
const WATCHERS: u64 = 500;
const AUDIT_BYTES: u64 = 1 << 30;

impl Quota {
    fn limit(&self, what: QuotaResource) -> Option<u64> {
        match what {
            QuotaResource::Instances => self.instances,
            QuotaResource::Operations => self.operations,
            QuotaResource::Packages => self.packages.or(Some(PACKAGES)),
            QuotaResource::PackageBytes => self.package_bytes,
            QuotaResource::StoredFileBytes => self.stored_file_bytes.or(Some(STORED_FILE_BYTES)),
            QuotaResource::Subscriptions => self.subscriptions.or(Some(SUBSCRIPTIONS)),
            QuotaResource::Snapshots => self.snapshots.or(Some(SNAPSHOTS)),
            QuotaResource::Links => self.links.or(Some(LINKS)),
            QuotaResource::Volumes => self.volumes.or(Some(VOLUMES)),
            QuotaResource::Vims => self.vims.or(Some(VIMS)),
            QuotaResource::AuditBytes => self.audit_bytes.or(Some(AUDIT_BYTES)),
            _ => None,
        }
    }
}

/// `access.tenants.<name>`: the quota of one tenant.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tenant {
    /// Replaces `access.quota` for this tenant.
    pub quota: Quota,
}

/// The quotas of all tenants, and the requests that wait for events.
#[derive(Default)]
pub(crate) struct Quotas {
    all: Quota,
    tenants: BTreeMap<String, Tenant>,
    watching: Mutex<HashMap<String, u64>>,
    /// Limit for waiting requests from the number of connections, if lower than the quota.
    connections: OnceLock<u64>,
}

/// A request that waits for events; counted until it is dropped.
pub(crate) struct WatchGuard {
    quotas: Arc<Quotas>,
    tenant: String,
}

impl Drop for WatchGuard {
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
    /// `all` applies to every tenant that is not in `tenants`.
    pub(crate) fn new(all: Quota, tenants: BTreeMap<String, Tenant>) -> Self {
        Self {
            all,
            tenants,
            watching: Mutex::default(),
            connections: OnceLock::new(),
        }
    }

    /// Limits each tenant's waiting requests to half of the connections.
    pub(crate) fn set_connections(&self, connections: usize) {
        let half = u64::try_from(connections / 2).unwrap_or(u64::MAX);
        let _ = self.connections.set(half.max(1));
    }

    fn for_tenant(&self, tenant: &str) -> Quota {
        self.tenants
            .get(tenant)
            .map_or(self.all, |tenant| tenant.quota)
    }

    /// A tenant's limit; `None` if unlimited.
    pub(crate) fn limit(&self, tenant: &str, what: QuotaResource) -> Option<u64> {
        self.for_tenant(tenant).limit(what)
    }

    /// Checks whether a change of the tenant can be recorded.
    ///
    /// # Errors
    ///
    /// 403 if the audit quota is used up.
    pub(crate) async fn has_room_for_audit(
        &self,
        store: &dyn Store,
        tenant: &str,
    ) -> HandlerResult<()> {
        self.remaining(store, tenant, QuotaResource::AuditBytes)
            .await
            .map(drop)
    }

    /// How many more bytes of packages a tenant may store; `None` if unlimited.
    ///
    /// # Errors
    ///
    /// 403 if the quota is used up.
    pub(crate) async fn bytes_left(
        &self,
        store: &dyn Store,
        tenant: &str,
    ) -> HandlerResult<Option<u64>> {
        self.remaining(store, tenant, QuotaResource::PackageBytes)
            .await
    }

    /// How much a tenant may still add; `None` if unlimited.
    ///
    /// # Errors
    ///
    /// 403 if the quota is used up.
    pub(crate) async fn remaining(
        &self,
        store: &dyn Store,
        tenant: &str,
        what: QuotaResource,
    ) -> HandlerResult<Option<u64>> {
        let Some(limit) = self.limit(tenant, what) else {
            return Ok(None);
        };
        let used = store.used(tenant, what).await?;
        if used >= limit {
            let tenant = tenant.to_owned();
            return Err(StoreError::QuotaExceeded {
                tenant,
                what,
                used,
                most: limit,
            }
            .into());
        }
        Ok(Some(limit - used))
    }

    /// Counts a request of the tenant that waits for events.
    ///
    /// # Errors
    ///
    /// 403 if the quota is used up.
    pub(crate) fn watch(self: &Arc<Self>, tenant: &str) -> HandlerResult<WatchGuard> {
        let limit = self.for_tenant(tenant).watchers.unwrap_or(WATCHERS);
        let limit = self
            .connections
            .get()
            .map_or(limit, |connections| limit.min(*connections));
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let own = watching.get(tenant).copied().unwrap_or_default();
        if own >= limit {
            let detail = format!(
                "the quota `watchers` of the tenant `{tenant}` is {limit}, and that many requests already wait for events"
            );
            let problem = Problem::new(axum::http::StatusCode::FORBIDDEN, "access.quota", detail);
            return Err(
                problem.hint("use fewer waiting requests, or ask the operator for a larger quota")
            );
        }
        watching.insert(tenant.to_owned(), own + 1);
        Ok(WatchGuard {
            quotas: self.clone(),
            tenant: tenant.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Quota, Quotas};
    use crate::route_match::tests::route;
    use axum::http::Method;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use vnfm_core::ports::QuotaResource;

    #[tokio::test]
    async fn only_requests_that_create_something_use_a_quota() {
        let vnf = "/vnflcm/v2/vnf_instances";
        let content = "/vnfpkgm/v2/vnf_packages/p/package_content";
        for (method, path, adds) in [
            (Method::POST, vnf.to_owned(), Some(QuotaResource::Instances)),
            (
                Method::POST,
                format!("{vnf}/i/heal"),
                Some(QuotaResource::Operations),
            ),
            (
                Method::PATCH,
                format!("{vnf}/i"),
                Some(QuotaResource::Operations),
            ),
            (Method::DELETE, format!("{vnf}/i"), None),
            (
                Method::POST,
                "/vnflcm/v2/vnf_lcm_op_occs/o/retry".to_owned(),
                None,
            ),
            (
                Method::PUT,
                content.to_owned(),
                Some(QuotaResource::PackageBytes),
            ),
            (
                Method::POST,
                format!("{content}/upload_from_uri"),
                Some(QuotaResource::PackageBytes),
            ),
            (
                Method::PUT,
                "/vnfm/v1/vnf_instances/i/files/a".to_owned(),
                Some(QuotaResource::StoredFileBytes),
            ),
            (
                Method::POST,
                "/vnflcm/v1/subscriptions".to_owned(),
                Some(QuotaResource::Subscriptions),
            ),
        ] {
            let route = route(method.clone(), &path).await;
            assert_eq!(route.adds, adds, "{method} {path}");
        }
    }

    #[test]
    fn waiting_requests_are_limited_and_counted_until_they_end() {
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
    fn some_quotas_have_defaults() {
        let quotas = Quotas::default();
        assert_eq!(
            quotas.limit("acme", QuotaResource::Subscriptions),
            Some(1_000)
        );
        assert_eq!(
            quotas.limit("acme", QuotaResource::AuditBytes),
            Some(1 << 30)
        );
        assert_eq!(
            quotas.limit("acme", QuotaResource::StoredFileBytes),
            Some(10 << 30)
        );
        assert_eq!(quotas.limit("acme", QuotaResource::Instances), None);
    }
}
