//! Requests for grants (SOL003 9.4): POST, and GET of a grant that is still pending.
//!
//! | response | meaning |
//! |---|---|
//! | 201, 200 to a GET | granted |
//! | 202 | pending; poll `Location`, which must be at the NFVO itself |
//! | 403 | rejected, with the NFVO's ProblemDetails |
//! | 404 to a GET | the NFVO lost the request: a new grant is requested |
//! | 408, 425, 429, 5xx, no response | retried later |
//! | anything else | a violation of SOL003; not retried |
//!
//! `Retry-After` of a 202, a 429 and a 5xx, in seconds or as a date, is passed on to the engine, which waits that long.
//!
//! The NFVO's address comes from the configuration, so any address is allowed; but redirects are not followed, and
//! `Location` must not lead to another server.

use crate::login::{Login, Logins};
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, GrantOutcome, Nfvo, PortError};
use vnfm_outbound::header::{HeaderMap, LOCATION, RETRY_AFTER};
use vnfm_outbound::{
    Client, Destinations, Method, Policy, ReadError, StatusCode, Tls, Url, error_chain,
    read as read_body, without_credentials,
};
use vnfm_types::{Grant, GrantRequest, GrantRequestLinks, Link, ProblemDetails};

/// The version of the API (SOL003 V3.7.1).
const VERSION: &str = "1.7.0";
/// Characters of each text of the NFVO's ProblemDetails that are kept.
const MAX_QUOTED_CHARS: usize = 2000;

/// The address, certificate or proxy in the configuration is invalid.
pub(crate) const CONFIGURATION: Code = Code::new(
    "nfvo.configuration",
    Refused,
    "the configuration of the NFVO is invalid",
    "correct `nfvo` in the configuration",
);
/// The NFVO cannot be reached, or the connection broke.
pub(crate) const UNREACHABLE: Code = Code::new(
    "nfvo.unreachable",
    Unavailable,
    "the NFVO is unreachable",
    "check that the NFVO is running and reachable from this server",
);
/// A temporary error of the NFVO (408, 425, 429, 5xx).
pub(crate) const FAILING: Code = Code::new(
    "nfvo.failing",
    Unavailable,
    "the NFVO is temporarily unable to process the request",
    "see the log of the NFVO",
);
/// 403: the NFVO does not permit the operation.
const REJECTED: Code = Code::new(
    "nfvo.grant-rejected",
    Refused,
    "the NFVO does not grant the operation; nothing was created",
    "ask the operator of the NFVO; its reason is in `detail`",
);
/// Another 4xx: the request itself was rejected.
const REFUSES: Code = Code::new(
    "nfvo.refuses",
    Refused,
    "the NFVO rejected the request for a grant; nothing was created",
    "check address and login in `nfvo` of the configuration; the NFVO's reason is in `detail`",
);
/// The response does not conform to SOL003.
const MALFORMED: Code = Code::new(
    "nfvo.malformed",
    Refused,
    "the NFVO's response does not conform to SOL003; nothing was created",
    "report it to the operator of the NFVO",
);

/// All error codes of this file, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[
    &CONFIGURATION,
    &UNREACHABLE,
    &FAILING,
    &REJECTED,
    &REFUSES,
    &MALFORMED,
];

/// Address of the NFVO, with everything needed to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfvoAddress {
    /// Base URL of the NFVO: the part before `/grant/v1` and `/vnfpkgm/v2`.
    pub endpoint: String,
    /// How to log in at the NFVO.
    pub login: Login,
    /// Trusted CA certificates, and our client certificate.
    pub tls: Tls,
    /// HTTP proxy for calls. `None` connects directly; proxies of the environment are ignored.
    pub proxy: Option<String>,
    /// Base URL of this server as seen by the NFVO, prepended to links.
    pub root: String,
    /// Timeout of one call, including its response.
    pub time: Duration,
}

/// HTTP client for the grant interface of an NFVO.
pub struct Grants {
    client: Client,
    logins: Logins,
    login: Login,
    resource: Url,
    root: String,
    clock: Arc<dyn Clock>,
}

