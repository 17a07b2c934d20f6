//! The only place that knows status codes: every refusal and every bad request becomes
//! `ProblemDetails` here (SOL013 6.3), `application/problem+json`.
//!
//! | [`Why`] | status |
//! |---|---|
//! | `NotFound` | 404 |
//! | `Conflict` | 409 |
//! | `Stale` | 412 |
//! | `Unprocessable` | 422 |
//! | `QuotaExceeded` | 403 |
//! | `Unavailable` | 503 |
//! | any other | 500, with the details only in the log |

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use vnfm_core::ports::StoreError;
use vnfm_core::{Refusal, Why};
use vnfm_nfvo::download::NOT_WRITTEN;
use vnfm_types::ProblemDetails;

/// An error response: `ProblemDetails` with our error code.
#[derive(Debug, Clone)]
pub struct Problem(Box<ProblemDetails>);

/// The code of a problem, as an extension of its response: some codes add response headers.
#[derive(Debug, Clone)]
pub(crate) struct ProblemCode(pub String);

/// The result of a handler.
pub(crate) type HandlerResult<T = Response> = Result<T, Problem>;

/// The URL of `docs/errors.md`; the code is its fragment.
const ERRORS: &str = "https://vnfm.dev/errors#";

impl Problem {
    /// A problem with an error code of ours.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let mut details = ProblemDetails::new(status.as_u16(), detail);
        details.type_uri = Some(format!("{ERRORS}{code}"));
        details.title = status.canonical_reason().map(ToOwned::to_owned);
        details.code = Some(code.to_owned());
        Self(Box::new(details))
    }

    /// Adds a hint: what to do next.
    #[must_use]
    pub fn hint(mut self, next: impl Into<String>) -> Self {
        self.0.next = Some(next.into());
        self
    }

    /// 400: the request is malformed.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request.malformed", detail)
    }

    /// 422: the body is well-formed JSON, but not of the resource's data type.
    pub fn schema_mismatch(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "request.schema", detail)
    }

    /// 404: there is no such resource.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "request.not-found", detail)
    }

    /// 500: a bug of ours. The error text goes only into the log.
    pub fn bug(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "internal error");
        let detail = "internal error; see the server's log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server.bug", detail)
    }

    /// The body of the response.
    pub fn details(&self) -> &ProblemDetails {
        &self.0
    }
}

/// The codes of the HTTP layer, each with its meaning and a hint, for `docs/errors.md`.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        "request.malformed",
        "the request is malformed, or has a parameter that the resource does not accept",
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
        "list the resources of this kind",
    ),
    (
        "request.not-supported",
        "the VNF does not support this task",
        "use a task that `_links` of the instance offers",
    ),
    (
        "request.method",
        "the resource does not support this method",
        "see `/openapi.yaml`",
    ),
    (
        "request.accept",
        "the resource is not available in a media type that the client accepts",
        "send `Accept: application/json`",
    ),
    (
        "request.no-version",
        "the request does not name the API version",
        "send the header `Version` with one of the versions in the message",
    ),
    (
        "request.version",
        "the requested API version is not supported",
        "use a version that `api_versions` lists",
    ),
    (
        "request.media-type",
        "the resource does not accept a body of this media type",
        "send the media type that the message names",
    ),
    (
        "request.too-large",
        "the body is larger than the server accepts",
        "send less, or raise the limit in the configuration",
    ),
    (
        "request.too-slow",
        "the request body arrives too slowly",
        "send it faster, or raise `limits.body_seconds` in the configuration",
    ),
    (
        "request.unauthorized",
        "the request has no credentials, or wrong ones",
        "set VNFM_TOKEN, or VNFM_USER and VNFM_PASSWORD; `WWW-Authenticate` lists the login methods",
    ),
    (
        "access.forbidden",
        "the caller does not have the required role",
        "ask a user with the role that the message names",
    ),
    (
        "access.no-role",
        "the credentials are valid, but no rule in the configuration gives them a role",
        "ask the operator for a rule in `access` in the configuration",
    ),
    (
        "access.narrowed",
        "the role is limited to certain VIMs, namespaces or vendors, and this is outside of them",
        "ask a user whose role is not limited in this way",
    ),
    (
        "access.rate",
        "too many requests of one principal, or too many wrong logins from one address",
        "wait for the time in `Retry-After`",
    ),
    (
        "access.unavailable",
        "the identity service that verifies the login cannot be reached",
        "try again; see the server's log for the cause",
    ),
    (
        "request.wrong-state",
        "the resource is not in the state that the request requires",
        "read it again",
    ),
    (
        "request.stale",
        "the resource has changed since the version in `If-Match`",
        "read it again, then decide whether to repeat the request",
    ),
    (
        "package.refused",
        "the package is refused; the message has every finding with file, line and column",
        "fix the findings and upload again",
    ),
    (
        "package.not-written",
        "the server cannot write a package to its disk",
        "check the server's disk",
    ),
    (
        "package.address",
        "the address of a package, or of its token endpoint, is not allowed",
        "allow it in `packages.external` in the configuration, or upload the package instead",
    ),
    (
        "package.interrupted",
        "the server stopped before the package was complete",
        "upload it again",
    ),
    (
        "package.on-its-way",
        "the package is still being fetched from the NFVO",
        "try again later; the fetch continues",
    ),
    (
        "request.range",
        "the requested byte range starts beyond the end",
        "request a smaller range; `Content-Range` has the size",
    ),
    (
        "server.recovery",
        "the database was restored from a backup, and its recovery is not confirmed yet",
        "`vnfmctl recovery show`, then `vnfmctl recovery confirm`",
    ),
    (
        "server.low-disk",
        "the server's disk is low: nothing new is started; operations in progress continue",
        "free space: `vnfmctl prune`, delete old backups and unused packages",
    ),
    (
        "server.files-lost",
        "the database or its folder was removed or replaced while the server runs: changes would be lost",
        "restore the files and restart the server; without them, the restart reports what is missing",
    ),
    (
        "server.damaged",
        "the database check at startup found damage",
        "stop the server, check the disk, restore a backup with `vnfm-server restore`",
    ),
    (
        "server.bug",
        "internal error of the server",
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
            Why::Forbidden | Why::QuotaExceeded => StatusCode::FORBIDDEN,
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
            Self::new(status, refusal.code.name, refusal.detail.clone()).hint(refusal.next());
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
        let body = serde_json::to_vec(&self.0).unwrap_or_else(|error| {
            tracing::error!(%error, problem = ?self.0, "cannot write a ProblemDetails as JSON");
            br#"{"status": 500, "detail": "internal error; see the server's log"}"#.to_vec()
        });
        let mut response = (status, body).into_response();
        if let Some(code) = self.0.code {
            response.extensions_mut().insert(ProblemCode(code));
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
