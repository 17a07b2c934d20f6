//! Tokens of Keystone (`X-Auth-Token`, Identity API v3), as clients of Tacker send them. Each is shown to Keystone under a
//! login of our own and remembered for a time that is configured, at most until it ends. Nothing else is kept of it than a
//! digest.

use super::principal::{Gets, Principal};
use super::{Refused, outside, secret};
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
use vnfm_outbound::{Client, Method, Policy, Response, StatusCode, Url, read as read_whole};
use vnfm_types::Secret;

/// Seconds for which an answer is remembered, where nothing else is configured.
const CACHE: u32 = 60;
/// How many answers are remembered at most.
const MOST: usize = 10_000;

/// `access.keystone`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Keystone")]
pub struct Settings {
    /// Where it is, with `/v3`.
    #[schemars(extend("format" = "http-url"))]
    pub endpoint: String,
    /// Who we are there: a user who may look at tokens of others.
    pub user: String,
    /// The domain of that user, by name; `Default` where absent.
    pub user_domain: Option<String>,
    /// The project that we log in to.
    pub project: String,
    /// The domain of that project, by name; `Default` where absent.
    pub project_domain: Option<String>,
    /// File that holds the password.
    #[schemars(extend("format" = "file"))]
    pub password_file: PathBuf,
    /// PEM file of the authorities that its certificate may be of; those of the machine where absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
    /// Seconds for which its answer about a token is taken for good; 60 where absent, 0: it is asked each time.
    pub cache_seconds: Option<u32>,
    /// What a token is worth; the first that fits decides.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KeystoneRule")]
pub struct Rule {
    /// Name or id of the project that the token is for; where absent, any.
    pub project: Option<String>,
    /// Name of a role that the user has there; where absent, any.
    pub role: Option<String>,
    /// What the token is worth; where it names no tenant, that is the id of the project.
    pub gets: Gets,
}

/// The Keystone.
pub struct Keystone {
    settings: Settings,
    http: Client,
    tokens: Url,
    password: Secret,
    clock: Arc<dyn Clock>,
    own: tokio::sync::Mutex<Option<Secret>>,
    seen: Mutex<HashMap<[u8; 32], (Principal, Timestamp)>>,
}

/// What Keystone says of a token.
enum Said {
    Of(Box<Value>),
    NotOurs,
    NoToken,
}

impl Keystone {
    /// As configured; nothing is asked yet.
    ///
    /// # Errors
    ///
    /// Where the endpoint is no URL or a file cannot be read.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let root = settings.endpoint.trim_end_matches('/');
        let tokens = Url::parse(&format!("{root}/auth/tokens"));
        let tokens = tokens.with_context(|| format!("access.keystone: `{root}` is no URL"))?;
        if settings.rules.is_empty() {
            bail!("access.keystone has no `rules`: its tokens would be worth nothing");
        }
        for rule in &settings.rules {
            rule.gets
                .checked()
                .map_err(|why| anyhow::anyhow!("access.keystone: {why}"))?;
        }
        Ok(Self {
            http: outside::client(settings.authorities_file.as_deref())
                .context("access.keystone")?,
            password: secret(&settings.password_file).context("access.keystone")?,
            settings,
            tokens,
            clock,
            own: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
        })
    }

    /// Where clients get tokens.
    pub(super) fn endpoint(&self) -> &str {
        &self.settings.endpoint
    }

