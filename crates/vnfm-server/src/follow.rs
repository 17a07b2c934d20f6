//! How a request is followed through logs: its id (`X-Request-Id`) and its trace (`traceparent`, W3C Trace Context)
//! stand in every line that is logged for it, and the trace in every `ProblemDetails` that answers it.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::Value;
use tracing::Instrument as _;

/// The longest `ProblemDetails` that is read again.
const LONGEST: usize = 256 * 1024;

/// Takes the trace that the request belongs to, or begins one.
pub async fn follow(request: Request, next: Next) -> Response {
    let trace =
        trace_of(request.headers()).unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok());
    let span = tracing::info_span!(
        "request",
        request_id = id.unwrap_or_default(),
        trace_id = trace,
        method = %request.method(),
        path = request.uri().path(),
    );
    async move {
        let response = next.run(request).await;
        tracing::debug!(status = response.status().as_u16(), "answered");
        with_trace(response, &trace).await
    }
    .instrument(span)
    .await
}

/// The trace id of `traceparent`: 32 hexadecimal digits that are not all zero.
fn trace_of(headers: &HeaderMap) -> Option<String> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let fine = version.len() == 2 && is_hex(version) && version != "ff";
    let known = trace.len() == 32 && is_hex(trace) && trace.bytes().any(|byte| byte != b'0');
    (fine && known).then(|| trace.to_owned())
}

async fn with_trace(response: Response, trace: &str) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != "application/problem+json") {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, LONGEST).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Ok(Value::Object(mut problem)) = serde_json::from_slice(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    problem.insert("traceId".to_owned(), trace.into());
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(Value::Object(problem).to_string()))
}

#[cfg(test)]
mod tests {
    use super::trace_of;
    use axum::http::HeaderMap;

    #[test]
    fn a_trace_is_taken_where_it_is_one() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (given, is_one) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), true),
            (format!("cc-{trace}-00f067aa0ba902b7-01-new"), true),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), false),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), false),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), false),
            ("00".to_owned(), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", given.parse().unwrap());
            assert_eq!(trace_of(&headers).is_some(), is_one, "{given}");
        }
    }
}
