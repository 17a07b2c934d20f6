//! What every request passes before its handler, beside [`crate::access`]: an id, the API version, what it accepts.

use crate::problem::Problem;
use crate::routes::api_versions::{Api, api_of};
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Checks the `Version` header of the standard's interfaces (SOL013 9.3.2) and answers with it: 400 where it is
/// missing or no version, 406 where that version is not served. Clients of `vnflcm/v1` that leave it out get the only
/// version that there is. Whoever reads `api_versions` knows none yet, and gets an answer whatever it says.
pub async fn version(request: Request, next: Next) -> Response {
    let Some((api, is_list)) = api_of(request.uri().path()) else {
        return next.run(request).await;
    };
    let asked = match request.headers().get("version") {
        Some(value) => Some(value.to_str().unwrap_or_default()),
        None => api.assumed,
    };
    if is_list {
        let version = match served(api, asked) {
            Served::Yes(version) => Some(version),
            _ => api.versions.last().copied(),
        };
        return said(version, next.run(request).await);
    }
    let response = match served(api, asked) {
        Served::Yes(version) => {
            return said(Some(version), next.run(request).await);
        }
        Served::NoVersion => {
            let what = match asked {
                Some(asked) => format!("`Version: {asked}` is no version"),
                None => "the header `Version` is missing".to_owned(),
            };
            let what = format!("{what}; send one of {}", api.versions.join(", "));
            Problem::new(StatusCode::BAD_REQUEST, "request.no-version", what).into_response()
        }
        Served::Other(asked) => {
            let what = format!(
                "API version `{asked}` is not served here; served: {}",
                api.versions.join(", ")
            );
            Problem::new(StatusCode::NOT_ACCEPTABLE, "request.version", what).into_response()
        }
    };
    newest(api, response)
}

/// An answer that was given before anybody looked at the version: it says the newest one.
pub fn with_version(path: &str, response: Response) -> Response {
    match api_of(path) {
        Some((api, _)) => newest(api, response),
        None => response,
    }
}

fn newest(api: &Api, response: Response) -> Response {
    said(api.versions.last().copied(), response)
}

/// An answer with its header `Version`.
fn said(version: Option<&'static str>, mut response: Response) -> Response {
    if let Some(version) = version {
        response
            .headers_mut()
            .insert("version", HeaderValue::from_static(version));
    }
    response
}

/// What becomes of the version that was asked for.
enum Served<'a> {
    Yes(&'static str),
    Other(&'a str),
    NoVersion,
}

/// An implementation version behind it (`2.3.0-impl:…`) is not looked at.
fn served<'a>(api: &Api, asked: Option<&'a str>) -> Served<'a> {
    let asked = asked
        .unwrap_or_default()
        .split(['-', '+'])
        .next()
        .unwrap_or_default()
        .trim();
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if asked.split('.').count() != 3 || !asked.split('.').all(number) {
        return Served::NoVersion;
    }
    let ours = api
        .versions
        .iter()
        .copied()
        .find(|version| *version == asked);
    ours.map_or(Served::Other(asked), Served::Yes)
}

/// Checks `Accept` (SOL013 6.4): whoever takes no JSON from our resources gets 406; what answers otherwise says
/// so itself. An empty one says no more than none.
pub async fn accept(request: Request, next: Next) -> Response {
    let accept = request
        .headers()
        .get("accept")
        .and_then(|value| value.to_str().ok());
    let path = request.uri().path();
    let json = path.starts_with("/vnf") && !is_otherwise(path);
    match accept {
        Some(accept) if json && !accept.trim().is_empty() && !takes_json(accept) => {
            let what = format!("`Accept: {accept}` leaves out application/json, which this is");
            Problem::new(StatusCode::NOT_ACCEPTABLE, "request.accept", what).into_response()
        }
        _ => next.run(request).await,
    }
}

/// Ends of paths whose answer is no JSON.
const OTHERWISE: &[&str] = &[
    "/events",
    "/vnfd",
    "/manifest",
    "/package_content",
    "/artifacts",
];

/// Whether what is at a path is no JSON; an artifact may be anything, and be called anything.
fn is_otherwise(path: &str) -> bool {
    let is_artifact = path.starts_with("/vnfpkgm/") && path.contains("/artifacts/");
    is_artifact || OTHERWISE.iter().any(|end| path.ends_with(end))
}

fn takes_json(accept: &str) -> bool {
    takes(Some(accept), "application/json")
}

/// Whether `Accept` has a media type; none and an empty one have every type.
pub fn takes(accept: Option<&str>, kind: &str) -> bool {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
        return true;
    };
    let family = kind.split('/').next().unwrap_or_default();
    // The most specific range says it (RFC 9110 12.5.1); of two that are the same the better one.
    let ranges = accept
        .split(',')
        .map(range)
        .filter_map(|(range, is_taken)| {
            let specific = match range {
                "*/*" => 0,
                one if one.strip_suffix("/*") == Some(family) => 1,
                one if one == kind => 2,
                _ => return None,
            };
            Some((specific, is_taken))
        });
    ranges.max().is_some_and(|(_, is_taken)| is_taken)
}

/// A media range of `Accept`, and whether its quality is more than 0.
fn range(text: &str) -> (&str, bool) {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let is_nothing = |value: &str| value.parse::<f32>().is_ok_and(|value| value <= 0.0);
    (range, !quality.is_some_and(is_nothing))
}

/// Whatever an extractor refused in plain text becomes `ProblemDetails` like everything else.
pub async fn problems(request: Request, next: Next) -> Response {
    let is_patch = request.method() == Method::PATCH;
    let mut response = next.run(request).await;
    let status = response.status();
    if is_patch && status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // RFC 5789 2.2: what a PATCH may be sent as.
        let taken = HeaderValue::from_static("application/merge-patch+json, application/json");
        response.headers_mut().insert("accept-patch", taken);
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let told = kind.is_some_and(|kind| kind == "application/problem+json");
    if told || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = to_bytes(response.into_body(), LONGEST_TEXT)
        .await
        .unwrap_or_default();
    let what = String::from_utf8_lossy(&text).into_owned();
    let what = if what.is_empty() {
        status.to_string()
    } else {
        what
    };
    Problem::new(status, "request.malformed", what).into_response()
}

const LONGEST_TEXT: usize = 64 * 1024;

/// What no route knows.
pub async fn unknown(request: Request) -> Response {
    let what = format!("there is no resource at `{}`", request.uri().path());
    Problem::not_found(what).into_response()
}

/// What the resource does not do.
pub async fn not_allowed(request: Request) -> Response {
    let what = format!(
        "`{}` does not take {}",
        request.uri().path(),
        request.method()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "request.method", what).into_response()
}

/// What a handler that panicked answers with.
pub fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    tracing::error!("a handler panicked");
    let what = "the server met a bug in itself; its log has more";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "server.bug", what).into_response()
}

#[cfg(test)]
mod tests {
    use super::takes;

    #[test]
    fn a_quality_of_nothing_is_no() {
        for (accept, is_taken) in [
            ("application/json", true),
            ("application/json;q=0", false),
            ("application/json; Q=0.0", false),
            ("application/json;q=0.001", true),
            ("application/json;q=0, */*", false),
            ("application/*;q=0, */*;q=1", false),
            ("application/json, */*;q=0", true),
            ("*/*;q=0", false),
            ("text/html, */*;q=0.1", true),
            ("application/json;q=0, application/json", true),
            ("text/html", false),
            ("", true),
        ] {
            assert_eq!(
                takes(Some(accept), "application/json"),
                is_taken,
                "{accept}"
            );
        }
        assert!(takes(None, "application/json"));
    }
}
