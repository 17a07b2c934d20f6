//! Request ids (`X-Request-Id`) and traces (`traceparent`, W3C Trace Context): both are in every log line of a
//! request, and the trace id is in every `ProblemDetails` response.

use crate::log_text::{MAX_LOGGED_CHARS, cut};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde_json::Value;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Maximum size of a `ProblemDetails` body that gets a trace id.
const MAX_PROBLEM_BYTES: usize = 256 * 1024;

/// Continues the client's trace, or starts a new one.
pub(crate) async fn follow(request: Request, next: Next) -> Response {
    let caller = TraceContextPropagator::new().extract(&Headers(request.headers()));
    let id = request
        .headers()
        .get("x-request-id")
        .and_then(|id| id.to_str().ok());
    let span = tracing::info_span!(
        "request",
        request_id = cut(id.unwrap_or_default(), MAX_LOGGED_CHARS),
        trace_id = Empty,
        method = cut(request.method().as_str(), MAX_LOGGED_CHARS),
        path = cut(request.uri().path(), MAX_LOGGED_CHARS),
        otel.kind = "server",
    );
    // Without a trace exporter there is no span to set a parent for.
    let _ = span.set_parent(caller.clone());
    let trace = trace_of(&span.context()).or_else(|| trace_of(&caller));
    let trace = trace.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    span.record("trace_id", &trace);
    async move {
        let response = next.run(request).await;
        tracing::debug!(status = response.status().as_u16(), "responded");
        with_trace(response, &trace).await
    }
    .instrument(span)
    .await
}

/// Adapts the headers for the W3C Trace Context propagator.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// The trace id, 32 hexadecimal digits, if there is one.
fn trace_of(context: &Context) -> Option<String> {
    let span = context.span();
    let known = span.span_context().is_valid();
    known.then(|| span.span_context().trace_id().to_string())
}

async fn with_trace(response: Response, trace: &str) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != "application/problem+json") {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_PROBLEM_BYTES).await else {
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
    use super::{Headers, trace_of};
    use axum::http::HeaderMap;
    use opentelemetry::propagation::TextMapPropagator as _;
    use opentelemetry_sdk::propagation::TraceContextPropagator;

    #[test]
    fn only_valid_traces_are_continued() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (given, is_valid) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), true),
            (format!("cc-{trace}-00f067aa0ba902b7-01-new"), true),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), false),
            (
                format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
                false,
            ),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), false),
            ("00".to_owned(), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", given.parse().unwrap());
            let context = TraceContextPropagator::new().extract(&Headers(&headers));
            assert_eq!(trace_of(&context).is_some(), is_valid, "{given}");
        }
    }
}
