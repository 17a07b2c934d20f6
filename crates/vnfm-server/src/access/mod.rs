//! Who may do what: every request passes here, once, before its handler.
//!
//! ```text
//! who is it? ── too many? ── which role does the route need? ── narrowed? ── quota left? ── handler ── audit
//!  401,429,503      429                403                        404, 403       403
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`principal`] | name, tenant, role, and what that is narrowed to |
//! | [`users`], [`oauth2`], [`keystone`], [`certificates`] | the ways to log in, beside the server's own token |
//! | [`roles`] | which role each route needs; what is not in its table is shut |
//! | `narrow` | requests of those who are narrowed to VIMs, namespaces, vendors |
//! | [`attempts`] | logins that are refused, and passwords that are wrong, in number |
//! | [`rate`], [`quota`] | how much is too much |
//! | `trail` | each change in the audit |
//!
//! Whose objects a request sees is not decided here: handlers take the tenant from the principal ([`Tenant`]), and every
//! question to the database names it.

pub mod attempts;
pub mod certificates;
pub mod keys;
pub mod keystone;
mod narrow;
pub mod oauth2;
pub mod outside;
pub mod principal;
pub mod quota;
pub mod rate;
pub mod roles;
mod trail;
pub mod users;

pub use principal::{DEFAULT_TENANT, Principal, Role};
pub(crate) use trail::who;

use self::attempts::{Allowance, Attempts, Source};
use crate::gate;
use crate::logs::cut;
use crate::problem::{Answer, Problem};
use crate::state::{App, AppState};
use anyhow::{Context as _, bail};
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::Clock;
use vnfm_types::Secret;

/// `access` of the configuration.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Access")]
pub struct Settings {
    /// Users with passwords (HTTP Basic).
    pub users: Vec<users::User>,
    /// Whose signed tokens are taken.
    pub oauth2: Vec<oauth2::Oauth2>,
    /// The Keystone whose tokens are taken.
    pub keystone: Option<keystone::Settings>,
    /// Whose client certificates are taken; needs `tls`.
    pub certificates: Option<certificates::Settings>,
    /// How many requests one principal may send.
    pub rate: Option<rate::Settings>,
    /// What each tenant may have.
    pub quota: quota::Quota,
    /// Tenants that differ from that.
    pub tenants: BTreeMap<String, quota::Tenant>,
}

impl Settings {
    /// True where there is a way to log in.
    pub fn has_a_way(&self) -> bool {
        !self.users.is_empty()
            || !self.oauth2.is_empty()
            || self.keystone.is_some()
            || self.certificates.is_some()
    }

    /// The files of authorities, by the name of their member.
    pub(crate) fn authorities(&self) -> Vec<(String, PathBuf)> {
        let clients = self
            .certificates
            .as_ref()
            .map(|one| one.authorities_file.clone());
        let keystone = self
            .keystone
            .as_ref()
            .and_then(|one| one.authorities_file.clone());
        let issuers = self.oauth2.iter().enumerate().map(|(number, issuer)| {
            (
                format!("access.oauth2[{number}].authorities_file"),
                issuer.authorities_file.clone(),
            )
        });
        let all = [
            ("access.certificates.authorities_file".to_owned(), clients),
            ("access.keystone.authorities_file".to_owned(), keystone),
        ];
        all.into_iter()
            .chain(issuers)
            .filter_map(|(name, file)| Some((name, file?)))
            .collect()
    }
}

/// The ways to log in, and the limits.
pub struct Access {
    token: Option<Secret>,
    users: users::Users,
    issuers: Vec<oauth2::Issuer>,
    keystone: Option<keystone::Keystone>,
    certificates: Vec<certificates::Rule>,
    rate: Option<rate::Rate>,
    attempts: Attempts,
    quotas: Arc<quota::Quotas>,
    is_open: bool,
    audits: bool,
    /// Whoever embeds us says who asks.
    is_embedded: bool,
}

/// Why somebody is not let in.
#[derive(Debug)]
enum Refused {
    /// Nobody said who it is.
    Nobody,
    /// What they said is wrong.
    Wrong(String),
    /// We know who it is, and that is worth nothing here.
    NoRole(String),
    /// Whoever knows cannot be asked.
    Unavailable(String),
    /// Too many logins were wrong; the next one is looked at after so many seconds.
    TooOften(u64),
}

