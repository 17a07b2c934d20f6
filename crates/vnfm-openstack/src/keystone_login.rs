//! Logins: tokens and their catalogs, cached per VIM and version of its connection.
//!
//! ```text
//! Cloud::send ─ Vim::connection ─ Sessions ─┬─ cached and fresh ──────────┐
//!                                           └─ Keystone: POST auth/tokens ┴─ service: call
//!                  └──────────── 401: discard, retry once ───────────────────────┘
//! ```
//! Each call reads the connection again, so a changed password reaches operations in flight.

use crate::access::Access;
use crate::errors::{
    APPLICATION_CREDENTIAL, LOGIN_REFUSED, NO_ENDPOINT, UNEXPECTED, heat_type, refusal,
};
use crate::http_call::{Call, send};
use crate::response::Reply;
use crate::unplaced_zones::UnplacedZones;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use vnfm_core::ports::{Clock, PortError, Vim, VimLogin, Watcher};
use vnfm_outbound::{Client, Destinations};
use vnfm_types::{Secret, VimConnectionInfo};

const MAX_CACHED_SESSIONS: usize = 256;

/// A service of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Orchestration,
    Compute,
    Network,
    Image,
    KeyManager,
    Volume,
    LoadBalancer,
    /// Keystone, at the address of the VIM itself.
    Identity,
}

impl Service {
    /// Its types in a catalog, and the version that its URL may lack there.
    fn catalog_types(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Orchestration => (&["orchestration"], ""),
            Self::Compute => (&["compute"], ""),
            Self::Network => (&["network"], "/v2.0"),
            Self::Image => (&["image"], "/v2"),
            Self::KeyManager => (&["key-manager"], "/v1"),
            Self::Volume => (&["volumev3", "block-storage"], ""),
            Self::LoadBalancer => (&["load-balancer"], "/v2.0"),
            Self::Identity => (&["identity"], "/v3"),
        }
    }

    /// Whether a catalog with these types has it.
    pub(crate) fn is_among(self, types: &[&str]) -> bool {
        let (own, _) = self.catalog_types();
        types.iter().any(|one| own.contains(one))
    }
}

pub(crate) struct Session {
    client: Client,
    token: Secret,
    catalog: Vec<CatalogEntry>,
    region: Option<String>,
    interface: String,
    by_credential: bool,
    renew_at: Timestamp,
    /// When the token expires, according to Keystone.
    pub(crate) expires_at: Option<Timestamp>,
    /// Id of the project that the token is for.
    pub(crate) project: String,
    /// Id of the VIM's user.
    pub(crate) user: String,
    /// URL of Keystone.
    keystone: String,
}

struct CachedLogin {
    vim: String,
    login: VimLogin,
    session: Arc<Session>,
}

/// The cached logins of all VIMs.
pub(crate) struct Sessions {
    cached: Mutex<Vec<CachedLogin>>,
    /// Addresses that VIMs may have.
    to: Destinations,
}

/// A VIM with everything needed to call it.
#[derive(Clone, Copy)]
pub(crate) struct Cloud<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) vim: &'a dyn Vim,
    pub(crate) clock: &'a dyn Clock,
    /// Receives reasons for waiting; absent if no operation is calling.
    pub(crate) watcher: Option<&'a dyn Watcher>,
    /// After this time, no call is made.
    pub(crate) deadline: Timestamp,
    /// What the operator wants of granted zones that cannot be followed.
    pub(crate) unplaced_zones: UnplacedZones,
}

