//! What a server tells of what it does: lines on standard error, and spans to an OpenTelemetry collector.
//!
//! ```text
//!  request ─ trace of `traceparent`, or a new one ─────────────────────────────── ProblemDetails.traceId
//!  └─ operation ─ step ─┬─ vim_call          a call to a VIM, from its turn to its answer
//!                       ├─ wait ─ vim_call   looks at something, with pauses
//!                       ├─ watch             waits for objects of Kubernetes
//!                       └─ hook_call         a host service that a hook asked for, such as a command over SSH
//! ```
//! An operation that another process took over begins a trace of its own. Only a program calls [`begin`]: it sets
//! what is global.

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

/// Changes what is logged to what a configuration says.
pub type Logging = Box<dyn Fn(&Config) -> anyhow::Result<()>>;

/// Where spans go.
pub struct Traces(Option<SdkTracerProvider>);

/// How long the collector may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// From now on lines are written and spans are sent, as `config` says. To be called outside of a runtime.
///
/// # Errors
///
/// Where what to log is not said well, or something takes the lines already.
pub fn begin(config: &Config) -> anyhow::Result<(Logging, Traces)> {
    let traces = config
        .monitoring
        .traces
        .as_deref()
        .map(sender)
        .transpose()?;
    let spans = traces.as_ref().map(spans);
    let (filter_now, handle) = reload::Layer::new(filter(config)?);
    // Colours are for people who look on, and not for a file or a journal.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = if config.log.json {
        lines.json().boxed()
    } else {
        lines.boxed()
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter_now))
        .with(spans)
        .try_init()
        .context("cannot begin to log")?;
    let logging = move |config: &Config| Ok(handle.reload(filter(config)?)?);
    Ok((Box::new(logging), Traces(traces)))
}

impl Traces {
    /// Sends what is left.
    pub fn end(self) {
        if let Some(provider) = self.0
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// What is logged: `VNFM_LOG`, else what is configured.
fn filter(config: &Config) -> anyhow::Result<EnvFilter> {
    let said = std::env::var("VNFM_LOG")
        .ok()
        .or_else(|| config.log.level.clone());
    let said = said.unwrap_or_else(|| "info".to_owned());
    EnvFilter::try_new(&said).with_context(|| format!("`{said}` does not say what to log"))
}

fn sender(collector: &str) -> anyhow::Result<SdkTracerProvider> {
    let what = || format!("cannot send spans to `{collector}`");
    let client = reqwest::blocking::Client::builder()
        .no_proxy()
        .timeout(ANSWER)
        .build();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client.with_context(what)?)
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/traces", collector.trim_end_matches('/')))
        .build()
        .with_context(what)?;
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

/// Our own spans, whatever is logged.
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
/// A text without what is beyond so many characters: what clients send is as long as they like.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    text.char_indices()
        .nth(most)
        .map_or(text, |(end, _)| &text[..end])
}