impl Access {
    /// Where there is no `access` in the configuration: whoever has the token, or anybody where there is none.
    ///
    /// # Errors
    ///
    /// Where passwords cannot be hashed on this machine.
    pub fn by_token(token: Option<Secret>) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(vnfm::SystemClock);
        Ok(Self {
            audits: false,
            ..Self::new(Settings::default(), token, &clock)?
        })
    }

    /// As configured; nobody is asked yet.
    ///
    /// # Errors
    ///
    /// Where what is configured contradicts itself or a file cannot be read.
    pub fn new(
        settings: Settings,
        token: Option<Secret>,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let is_open = token.is_none() && !settings.has_a_way();
        let rules = settings
            .certificates
            .map(|certificates| certificates.rules)
            .unwrap_or_default();
        for rule in &rules {
            rule.checked()
                .map_err(|why| anyhow::anyhow!("access.certificates: {why}"))?;
        }
        let issuers = settings.oauth2.into_iter();
        let keystone = settings.keystone;
        Ok(Self {
            token,
            users: users::Users::new(&settings.users)?,
            issuers: issuers
                .map(|one| oauth2::Issuer::new(one, clock.clone()))
                .collect::<anyhow::Result<_>>()?,
            keystone: keystone
                .map(|one| keystone::Keystone::new(one, clock.clone()))
                .transpose()?,
            certificates: rules,
            rate: settings.rate.map(rate::Rate::new),
            attempts: Attempts::new(Allowance::default(), clock.clone()),
            quotas: Arc::new(quota::Quotas::new(settings.quota, settings.tenants)),
            is_open,
            audits: true,
            is_embedded: false,
        })
    }

    /// Where the application that we are part of knows who asks: a layer of its own puts a [`Principal`] among the
    /// request's extensions. Where there is none, nobody is let in.
    ///
    /// # Errors
    ///
    /// As [`Access::by_token`].
    pub fn embedded() -> anyhow::Result<Self> {
        Ok(Self {
            is_open: false,
            is_embedded: true,
            audits: true,
            ..Self::by_token(None)?
        })
    }

    /// With another allowance of refused logins for each address.
    #[must_use]
    pub fn allowing(mut self, allowance: Allowance, clock: &Arc<dyn Clock>) -> Self {
        self.attempts = Attempts::new(allowance, clock.clone());
        self
    }

    /// There are so many connections for everybody.
    pub(crate) fn on_connections(&self, connections: usize) {
        self.quotas.on_connections(connections);
    }

    /// What tenants may have, for the store that counts it.
    pub fn quotas(&self) -> vnfm_store::QuotaLimits {
        let quotas = self.quotas.clone();
        Arc::new(move |tenant, what| quotas.most(tenant, what))
    }

    /// How many bytes of packages a tenant may still have; `None` where there is no limit.
    ///
    /// # Errors
    ///
    /// 403 where that is nothing.
    pub(crate) async fn bytes_left(&self, app: &AppState, tenant: &str) -> Answer<Option<u64>> {
        self.quotas
            .left(app, tenant, vnfm_core::ports::QuotaResource::PackageBytes)
            .await
    }

    /// A place among the requests of a tenant that wait for events.
    ///
    /// # Errors
    ///
    /// 403 where there is none.
    pub(crate) fn watch(&self, tenant: &str) -> Answer<quota::Watching> {
        self.quotas.watch(tenant)
    }

    /// Who a request is from.
    async fn who(&self, parts: &Parts, source: Source) -> Result<Principal, Refused> {
        if self.is_open {
            return Ok(Principal::anybody());
        }
        if self.is_embedded {
            return parts.extensions.get().cloned().ok_or(Refused::Nobody);
        }
        let said = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        if let Some(given) = said("authorization") {
            let (scheme, given) = given.split_once(' ').unwrap_or((given, ""));
            let given = given.trim();
            return match scheme.to_ascii_lowercase().as_str() {
                "bearer" => self.bearer(given).await,
                "basic" if !self.users.is_empty() => {
                    self.users.check(given, (source, &self.attempts)).await
                }
                _ => Err(Refused::Wrong(format!(
                    "`Authorization: {}` is no way to log in here",
                    cut(scheme, SHOWN)
                ))),
            };
        }
        if let (Some(keystone), Some(token)) = (&self.keystone, said("x-auth-token")) {
            if let Some(known) = keystone.known(token) {
                return Ok(known);
            }
            self.attempts.left(source).map_err(Refused::TooOften)?;
            return keystone.check(token).await;
        }
        match parts.extensions.get() {
            Some(names) if !self.certificates.is_empty() => {
                certificates::check(&self.certificates, names)
            }
            _ => Err(Refused::Nobody),
        }
    }

    async fn bearer(&self, given: &str) -> Result<Principal, Refused> {
        if self.token.as_ref().is_some_and(|token| same(given, token)) {
            return Ok(Principal::of_token());
        }
        match self.issuers.iter().find(|issuer| issuer.gave(given)) {
            Some(issuer) => issuer.check(given).await,
            None => Err(Refused::Wrong(
                "the bearer token is none that this server takes".to_owned(),
            )),
        }
    }

    /// What says no to somebody who is not let in.
    fn answer(&self, refused: Refused) -> Response {
        let (status, code, what) = match refused {
            Refused::TooOften(seconds) => return too_many("wrong logins", seconds),
            Refused::Nobody => {
                let what = format!("this server needs {}", self.ways().join(" or "));
                (StatusCode::UNAUTHORIZED, "request.unauthorized", what)
            }
            Refused::Wrong(what) => (StatusCode::UNAUTHORIZED, "request.unauthorized", what),
            Refused::NoRole(what) => (StatusCode::FORBIDDEN, "access.no-role", what),
            Refused::Unavailable(what) => {
                (StatusCode::SERVICE_UNAVAILABLE, "access.unavailable", what)
            }
        };
        let mut response = Problem::new(status, code, what).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().remove(header::WWW_AUTHENTICATE);
            for challenge in self.challenges() {
                if let Ok(challenge) = HeaderValue::from_str(&challenge) {
                    response
                        .headers_mut()
                        .append(header::WWW_AUTHENTICATE, challenge);
                }
            }
        }
        response
    }

    /// A refusal, which counts for where it came from; one too many is answered without being looked at, or logged.
    fn counted(&self, refused: Refused, source: Source) -> Refused {
        match refused {
            Refused::TooOften(_) | Refused::Unavailable(_) => refused,
            other => self
                .attempts
                .refused(source)
                .map_or_else(Refused::TooOften, |()| other),
        }
    }

    fn ways(&self) -> Vec<&'static str> {
        let bearer = self.token.is_some() || !self.issuers.is_empty();
        [
            (
                bearer,
                "`Authorization: Bearer TOKEN`, which `vnfmctl` takes from VNFM_TOKEN",
            ),
            (
                !self.users.is_empty(),
                "`Authorization: Basic`, which `vnfmctl` takes from VNFM_USER and VNFM_PASSWORD",
            ),
            (
                self.keystone.is_some(),
                "`X-Auth-Token` with a token of Keystone",
            ),
            (!self.certificates.is_empty(), "a client certificate"),
            (
                self.is_embedded,
                "a login at the application that it is part of",
            ),
        ]
        .into_iter()
        .filter_map(|(is_there, way)| is_there.then_some(way))
        .collect()
    }

    /// `WWW-Authenticate` (RFC 9110 11.6.1): one for each way.
    fn challenges(&self) -> Vec<String> {
        let mut challenges = Vec::new();
        if !self.users.is_empty() {
            challenges.push("Basic realm=\"vnfm\", charset=\"UTF-8\"".to_owned());
        }
        if let Some(keystone) = &self.keystone {
            challenges.push(format!("Keystone uri=\"{}\"", keystone.endpoint()));
        }
        if self.token.is_some() || !self.issuers.is_empty() || challenges.is_empty() {
            challenges.insert(0, "Bearer".to_owned());
        }
        challenges
    }
}