impl Grants {
    /// A client for the NFVO at `address`; it does not connect yet.
    ///
    /// # Errors
    ///
    /// If the address is not a URL, or certificates cannot be read.
    pub fn new(address: NfvoAddress, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        let invalid = |cause: String| {
            let action = format!(
                "use the NFVO at `{}`",
                without_credentials(&address.endpoint)
            );
            PortError::new(&CONFIGURATION, action, cause)
        };
        let grants = format!("{}/grant/v1/grants", address.endpoint.trim_end_matches('/'));
        let anywhere = Destinations::anywhere();
        let check = |url: &str| {
            let checked = anywhere.check(url);
            checked.map_err(|error| invalid(error.to_string()))
        };
        let grants = check(&grants)?;
        if let Login::Oauth2(credentials) = &address.login {
            check(&credentials.token_endpoint)?;
        }
        let policy = Policy::NFVO.with_timeout(address.time);
        let proxy = address.proxy.as_deref();
        Ok(Self {
            client: Client::new(anywhere, policy, &address.tls, proxy).map_err(invalid)?,
            logins: Logins::new(clock.clone()),
            login: address.login,
            resource: grants,
            root: address.root.trim_end_matches('/').to_owned(),
            clock,
        })
    }

    async fn call(
        &self,
        url: &Url,
        body: Option<&GrantRequest>,
    ) -> Result<FullResponse, PortError> {
        let to = self.client.allowed(url.as_str());
        let to =
            to.map_err(|error| PortError::new(&CONFIGURATION, "call the NFVO", error.to_string()))?;
        let request = || match body {
            Some(body) => self.client.begin(Method::POST, &to).json(body),
            None => self.client.begin(Method::GET, &to),
        };
        let request = || {
            request()
                .header("version", VERSION)
                .header("accept", "application/json")
        };
        let sent = self.logins.send(&self.client, &self.login, request).await?;
        let action = if body.is_some() {
            "request a grant from the NFVO"
        } else {
            "poll a pending grant"
        };
        let response =
            sent.map_err(|error| PortError::new(&UNREACHABLE, action, error_chain(&error)))?;
        let status = response.status();
        let (location, retry_after) = (
            location(response.headers()),
            self.retry_after(response.headers()),
        );
        let bytes = read_body(response, self.client.policy()).await;
        let bytes = bytes
            .map_err(|error| PortError::new(read_error_code(&error), action, error.to_string()))?;
        Ok(FullResponse {
            action,
            status,
            location,
            retry_after,
            bytes: bytes.into(),
        })
    }

    /// `Retry-After` (RFC 9110 10.2.3): seconds, or a date.
    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let until = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Some(Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default())
    }

    /// A pending grant, whose `Location` must be at the NFVO itself.
    fn pending(&self, response: &FullResponse) -> Result<GrantOutcome, PortError> {
        let malformed = |cause: String| PortError::new(&MALFORMED, response.action, cause);
        let Some(location) = &response.location else {
            return Err(malformed("202 without `Location`".to_owned()));
        };
        let url = self.resource.join(location);
        let url = url.map_err(|_| malformed("202 with an invalid `Location`".to_owned()))?;
        if url.origin() != self.resource.origin() {
            let cause = format!(
                "`Location` leads away from the NFVO, to `{}`",
                without_credentials(url.as_str())
            );
            return Err(malformed(cause));
        }
        Ok(GrantOutcome::Pending(url.to_string(), response.retry_after))
    }
}

#[async_trait]
impl Nfvo for Grants {
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError> {
        let absolute = |link: &Link| Link {
            href: format!("{}{}", self.root, link.href),
        };
        let links = request.links.as_ref().map(|links| GrantRequestLinks {
            vnf_lcm_op_occ: absolute(&links.vnf_lcm_op_occ),
            vnf_instance: absolute(&links.vnf_instance),
        });
        let request = GrantRequest {
            links,
            ..request.clone()
        };
        let response = self.call(&self.resource, Some(&request)).await?;
        match response.status {
            StatusCode::CREATED => response.grant(),
            StatusCode::ACCEPTED => self.pending(&response),
            _ => Err(response.error()),
        }
    }