    /// Whoever a token is of that Keystone was asked about lately.
    pub(super) fn known(&self, token: &str) -> Option<Principal> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.now();
        let seen = self.seen();
        let (principal, _) = seen.get(&digest).filter(|(_, until)| now < *until)?;
        Some(principal.clone())
    }

    /// Whoever the token is of.
    pub(super) async fn check(&self, token: &str) -> Result<Principal, Refused> {
        if let Some(known) = self.known(token) {
            return Ok(known);
        }
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.now();
        let shown = self.show(token).await.map_err(|error| {
            tracing::warn!(
                error = format!("{error:#}"),
                "cannot ask Keystone about a token"
            );
            Refused::Unavailable(
                "Keystone cannot be asked about the token; the server's log says why".to_owned(),
            )
        })?;
        let Some(shown) = shown else {
            return Err(Refused::Wrong(
                "Keystone does not know the token, or it has ended".to_owned(),
            ));
        };
        let ends: Option<Timestamp> = shown["expires_at"].as_str().and_then(|at| at.parse().ok());
        let ends = ends.unwrap_or(now);
        if ends <= now {
            return Err(Refused::Wrong("the token has ended".to_owned()));
        }
        let principal = self.worth(&shown)?;
        let keep = SignedDuration::from_secs(self.settings.cache_seconds.unwrap_or(CACHE).into());
        self.remember(
            digest,
            principal.clone(),
            ends.min(now.saturating_add(keep).unwrap_or(now)),
        );
        Ok(principal)
    }

    /// What Keystone says of a token; `None` where it knows none.
    async fn show(&self, token: &str) -> anyhow::Result<Option<Value>> {
        for attempt in 0..2 {
            let own = self.own_token(attempt > 0).await?;
            let request = self.http.request(Method::GET, self.tokens.as_str())?;
            let request = request.header("x-auth-token", own.reveal());
            let answer = request.header("x-subject-token", token).send().await?;
            match read(answer).await? {
                Said::Of(shown) => return Ok(Some(*shown)),
                Said::NoToken => return Ok(None),
                Said::NotOurs => {}
            }
        }
        bail!("it does not take the token that it has just given us")
    }

    /// The token that we ask with; a new one where the last one is not taken any more.
    async fn own_token(&self, anew: bool) -> anyhow::Result<Secret> {
        let mut own = self.own.lock().await;
        if let Some(token) = own.as_ref().filter(|_| !anew) {
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
        let answer = self
            .http
            .request(Method::POST, self.tokens.as_str())?
            .json(&body)
            .send()
            .await?;
        let answer = answer
            .error_for_status()
            .context("our own login is refused")?;
        let token = answer
            .headers()
            .get("x-subject-token")
            .and_then(|token| token.to_str().ok());
        let token = Secret::new(token.context("our own login is answered without a token")?);
        *own = Some(token.clone());
        Ok(token)
    }

    /// What a token is worth.
    fn worth(&self, shown: &Value) -> Result<Principal, Refused> {
        let text = |path: &str| shown.pointer(path).and_then(Value::as_str);
        let name = text("/user/name").unwrap_or("without a name");
        let Some(project) = text("/project/id") else {
            return Err(Refused::NoRole(format!(
                "the token of `{name}` is for no project"
            )));
        };
        let is_project = |wanted: &str| wanted == project || text("/project/name") == Some(wanted);
        let roles = shown["roles"].as_array();
        let has = |wanted: &str| {
            roles.is_some_and(|roles| roles.iter().any(|role| role["name"] == wanted))
        };
        let fits = |rule: &&Rule| {
            rule.project.as_deref().is_none_or(is_project) && rule.role.as_deref().is_none_or(has)
        };
        match self.settings.rules.iter().find(fits) {
            Some(rule) => rule
                .gets
                .principal(name, "keystone", Some(project))
                .map_err(Refused::NoRole),
            None => Err(Refused::NoRole(format!(
                "no rule of the configuration fits `{name}` in the project `{}`",
                text("/project/name").unwrap_or(project)
            ))),
        }
    }

    fn remember(&self, digest: [u8; 32], principal: Principal, until: Timestamp) {
        let now = self.clock.now();
        let mut seen = self.seen();
        if seen.len() >= MOST {
            seen.retain(|_, (_, until)| now < *until);
        }
        if seen.len() < MOST && now < until {
            seen.insert(digest, (principal, until));
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Principal, Timestamp)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(answer: Response) -> anyhow::Result<Said> {
    match answer.status() {
        StatusCode::UNAUTHORIZED => Ok(Said::NotOurs),
        StatusCode::NOT_FOUND => Ok(Said::NoToken),
        _ => {
            let answer = answer
                .error_for_status()
                .context("it does not show us the token")?;
            let bytes = read_whole(answer, &Policy::IDENTITY).await?;
            let mut shown: Value =
                serde_json::from_slice(&bytes).context("its answer is no JSON")?;
            Ok(Said::Of(Box::new(shown["token"].take())))
        }
    }
}