/// Lets a request in that somebody may make, and notes changes in the audit.
pub async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let trail = trail::Trail::of(&app, &parts);
    let source = Source::of(trail.address());
    let principal = match app.access.who(&parts, source).await {
        Ok(principal) => principal,
        Err(refused) => {
            let refused = app.access.counted(refused, source);
            if !matches!(refused, Refused::TooOften(_)) {
                let (path, why) = (cut(&path, LOGGED), format!("{refused:?}"));
                let why = cut(&why, LOGGED);
                tracing::info!(
                    refused = why,
                    path,
                    from = trail.from(),
                    "a login is refused"
                );
            }
            return gate::with_version(&path, app.access.answer(refused));
        }
    };
    if let Some(Err(seconds)) = app.access.rate.as_ref().map(|rate| rate.take(&principal)) {
        return gate::with_version(&path, too_many("requests for one login", seconds));
    }
    parts.extensions.insert(principal.clone());
    let is_noted = app.access.audits && trail.is_of_a_change();
    let handling = handled(
        app,
        principal,
        trail,
        Request::from_parts(parts, body),
        next,
    );
    if !is_noted {
        return handling.await;
    }
    // In a task of its own: whoever hangs up keeps no change out of the audit.
    let handled = tokio::spawn(handling).await;
    handled.unwrap_or_else(|_| gate::panicked(Box::new(())))
}

