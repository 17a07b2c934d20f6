//! Keystone tokens (`X-Auth-Token`, Identity API v3), as clients of Tacker send them. The server validates each token
//! at Keystone with its own login and caches the result for a configured time, at most until the token expires. Only a
//! digest of the token is stored.

use super::http_client;
use super::login_error::LoginError;
use super::principal::{Principal, RoleGrant};
use crate::settings_file;
use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::Clock;
use vnfm_outbound::{Client, Method, Policy, Response, StatusCode, Url, read as read_body};
use vnfm_types::Secret;

/// Default seconds for which a validation is cached.
const CACHE_SECONDS: u32 = 60;
/// Maximum number of cached tokens.
const MAX_CACHED: usize = 10_000;

/// `access.keystone`: which Keystone checks tokens, and what its roles mean.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Keystone")]
pub(crate) struct Settings {
    /// URL of the identity endpoint, including `/v3`.
    #[schemars(extend("format" = "http-url"))]
    pub endpoint: String,
    /// The server's user at Keystone; it must be allowed to validate tokens.
    pub user: String,
    /// Domain name of that user. Default: `Default`.
    pub user_domain: Option<String>,
    /// The project of the server's login.
    pub project: String,
    /// Domain name of that project. Default: `Default`.
    pub project_domain: Option<String>,
    /// File with the password of `user`.
    #[schemars(extend("format" = "file"))]
    pub password_file: PathBuf,
    /// PEM file of the CAs for Keystone's certificate; the system's CAs if absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
    /// Seconds for which a validation is cached; 0 disables the cache. Default: 60.
    pub cache_seconds: Option<u32>,
    /// Rules for roles; the first match decides.
    pub rules: Vec<Rule>,
}

/// A rule that maps a project and a role in Keystone to a role here.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KeystoneRule")]
pub(crate) struct Rule {
    /// Name or id of the token's project; any if absent.
    pub project: Option<String>,
    /// Name of a role of the user in that project; any if absent.
    pub role: Option<String>,
    /// Role and limits of the caller. Without a tenant, the tenant is the project's id.
    pub gets: RoleGrant,
}

/// Validates tokens at Keystone, and caches the results.
pub(crate) struct Keystone {
    settings: Settings,
    http: Client,
    tokens: Url,
    password: Secret,
    clock: Arc<dyn Clock>,
    own_token: tokio::sync::Mutex<Option<Secret>>,
    cache: Mutex<HashMap<[u8; 32], (Principal, Timestamp)>>,
}

/// Keystone's response about a token.
enum Validation {
    Valid(Box<Value>),
    /// Keystone rejects our own token.
    OwnTokenRejected,
    Unknown,
}

impl Keystone {
    /// As configured; contacts Keystone not yet.
    ///
    /// # Errors
    ///
    /// If the endpoint is not a URL or a file cannot be read.
    pub(crate) fn new(settings: Settings, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let root = settings.endpoint.trim_end_matches('/');
        let tokens = Url::parse(&format!("{root}/auth/tokens"));
        let tokens = tokens.with_context(|| format!("access.keystone: `{root}` is not a URL"))?;
        if settings.rules.is_empty() {
            bail!("access.keystone has no `rules`: its tokens would give no role");
        }
        for rule in &settings.rules {
            rule.gets
                .checked()
                .map_err(|error| anyhow::anyhow!("access.keystone: {error}"))?;
        }
        Ok(Self {
            http: http_client::client(settings.authorities_file.as_deref())
                .context("access.keystone")?,
            password: settings_file::password(&settings.password_file)
                .context("access.keystone")?,
            settings,
            tokens,
            clock,
            own_token: tokio::sync::Mutex::default(),
            cache: Mutex::default(),
        })
    }

    /// The endpoint where clients get tokens.
    pub(super) fn endpoint(&self) -> &str {
        &self.settings.endpoint
    }

