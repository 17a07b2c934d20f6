//! The audit of changes: who, what, from where, and what was answered. An entry is written before its answer leaves. What is
//! only seen is not noted, and neither is who comes too often, nor what no route takes: nothing could have changed. Of
//! what clients send an entry has no more than some hundred characters. A tenant's refused requests take at most half of
//! its quota `audit_bytes`; the rest is for what was changed.

use super::LOGGED;
use super::principal::Principal;
use crate::acts::text;
use crate::logs::cut;
use crate::state::App;
use axum::extract::{ConnectInfo, MatchedPath};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use std::net::{IpAddr, SocketAddr};
use vnfm_core::ports::{Change, QuotaResource};
use vnfm_types::AuditEntry;

/// What is known of a request before it is handled.
pub(super) struct Trail {
    method: Method,
    path: String,
    from: Option<IpAddr>,
    says: String,
    reason: String,
    is_routed: bool,
}

impl Trail {
    pub(super) fn of(app: &App, parts: &Parts) -> Self {
        let peer = parts
            .extensions
            .get::<ConnectInfo<SocketAddr>>()
            .map(|from| from.0.ip());
        Self {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            from: peer.map(|peer| app.operating.proxies.client(&parts.headers, peer)),
            says: text(&parts.headers, "x-vnfm-operator"),
            reason: text(&parts.headers, "x-vnfm-reason"),
            is_routed: parts.extensions.get::<MatchedPath>().is_some(),
        }
    }

    /// The address that the request came from, as far as trusted proxies know.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.from
    }

    /// The same as text.
    pub(super) fn from(&self) -> String {
        self.from.map(|from| from.to_string()).unwrap_or_default()
    }

    /// False for what only sees, and for what nothing takes.
    pub(super) fn is_of_a_change(&self) -> bool {
        self.is_routed && !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// Its entry, whatever became of it.
    pub(super) fn entry(
        self,
        at: Timestamp,
        principal: &Principal,
        response: &Response,
    ) -> AuditEntry {
        let made = response
            .headers()
            .get(header::LOCATION)
            .and_then(|made| made.to_str().ok());
        AuditEntry {
            seq: 0,
            at,
            who: who(principal, &self.says),
            what: format!("{} {}", self.method, cut(&self.path, LOGGED)),
            target: cut(target(&self.path, made), LOGGED).to_owned(),
            name: None,
            reason: self.reason,
            from: self.from.map(|from| from.to_string()),
            status: Some(response.status().as_u16()),
        }
    }
}

/// Notes what became of a change, unless no route takes it, or it was refused and enough of such is noted.
pub(super) async fn note(app: &App, tenant: &str, (entry, status): (AuditEntry, StatusCode)) {
    if status == StatusCode::METHOD_NOT_ALLOWED {
        return;
    }
    let most = app.access.quotas.most(tenant, QuotaResource::AuditBytes);
    if let Some(most) = most.filter(|_| status.is_client_error()) {
        let used = app
            .engine
            .store()
            .used(tenant, QuotaResource::AuditBytes)
            .await;
        if used.is_ok_and(|used| used >= most / 2) {
            tracing::debug!(
                tenant,
                "a refused request is not noted: half of the audit is used"
            );
            return;
        }
    }
    write(app, tenant, entry).await;
}

/// Puts an entry into the audit of a tenant; where the database does not take it, into the log.
async fn write(app: &App, tenant: &str, entry: AuditEntry) {
    let note = Change::Audit {
        tenant: tenant.to_owned(),
        entry: Box::new(entry.clone()),
    };
    if let Err(error) = app.engine.store().write(None, vec![note]).await {
        let AuditEntry {
            who,
            what,
            from,
            status,
            ..
        } = entry;
        tracing::error!(%error, tenant, who, what, ?from, ?status, "a change is not in the audit");
    }
}

/// Who, and for whom they say that they act.
pub(crate) fn who(principal: &Principal, says: &str) -> String {
    match (principal.is_known(), says) {
        (true, "") => principal.to_string(),
        (true, says) => format!("{principal} as {says}"),
        (false, "") => "not said".to_owned(),
        (false, says) => says.to_owned(),
    }
}

/// The id of what was changed: what was made, else what the path names.
fn target<'a>(path: &'a str, made: Option<&'a str>) -> &'a str {
    let is_id = |segment: &&str| uuid::Uuid::parse_str(segment).is_ok();
    let named = path.rsplit('/').find(is_id);
    let made = made.and_then(|made| made.rsplit('/').next());
    named.or(made).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn an_entry_names_what_was_changed() {
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