/// What becomes of a request of somebody who is known.
async fn handled(
    app: App,
    principal: Principal,
    trail: trail::Trail,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let response = match allowed(&app, &principal, (&trail, request)).await {
        Ok(request) => {
            let response = next.run(request).await;
            narrow::without_names(&app, &principal, response).await
        }
        Err(problem) => gate::with_version(&path, problem.into_response()),
    };
    if app.access.audits && trail.is_of_a_change() {
        let entry = trail.entry(app.engine.now(), &principal, &response);
        trail::note(&app, &principal.tenant, (entry, response.status())).await;
    }
    response
}

/// The request, where its principal may make it, and its tenant has room for it. What is left of a quota is counted once
/// more in the transaction that takes it, so nothing is held here while a body arrives.
async fn allowed(
    app: &App,
    principal: &Principal,
    (trail, request): (&trail::Trail, Request),
) -> Result<Request, Problem> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let routed = request.extensions().get::<MatchedPath>().is_some();
    let needs = roles::needed(&method, &path, routed);
    if !needs.met_by(principal) {
        let what = format!(
            "`{}` has the role `{}` in the tenant `{}`; {method} {path} needs {needs}",
            principal.name, principal.role, principal.tenant
        );
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "access.forbidden",
            what,
        ));
    }
    let request = narrow::check(app, principal, request).await?;
    let quotas = &app.access.quotas;
    quotas
        .has_room(app, &principal.tenant, (&method, &path))
        .await?;
    // Whoever looks after the server has to be able to make room.
    if app.access.audits && trail.is_of_a_change() && !principal.is_operator() {
        quotas.has_room_for_audit(app, &principal.tenant).await?;
    }
    Ok(request)
}

/// How much is shown of what somebody sent as their way to log in.
const SHOWN: usize = 32;
/// How much of what a request says is logged, in characters.
pub(crate) const LOGGED: usize = 256;

fn too_many(of_what: &str, seconds: u64) -> Response {
    let what = format!("too many {of_what}; the next one is taken in {seconds} s");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "access.rate", what);
    let mut response = problem.into_response();
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Compares without telling by its time how much was right.
fn same(given: &str, wanted: &Secret) -> bool {
    let (given, wanted) = (given.as_bytes(), wanted.reveal().as_bytes());
    let differing = given
        .iter()
        .zip(wanted)
        .fold(0_u8, |sum, (a, b)| sum | (a ^ b));
    given.len() == wanted.len() && differing == 0
}

/// A secret that lies in a file.
///
/// # Errors
///
/// Where the file cannot be read or is empty.
pub(crate) fn secret(path: &Path) -> anyhow::Result<Secret> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the password file `{}`", path.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        bail!("the password file `{}` is empty", path.display());
    }
    Ok(Secret::new(text))
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            tracing::error!("a route is served past `access::admit`");
            let what = "the server met a bug in itself; its log has more";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "server.bug", what)
        })
    }
}

/// Whose objects a request is about.
pub struct Tenant(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Tenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Principal::from_request_parts(parts, state)
            .await
            .map(|principal| Self(principal.tenant))
    }
}
