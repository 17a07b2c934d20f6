//! A collector of spans for one run: receives OTLP in JSON on loopback until it is ended.
//!
//! A separate crate because `cargo xtask` uses it as well and must not wait for all dependencies of the tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::Deserialize;
use serde_json::Value;

/// The path of traces in OTLP over HTTP.
const PATH: &str = "/v1/traces";

/// Collects the spans that programs send, until [`Collector::end`].
pub struct Collector {
    server: Arc<tiny_http::Server>,
    taking: JoinHandle<Result<Vec<Span>>>,
}

impl Collector {
    /// Starts a collector on a free port.
    ///
    /// # Errors
    /// If it cannot listen on a loopback port.
    pub fn begin() -> Result<Self> {
        let server = tiny_http::Server::http("127.0.0.1:0")
            .map_err(|error| anyhow!("cannot listen for spans: {error}"))?;
        let server = Arc::new(server);
        let listening = server.clone();
        let taking = std::thread::spawn(move || {
            let mut spans = Vec::new();
            for mut request in listening.incoming_requests() {
                let url = request.url();
                ensure!(url == PATH, "spans were sent to `{url}`, not to `{PATH}`");
                let sent: Sent = serde_json::from_reader(request.as_reader())
                    .context("what was sent is not OTLP in JSON")?;
                spans.extend(sent.spans());
                request.respond(tiny_http::Response::from_string("{}"))?;
            }
            Ok(spans)
        });
        Ok(Self { server, taking })
    }

    /// Base URL to give to the programs.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.server_addr())
    }

    /// Stops collecting, and returns all spans received so far.
    ///
    /// # Errors
    /// If something else was sent than spans.
    pub fn end(self) -> Result<Vec<Span>> {
        self.server.unblock();
        self.taking
            .join()
            .map_err(|_| anyhow!("the collector of spans panicked"))?
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    resource_spans: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    scope_spans: Vec<Scope>,
}

#[derive(Deserialize)]
struct Scope {
    spans: Vec<Span>,
}

impl Sent {
    fn spans(self) -> impl Iterator<Item = Span> {
        let scopes = self
            .resource_spans
            .into_iter()
            .flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans)
    }
}

/// A span, as OTLP has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Name of the activity that the span covers.
    pub name: String,
    /// Id of the trace that it belongs to.
    pub trace_id: String,
    /// Id of the span, unique in its trace.
    #[serde(rename = "spanId")]
    pub id: String,
    /// Id of its parent; empty for a root span.
    #[serde(rename = "parentSpanId", default)]
    pub parent: String,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    #[serde(default)]
    attributes: Vec<Attribute>,
}

#[derive(Debug, Deserialize)]
struct Attribute {
    key: String,
    value: BTreeMap<String, Value>,
}

impl Span {
    /// Start and end, in seconds since 1970.
    pub fn interval(&self) -> (f64, f64) {
        let seconds = |nanos: &str| nanos.parse::<f64>().unwrap_or_default() / 1e9;
        (
            seconds(&self.start_time_unix_nano),
            seconds(&self.end_time_unix_nano),
        )
    }

    /// The attribute `key`, as text.
    pub fn attribute(&self, key: &str) -> Option<String> {
        let found = self
            .attributes
            .iter()
            .find(|attribute| attribute.key == key)?;
        let value = found.value.values().next()?;
        Some(
            value
                .as_str()
                .map_or_else(|| value.to_string(), ToOwned::to_owned),
        )
    }
}
