//! A client of the server that records every response that should not have been given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use vnfm_tests::planted::Planted;

/// Password of every user of the server.
pub(crate) const PASSWORD: &str = "planted-password-of-users-4f1b";
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest response body that is read, in bytes.
const MAX_BODY: u64 = 64 << 20;

/// Users and their tenants; the first one is the operator.
pub(crate) const USERS: &[(&str, &str)] = &[
    ("root", "default"),
    ("ann", "acme"),
    ("olga", "acme"),
    ("rita", "acme"),
    ("nina", "acme"),
    ("bob", "other"),
    ("beth", "other"),
    ("vera", "calm"),
    ("tina", "tiny"),
];

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) location: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, or null.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The last segment of `Location`.
    pub(crate) fn created_id(&self) -> Option<String> {
        let id = self.location.rsplit('/').next().unwrap_or_default();
        (!id.is_empty()).then(|| id.to_owned())
    }

    /// Whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

pub(crate) struct Clients {
    agent: ureq::Agent,
    url: String,
    notes: Mutex<Notes>,
    planted: Planted,
}

#[derive(Default)]
struct Notes {
    /// Created ids and their tenants.
    created: BTreeMap<String, String>,
    /// Foreign ids in a tenant's own requests, which its audit log repeats.
    named: BTreeSet<(&'static str, String)>,
    /// Violations that were found so far.
    found: Vec<String>,
}

/// A body, with its type.
pub(crate) type Body<'a> = (&'a str, &'a [u8]);

pub(crate) const JSON: &str = "application/json";
pub(crate) const PATCH: &str = "application/merge-patch+json";

/// The tenant of a user.
pub(crate) fn tenant(user: &str) -> &'static str {
    USERS
        .iter()
        .find(|(name, _)| *name == user)
        .map_or("", |(_, tenant)| tenant)
}

/// The header with which a user logs in.
pub(crate) fn login(user: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{PASSWORD}")))
}

impl Clients {
    /// Clients of the server at this address, whose responses must not contain planted secrets.
    pub(crate) fn new(url: &str, planted: Planted) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_global(Some(RESPONSE_TIMEOUT))
            .build();
        Self {
            agent: config.into(),
            url: url.to_owned(),
            notes: Mutex::new(Notes::default()),
            planted,
        }
    }

    /// Where the server listens, without the scheme.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Sends a request of a user, or without a login for the empty name.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) fn send(
        &self,
        user: &str,
        (method, path): (&str, &str),
        body: Option<Body<'_>>,
    ) -> Result<Response> {
        let login = login(user);
        let header = (!user.is_empty()).then_some(("authorization", login.as_str()));
        let answer = self.exchange(header, (method, path), body)?;
        self.judge(user, (method, path), body, &answer);
        Ok(answer)
    }

    /// Gets a page with this header; the status of the response.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) fn with_header(&self, header: (&str, &str), path: &str) -> Result<u16> {
        let answer = self.exchange(Some(header), ("GET", path), None)?;
        // The tenant is unknown here: only secrets and server errors are checked.
        self.judge("root", ("GET", path), None, &answer);
        Ok(answer.status)
    }

    fn exchange(
        &self,
        header: Option<(&str, &str)>,
        (method, path): (&str, &str),
        body: Option<Body<'_>>,
    ) -> Result<Response> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("version", "2.3.0");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        if let Some((kind, _)) = body {
            request = request.header("content-type", kind);
        }
        let bytes = body.map(|(_, bytes)| bytes.to_vec()).unwrap_or_default();
        let request = request
            .body(bytes)
            .with_context(|| format!("{method} {path}"))?;
        let began = Instant::now();
        let mut run = self.agent.run(request.clone());
        if method == "GET" && run.as_ref().is_err_and(was_reset) {
            // As every client does (RFC 9110 9.2.2): a server short of connections closes idle ones, and this one was not yet
            // known to be closed.
            run = self.agent.run(request);
        }
        let mut answer = run
            .with_context(|| format!("no answer to {method} {path} after {:?}", began.elapsed()))?;
        let location = answer
            .headers()
            .get("location")
            .and_then(|value| value.to_str().ok());
        let location = location.unwrap_or_default().to_owned();
        let status = answer.status().as_u16();
        let body_read = answer
            .body_mut()
            .with_config()
            .limit(MAX_BODY)
            .read_to_vec();
        let body_read = body_read.with_context(|| format!("the answer to {method} {path}"))?;
        Ok(Response {
            status,
            location,
            body: body_read,
        })
    }

    /// A request with a JSON body.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) fn json(
        &self,
        user: &str,
        (method, path): (&str, &str),
        body: &Value,
    ) -> Result<Response> {
        let kind = if method == "PATCH" { PATCH } else { JSON };
        self.send(
            user,
            (method, path),
            Some((kind, body.to_string().as_bytes())),
        )
    }

    /// Gets a page, which must exist.
    ///
    /// # Errors
    /// If the page does not exist.
    pub(crate) fn page(&self, user: &str, path: &str) -> Result<Value> {
        let answer = self.send(user, ("GET", path), None)?;
        if answer.status != 200 {
            bail!("GET {path} as {user}: {} {}", answer.status, answer.text());
        }
        Ok(answer.json())
    }

    /// Records violations in a response: server errors, secrets, and foreign ids.
    fn judge(
        &self,
        user: &str,
        (method, path): (&str, &str),
        body: Option<Body<'_>>,
        answer: &Response,
    ) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let caller = tenant(user);
        if answer.status == 201
            && let Some(id) = answer.created_id().filter(|id| id.len() == 36)
        {
            notes.created.insert(id, caller.to_owned());
        }
        let what = |why: &str| {
            let text: String = answer.text().chars().take(400).collect();
            format!(
                "{why}: {method} {path} as `{user}`: {} {text}",
                answer.status
            )
        };
        if answer.status >= 500 && !matches!(answer.status, 501 | 503 | 504 | 507) {
            notes
                .found
                .push(what("the server reports an internal error"));
        }
        let secrets = self.planted.within(&answer.body);
        if !secrets.is_empty() {
            notes
                .found
                .push(what(&format!("I6: {secrets:?} in a response")));
        }
        if caller == "default" {
            return;
        }
        let text = answer.text();
        let sent = body.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned());
        let sent = format!("{path} {}", sent.unwrap_or_default());
        if method != "GET" {
            let named = notes.created.keys().filter(|id| path.contains(id.as_str()));
            let named: Vec<_> = named.map(|id| (caller, id.clone())).collect();
            notes.named.extend(named);
        }
        let is_audit = path.starts_with("/vnfm/v1/audit");
        let foreign = notes.created.iter().find(|(id, owner)| {
            owner.as_str() != caller
                && owner.as_str() != "default"
                && text.contains(id.as_str())
                && !sent.contains(id.as_str())
                && !(is_audit && notes.named.contains(&(caller, (*id).clone())))
        });
        if let Some((id, owner)) = foreign {
            let why = format!("an answer names `{id}` of tenant `{owner}`");
            notes.found.push(what(&why));
        }
    }

    /// Violations since the last time.
    pub(crate) fn found(&self) -> Vec<String> {
        std::mem::take(
            &mut self
                .notes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .found,
        )
    }
}

/// Whether the connection was closed under a request.
fn was_reset(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionReset)
}
