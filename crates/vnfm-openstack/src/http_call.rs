//! One HTTP call as a value, and how it is sent.
//!
//! A [`Call`] knows its purpose (errors begin with it) and whether repeating it is harmless. Only then is a lost
//! response, a 502, 503 or 504 retried, with growing pauses. A connection that was never established is retried for
//! every call. `keystone_login.rs` obtains and renews the tokens.

use crate::errors::{ADDRESS, ANSWER, CERTIFICATE, NOT_FOUND, UNREACHABLE, truncate};
use crate::image_body::Image;
use crate::keystone_login::Cloud;
use crate::response::Reply;
use futures::future::{Either, select};
use jiff::SignedDuration;
use serde_json::Value;
use std::error::Error as _;
use std::pin::pin;
use std::time::Duration;
use vnfm_core::ports::{PortError, VimSlot};
use vnfm_outbound::{Client, Method, Policy, ReadError, header, is_forbidden, read};
use vnfm_types::Secret;

/// Timeout of one attempt: Heat responds after 60 s when its engine is dead.
const CALL_TIMEOUT: SignedDuration = SignedDuration::from_secs(70);
/// Timeout of an image upload.
const UPLOAD_TIMEOUT: SignedDuration = SignedDuration::from_mins(60);
/// Attempts per call, including the first.
const MAX_ATTEMPTS: u32 = 5;
/// The first pause between attempts; each further one is twice as long.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// In bytes. Servers answer a longer URL with 414 or close the connection, which looks like an outage.
const MAX_URL_LEN: usize = 8_000;

/// The media type of a response that is not JSON.
const TEXT: &str = "text/plain";

/// The body of a request.
#[derive(Clone)]
pub(crate) enum Body {
    None,
    Json(Value),
    Image(Image),
}

#[derive(Clone)]
pub(crate) struct Call {
    method: Method,
    /// The path below the service's URL, with its query.
    pub(crate) path: String,
    body: Body,
    /// The purpose: "create stack `x`".
    pub(crate) action: String,
    microversion: Option<&'static str>,
    version: Option<&'static str>,
    /// The expected media type of the response.
    accepts_type: &'static str,
    /// Statuses outside 2xx that the caller handles.
    accepted: &'static [u16],
    repeatable: bool,
}

impl Call {
    fn new(method: Method, path: String, body: Body, action: String) -> Self {
        let repeatable = method != Method::POST;
        let accepts_type = "application/json";
        Self {
            method,
            path,
            body,
            action,
            microversion: None,
            version: None,
            accepts_type,
            accepted: &[],
            repeatable,
        }
    }

    pub(crate) fn get(path: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(Method::GET, path.into(), Body::None, action.into())
    }

    pub(crate) fn post(path: impl Into<String>, body: Value, action: impl Into<String>) -> Self {
        Self::new(Method::POST, path.into(), Body::Json(body), action.into())
    }

    pub(crate) fn patch(path: impl Into<String>, body: Value, action: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path.into(), Body::Json(body), action.into())
    }

    pub(crate) fn put(path: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(Method::PUT, path.into(), Body::None, action.into())
    }

    pub(crate) fn put_json(
        path: impl Into<String>,
        body: Value,
        action: impl Into<String>,
    ) -> Self {
        Self::new(Method::PUT, path.into(), Body::Json(body), action.into())
    }

    pub(crate) fn put_image(path: String, image: Image, action: impl Into<String>) -> Self {
        Self::new(Method::PUT, path, Body::Image(image), action.into())
    }

    pub(crate) fn delete(path: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path.into(), Body::None, action.into())
    }

    /// Adds statuses outside 2xx that the caller handles itself.
    pub(crate) fn accepting(mut self, accepted: &'static [u16]) -> Self {
        self.accepted = accepted;
        self
    }

    /// Marks a POST as harmless to repeat.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Sets the version of Nova's API, such as `2.90`.
    pub(crate) fn microversion(mut self, version: &'static str) -> Self {
        self.microversion = Some(version);
        self
    }

    /// Sets the version of another service's API, such as `volume 3.40`.
    pub(crate) fn version(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }

    /// Expects text instead of JSON.
    pub(crate) fn expecting_text(mut self) -> Self {
        self.accepts_type = TEXT;
        self
    }

    /// Whether `status` is a success: 2xx or one that the caller accepts.
    pub(crate) fn accepts(&self, status: u16) -> bool {
        (200..300).contains(&status) || self.accepted.contains(&status)
    }
}

