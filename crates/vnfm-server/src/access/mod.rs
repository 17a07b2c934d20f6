//! Authentication and authorization: every request passes here once, before its handler.
//!
//! ```text
//! login ─────── rate limit ── role that the route needs ── scope ────── quota ── handler ── audit
//!  401,429,503    429            403                        404, 403     403
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`principal`] | name, tenant, role and scope of a caller |
//! | [`users`], [`oauth2`], [`keystone`], [`certificates`] | the login methods, in addition to the server's token |
//! | `login_error` | why a login is refused |
//! | [`roles`] | the role that a request needs; a route missing from the table is denied |
//! | `narrowed_roles` | requests of callers limited to certain VIMs, namespaces or vendors |
//! | [`attempts`] | limits for refused logins and wrong passwords |
//! | [`rate`], [`quota`] | limits per principal and per tenant |
//! | `audit_log` | an entry for each change |
//! | `admit` | the middleware |
//! Tenants are not separated here: handlers take the tenant from the principal ([`Tenant`]), and
//! every database query names it.

mod admit;
pub(crate) mod attempts;
mod audit_log;
pub(crate) mod certificates;
pub(crate) mod http_client;
pub(crate) mod keys;
pub(crate) mod keystone;
mod login_error;
mod narrowed_roles;
pub(crate) mod oauth2;
pub(crate) mod principal;
pub(crate) mod quota;
pub(crate) mod rate;
pub(crate) mod roles;
mod settings;
pub(crate) mod users;

pub(crate) use admit::{Admission, admit};
pub(crate) use principal::{Principal, Role};
pub use settings::Settings;

use self::attempts::{Allowance, Attempts};
use self::login_error::LoginError;
use crate::client_address::Source;
use crate::log_text::cut;
use crate::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use subtle::ConstantTimeEq as _;
use vnfm_core::ports::Clock;
use vnfm_types::Secret;

/// The login methods and limits.
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
    is_audited: bool,
    /// The embedding application authenticates callers.
    is_embedded: bool,
}

