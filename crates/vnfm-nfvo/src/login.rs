//! How we log in where we call (SOL013 8.3): not at all, with user and password, with a token of a token endpoint, and
//! beside any of them with a certificate of ours.
//!
//! ```text
//!  request ─ token known, and not about to end? ─ yes ──────────────► sent ─ 401? ─ forget it, once ─┐
//!                        └ no ─ token endpoint, with client and password ─► kept ─► sent ◄────────────┘
//! ```
//! A token is kept in memory alone. Nothing here is ever printed: clients, passwords and tokens are [`Secret`]s, and an
//! answer of a token endpoint is told by its status.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, PortError};
use vnfm_outbound::{
    Client, Error, Method, Policy, RequestBuilder, Response, StatusCode, read, words,
};
use vnfm_types::Secret;

/// A way to log in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Login {
    /// None.
    #[default]
    None,
    /// User and password with every request.
    Basic {
        /// The user.
        user: String,
        /// Its password.
        password: Secret,
    },
    /// A bearer token.
    Oauth2(ClientCredentials),
}

/// OAuth 2.0 client credentials (RFC 6749 4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// Who gives tokens.
    pub token_endpoint: String,
    /// The client.
    pub client_id: String,
    /// Its password.
    pub client_password: Secret,
}

/// No token was given.
const NO_TOKEN: Code = Code {
    name: "nfvo.no-token",
    kind: Refused,
    means: "the token endpoint of a neighbour gives us no token",
    next: "check the client's id and password, and the address of the token endpoint",
};
/// Nobody gives tokens now.
const NO_TOKEN_NOW: Code = Code {
    name: "nfvo.no-token-now",
    kind: Unavailable,
    means: "the token endpoint of a neighbour does not answer",
    next: "check that the token endpoint runs and can be reached from here",
};

/// All of them, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[&NO_TOKEN, &NO_TOKEN_NOW];

/// A token is renewed when it has less to live than a tenth of its life, and than this.
const SPARE: SignedDuration = SignedDuration::from_secs(30);
/// How long a token is used whose life is not said.
const UNSAID: i64 = 300;
/// The longest that is believed.
const LONGEST: i64 = 24 * 3600;

struct Token {
    value: Secret,
    renewed_at: Timestamp,
    of: Secret,
}

/// What a token endpoint answers (RFC 6749 5.1).
#[derive(Deserialize)]
struct Given {
    access_token: Secret,
    #[serde(default)]
    token_type: String,
    #[serde(default)]
    expires_in: Option<i64>,
}

/// Logs in, and keeps tokens.
pub(crate) struct Logins {
    clock: Arc<dyn Clock>,
    /// By token endpoint and client.
    tokens: Mutex<HashMap<(String, String), Token>>,
}

impl Logins {
    /// Logins without any token yet. Token endpoints lie where the client of a request may call.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            tokens: Mutex::default(),
        }
    }

    /// Sends what `request` builds, logged in; after a 401 once more with a new token.
    ///
    /// # Errors
    ///
    /// The inner one is that of the request itself; the outer one says that there is no token.
    pub(crate) async fn send(
        &self,
        client: &Client,
        login: &Login,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Result<Response, Error>, PortError> {
        let credentials = match login {
            Login::None => return Ok(request().send().await),
            Login::Basic { user, password } => {
                return Ok(request()
                    .basic_auth(user, Some(password.reveal()))
                    .send()
                    .await);
            }
            Login::Oauth2(credentials) => credentials,
        };
        let token = self.token(client, credentials).await?;
        let answer = request().bearer_auth(token.reveal()).send().await;
        if !answer
            .as_ref()
            .is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED)
        {
            return Ok(answer);
        }
        self.forget(credentials, &token);
        let token = self.token(client, credentials).await?;
        Ok(request().bearer_auth(token.reveal()).send().await)
    }

    async fn token(&self, client: &Client, of: &ClientCredentials) -> Result<Secret, PortError> {
        if let Some(known) = self.known(of) {
            return Ok(known);
        }
        let endpoint = &of.token_endpoint;
        let doing = format!("get a token for client `{}`", of.client_id);
        let request = client.request(Method::POST, endpoint);
        let request = request
            .map_err(|why| PortError::new(&NO_TOKEN, doing.clone(), why.to_string()))?
            .basic_auth(&of.client_id, Some(of.client_password.reveal()))
            .form(&[("grant_type", "client_credentials")]);
        let answer = request
            .send()
            .await
            .map_err(|error| PortError::new(&NO_TOKEN_NOW, doing.clone(), words(&error)))?;
        let status = answer.status();
        if !status.is_success() {
            let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
            let code = if later { &NO_TOKEN_NOW } else { &NO_TOKEN };
            let what = format!("the token endpoint answers {status}");
            return Err(PortError::new(code, doing, what));
        }
        // What is wrong with the answer is not told: it may be a token that stands there.
        let bytes = read(answer, &Policy::IDENTITY).await.unwrap_or_default();
        let given = serde_json::from_slice::<Given>(&bytes).ok();
        let bearer = |given: &Given| {
            given.token_type.is_empty() || given.token_type.eq_ignore_ascii_case("bearer")
        };
        let Some(given) = given.filter(bearer) else {
            let what = "the token endpoint answers with something else than a bearer token";
            return Err(PortError::new(&NO_TOKEN, doing, what));
        };
        self.keep(of, &given);
        Ok(given.access_token)
    }

    fn known(&self, of: &ClientCredentials) -> Option<Secret> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tokens.get(&key(of))?;
        let fits = known.of == of.client_password && self.clock.now() < known.renewed_at;
        fits.then(|| known.value.clone())
    }

    fn keep(&self, of: &ClientCredentials, given: &Given) {
        let life = given.expires_in.unwrap_or(UNSAID).clamp(0, LONGEST);
        let spare = SPARE.min(SignedDuration::from_secs(life / 10));
        let renewed_at = self.clock.now() + SignedDuration::from_secs(life) - spare;
        let value = given.access_token.clone();
        let token = Token {
            value,
            renewed_at,
            of: of.client_password.clone(),
        };
        self.tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key(of), token);
    }

    /// Somebody else may have renewed it meanwhile: that one stays.
    fn forget(&self, of: &ClientCredentials, token: &Secret) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens
            .get(&key(of))
            .is_some_and(|known| known.value == *token)
        {
            tokens.remove(&key(of));
        }
    }
}

fn key(of: &ClientCredentials) -> (String, String) {
    (of.token_endpoint.clone(), of.client_id.clone())
}