impl Cloud<'_> {
    /// Sends a call to a service; a response that `call` does not accept is an error.
    pub(crate) async fn send(&self, service: Service, call: &Call) -> Result<Reply, PortError> {
        let (session, fresh) = self.session().await?;
        let reply = self.send_with(&session, service, call).await?;
        if reply.status != 401 {
            return self.check_status(&session, service, call, reply);
        }
        self.sessions.remove(&session);
        if fresh {
            return Err(self.token_refused(call, &reply));
        }
        let (session, _) = self.session().await?;
        let reply = self.send_with(&session, service, call).await?;
        if reply.status == 401 {
            self.sessions.remove(&session);
            return Err(self.token_refused(call, &reply));
        }
        self.check_status(&session, service, call, reply)
    }

    /// The current login, and whether it was created by this call.
    pub(crate) async fn session(&self) -> Result<(Arc<Session>, bool), PortError> {
        let login = self.vim.connection().await?;
        if let Some(cached) = self
            .sessions
            .find(self.vim.name(), &login, self.clock.now())
        {
            return Ok((cached, false));
        }
        let session = Arc::new(self.log_in(&login.info).await?);
        self.sessions.insert(self.vim.name(), login, &session);
        Ok((session, true))
    }

    /// Whether Keystone accepts this application credential.
    pub(crate) async fn accepts_credential(
        &self,
        id: &str,
        secret: &Secret,
    ) -> Result<bool, PortError> {
        let (session, _) = self.session().await?;
        let body = json!({"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {"id": id, "secret": secret.reveal()},
        }}});
        let action = format!("try application credential `{id}`");
        let call = Call::post("/auth/tokens", body, action)
            .repeatable()
            .accepting(&[401, 404]);
        let reply = send(&session.client, (&session.keystone, None), &call, self).await?;
        if call.accepts(reply.status) {
            return Ok(!matches!(reply.status, 401 | 404));
        }
        Err(refusal(&call.action, &reply))
    }

    async fn send_with(
        &self,
        session: &Session,
        service: Service,
        call: &Call,
    ) -> Result<Reply, PortError> {
        let base = session.endpoint(service, self.vim.name())?;
        send(&session.client, (&base, Some(&session.token)), call, self).await
    }

    fn check_status(
        &self,
        session: &Session,
        service: Service,
        call: &Call,
        reply: Reply,
    ) -> Result<Reply, PortError> {
        if call.accepts(reply.status) {
            return Ok(reply);
        }
        let error = refusal(&call.action, &reply);
        let trust_refused = service == Service::Orchestration
            && session.by_credential
            && reply.status == 500
            && heat_type(&reply) == Some("RemoteError");
        if !trust_refused {
            return Err(error);
        }
        let detail = format!(
            "VIM `{}` is used with an application credential, and Heat responds {}",
            self.vim.name(),
            error.detail()
        );
        Err(PortError::new(&APPLICATION_CREDENTIAL, &call.action, detail).request(reply.request_id))
    }

    fn token_refused(&self, call: &Call, reply: &Reply) -> PortError {
        let error = refusal(&call.action, reply);
        let detail = format!(
            "VIM `{}` refuses the login: {}",
            self.vim.name(),
            error.detail()
        );
        PortError::new(&LOGIN_REFUSED, &call.action, detail).request(reply.request_id.clone())
    }

    /// The addresses allowed for this VIM: one registered before the rule existed keeps its address.
    fn destinations(&self, info: &VimConnectionInfo, access: &Access) -> Destinations {
        let to = self.sessions.to.clone();
        if !self.vim.keeps_unchecked_address(info) {
            return to;
        }
        let to = to.and_host_of(&access.endpoint);
        match &access.proxy {
            Some(proxy) => to.and_host_of(proxy),
            None => to,
        }
    }

    async fn log_in(&self, info: &VimConnectionInfo) -> Result<Session, PortError> {
        let access = Access::try_from(info)?;
        let client = access.client(self.destinations(info, &access))?;
        let action = format!("log in to VIM `{}`", self.vim.name());
        let call = Call::post("/auth/tokens", access.login(), action.as_str()).repeatable();
        let requested_at = self.clock.now();
        let reply = send(&client, (&access.endpoint, None), &call, self).await?;
        // 404: a deleted application credential.
        let is_unknown = reply.status == 404 && access.is_application_credential();
        if reply.status == 401 || reply.status == 403 || is_unknown {
            let hint = format!(
                "`vnfmctl vim update {}` with the right login, then retry",
                self.vim.name()
            );
            return Err(
                PortError::new(&LOGIN_REFUSED, action, refusal("", &reply).detail())
                    .request(reply.request_id)
                    .hint(hint),
            );
        }
        if !call.accepts(reply.status) {
            return Err(refusal(&action, &reply));
        }
        let parsed: Result<TokenBody, _> = serde_json::from_value(reply.body);
        let (Some(token), Ok(body)) = (reply.subject_token, parsed) else {
            let detail = format!("`{}` does not respond as Keystone v3 does", access.endpoint);
            return Err(PortError::new(&UNEXPECTED, action, detail).request(reply.request_id));
        };
        Ok(Session::new(
            client,
            token,
            body.token,
            (&access, requested_at),
        ))
    }
}