impl Access {
    /// Without `access` in the configuration: the token is the only login; without a token, no login is needed.
    ///
    /// # Errors
    ///
    /// If passwords cannot be hashed on this machine.
    pub fn by_token(token: Option<Secret>) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(vnfm::SystemClock);
        Ok(Self {
            is_audited: false,
            ..Self::new(Settings::default(), token, &clock)?
        })
    }

    /// As configured; contacts no identity service yet.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other or a file cannot be read.
    pub fn new(
        settings: Settings,
        token: Option<Secret>,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let is_open = token.is_none() && !settings.has_login_method();
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
            is_audited: true,
            is_embedded: false,
        })
    }

    /// For an embedding application that authenticates callers: its middleware puts a [`Principal`] into the request's
    /// extensions. Requests without one are refused.
    ///
    /// # Errors
    ///
    /// Those of [`Access::by_token`]: passwords cannot be hashed on this machine.
    pub fn embedded() -> anyhow::Result<Self> {
        Ok(Self {
            is_open: false,
            is_embedded: true,
            is_audited: true,
            ..Self::by_token(None)?
        })
    }

    /// Sets the allowance of refused logins per address.
    #[must_use]
    pub fn with_allowance(mut self, allowance: Allowance, clock: &Arc<dyn Clock>) -> Self {
        self.attempts = Attempts::new(allowance, clock.clone());
        self
    }

    /// The total number of connections limits waiting requests.
    pub(crate) fn set_connections(&self, connections: usize) {
        self.quotas.set_connections(connections);
    }

    /// The quotas of tenants, which the store enforces.
    pub fn quotas(&self) -> vnfm_core::ports::QuotaLimits {
        let quotas = self.quotas.clone();
        Arc::new(move |tenant, what| quotas.limit(tenant, what))
    }

    /// The quotas, with the requests that wait for events.
    pub(crate) fn quota_table(&self) -> &Arc<quota::Quotas> {
        &self.quotas
    }

    /// Identifies the caller by certificate, token or password.
    async fn authenticate(&self, parts: &Parts, source: Source) -> Result<Principal, LoginError> {
        if self.is_open {
            return Ok(Principal::anonymous());
        }
        if self.is_embedded {
            return parts
                .extensions
                .get()
                .cloned()
                .ok_or(LoginError::NoCredentials);
        }
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        if let Some(given) = header("authorization") {
            let (scheme, given) = given.split_once(' ').unwrap_or((given, ""));
            let given = given.trim();
            return match scheme.to_ascii_lowercase().as_str() {
                "bearer" => self.bearer(given).await,
                "basic" if !self.users.is_empty() => {
                    self.users.check(given, (source, &self.attempts)).await
                }
                _ => Err(LoginError::BadCredentials(format!(
                    "`Authorization: {}` is not an accepted login method",
                    cut(scheme, MAX_SCHEME_CHARS)
                ))),
            };
        }
        if let (Some(keystone), Some(token)) = (&self.keystone, header("x-auth-token")) {
            if let Some(known) = keystone.known(token) {
                return Ok(known);
            }
            self.attempts
                .check(source)
                .map_err(LoginError::TooManyAttempts)?;
            return keystone.check(token).await;
        }
        match parts.extensions.get() {
            Some(names) if !self.certificates.is_empty() => {
                certificates::check(&self.certificates, names)
            }
            _ => Err(LoginError::NoCredentials),
        }
    }

    async fn bearer(&self, given: &str) -> Result<Principal, LoginError> {
        if self
            .token
            .as_ref()
            .is_some_and(|token| is_same_secret(given, token))
        {
            return Ok(Principal::server_token());
        }
        match self
            .issuers
            .iter()
            .find(|issuer| issuer.is_issuer_of(given))
        {
            Some(issuer) => issuer.check(given).await,
            None => Err(LoginError::BadCredentials(
                "the bearer token is not accepted by this server".to_owned(),
            )),
        }
    }

    /// The response to a refused login.
    fn login_response(&self, refused: LoginError) -> Response {
        let (status, code, detail) = match refused {
            LoginError::TooManyAttempts(seconds) => return too_many("wrong logins", seconds),
            LoginError::NoCredentials => {
                let detail = format!("this server needs {}", self.login_methods().join(" or "));
                (StatusCode::UNAUTHORIZED, "request.unauthorized", detail)
            }
            LoginError::BadCredentials(detail) => {
                (StatusCode::UNAUTHORIZED, "request.unauthorized", detail)
            }
            LoginError::NoRole(detail) => (StatusCode::FORBIDDEN, "access.no-role", detail),
            LoginError::Unavailable(detail) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "access.unavailable",
                detail,
            ),
        };
        let mut response = Problem::new(status, code, detail).into_response();
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

    /// Counts a refused login for its address. Beyond the limit, attempts are rejected unchecked and not logged.
    fn count_refusal(&self, refused: LoginError, source: Source) -> LoginError {
        match refused {
            LoginError::TooManyAttempts(_) | LoginError::Unavailable(_) => refused,
            other => self
                .attempts
                .record_refusal(source)
                .map_or_else(LoginError::TooManyAttempts, |()| other),
        }
    }

    fn login_methods(&self) -> Vec<&'static str> {
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
                "`X-Auth-Token` with a Keystone token",
            ),
            (!self.certificates.is_empty(), "a client certificate"),
            (
                self.is_embedded,
                "a login at the application that embeds it",
            ),
        ]
        .into_iter()
        .filter_map(|(is_enabled, method)| is_enabled.then_some(method))
        .collect()
    }

    /// `WWW-Authenticate` (RFC 9110 11.6.1): one for each login method.
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

/// 429, with the seconds after which the client may try again.
fn too_many(subject: &str, seconds: u64) -> Response {
    let detail = format!("too many {subject}; try again in {seconds} s");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "access.rate", detail);
    let mut response = problem.into_response();
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// How many characters of an unknown scheme are quoted.
const MAX_SCHEME_CHARS: usize = 32;

/// Compares in a time that depends on nothing but the lengths.
fn is_same_secret(given: &str, expected: &Secret) -> bool {
    given.as_bytes().ct_eq(expected.reveal().as_bytes()).into()
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Self>().cloned();
        principal.ok_or_else(|| Problem::bug(&"a route is not behind `access::admit`"))
    }
}

/// The tenant of the caller.
pub(crate) struct Tenant(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Tenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Principal::from_request_parts(parts, state)
            .await
            .map(|principal| Self(principal.tenant))
    }
}