/// Sends `call` to `base` and retries transient failures, at most until the deadline of `cloud`. Each attempt occupies
/// a slot of the VIM.
pub(crate) async fn send(
    client: &Client,
    (base, token): (&str, Option<&Secret>),
    call: &Call,
    cloud: &Cloud<'_>,
) -> Result<Reply, PortError> {
    let Cloud {
        clock, deadline, ..
    } = *cloud;
    let url = format!("{base}{}", call.path);
    check_length(call, &url)?;
    let mut pause = FIRST_BACKOFF;
    for attempt in 1.. {
        let turn = turn(cloud, call).await?;
        let left = deadline.duration_since(clock.now());
        let outcome = send_once(client, &url, token, call, left).await;
        turn.ended(
            outcome
                .as_ref()
                .is_ok_and(|reply| call.accepts(reply.status)),
        );
        let again = match &outcome {
            Ok(reply) => call.repeatable && matches!(reply.status, 502..=504),
            Err(lost) => lost.is_transient(call.repeatable),
        };
        let time_left = left > SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
        if !(again && time_left && attempt < MAX_ATTEMPTS) {
            let is_exposed = cloud.vim.exposes_responses();
            let outcome = outcome.map(|reply| Reply {
                is_exposed,
                ..reply
            });
            return outcome.map_err(|lost| lost.to_port_error(call, &url, is_exposed));
        }
        tracing::debug!(%url, attempt, "no usable answer, trying again");
        clock.sleep(pause).await;
        pause *= 2;
    }
    unreachable!("the loop ends by returning")
}

/// Refuses a URL that services do not read. Only a name or an id from a request or a package makes one that long.
fn check_length(call: &Call, url: &str) -> Result<(), PortError> {
    if url.len() <= MAX_URL_LEN {
        return Ok(());
    }
    let detail = format!(
        "a name or an id is too long: the URL would have {} bytes, of at most {MAX_URL_LEN}",
        url.len()
    );
    Err(PortError::new(
        &NOT_FOUND,
        truncate(&call.action, 200),
        detail,
    ))
}

/// Waits for a slot of the VIM, at most until the deadline.
async fn turn(cloud: &Cloud<'_>, call: &Call) -> Result<VimSlot, PortError> {
    let left = cloud.deadline.duration_since(cloud.clock.now());
    let left = Duration::try_from(left).unwrap_or_default();
    match select(
        pin!(cloud.vim.acquire_slot(&call.action, cloud.watcher)),
        cloud.clock.sleep(left),
    )
    .await
    {
        Either::Left((turn, _)) => Ok(turn),
        Either::Right(_) => {
            let detail = format!(
                "its turn at VIM `{}` did not come in time",
                cloud.vim.name()
            );
            Err(PortError::new(&UNREACHABLE, &call.action, detail))
        }
    }
}

async fn send_once(
    client: &Client,
    url: &str,
    token: Option<&Secret>,
    call: &Call,
    left: SignedDuration,
) -> Result<Reply, SendError> {
    let longest = if matches!(call.body, Body::Image(_)) {
        UPLOAD_TIMEOUT
    } else {
        CALL_TIMEOUT
    };
    let limit = left
        .clamp(SignedDuration::from_secs(1), longest)
        .unsigned_abs();
    let request = client.request(call.method.clone(), url);
    let mut request = request
        .map_err(|reason| SendError::Forbidden(reason.to_string()))?
        .timeout(limit);
    if let Some(token) = token {
        request = request.header("X-Auth-Token", token.reveal());
    }
    if let Some(version) = call.microversion {
        request = request.header("X-OpenStack-Nova-API-Version", version);
    }
    if let Some(version) = call.version {
        request = request.header("OpenStack-API-Version", version);
    }
    request = match &call.body {
        Body::None => request,
        Body::Json(body) => request.json(body),
        Body::Image(image) => request
            .header("Content-Type", "application/octet-stream")
            .header("Content-Length", image.size)
            .body(image.body()),
    };
    let response = request
        .header(header::ACCEPT, call.accepts_type)
        .send()
        .await
        .map_err(SendError::Call)?;
    let status = response.status().as_u16();
    let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let request_id = header("x-openstack-request-id").or_else(|| header("x-compute-request-id"));
    let subject_token = header("x-subject-token").map(Secret::new);
    let bytes = read(response, &policy(call))
        .await
        .map_err(|error| match error {
            ReadError::Lost(error) => SendError::Call(error),
            error => SendError::Answer(error.to_string()),
        })?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Reply {
        status,
        request_id,
        body: parse_body(call, status, &text)?,
        text,
        subject_token,
        is_exposed: false,
    })
}

