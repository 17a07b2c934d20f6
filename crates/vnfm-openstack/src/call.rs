//! One HTTP call as a value, and the sending of it.
//!
//! A [`Call`] knows what it is for (errors begin with it) and whether sending it twice is harmless: only then
//! an answer that got lost, a 502, 503 or 504 is tried again, with growing pauses. A connection that was
//! never made is tried again for every call. Tokens and their renewal are not here but in `session.rs`.

use crate::errors::{ADDRESS, ANSWER, CERTIFICATE, NOT_FOUND, UNREACHABLE, truncate};
use crate::image_body::Image;
use crate::session::Cloud;
use futures::future::{Either, select};
use jiff::SignedDuration;
use serde_json::Value;
use std::error::Error as _;
use std::pin::pin;
use std::time::Duration;
use vnfm_core::ports::{PortError, VimSlot};
use vnfm_outbound::{Client, Method, Policy, ReadError, header, is_forbidden, read};
use vnfm_types::Secret;

/// The longest that one try may take: Heat answers after 60 s when its engine is dead.
const CALL_TIMEOUT: SignedDuration = SignedDuration::from_secs(70);
/// How long bytes of an image may take.
const UPLOAD_TIMEOUT: SignedDuration = SignedDuration::from_mins(60);
/// Tries of one call.
const MAX_ATTEMPTS: u32 = 5;
/// The first pause between tries; each is twice the one before.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// The longest URL, in bytes: servers answer a longer one with 414, or close the connection, which looks like an outage.
const MAX_URL_LEN: usize = 8_000;

/// The type of an answer that is no JSON.
const TEXT: &str = "text/plain";

/// What is sent with a call.
#[derive(Clone)]
pub(crate) enum Body {
    /// Nothing.
    None,
    /// JSON.
    Json(Value),
    /// An image.
    Image(Image),
}

/// One call to a service.
#[derive(Clone)]
pub(crate) struct Call {
    method: Method,
    /// Below the service's URL, with its query.
    pub(crate) path: String,
    body: Body,
    /// What it is for: "create stack `x`".
    pub(crate) action: String,
    microversion: Option<&'static str>,
    /// The type of the answer.
    accepts_type: &'static str,
    /// Statuses that are no success but an answer.
    accepted: &'static [u16],
    repeatable: bool,
}

/// An answer, read to its end.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) request_id: Option<String>,
    /// The body as JSON; null where it is none.
    pub(crate) body: Value,
    /// The body as it came.
    pub(crate) text: String,
    /// `X-Subject-Token`, which only Keystone sends.
    pub(crate) subject_token: Option<Secret>,
    /// Whether whoever caused the call may read what was answered.
    pub(crate) is_exposed: bool,
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

    pub(crate) fn put_image(path: String, image: Image, action: impl Into<String>) -> Self {
        Self::new(Method::PUT, path, Body::Image(image), action.into())
    }

    pub(crate) fn delete(path: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path.into(), Body::None, action.into())
    }

    /// Statuses that the caller reads itself.
    pub(crate) fn accepting(mut self, accepted: &'static [u16]) -> Self {
        self.accepted = accepted;
        self
    }

    /// Sending it twice is harmless although it is a POST.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Nova's API version.
    pub(crate) fn microversion(mut self, version: &'static str) -> Self {
        self.microversion = Some(version);
        self
    }

    /// The answer is text and no JSON.
    pub(crate) fn expecting_text(mut self) -> Self {
        self.accepts_type = TEXT;
        self
    }

    /// True where the caller wants to see such an answer.
    pub(crate) fn accepts(&self, status: u16) -> bool {
        (200..300).contains(&status) || self.accepted.contains(&status)
    }
}

/// Sends `call` to `base` until there is an answer worth reading, at most until the deadline of `cloud`; each try
/// during a turn at the VIM.
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
            return outcome.map_err(|lost| lost.into_port_error(call, &url, is_exposed));
        }
        tracing::debug!(%url, attempt, "no usable answer, trying again");
        clock.sleep(pause).await;
        pause *= 2;
    }
    unreachable!("the loop ends by returning")
}

/// Refuses a URL that no service reads. Only a name or an id out of a request or a package makes one that long.
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

/// The VIM's turn for a call, which has to come before the deadline.
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
        .map_err(|why| SendError::Forbidden(why.to_string()))?
        .timeout(limit);
    if let Some(token) = token {
        request = request.header("X-Auth-Token", token.reveal());
    }
    if let Some(version) = call.microversion {
        request = request.header("X-OpenStack-Nova-API-Version", version);
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
    let body = serde_json::from_str(&text).unwrap_or_default();
    Ok(Reply {
        status,
        request_id,
        body,
        text,
        subject_token,
        is_exposed: false,
    })
}

/// Text, such as a server's console, has no values to be counted.
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

/// Why a call has no answer.
enum SendError {
    /// It must not go there.
    Forbidden(String),
    /// Nobody answered, or not to the end.
    Call(vnfm_outbound::Error),
    /// The answer is larger than is read.
    Answer(String),
}

impl SendError {
    /// Whether another try may bring an answer.
    fn is_transient(&self, repeatable: bool) -> bool {
        match self {
            Self::Call(lost) => {
                let lasts = is_certificate_error(lost) || is_forbidden(lost);
                !lasts && (lost.is_connect() || repeatable)
            }
            Self::Forbidden(_) | Self::Answer(_) => false,
        }
    }

    /// The same for whoever caused the call; what answers at an address, and how, is told only where that is shown.
    fn into_port_error(&self, call: &Call, url: &str, is_exposed: bool) -> PortError {
        let address = url.split('?').next().unwrap_or(url);
        let (code, why) = match self {
            Self::Forbidden(why) => (&ADDRESS, why.clone()),
            Self::Answer(why) => (&ANSWER, why.clone()),
            Self::Call(lost) if is_forbidden(lost) => (
                &ADDRESS,
                "its name leads to no address that is allowed".to_owned(),
            ),
            Self::Call(lost) if is_certificate_error(lost) => (&CERTIFICATE, causes(lost)),
            Self::Call(_) if !is_exposed => (&UNREACHABLE, "no answer".to_owned()),
            Self::Call(lost) if lost.is_timeout() => (&UNREACHABLE, "no answer in time".to_owned()),
            Self::Call(lost) => (&UNREACHABLE, causes(lost)),
        };
        PortError::new(code, &call.action, format!("`{address}`: {why}"))
    }
}

fn is_certificate_error(lost: &vnfm_outbound::Error) -> bool {
    let causes = causes(lost);
    causes.contains("certificate") || causes.contains("UnknownIssuer")
}

/// The causes behind an error, without its first line, which would repeat the address.
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

/// `text` as a part of a path or query.
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
