//! Logging to standard error, and traces to an OpenTelemetry collector.
//!
//! ```text
//!  request ─ trace of `traceparent`, or a new one ─────────────────────────────── ProblemDetails.traceId
//!  └─ operation ─ step ─┬─ vim_call          a call to a VIM, from its slot to its response
//!                       ├─ wait ─ vim_call   polls something
//!                       ├─ watch             watches Kubernetes objects
//!                       └─ hook_call         a host service that a hook uses, such as a command over SSH
//! ```
//! An operation that another process takes over starts a new trace. Only a program calls [`begin`]: it sets globals.

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::IsTerminal as _;
use std::time::Duration;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt, reload};

/// What is logged, and in which format.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Log filter, such as `info` or `vnfm_core=debug`; `VNFM_LOG` overrides it. Default: `info`.
    #[schemars(extend("format" = "log-filter"))]
    pub level: Option<String>,
    /// Write log lines as JSON.
    pub json: bool,
}

/// Applies a changed log filter.
pub type Logging = Box<dyn Fn(&Log) -> anyhow::Result<()>>;

/// The exporter of spans, if configured.
pub struct Traces(Option<SdkTracerProvider>);

/// Timeout for the collector's response.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts logging as configured, and tracing to the collector at the URL `traces`. Must be called outside a runtime.
///
/// # Errors
///
/// If the log filter is invalid, or a log subscriber is already set.
pub fn begin(log: &Log, traces: Option<&str>) -> anyhow::Result<(Logging, Traces)> {
    let traces = traces.map(sender).transpose()?;
    let spans = traces.as_ref().map(spans);
    let (level, handle) = reload::Layer::new(filter(log)?);
    // Colours only for terminals, not for files or the journal.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = if log.json {
        lines.json().boxed()
    } else {
        lines.boxed()
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(level))
        .with(spans)
        .try_init()
        .context("cannot start logging")?;
    let logging = move |log: &Log| Ok(handle.reload(filter(log)?)?);
    Ok((Box::new(logging), Traces(traces)))
}

impl Traces {
    /// Sends the remaining spans, and then stops the exporter.
    pub fn end(self) {
        if let Some(provider) = self.0
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "cannot send the last spans");
        }
    }
}

/// The log filter: `VNFM_LOG`, otherwise the configured one.
fn filter(log: &Log) -> anyhow::Result<EnvFilter> {
    let text = std::env::var("VNFM_LOG").ok().or_else(|| log.level.clone());
    let text = text.unwrap_or_else(|| "info".to_owned());
    EnvFilter::try_new(&text).with_context(|| format!("`{text}` is not a log filter"))
}

fn sender(collector: &str) -> anyhow::Result<SdkTracerProvider> {
    let context = || format!("cannot send spans to `{collector}`");
    let client = reqwest::blocking::Client::builder()
        .no_proxy()
        .timeout(COLLECTOR_TIMEOUT)
        .build();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client.with_context(context)?)
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/traces", collector.trim_end_matches('/')))
        .build()
        .with_context(context)?;
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder()
        .with_service_name("vnfm")
        .with_attribute(version)
        .build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build())
}

/// Our own spans, independent of the log filter.
fn spans<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let ours =
        |metadata: &Metadata<'_>| metadata.is_span() && metadata.target().starts_with("vnfm");
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("vnfm"))
        .with_location(false)
        .with_threads(false)
        .with_filter(filter_fn(ours))
}
