//! The one place that knows status codes: every refusal and every bad request becomes `ProblemDetails` here
//! (SOL013 6.3), `application/problem+json`.
//!
//! | [`Why`] | status |
//! |---|---|
//! | `NotFound` | 404 |
//! | `Conflict` | 409 |
//! | `Stale` | 412 |
//! | `Unprocessable` | 422 |
//! | `UsedUp` | 403 |
//! | `Unavailable` | 503 |
//! | `Broken` | 500, without inner text |

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use vnfm_core::ports::StoreError;
use vnfm_core::{Refusal, Why};
use vnfm_nfvo::download::NOT_WRITTEN;
use vnfm_types::ProblemDetails;

/// An answer that says no.
#[derive(Debug, Clone)]
pub struct Problem(Box<ProblemDetails>);

/// The code of a problem, beside its answer: for what is said of some of them in headers.
#[derive(Debug, Clone)]
pub struct Named(pub String);

/// What a handler returns.
pub type Answer<T = Response> = Result<T, Problem>;

/// Where `docs/errors.md` is served from; a code is a fragment of it.
const ERRORS: &str = "https://vnfm.dev/errors#";

impl Problem {
    /// A problem of a request, with our code for it.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let mut details = ProblemDetails::new(status.as_u16(), detail);
        details.type_uri = Some(format!("{ERRORS}{code}"));
        details.title = status.canonical_reason().map(ToOwned::to_owned);
        details.code = Some(code.to_owned());
        Self(Box::new(details))
    }

    /// The same problem, with what to do next.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.0.next = Some(next.into());
        self
    }

    /// A request that is malformed (400).
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request.malformed", detail)
    }

    /// A body that is well-formed, and not what the resource takes (422).
    pub fn unfit(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "request.schema", detail)
    }

    /// No such thing (404).
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "request.not-found", detail)
    }

    /// A bug of ours (500): its text goes into the log alone.
    pub fn bug(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "a request met a bug");
        let what = "the server met a bug in itself; its log has more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server.bug", what)
    }

    /// What it says.
    pub fn details(&self) -> &ProblemDetails {
        &self.0
    }
}

