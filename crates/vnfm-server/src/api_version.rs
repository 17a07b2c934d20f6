//! Checks for every request in addition to [`crate::access`]: the API version and the accepted media type.

use crate::problem::Problem;
use crate::route_match::Matched;
use crate::routes::api_versions::{Api, api_of};
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Checks the `Version` header of the standard's interfaces (SOL013 9.3.2) and adds it to the response: 400 if it is
/// missing or malformed, 406 if that version is not supported. `vnflcm/v1` has only one version, so clients may omit
/// the header there. `api_versions` responds to any or no version.
pub(crate) async fn version(request: Request, next: Next) -> Response {
    let Some((api, is_list)) = api_of(request.uri().path()) else {
        return next.run(request).await;
    };
    let requested = match request.headers().get("version") {
        Some(value) => Some(value.to_str().unwrap_or_default()),
        None => api.assumed,
    };
    if is_list {
        let version = match supported(api, requested) {
            Supported::Yes(version) => Some(version),
            _ => api.versions.last().copied(),
        };
        return add_version(version, next.run(request).await);
    }
    let response = match supported(api, requested) {
        Supported::Yes(version) => {
            return add_version(Some(version), next.run(request).await);
        }
        Supported::Malformed => {
            let detail = match requested {
                Some(requested) => format!("`Version: {requested}` is malformed"),
                None => "the header `Version` is missing".to_owned(),
            };
            let detail = format!("{detail}; send one of {}", api.versions.join(", "));
            Problem::new(StatusCode::BAD_REQUEST, "request.no-version", detail).into_response()
        }
        Supported::No(requested) => {
            let detail = format!(
                "API version `{requested}` is not supported; supported: {}",
                api.versions.join(", ")
            );
            Problem::new(StatusCode::NOT_ACCEPTABLE, "request.version", detail).into_response()
        }
    };
    add_newest_version(api, response)
}

/// Adds the newest version to a response that was created before the version was checked.
pub(crate) fn with_version(path: &str, response: Response) -> Response {
    match api_of(path) {
        Some((api, _)) => add_newest_version(api, response),
        None => response,
    }
}

fn add_newest_version(api: &Api, response: Response) -> Response {
    add_version(api.versions.last().copied(), response)
}

/// Adds the header `Version` with this value, if there is one.
fn add_version(version: Option<&'static str>, mut response: Response) -> Response {
    if let Some(version) = version {
        response
            .headers_mut()
            .insert("version", HeaderValue::from_static(version));
    }
    response
}

/// Whether the requested version is supported.
enum Supported<'a> {
    Yes(&'static str),
    No(&'a str),
    Malformed,
}

/// An implementation version after it (`2.3.0-impl:…`) is ignored.
fn supported<'a>(api: &Api, requested: Option<&'a str>) -> Supported<'a> {
    let requested = requested
        .unwrap_or_default()
        .split(['-', '+'])
        .next()
        .unwrap_or_default()
        .trim();
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if requested.split('.').count() != 3 || !requested.split('.').all(number) {
        return Supported::Malformed;
    }
    let ours = api
        .versions
        .iter()
        .copied()
        .find(|version| *version == requested);
    ours.map_or(Supported::No(requested), Supported::Yes)
}

/// Checks `Accept` (SOL013 6.4): 406 for clients that do not accept JSON from our resources; resources with other
/// media types check it themselves. An empty `Accept` counts as none.
pub(crate) async fn accept(request: Request, next: Next) -> Response {
    let accept = request
        .headers()
        .get("accept")
        .and_then(|value| value.to_str().ok());
    let json = Matched::from_extensions(request.extensions()).map_or_else(
        || request.uri().path().starts_with("/vnf"),
        Matched::is_json,
    );
    match accept {
        Some(accept) if json && !accept.trim().is_empty() && !accepts_json(accept) => {
            let detail = format!("`Accept: {accept}` does not include application/json");
            Problem::new(StatusCode::NOT_ACCEPTABLE, "request.accept", detail).into_response()
        }
        _ => next.run(request).await,
    }
}

fn accepts_json(accept: &str) -> bool {
    accepts(Some(accept), "application/json")
}

/// Whether `Accept` includes a media type; a missing or empty header includes all.
pub(crate) fn accepts(accept: Option<&str>, kind: &str) -> bool {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
        return true;
    };
    let family = kind.split('/').next().unwrap_or_default();
    // The most specific range decides (RFC 9110 12.5.1); of equal ones, the more permissive.
    let ranges = accept
        .split(',')
        .map(range)
        .filter_map(|(range, is_accepted)| {
            let specific = match range {
                "*/*" => 0,
                one if one.strip_suffix("/*") == Some(family) => 1,
                one if one == kind => 2,
                _ => return None,
            };
            Some((specific, is_accepted))
        });
    ranges.max().is_some_and(|(_, is_accepted)| is_accepted)
}

/// A media range of `Accept`, and whether its quality is greater than 0.
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

/// Turns plain-text errors of extractors into `ProblemDetails`.
pub(crate) async fn problems(request: Request, next: Next) -> Response {
    let is_patch = request.method() == Method::PATCH;
    let mut response = next.run(request).await;
    let status = response.status();
    if is_patch && status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // RFC 5789 2.2: the media types that PATCH accepts.
        let accepted = HeaderValue::from_static("application/merge-patch+json, application/json");
        response.headers_mut().insert("accept-patch", accepted);
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let is_problem = kind.is_some_and(|kind| kind == "application/problem+json");
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = to_bytes(response.into_body(), MAX_TEXT_BYTES)
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

const MAX_TEXT_BYTES: usize = 64 * 1024;

/// 404 for paths without a route.
pub(crate) async fn unknown(request: Request) -> Response {
    let detail = format!("no resource at `{}`", request.uri().path());
    Problem::not_found(detail).into_response()
}

/// 405 for methods that the resource does not support.
pub(crate) async fn not_allowed(request: Request) -> Response {
    let detail = format!(
        "`{}` does not support {}",
        request.uri().path(),
        request.method()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "request.method", detail).into_response()
}

/// 500 for a handler that panicked.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    tracing::error!("a handler panicked");
    let detail = "internal error; see the server's log";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "server.bug", detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::accepts;

    #[test]
    fn a_quality_of_zero_excludes_a_media_type() {
        for (accept, is_accepted) in [
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
                accepts(Some(accept), "application/json"),
                is_accepted,
                "{accept}"
            );
        }
        assert!(accepts(None, "application/json"));
    }
}