    /// The principal of a cached token.
    pub(super) fn known(&self, token: &str) -> Option<Principal> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.now();
        let cache = self.cache();
        let (principal, _) = cache.get(&digest).filter(|(_, until)| now < *until)?;
        Some(principal.clone())
    }

    /// Validates a token and returns its principal.
    pub(super) async fn check(&self, token: &str) -> Result<Principal, LoginError> {
        if let Some(known) = self.known(token) {
            return Ok(known);
        }
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.now();
        let token_info = self.validate(token).await.map_err(|error| {
            tracing::warn!(
                error = format!("{error:#}"),
                "cannot validate a token at Keystone"
            );
            LoginError::Unavailable(
                "cannot validate the token at Keystone; see the server's log".to_owned(),
            )
        })?;
        let Some(token_info) = token_info else {
            return Err(LoginError::BadCredentials(
                "Keystone does not know the token, or it has expired".to_owned(),
            ));
        };
        let expires: Option<Timestamp> = token_info["expires_at"]
            .as_str()
            .and_then(|at| at.parse().ok());
        let expires = expires.unwrap_or(now);
        if expires <= now {
            return Err(LoginError::BadCredentials(
                "the token has expired".to_owned(),
            ));
        }
        let principal = self.principal(&token_info)?;
        let keep =
            SignedDuration::from_secs(self.settings.cache_seconds.unwrap_or(CACHE_SECONDS).into());
        self.remember(
            digest,
            principal.clone(),
            expires.min(now.saturating_add(keep).unwrap_or(now)),
        );
        Ok(principal)
    }

    /// Validates a token at Keystone; `None` if Keystone does not know it.
    async fn validate(&self, token: &str) -> anyhow::Result<Option<Value>> {
        for attempt in 0..2 {
            let own = self.own_token(attempt > 0).await?;
            let request = self.http.request(Method::GET, self.tokens.as_str())?;
            let request = request.header("x-auth-token", own.reveal());
            let response = request.header("x-subject-token", token).send().await?;
            match read(response).await? {
                Validation::Valid(token_info) => return Ok(Some(*token_info)),
                Validation::Unknown => return Ok(None),
                Validation::OwnTokenRejected => {}
            }
        }
        bail!("Keystone rejects the token that it has just issued to this server")
    }

    /// The server's own token; a new one if `renew`.
    async fn own_token(&self, renew: bool) -> anyhow::Result<Secret> {
        let mut own = self.own_token.lock().await;
        if let Some(token) = own.as_ref().filter(|_| !renew) {
            return Ok(token.clone());
        }
        let settings = &self.settings;
        let domain = |name: &Option<String>| json!({"name": name.as_deref().unwrap_or("Default")});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": settings.user,
                "domain": domain(&settings.user_domain),
                "password": self.password.reveal(),
            }}},
            "scope": {"project": {"name": settings.project, "domain": domain(&settings.project_domain)}},
        }});
        let response = self
            .http
            .request(Method::POST, self.tokens.as_str())?
            .json(&body)
            .send()
            .await?;
        let response = response
            .error_for_status()
            .context("Keystone refuses the server's own login")?;
        let token = response
            .headers()
            .get("x-subject-token")
            .and_then(|token| token.to_str().ok());
        let token = Secret::new(
            token.context("Keystone's response to the server's own login has no token")?,
        );
        *own = Some(token.clone());
        Ok(token)
    }

    /// Maps a valid token to a principal.
    fn principal(&self, token_info: &Value) -> Result<Principal, LoginError> {
        let text = |path: &str| token_info.pointer(path).and_then(Value::as_str);
        let name = text("/user/name").unwrap_or("unnamed");
        let Some(project) = text("/project/id") else {
            return Err(LoginError::NoRole(format!(
                "the token of `{name}` is not scoped to a project"
            )));
        };
        let is_project =
            |expected: &str| expected == project || text("/project/name") == Some(expected);
        let roles = token_info["roles"].as_array();
        let has = |expected: &str| {
            roles.is_some_and(|roles| roles.iter().any(|role| role["name"] == expected))
        };
        let matches = |rule: &&Rule| {
            rule.project.as_deref().is_none_or(is_project) && rule.role.as_deref().is_none_or(has)
        };
        match self.settings.rules.iter().find(matches) {
            Some(rule) => rule
                .gets
                .principal(name, "keystone", Some(project))
                .map_err(LoginError::NoRole),
            None => Err(LoginError::NoRole(format!(
                "no rule in the configuration matches `{name}` in the project `{}`",
                text("/project/name").unwrap_or(project)
            ))),
        }
    }

    fn remember(&self, digest: [u8; 32], principal: Principal, until: Timestamp) {
        let now = self.clock.now();
        let mut cache = self.cache();
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, (_, until)| now < *until);
        }
        if cache.len() < MAX_CACHED && now < until {
            cache.insert(digest, (principal, until));
        }
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Principal, Timestamp)>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(response: Response) -> anyhow::Result<Validation> {
    match response.status() {
        StatusCode::UNAUTHORIZED => Ok(Validation::OwnTokenRejected),
        StatusCode::NOT_FOUND => Ok(Validation::Unknown),
        _ => {
            let response = response
                .error_for_status()
                .context("Keystone refuses to validate the token")?;
            let bytes = read_body(response, &Policy::IDENTITY).await?;
            let mut token_info: Value =
                serde_json::from_slice(&bytes).context("Keystone's response is not JSON")?;
            Ok(Validation::Valid(Box::new(token_info["token"].take())))
        }
    }
}