/// Codes that the facade itself gives, with what each means and what to do next, for `docs/errors.md`.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        "request.malformed",
        "the request is malformed, or has a parameter that the resource does not take",
        "correct the member or parameter that the message names",
    ),
    (
        "request.schema",
        "the body is well-formed JSON, but not of the data type that the resource takes",
        "correct the member that the message names",
    ),
    (
        "request.not-found",
        "there is no such resource",
        "look at the list of the resource",
    ),
    (
        "request.not-supported",
        "the VNF does not support this task",
        "the links of the instance are the tasks that are possible",
    ),
    (
        "request.method",
        "the resource does not take this method",
        "see `/openapi.yaml`",
    ),
    (
        "request.accept",
        "the resource cannot be served as the client accepts it",
        "accept `application/json`",
    ),
    (
        "request.no-version",
        "the request does not say for which version of the interface it is made",
        "send the header `Version` with one of the versions in the message",
    ),
    (
        "request.version",
        "the API version of the request is not served",
        "ask `api_versions`",
    ),
    (
        "request.media-type",
        "the body is of a type that the resource does not take",
        "send the type that the message names",
    ),
    (
        "request.too-large",
        "the body is larger than the server takes",
        "send less, or raise the limit in the configuration",
    ),
    (
        "request.too-slow",
        "the body of the request comes more slowly than the server waits for",
        "send it faster, or raise `limits.body_seconds` in the configuration",
    ),
    (
        "request.unauthorized",
        "the server needs a login, or the one that was given is wrong",
        "set VNFM_TOKEN, or VNFM_USER and VNFM_PASSWORD; `WWW-Authenticate` names every way",
    ),
    (
        "access.forbidden",
        "the login has not the role that this needs",
        "ask somebody with the role that the message names",
    ),
    (
        "access.no-role",
        "the login is good, but worth nothing here: no rule of the configuration fits it",
        "ask whoever looks after the server for a rule in `access` of its configuration",
    ),
    (
        "access.narrowed",
        "the role is narrowed to VIMs, namespaces or vendors, and this is outside of them",
        "ask somebody whose role is not narrowed so",
    ),
    (
        "access.rate",
        "more requests of one login, or more wrong logins from one address, than the server takes",
        "wait for as long as `Retry-After` says",
    ),
    (
        "access.unavailable",
        "whoever knows whether the login is good cannot be asked",
        "try again; the server's log says what is wrong",
    ),
    (
        "request.wrong-state",
        "the resource is not in the state that the request needs",
        "read it again",
    ),
    (
        "request.stale",
        "the resource is not as `If-Match` says: somebody changed it",
        "read it again and decide anew",
    ),
    (
        "package.refused",
        "the package is not onboarded; the message has every finding with file, line and column",
        "mend the findings and upload again",
    ),
    (
        "package.not-written",
        "a package cannot be written to the disk of the server",
        "look at the disk of the server",
    ),
    (
        "package.address",
        "a package, or a token for it, is to be fetched from an address that is not allowed",
        "have it allowed in `packages.external` of the configuration, or upload the package itself",
    ),
    (
        "package.interrupted",
        "the server stopped before all of a package was taken in",
        "upload it again",
    ),
    (
        "package.on-its-way",
        "the package is being fetched from the NFVO, and that takes its time",
        "ask again; the package is fetched meanwhile",
    ),
    (
        "request.range",
        "the range of bytes that is asked for begins beyond the end",
        "ask for less; `Content-Range` has the size",
    ),
    (
        "server.recovery",
        "the database was restored from a backup, and how the VIMs differ is not confirmed yet",
        "`vnfmctl recovery show`, then `vnfmctl recovery confirm`",
    ),
    (
        "server.low-disk",
        "the disk of the server is low: nothing new is begun, what is in flight goes on",
        "make room: `vnfmctl prune`, older backups, packages that are not in use",
    ),
    (
        "server.files-lost",
        "the database or its folder was removed or replaced below the running server: what it writes would be lost",
        "bring the files back as they were and restart the server; else restart it, and it says what is missing",
    ),
    (
        "server.damaged",
        "the check of the database at the start found it damaged",
        "stop the server, look at the disk, restore a backup with `vnfm-server restore`",
    ),
    (
        "server.bug",
        "the server met a bug in itself",
        "report it with the server's log",
    ),
];

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let source = refusal.source.as_ref();
        let is_full = source.is_some_and(|error| error.name() == NOT_WRITTEN.name);
        let status = match refusal.why {
            _ if is_full => StatusCode::INSUFFICIENT_STORAGE,
            Why::NotFound => StatusCode::NOT_FOUND,
            Why::Conflict => StatusCode::CONFLICT,
            Why::Stale => StatusCode::PRECONDITION_FAILED,
            Why::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            Why::QuotaExceeded => StatusCode::FORBIDDEN,
            Why::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(
                code = refusal.code.name,
                detail = refusal.detail,
                "a request failed"
            );
        }
        let mut problem =
            Self::new(status, refusal.code.name, refusal.detail.clone()).next(refusal.next());
        problem.0.title = Some(refusal.code.means.to_owned());
        problem.0.retryable = Some(refusal.why == Why::Unavailable);
        problem.0.blocked_by = refusal.blocked_by;
        if let Some(source) = refusal.source {
            problem.0.code = Some(source.name().to_owned());
            problem.0.resource = source.resource().map(ToOwned::to_owned);
            problem.0.request_id = source.request_id().map(ToOwned::to_owned);
        }
        problem
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let mut response = (status, body).into_response();
        if let Some(code) = self.0.code {
            response.extensions_mut().insert(Named(code));
        }
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