    async fn poll_grant(&self, location: &str) -> Result<GrantOutcome, PortError> {
        // If another NFVO is configured by now, a grant pending at the old one is lost.
        let Some(url) = Url::parse(location)
            .ok()
            .filter(|url| url.origin() == self.resource.origin())
        else {
            return Ok(GrantOutcome::UnknownLocation);
        };
        let response = self.call(&url, None).await?;
        match response.status {
            StatusCode::OK => response.grant(),
            StatusCode::ACCEPTED => Ok(GrantOutcome::Pending(
                location.to_owned(),
                response.retry_after,
            )),
            StatusCode::NOT_FOUND => Ok(GrantOutcome::UnknownLocation),
            _ => Err(response.error()),
        }
    }
}

/// The code for a body that could not be read completely.
fn read_error_code(error: &ReadError) -> &'static Code {
    if matches!(error, ReadError::Lost(_)) {
        &UNREACHABLE
    } else {
        &MALFORMED
    }
}

fn location(headers: &HeaderMap) -> Option<String> {
    let location = headers.get(LOCATION)?;
    location.to_str().ok().map(ToOwned::to_owned)
}

/// A response with its complete body, and the action that it belongs to.
struct FullResponse {
    action: &'static str,
    status: StatusCode,
    location: Option<String>,
    retry_after: Option<Duration>,
    bytes: Vec<u8>,
}

impl FullResponse {
    fn grant(&self) -> Result<GrantOutcome, PortError> {
        let grant: Grant = read(&self.bytes).map_err(|path| {
            let cause = format!(
                "the {} response is not a valid Grant: `{path}`",
                self.status
            );
            PortError::new(&MALFORMED, self.action, cause)
        })?;
        Ok(GrantOutcome::Granted(Box::new(grant)))
    }

    fn error(&self) -> PortError {
        let status = self.status;
        let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
        let code = match status {
            StatusCode::FORBIDDEN => &REJECTED,
            _ if later => &FAILING,
            _ if status.is_client_error() => &REFUSES,
            _ => &MALFORMED,
        };
        let problem = self.problem();
        let detail = if problem.detail.is_empty() {
            "no reason given".to_owned()
        } else {
            problem.detail.clone()
        };
        let error = PortError::new(
            code,
            self.action,
            format!("the NFVO responded with {status}: {detail}"),
        );
        let error = error.after(self.retry_after);
        if status.is_client_error() {
            error.with_problem(problem)
        } else {
            error
        }
    }

    /// The NFVO's ProblemDetails, with as many members as it sent.
    fn problem(&self) -> ProblemDetails {
        let body = problem_body(&self.bytes);
        let text = |name: &str| {
            let text = body.get(name)?.as_str()?;
            Some(text.chars().take(MAX_QUOTED_CHARS).collect::<String>())
        };
        let detail = text("detail").or_else(|| text("title")).unwrap_or_default();
        ProblemDetails {
            type_uri: text("type"),
            title: text("title"),
            instance: text("instance"),
            ..ProblemDetails::new(self.status.as_u16(), detail)
        }
    }
}

/// Parses a body. The error is the path of the invalid member, without its value, which may be a secret.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let missing = error.inner().to_string();
        let missing = missing
            .strip_prefix("missing field ")
            .and_then(|rest| rest.split('`').nth(1));
        match (error.path().to_string().as_str(), missing) {
            (".", Some(name)) => name.to_owned(),
            (path, Some(name)) => format!("{path}.{name}"),
            (".", None) => "(body)".to_owned(),
            (path, None) => path.to_owned(),
        }
    })
}

/// The members of a refusal; none if its body is not a JSON object, such as a proxy's page: it gives no reason then.
pub(crate) fn problem_body(bytes: &[u8]) -> Value {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(members)) => Value::Object(members),
        Ok(_) | Err(_) => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use vnfm_types::Grant;

    #[test]
    fn an_invalid_grant_is_reported_by_path_without_its_value() {
        for (body, path) in [
            (r#"{"id": "g", "vnfInstanceId": "i"}"#, "vnfLcmOpOccId"),
            (r#"{"id": {"password": "hunter2"}}"#, "id"),
            (
                r#"{"id": "g", "vnfInstanceId": "i", "vnfLcmOpOccId": "o", "zones": [{"id": "z"}]}"#,
                "zones[0].zoneId",
            ),
            ("hunter2", "(body)"),
            ("", "(body)"),
        ] {
            assert_eq!(read::<Grant>(body.as_bytes()).unwrap_err(), path, "{body}");
        }
    }
}
