//! How much a tenant may have: instances, operations in flight, bytes of packages. A request that takes from a quota is
//! counted and handled under one lock of its tenant and quota, so two at once do not both get the last place.

use crate::problem::{Answer, Problem};
use crate::state::AppState;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// What one tenant may have; what is absent has no limit.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// VNF instances, instantiated or not.
    pub instances: Option<u64>,
    /// Operation occurrences that are not ended, FAILED_TEMP among them.
    pub operations: Option<u64>,
    /// Bytes of all VNF packages.
    pub package_bytes: Option<u64>,
}

/// `access.tenants.<name>`.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tenant {
    /// What it may have, in place of `access.quota`.
    pub quota: Quota,
}

/// What a request takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Instances,
    Operations,
    PackageBytes,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Operations => "operations",
            Self::PackageBytes => "package_bytes",
        }
    }
}

/// The quotas of all tenants.
#[derive(Default)]
pub struct Quotas {
    all: Quota,
    tenants: BTreeMap<String, Tenant>,
    locks: Mutex<HashMap<(String, Kind), Lock>>,
}

/// Held while a place in a quota of a tenant is taken.
type Lock = Arc<tokio::sync::Mutex<()>>;

/// A place in a quota, while the request that takes it is handled.
#[derive(Default)]
pub struct Place {
    _lock: Option<OwnedMutexGuard<()>>,
    /// For an upload: how many bytes are left, of how many.
    bytes: Option<(u64, u64)>,
    exceeded: Arc<AtomicBool>,
}

impl Quotas {
    /// As configured.
    pub fn new(all: Quota, tenants: BTreeMap<String, Tenant>) -> Self {
        Self { all, tenants, locks: Mutex::default() }
    }

    /// A place for a request, where it takes from a quota of its tenant. One that makes an instance only sees here whether
    /// there is a place: it takes it with [`Quotas::instance`] when all that it waits for is there, so that nobody else of
    /// its tenant waits with it.
    ///
    /// # Errors
    ///
    /// 403 with the quota and what is used, where none is left.
    pub async fn place(
        &self,
        app: &AppState,
        tenant: &str,
        (method, path): (&Method, &str),
    ) -> Answer<Place> {
        let Some(kind) = kind(method, path) else { return Ok(Place::default()) };
        let place = self.of(app, tenant, kind).await?;
        Ok(if kind == Kind::Instances { Place::default() } else { place })
    }

    /// A place for an instance, which is held while it is made.
    ///
    /// # Errors
    ///
    /// As [`Quotas::place`].
    pub async fn instance(&self, app: &AppState, tenant: &str) -> Answer<Place> {
        self.of(app, tenant, Kind::Instances).await
    }

    async fn of(&self, app: &AppState, tenant: &str, kind: Kind) -> Answer<Place> {
        let quota = self.tenants.get(tenant).map_or(self.all, |tenant| tenant.quota);
        let most = match kind {
            Kind::Instances => quota.instances,
            Kind::Operations => quota.operations,
            Kind::PackageBytes => quota.package_bytes,
        };
        let Some(most) = most else { return Ok(Place::default()) };
        let lock = self.lock(tenant, kind).lock_owned().await;
        let used = match kind {
            Kind::Instances => app.engine.store().usage(tenant).await?.instances,
            Kind::Operations => app.engine.store().usage(tenant).await?.operations,
            Kind::PackageBytes => app.onboarding.bytes(tenant).await?,
        };
        if used >= most {
            return Err(used_up(tenant, kind, (used, most)));
        }
        let bytes = (kind == Kind::PackageBytes).then_some((most - used, most));
        Ok(Place { _lock: Some(lock), bytes, exceeded: Arc::default() })
    }

    /// How many bytes of packages a tenant may still have; `None` where there is no limit.
    ///
    /// # Errors
    ///
    /// 403 with the quota and what is used, where that are fewer than `wanted`.
    pub async fn bytes_left(
        &self,
        app: &AppState,
        tenant: &str,
        wanted: u64,
    ) -> Answer<Option<u64>> {
        let quota = self.tenants.get(tenant).map_or(self.all, |tenant| tenant.quota);
        let Some(most) = quota.package_bytes else { return Ok(None) };
        let used = app.onboarding.bytes(tenant).await?;
        let left = most.saturating_sub(used);
        if left < wanted {
            return Err(used_up(tenant, Kind::PackageBytes, (used, most)));
        }
        Ok(Some(left))
    }

    fn lock(&self, tenant: &str, kind: Kind) -> Lock {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry((tenant.to_owned(), kind)).or_default().clone()
    }
}

impl Place {
    /// The body of the request, which ends in an error where it is longer than what is left.
    pub fn bounded(&self, body: Body) -> Body {
        let Some((left, _)) = self.bytes else { return body };
        let (mut seen, exceeded) = (0_u64, self.exceeded.clone());
        Body::from_stream(body.into_data_stream().map(move |chunk| {
            let chunk = chunk.map_err(std::io::Error::other)?;
            seen = seen.saturating_add(chunk.len() as u64);
            if seen > left {
                exceeded.store(true, Ordering::SeqCst);
                return Err(std::io::Error::other(
                    "it is larger than what is left of the tenant's quota `package_bytes`",
                ));
            }
            Ok(chunk)
        }))
    }

    /// What is to be answered in place of the handler's answer, where the body was too long.
    pub fn exceeded(&self, tenant: &str) -> Option<Problem> {
        let (left, most) = self.bytes.filter(|_| self.exceeded.load(Ordering::SeqCst))?;
        Some(used_up(tenant, Kind::PackageBytes, (most - left, most)))
    }
}

fn used_up(tenant: &str, kind: Kind, (used, most): (u64, u64)) -> Problem {
    let what = format!(
        "the quota `{}` of the tenant `{tenant}` is {most}, {used} are used, and this would be more; next: give something \
         up, or ask whoever looks after the server for more",
        kind.name()
    );
    Problem::new(StatusCode::FORBIDDEN, "access.quota", what)
}

/// From which quota a request takes.
fn kind(method: &Method, path: &str) -> Option<Kind> {
    let segments: Vec<_> = path.split('/').skip(1).collect();
    match (method, segments.as_slice()) {
        (&Method::POST, ["vnflcm", _, "vnf_instances"]) => Some(Kind::Instances),
        (&Method::POST, ["vnflcm", _, "vnf_instances", _, _])
        | (&Method::PATCH, ["vnflcm", _, "vnf_instances", _]) => Some(Kind::Operations),
        (&Method::PUT, ["vnfpkgm", _, "vnf_packages", _, "package_content"]) => {
            Some(Kind::PackageBytes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, kind};
    use axum::http::Method;

    #[test]
    fn what_begins_something_takes_from_a_quota_and_nothing_else() {
        let vnf = "/vnflcm/v2/vnf_instances";
        assert_eq!(kind(&Method::POST, vnf), Some(Kind::Instances));
        assert_eq!(kind(&Method::POST, &format!("{vnf}/i/heal")), Some(Kind::Operations));
        assert_eq!(kind(&Method::PATCH, &format!("{vnf}/i")), Some(Kind::Operations));
        assert_eq!(kind(&Method::DELETE, &format!("{vnf}/i")), None);
        assert_eq!(kind(&Method::POST, "/vnflcm/v2/vnf_lcm_op_occs/o/retry"), None);
        assert_eq!(
            kind(&Method::PUT, "/vnfpkgm/v2/vnf_packages/p/package_content"),
            Some(Kind::PackageBytes)
        );
    }
}