/// The body as JSON; null if it need not be JSON and is not.
fn parse_body(call: &Call, status: u16, text: &str) -> Result<Value, SendError> {
    match serde_json::from_str(text) {
        Ok(body) => Ok(body),
        Err(error) if is_json_expected(call, status, text) => {
            let detail = format!("the response is not JSON: {error}");
            Err(SendError::Answer(detail))
        }
        Err(_) => Ok(Value::Null),
    }
}

/// Whether a response must be JSON: a success with a body, unless the call accepts text.
fn is_json_expected(call: &Call, status: u16, text: &str) -> bool {
    call.accepts_type != TEXT && (200..300).contains(&status) && !text.trim().is_empty()
}

/// Text, such as a server's console, is not limited by its number of values.
fn policy(call: &Call) -> Policy {
    let values = if call.accepts_type == TEXT {
        u64::MAX
    } else {
        Policy::VIM.values
    };
    Policy {
        values,
        ..Policy::VIM
    }
}

/// A call without a response.
enum SendError {
    /// The address is not allowed.
    Forbidden(String),
    /// The connection failed, or broke before the end.
    Call(vnfm_outbound::Error),
    /// The response exceeds a limit, or is not JSON.
    Answer(String),
}

impl SendError {
    /// True if a retry may succeed.
    fn is_transient(&self, repeatable: bool) -> bool {
        match self {
            Self::Call(lost) => {
                let lasts = is_certificate_error(lost) || is_forbidden(lost);
                !lasts && (lost.is_connect() || repeatable)
            }
            Self::Forbidden(_) | Self::Answer(_) => false,
        }
    }

    /// The error for the caller of the operation; details of an unreachable address only if responses are exposed.
    fn to_port_error(&self, call: &Call, url: &str, is_exposed: bool) -> PortError {
        let address = url.split('?').next().unwrap_or(url);
        let (code, reason) = match self {
            Self::Forbidden(reason) => (&ADDRESS, reason.clone()),
            Self::Answer(reason) => (&ANSWER, reason.clone()),
            Self::Call(lost) if is_forbidden(lost) => (
                &ADDRESS,
                "its name leads to no address that is allowed".to_owned(),
            ),
            Self::Call(lost) if is_certificate_error(lost) => (&CERTIFICATE, causes(lost)),
            Self::Call(_) if !is_exposed => (&UNREACHABLE, "no answer".to_owned()),
            Self::Call(lost) if lost.is_timeout() => (&UNREACHABLE, "no answer in time".to_owned()),
            Self::Call(lost) => (&UNREACHABLE, causes(lost)),
        };
        PortError::new(code, &call.action, format!("`{address}`: {reason}"))
    }
}

fn is_certificate_error(lost: &vnfm_outbound::Error) -> bool {
    let causes = causes(lost);
    causes.contains("certificate") || causes.contains("UnknownIssuer")
}

/// The chain of causes without the error's first line, which would repeat the address.
fn causes(lost: &vnfm_outbound::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut source = lost.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if texts.last().is_none_or(|last| !last.contains(&text)) {
            texts.push(text);
        }
        source = cause.source();
    }
    if texts.is_empty() {
        "the connection failed".into()
    } else {
        texts.join(": ")
    }
}

/// `text`, percent-encoded as a part of a path or query.
pub(crate) fn encoded(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~');
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnfm_core::ports::ErrorKind;

    #[test]
    fn only_what_is_harmless_is_sent_twice() {
        assert!(Call::get("/a", "look").repeatable);
        assert!(Call::delete("/a", "delete").repeatable);
        assert!(!Call::post("/a", Value::Null, "make").repeatable);
    }

    #[test]
    fn a_caller_says_which_failures_it_reads_itself() {
        let call = Call::get("/a", "look").accepting(&[404]);
        assert!(call.accepts(200) && call.accepts(404));
        assert!(!call.accepts(500));
    }

    #[test]
    fn names_are_encoded() {
        assert_eq!(encoded("a b/c?d"), "a%20b%2Fc%3Fd");
    }

    #[test]
    fn a_url_that_is_too_long_is_refused_and_not_tried_again() {
        let id = "n".repeat(70_000);
        let call = Call::get(format!("/networks/{id}"), format!("find network `{id}`"));
        let error = check_length(&call, &call.path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        let text = error.to_string();
        assert!(
            text.contains("too long: the URL would have 70010 bytes"),
            "{text}"
        );
        assert!(
            text.len() < 1_000,
            "the name is cut in the message: {} bytes",
            text.len()
        );
        assert!(check_length(&Call::get("/networks", "list"), "http://vim/networks").is_ok());
    }
}