impl Session {
    fn new(client: Client, token: Secret, body: TokenInfo, login: (&Access, Timestamp)) -> Self {
        let (access, requested_at) = login;
        let life = match (body.issued_at, body.expires_at) {
            (Some(from), Some(to)) => to.duration_since(from),
            _ => SignedDuration::from_mins(5),
        };
        // Renewed before its last quarter: Heat works with the token for a while.
        let fresh_for = life.saturating_mul(3) / 4;
        Self {
            client,
            token,
            catalog: body.catalog,
            region: access.region.clone(),
            interface: access.interface.clone(),
            by_credential: access.is_application_credential(),
            renew_at: requested_at
                .saturating_add(fresh_for)
                .unwrap_or(requested_at),
            expires_at: body.expires_at,
            project: body.project.map(|project| project.id).unwrap_or_default(),
            user: body.user.map(|user| user.id).unwrap_or_default(),
            keystone: access.endpoint.clone(),
        }
    }

    /// The URL of a service, with its version and without a trailing slash.
    fn endpoint(&self, service: Service, vim: &str) -> Result<String, PortError> {
        if service == Service::Identity {
            return Ok(self.keystone.clone());
        }
        let (types, version) = service.catalog_types();
        let all: Vec<&Endpoint> = self
            .catalog
            .iter()
            .filter(|entry| types.contains(&entry.kind.as_str()))
            .flat_map(|entry| &entry.endpoints)
            .filter(|endpoint| endpoint.interface == self.interface)
            .collect();
        let regions: BTreeSet<&str> = all.iter().filter_map(|one| one.region_name()).collect();
        let regions: Vec<&str> = regions.into_iter().collect();
        let region = self.region.as_deref();
        let found = all
            .iter()
            .find(|one| region.is_none_or(|region| one.region_name() == Some(region)));
        let problem = match found {
            Some(found) if region.is_some() || regions.len() < 2 => {
                let url = found.url.trim_end_matches('/');
                let lacks = !version.is_empty() && !url.ends_with(version);
                return Ok(if lacks {
                    format!("{url}{version}")
                } else {
                    url.to_owned()
                });
            }
            Some(_) => {
                format!(
                    "it is in the regions {} and the VIM names none",
                    regions.join(", ")
                )
            }
            None if regions.is_empty() => "the catalog does not have it".to_owned(),
            None => format!("it is in region {} only", regions.join(", ")),
        };
        let action = format!("find the service `{}` of VIM `{vim}`", types[0]);
        let chosen = region.unwrap_or("any");
        let detail = format!(
            "interface `{}`, region `{chosen}`: {problem}",
            self.interface
        );
        Err(PortError::new(&NO_ENDPOINT, action, detail))
    }

    /// Types of the services in the catalog.
    pub(crate) fn services(&self) -> Vec<&str> {
        self.catalog
            .iter()
            .map(|entry| entry.kind.as_str())
            .collect()
    }
}

impl Sessions {
    /// An empty cache, for VIMs at addresses that `to` allows.
    pub(crate) fn new(to: Destinations) -> Self {
        Self {
            cached: Mutex::default(),
            to,
        }
    }

    fn find(&self, vim: &str, login: &VimLogin, now: Timestamp) -> Option<Arc<Session>> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.retain(|one| one.session.renew_at > now);
        let same = |one: &&CachedLogin| {
            one.vim == vim && one.login.version == login.version && one.login.info == login.info
        };
        cached.iter().find(same).map(|one| Arc::clone(&one.session))
    }

    fn insert(&self, vim: &str, login: VimLogin, session: &Arc<Session>) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= MAX_CACHED_SESSIONS {
            cached.remove(0);
        }
        cached.push(CachedLogin {
            vim: vim.to_owned(),
            login,
            session: Arc::clone(session),
        });
    }

    fn remove(&self, session: &Arc<Session>) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.retain(|one| !Arc::ptr_eq(&one.session, session));
    }
}

