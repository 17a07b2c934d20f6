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

use crate::config::Config;
use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::io::IsTerminal as _;
use std::time::Duration;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt, reload};

/// Applies the log filter of a configuration.
pub type Logging = Box<dyn Fn(&Config) -> anyhow::Result<()>>;

/// The exporter of spans, if configured.
pub struct Traces(Option<SdkTracerProvider>);

/// Timeout for the collector's response.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts logging and tracing as configured. Must be called outside a runtime.
///
/// # Errors
///
/// If the log filter is invalid, or a log subscriber is already set.
pub fn begin(config: &Config) -> anyhow::Result<(Logging, Traces)> {
    let traces = config
        .monitoring
        .traces
        .as_deref()
        .map(sender)
        .transpose()?;
    let spans = traces.as_ref().map(spans);
    let (level, handle) = reload::Layer::new(filter(config)?);
    // Colours only for terminals, not for files or the journal.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = if config.log.json {
        lines.json().boxed()
    } else {
        lines.boxed()
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(level))
        .with(spans)
        .try_init()
        .context("cannot start logging")?;
    let logging = move |config: &Config| Ok(handle.reload(filter(config)?)?);
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
fn filter(config: &Config) -> anyhow::Result<EnvFilter> {
    let text = std::env::var("VNFM_LOG")
        .ok()
        .or_else(|| config.log.level.clone());
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
/// Cuts a text after a number of characters: text from clients may be arbitrarily long.
pub(crate) fn cut(text: &str, max_chars: usize) -> &str {
    text.char_indices()
        .nth(max_chars)
        .map_or(text, |(end, _)| &text[..end])
}
