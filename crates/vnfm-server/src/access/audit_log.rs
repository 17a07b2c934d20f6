//! The audit log of changes: who, what, from where, and the response status. An entry is written before the response
//! is sent. Not recorded: reads, plans, callers over their rate limit, and requests that no route matches, because nothing
//! could have changed. Text from clients is cut to a few hundred characters. A tenant's refused requests use at most
//! half of its quota `audit_bytes`; the rest is for changes.

use super::principal::Principal;
use super::quota::Quotas;
use crate::forwarded::Proxies;
use crate::log_text::{MAX_LOGGED_CHARS, cut};
use crate::overrides::text;
use crate::route_match::{Effect, Matched};
use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use std::net::{IpAddr, SocketAddr};
use vnfm_core::ports::{Change, QuotaResource, Store};
use vnfm_types::AuditEntry;

/// What is known of a request before it is handled.
pub(super) struct AuditContext {
    method: Method,
    path: String,
    from: Option<IpAddr>,
    operator: String,
    reason: String,
    is_routed: bool,
    plans: bool,
}

impl AuditContext {
    pub(super) fn from_request(proxies: &Proxies, parts: &Parts) -> Self {
        let peer = parts
            .extensions
            .get::<ConnectInfo<SocketAddr>>()
            .map(|from| from.0.ip());
        let matched = Matched::from_extensions(&parts.extensions);
        let route = matched.and_then(Matched::route);
        Self {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            from: peer.map(|peer| proxies.client(&parts.headers, peer)),
            operator: text(&parts.headers, "x-vnfm-operator"),
            reason: text(&parts.headers, "x-vnfm-reason"),
            is_routed: matched.is_some(),
            plans: route.is_some_and(|route| route.effect == Effect::Plans),
        }
    }

    /// The client's address, as far as trusted proxies report it.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.from
    }

    /// The address as text; empty if unknown.
    pub(super) fn from(&self) -> String {
        self.from.map(|from| from.to_string()).unwrap_or_default()
    }

    /// Whether the request may change something: it has a route and is neither a read nor a plan.
    pub(super) fn is_change(&self) -> bool {
        let reads = matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS);
        self.is_routed && !self.plans && !reads
    }

    /// The audit entry with the response's status.
    pub(super) fn entry(
        self,
        at: Timestamp,
        principal: &Principal,
        response: &Response,
    ) -> AuditEntry {
        let location = response
            .headers()
            .get(header::LOCATION)
            .and_then(|location| location.to_str().ok());
        AuditEntry {
            seq: 0,
            at,
            who: principal.acting_as(&self.operator),
            what: format!("{} {}", self.method, cut(&self.path, MAX_LOGGED_CHARS)),
            target: cut(target(&self.path, location), MAX_LOGGED_CHARS).to_owned(),
            name: None,
            reason: self.reason,
            from: self.from.map(|from| from.to_string()),
            status: Some(response.status().as_u16()),
        }
    }
}

/// Records a change, unless no route accepts the method, or it was refused and half of the quota is used.
pub(super) async fn record(
    store: &dyn Store,
    quotas: &Quotas,
    tenant: &str,
    (entry, status): (AuditEntry, StatusCode),
) {
    if status == StatusCode::METHOD_NOT_ALLOWED {
        return;
    }
    let limit = quotas.limit(tenant, QuotaResource::AuditBytes);
    if let Some(limit) = limit.filter(|_| status.is_client_error()) {
        let used = store.used(tenant, QuotaResource::AuditBytes).await;
        if used.is_ok_and(|used| used >= limit / 2) {
            tracing::debug!(
                tenant,
                "not recording a refused request: half of the audit quota is used"
            );
            return;
        }
    }
    write(store, tenant, entry).await;
}

/// Writes an entry to the database; if that fails, to the log.
async fn write(store: &dyn Store, tenant: &str, entry: AuditEntry) {
    let note = Change::Audit {
        tenant: tenant.to_owned(),
        entry: Box::new(entry.clone()),
    };
    if let Err(error) = store.write(None, vec![note]).await {
        let AuditEntry {
            who,
            what,
            from,
            status,
            ..
        } = entry;
        tracing::error!(%error, tenant, who, what, ?from, ?status, "cannot write an audit entry");
    }
}

/// The id of the changed object: from the path, otherwise from the `Location` of the created one.
fn target<'a>(path: &'a str, location: Option<&'a str>) -> &'a str {
    let is_id = |segment: &&str| uuid::Uuid::parse_str(segment).is_ok();
    let named = path.rsplit('/').find(is_id);
    let created = location.and_then(|location| location.rsplit('/').next());
    named.or(created).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn an_entry_names_the_changed_object() {
        let id = "8e2a3b5c-7b1f-4b1e-9f55-0d3c3e1d7a01";
        let path = format!("/vnflcm/v2/vnf_instances/{id}/instantiate");
        assert_eq!(target(&path, Some("http://x/vnf_lcm_op_occs/o")), id);
        assert_eq!(
            target("/vnflcm/v2/vnf_instances", Some("http://x/vnf_instances/i")),
            "i"
        );
        assert_eq!(target("/vnfm/v1/prune", None), "");
    }
}