#[derive(Deserialize)]
struct TokenBody {
    token: TokenInfo,
}

#[derive(Deserialize)]
struct TokenInfo {
    #[serde(default)]
    issued_at: Option<Timestamp>,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    project: Option<Identified>,
    #[serde(default)]
    user: Option<Identified>,
    #[serde(default)]
    catalog: Vec<CatalogEntry>,
}

#[derive(Deserialize)]
struct Identified {
    id: String,
}

#[derive(Deserialize)]
struct CatalogEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    region_id: Option<String>,
    url: String,
}

impl Endpoint {
    fn region_name(&self) -> Option<&str> {
        self.region_id.as_deref().or(self.region.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(region: Option<&str>, interface: &str) -> Session {
        let body: TokenBody = serde_json::from_value(json!({"token": {
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2026-01-01T01:00:00.000000Z",
            "project": {"id": "p", "name": "nfv"},
            "catalog": [
                {"type": "orchestration", "name": "heat", "endpoints": [
                    {"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "http://one:8004/v1/p"},
                    {"interface": "internal", "region_id": "RegionOne", "url": "http://inside:8004/v1/p"},
                ]},
                {"type": "network", "name": "neutron", "endpoints": [
                    {"interface": "public", "region_id": "RegionOne", "url": "http://one:9696/"},
                    {"interface": "public", "region_id": "RegionTwo", "url": "http://two:9696/v2.0"},
                ]},
            ],
        }}))
        .unwrap();
        let access = Access::for_test(region, interface);
        let requested_at: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        let client = access.client(Destinations::anywhere()).unwrap();
        Session::new(
            client,
            Secret::new("t"),
            body.token,
            (&access, requested_at),
        )
    }

    #[test]
    fn an_endpoint_is_chosen_by_region_and_interface_and_gets_its_version() {
        let found = |region, interface, service| {
            session(region, interface)
                .endpoint(service, "v")
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            found(None, "public", Service::Orchestration).unwrap(),
            "http://one:8004/v1/p"
        );
        assert_eq!(
            found(Some("RegionOne"), "internal", Service::Orchestration).unwrap(),
            "http://inside:8004/v1/p"
        );
        assert_eq!(
            found(Some("RegionOne"), "public", Service::Network).unwrap(),
            "http://one:9696/v2.0"
        );
        assert_eq!(
            found(Some("RegionTwo"), "public", Service::Network).unwrap(),
            "http://two:9696/v2.0"
        );
        let ambiguous = found(None, "public", Service::Network).unwrap_err();
        assert!(ambiguous.contains("RegionOne, RegionTwo"), "{ambiguous}");
        let elsewhere = found(Some("Mars"), "public", Service::Orchestration).unwrap_err();
        assert!(
            elsewhere.contains("in region RegionOne only"),
            "{elsewhere}"
        );
        let missing = found(None, "public", Service::Image).unwrap_err();
        assert!(missing.contains("does not have it"), "{missing}");
    }

    #[test]
    fn a_login_is_cached_per_version_and_connection_until_renewal() {
        let sessions = Sessions::new(Destinations::anywhere());
        let login = |version: u64, password: &str| VimLogin {
            info: VimConnectionInfo::default().access("password", password),
            version,
        };
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        let one = Arc::new(session(None, "public"));
        sessions.insert("v", login(1, "a"), &one);
        let cached = |vim, login: VimLogin, at| sessions.find(vim, &login, at).is_some();
        assert!(cached("v", login(1, "a"), now));
        assert!(!cached("v", login(2, "a"), now));
        assert!(!cached("v", login(1, "b"), now));
        assert!(!cached("w", login(1, "a"), now));
        let later = now.saturating_add(SignedDuration::from_mins(44)).unwrap();
        assert!(cached("v", login(1, "a"), later));
        let old = now.saturating_add(SignedDuration::from_mins(46)).unwrap();
        assert!(!cached("v", login(1, "a"), old));
    }
}
