//! Requests for grants (SOL003 9.4): POST, and GET of what was not decided at once.
//!
//! | answer | means |
//! |---|---|
//! | 201, 200 to a GET | granted |
//! | 202 | not yet; `Location` says where to look, and is at the NFVO itself |
//! | 403 | rejected, with the NFVO's ProblemDetails |
//! | 404 to a GET | forgotten: asked for anew |
//! | 408, 425, 429, 5xx, no answer | tried again later |
//! | anything else | not what the standard says; nothing is tried again |
//!
//! `Retry-After` of a 202, a 429 and a 5xx, in seconds or as a date, is handed on: nothing is asked before that.
//!
//! The NFVO's address comes from the configuration, so it may lie anywhere; but no redirect is followed, and no
//! `Location` leads to another server.

use crate::code;
use crate::login::{Login, Logins};
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, GrantAnswer, Nfvo, PortError};
use vnfm_outbound::header::{HeaderMap, LOCATION, RETRY_AFTER};
use vnfm_outbound::{
    Client, Destinations, Method, Policy, ReadError, StatusCode, Tls, Url, read as read_whole,
    shown, words,
};
use vnfm_types::{Grant, GrantRequest, GrantRequestLinks, Link, ProblemDetails};

/// The version of the API (SOL003 V3.7.1).
const VERSION: &str = "1.7.0";
/// How much of the NFVO's words is repeated.
const LONGEST_WORDS: usize = 2000;

/// The configuration is wrong.
pub(crate) const CONFIGURATION: Code = code(
    "nfvo.configuration",
    Refused,
    "the NFVO cannot be called as it is configured",
    "correct `nfvo` in the configuration",
);
/// Nobody answers.
pub(crate) const UNREACHABLE: Code = code(
    "nfvo.unreachable",
    Unavailable,
    "the NFVO does not answer",
    "check that the NFVO runs and can be reached from here",
);
/// It answers that it cannot now.
pub(crate) const FAILING: Code = code(
    "nfvo.failing",
    Unavailable,
    "the NFVO answers that it cannot now",
    "look into the log of the NFVO",
);
/// It rejects the operation.
const REJECTED: Code = code(
    "nfvo.grant-rejected",
    Refused,
    "the NFVO does not grant the operation; nothing was made",
    "ask whoever runs the NFVO; its reason is in `detail`",
);
/// It does not take the request.
const REFUSES: Code = code(
    "nfvo.refuses",
    Refused,
    "the NFVO does not take the request for a grant; nothing was made",
    "check address and login in `nfvo` of the configuration; its reason is in `detail`",
);
/// Its answer is not what the standard says.
const MALFORMED: Code = code(
    "nfvo.malformed",
    Refused,
    "the NFVO's answer is not what SOL003 says; nothing was made",
    "report it to whoever runs the NFVO",
);

/// All of them, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[
    &CONFIGURATION,
    &UNREACHABLE,
    &FAILING,
    &REJECTED,
    &REFUSES,
    &MALFORMED,
];

/// Where the NFVO is, and who we are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfvoAddress {
    /// What stands before `/grant/v1` and `/vnfpkgm/v2`.
    pub endpoint: String,
    /// How we log in.
    pub login: Login,
    /// How TLS is spoken.
    pub tls: Tls,
    /// The HTTP proxy that calls go through; none where absent, whatever the environment says.
    pub proxy: Option<String>,
    /// Where this server is for the NFVO: how links begin.
    pub root: String,
    /// How long a call may take.
    pub time: Duration,
}

/// An NFVO behind HTTP.
pub struct Grants {
    client: Client,
    logins: Logins,
    login: Login,
    resource: Url,
    root: String,
    clock: Arc<dyn Clock>,
}

impl Grants {
    /// The NFVO at `address`; nothing is called yet.
    ///
    /// # Errors
    ///
    /// Where the address is no URL, or certificates cannot be read.
    pub fn new(address: NfvoAddress, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        let wrong = |why: String| {
            let doing = format!("use the NFVO at `{}`", shown(&address.endpoint));
            PortError::new(&CONFIGURATION, doing, why)
        };
        let grants = format!("{}/grant/v1/grants", address.endpoint.trim_end_matches('/'));
        let anywhere = Destinations::anywhere();
        let check = |url: &str| anywhere.check(url).map_err(|why| wrong(why.to_string()));
        let grants = check(&grants)?;
        if let Login::Oauth2(credentials) = &address.login {
            check(&credentials.token_endpoint)?;
        }
        let policy = Policy::NFVO.taking(address.time);
        let proxy = address.proxy.as_deref();
        Ok(Self {
            client: Client::new(anywhere, policy, &address.tls, proxy).map_err(wrong)?,
            logins: Logins::new(clock.clone()),
            login: address.login,
            resource: grants,
            root: address.root.trim_end_matches('/').to_owned(),
            clock,
        })
    }

    async fn call(&self, url: &Url, body: Option<&GrantRequest>) -> Result<Answer, PortError> {
        let to = self.client.allowed(url.as_str());
        let to =
            to.map_err(|why| PortError::new(&CONFIGURATION, "call the NFVO", why.to_string()))?;
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
        let doing = if body.is_some() {
            "ask the NFVO for a grant"
        } else {
            "look for a grant"
        };
        let response = sent.map_err(|error| PortError::new(&UNREACHABLE, doing, words(&error)))?;
        let status = response.status();
        let (place, after) = (
            place(response.headers()),
            self.retry_after(response.headers()),
        );
        let bytes = read_whole(response, self.client.policy()).await;
        let bytes =
            bytes.map_err(|error| PortError::new(unread(&error), doing, error.to_string()))?;
        Ok(Answer {
            doing,
            status,
            place,
            after,
            bytes: bytes.into(),
        })
    }

