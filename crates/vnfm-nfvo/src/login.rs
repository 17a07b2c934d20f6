//! How we log in at the NFVO and at subscribers (SOL013 8.3): not at all, with HTTP Basic, or with an OAuth 2.0 token;
//! in addition to any of these, with a client certificate.
//!
//! ```text
//!  request ─ valid token cached? ─ yes ─────────────────────────────► sent ─ 401? ─ drop it, once ─┐
//!                        └ no ─ token endpoint, with client and password ─► cached ─► sent ◄────────┘
//! ```
//! Tokens are cached only in memory. No credential is ever printed: passwords and tokens are [`Secret`]s, and of a
//! response of a token endpoint only the status is reported.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, PortError};
use vnfm_outbound::{
    Client, Error, Method, Policy, RequestBuilder, Response, StatusCode, error_chain, read,
};
use vnfm_types::Secret;

/// How to log in at a neighbour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Login {
    /// No credentials are sent at all.
    #[default]
    None,
    /// HTTP Basic, in every request.
    Basic {
        /// Name of the user there.
        user: String,
        /// Password of that user; `Debug` does not print it.
        password: Secret,
    },
    /// A bearer token of a token endpoint.
    Oauth2(ClientCredentials),
}

/// OAuth 2.0 client credentials (RFC 6749 4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// URL of the token endpoint.
    pub token_endpoint: String,
    /// The client's identifier at the token endpoint.
    pub client_id: String,
    /// Secret of the client; `Debug` does not print it.
    pub client_password: Secret,
}

/// The token endpoint rejected the client, or its response is invalid.
const NO_TOKEN: Code = Code {
    name: "nfvo.no-token",
    kind: Refused,
    means: "the token endpoint of the NFVO or a subscriber issued no token",
    next: "check the client's id and password, and the URL of the token endpoint",
};
/// The token endpoint is unreachable or has a temporary error.
const NO_TOKEN_NOW: Code = Code {
    name: "nfvo.no-token-now",
    kind: Unavailable,
    means: "the token endpoint of the NFVO or a subscriber is unavailable",
    next: "check that the token endpoint is running and reachable from this server",
};

/// All error codes of this file, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[&NO_TOKEN, &NO_TOKEN_NOW];

/// A token is renewed this long before it expires, or a tenth of its lifetime before if that is less.
const RENEWAL_MARGIN: SignedDuration = SignedDuration::from_secs(30);
/// Lifetime of a token without `expires_in`, in seconds.
const DEFAULT_LIFETIME: i64 = 300;
/// Longest lifetime of a token, in seconds; a longer `expires_in` is cut.
const MAX_LIFETIME: i64 = 24 * 3600;

struct Token {
    value: Secret,
    renewed_at: Timestamp,
    /// The client's password that the token was issued for: after a change of the password it is not used.
    password: Secret,
}

/// The response of a token endpoint (RFC 6749 5.1).
#[derive(Deserialize)]
struct TokenResponse {
    access_token: Secret,
    #[serde(default)]
    token_type: String,
    #[serde(default)]
    expires_in: Option<i64>,
}

/// Logs in, and caches tokens.
pub(crate) struct Logins {
    clock: Arc<dyn Clock>,
    /// By token endpoint and client.
    tokens: Mutex<HashMap<(String, String), Token>>,
}

impl Logins {
    /// Starts without tokens. A token endpoint must be at an address that the request's client may call.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            tokens: Mutex::default(),
        }
    }

    /// Sends the request that `request` builds, with credentials; after a 401 once more with a new token.
    ///
    /// # Errors
    ///
    /// The outer error is that of getting a token, the inner one that of the request itself.
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
        let result = request().bearer_auth(token.reveal()).send().await;
        if !result
            .as_ref()
            .is_ok_and(|response| response.status() == StatusCode::UNAUTHORIZED)
        {
            return Ok(result);
        }
        self.drop_token(credentials, &token);
        let token = self.token(client, credentials).await?;
        Ok(request().bearer_auth(token.reveal()).send().await)
    }

    async fn token(
        &self,
        client: &Client,
        credentials: &ClientCredentials,
    ) -> Result<Secret, PortError> {
        if let Some(cached) = self.cached(credentials) {
            return Ok(cached);
        }
        let (id, password) = (&credentials.client_id, &credentials.client_password);
        let action = format!("get a token for client `{id}`");
        let request = client.request(Method::POST, &credentials.token_endpoint);
        let request = request
            .map_err(|cause| PortError::new(&NO_TOKEN, action.clone(), cause.to_string()))?
            .basic_auth(id, Some(password.reveal()))
            .form(&[("grant_type", "client_credentials")]);
        let response = request
            .send()
            .await
            .map_err(|error| PortError::new(&NO_TOKEN_NOW, action.clone(), error_chain(&error)))?;
        let status = response.status();
        if !status.is_success() {
            let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
            let code = if later { &NO_TOKEN_NOW } else { &NO_TOKEN };
            let cause = format!("the token endpoint responded with {status}");
            return Err(PortError::new(code, action, cause));
        }
        // The response is not quoted in the error: it may contain a token.
        let bytes = read(response, &Policy::IDENTITY).await.unwrap_or_default();
        let token = serde_json::from_slice::<TokenResponse>(&bytes).ok();
        let is_bearer = |token: &TokenResponse| {
            token.token_type.is_empty() || token.token_type.eq_ignore_ascii_case("bearer")
        };
        let Some(token) = token.filter(is_bearer) else {
            let cause = "the response of the token endpoint is not a bearer token";
            return Err(PortError::new(&NO_TOKEN, action, cause));
        };
        self.cache(credentials, &token);
        Ok(token.access_token)
    }

    fn cached(&self, credentials: &ClientCredentials) -> Option<Secret> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.get(&key(credentials))?;
        let is_valid =
            token.password == credentials.client_password && self.clock.now() < token.renewed_at;
        is_valid.then(|| token.value.clone())
    }

    fn cache(&self, credentials: &ClientCredentials, response: &TokenResponse) {
        let lifetime = response
            .expires_in
            .unwrap_or(DEFAULT_LIFETIME)
            .clamp(0, MAX_LIFETIME);
        let margin = RENEWAL_MARGIN.min(SignedDuration::from_secs(lifetime / 10));
        let renewed_at = self.clock.now() + SignedDuration::from_secs(lifetime) - margin;
        let token = Token {
            value: response.access_token.clone(),
            renewed_at,
            password: credentials.client_password.clone(),
        };
        self.tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key(credentials), token);
    }

    /// Drops a rejected token, unless another task has already replaced it.
    fn drop_token(&self, credentials: &ClientCredentials, token: &Secret) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(credentials);
        if tokens
            .get(&key)
            .is_some_and(|cached| cached.value == *token)
        {
            tokens.remove(&key);
        }
    }
}

fn key(credentials: &ClientCredentials) -> (String, String) {
    (
        credentials.token_endpoint.clone(),
        credentials.client_id.clone(),
    )
}