    /// `Retry-After` (RFC 9110 10.2.3): seconds, or a date.
    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let said = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = said.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let until = jiff::fmt::rfc2822::parse(said).ok()?.timestamp();
        Some(Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default())
    }

    /// A place to look at, which has to be at the NFVO itself.
    fn at_nfvo(&self, answer: &Answer) -> Result<GrantAnswer, PortError> {
        let malformed = |what: String| PortError::new(&MALFORMED, answer.doing, what);
        let Some(place) = &answer.place else {
            return Err(malformed("202 without `Location`".to_owned()));
        };
        let url = self.resource.join(place);
        let url = url.map_err(|_| malformed("202 with a `Location` that is no URL".to_owned()))?;
        if url.origin() != self.resource.origin() {
            let what = format!(
                "`Location` leads away from the NFVO, to `{}`",
                shown(url.as_str())
            );
            return Err(malformed(what));
        }
        Ok(GrantAnswer::Later(url.to_string(), answer.after))
    }
}

#[async_trait]
impl Nfvo for Grants {
    async fn ask(&self, request: &GrantRequest) -> Result<GrantAnswer, PortError> {
        let below = |link: &Link| Link {
            href: format!("{}{}", self.root, link.href),
        };
        let links = request.links.as_ref().map(|links| GrantRequestLinks {
            vnf_lcm_op_occ: below(&links.vnf_lcm_op_occ),
            vnf_instance: below(&links.vnf_instance),
        });
        let request = GrantRequest {
            links,
            ..request.clone()
        };
        let answer = self.call(&self.resource, Some(&request)).await?;
        match answer.status {
            StatusCode::CREATED => answer.grant(),
            StatusCode::ACCEPTED => self.at_nfvo(&answer),
            _ => Err(answer.refusal()),
        }
    }

    async fn look(&self, place: &str) -> Result<GrantAnswer, PortError> {
        // The NFVO may be configured elsewhere by now: what was promised at another server is forgotten.
        let Some(url) = Url::parse(place)
            .ok()
            .filter(|url| url.origin() == self.resource.origin())
        else {
            return Ok(GrantAnswer::Forgotten);
        };
        let answer = self.call(&url, None).await?;
        match answer.status {
            StatusCode::OK => answer.grant(),
            StatusCode::ACCEPTED => Ok(GrantAnswer::Later(place.to_owned(), answer.after)),
            StatusCode::NOT_FOUND => Ok(GrantAnswer::Forgotten),
            _ => Err(answer.refusal()),
        }
    }
}

/// What an answer means that cannot be read to its end.
pub(crate) fn unread(error: &ReadError) -> &'static Code {
    if matches!(error, ReadError::Lost(_)) {
        &UNREACHABLE
    } else {
        &MALFORMED
    }
}

fn place(headers: &HeaderMap) -> Option<String> {
    let place = headers.get(LOCATION)?;
    place.to_str().ok().map(ToOwned::to_owned)
}

/// An answer, read to its end.
struct Answer {
    doing: &'static str,
    status: StatusCode,
    place: Option<String>,
    after: Option<Duration>,
    bytes: Vec<u8>,
}

impl Answer {
    fn grant(&self) -> Result<GrantAnswer, PortError> {
        let grant: Grant = read(&self.bytes).map_err(|place| {
            let what = format!("the answer {} is no Grant: `{place}`", self.status);
            PortError::new(&MALFORMED, self.doing, what)
        })?;
        Ok(GrantAnswer::Granted(Box::new(grant)))
    }

    fn refusal(&self) -> PortError {
        let status = self.status;
        let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
        let code = match status {
            StatusCode::FORBIDDEN => &REJECTED,
            _ if later => &FAILING,
            _ if status.is_client_error() => &REFUSES,
            _ => &MALFORMED,
        };
        let problem = self.problem();
        let words = if problem.detail.is_empty() {
            "it gives no reason".to_owned()
        } else {
            problem.detail.clone()
        };
        let error = PortError::new(
            code,
            self.doing,
            format!("the NFVO answers {status}: {words}"),
        );
        let error = error.after(self.after);
        if status.is_client_error() {
            error.told(problem)
        } else {
            error
        }
    }

    /// The NFVO's ProblemDetails, as far as it has brought any.
    fn problem(&self) -> ProblemDetails {
        let body: Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
        let text = |name: &str| {
            let text = body.get(name)?.as_str()?;
            Some(text.chars().take(LONGEST_WORDS).collect::<String>())
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

/// A body, or the place where it is not as it should be. What stands there is not told: it may be a secret.
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
            (".", None) => "the whole body".to_owned(),
            (path, None) => path.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::read;
    use vnfm_types::Grant;

    #[test]
    fn what_is_wrong_with_a_grant_is_told_by_its_place_alone() {
        for (body, place) in [
            (r#"{"id": "g", "vnfInstanceId": "i"}"#, "vnfLcmOpOccId"),
            (r#"{"id": {"password": "hunter2"}}"#, "id"),
            (
                r#"{"id": "g", "vnfInstanceId": "i", "vnfLcmOpOccId": "o", "zones": [{"id": "z"}]}"#,
                "zones[0].zoneId",
            ),
            ("hunter2", "the whole body"),
            ("", "the whole body"),
        ] {
            assert_eq!(read::<Grant>(body.as_bytes()).unwrap_err(), place, "{body}");
        }
    }
}
