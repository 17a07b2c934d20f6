//! What Prometheus reads at `/metrics`: how requests, operations, steps, VIM calls and notifications fare, and when
//! what ends. docs/how-to/monitor.md explains each figure.
//!
//! Labels take few values: paths as the router has them, ids of registered VIMs, names out of tables. No tenant, no
//! instance and nothing that a request said is in them.

use crate::certificates;
use crate::problem::{Answer, Problem};
use crate::state::App;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::{
    Encoder as _, Gauge, GaugeVec, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder, histogram_opts,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vnfm_core::ports::{CallEnd, Observer, StepStatus};
use vnfm_store::Statistics;
use vnfm_types::{LcmOperationState, LcmOperationType};

/// Seconds that requests and calls take.
const QUICK: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];
/// Seconds that steps take.
const LONG: &[f64] = &[
    0.1, 0.5, 2.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0,
];

/// All figures of one server.
pub struct Metrics {
    registry: Registry,
    requests: HistogramVec,
    states: IntCounterVec,
    steps: HistogramVec,
    calls: HistogramVec,
    waits: HistogramVec,
    notified: HistogramVec,
    lag: Gauge,
    waiting: IntGauge,
    given_up: IntGauge,
    open: IntGaugeVec,
    instances: IntGaugeVec,
    driven: IntGauge,
    expiries: GaugeVec,
    /// VIMs that a figure has a label for.
    vims: Mutex<BTreeSet<String>>,
    /// Since when a notification waits, by its subscription.
    outbox: Mutex<BTreeMap<String, Timestamp>>,
}

/// Name, help and labels of a figure.
type Figure = (&'static str, &'static str, &'static [&'static str]);

const REQUESTS: Figure = (
    "vnfm_http_request_duration_seconds",
    "Requests by path, method and status",
    &["route", "method", "status"],
);
const STATES: Figure = (
    "vnfm_operation_states_total",
    "Operations that came into a state",
    &["operation", "state"],
);
const STEPS: Figure = (
    "vnfm_step_duration_seconds",
    "Steps of operations, and their opposites, by how they ended",
    &["operation", "step", "end"],
);
const CALLS: Figure = (
    "vnfm_vim_call_duration_seconds",
    "Calls to a VIM by how they ended",
    &["vim", "end"],
);
const WAITS: Figure = (
    "vnfm_vim_call_wait_seconds",
    "How long calls to a VIM waited for their turn",
    &["vim"],
);
const NOTIFIED: Figure = (
    "vnfm_notification_delay_seconds",
    "How old notifications were when a subscriber took them, or refused them",
    &["end"],
);
const LAG: Figure = (
    "vnfm_outbox_lag_seconds",
    "How old the oldest notification is that a subscriber has still to take; 0 where none waits",
    &[],
);
const WAITING: Figure = (
    "vnfm_outbox_waiting",
    "Subscriptions with a notification that waits to be taken",
    &[],
);
const GIVEN_UP: Figure = (
    "vnfm_notifications_given_up",
    "Notifications that were not taken in time, of the subscriptions that there are",
    &[],
);
const OPEN: Figure = (
    "vnfm_operations_open",
    "Operations that are not ended",
    &["operation", "state"],
);
const INSTANCES: Figure = ("vnfm_vnf_instances", "VNF instances", &["state"]);
const DRIVEN: Figure = (
    "vnfm_operations_driven",
    "Operations that this process drives",
    &[],
);
const EXPIRIES: Figure = (
    "vnfm_expiry_timestamp_seconds",
    "When a certificate, or the login to a VIM, ends",
    &["what", "name"],
);
const BUILD: Figure = (
    "vnfm_build_info",
    "Always 1; which version this is",
    &["version"],
);

/// The names of all figures, as the rules and the dashboard may use them.
pub const NAMES: &[&str] = &[
    REQUESTS.0,
    STATES.0,
    STEPS.0,
    CALLS.0,
    WAITS.0,
    NOTIFIED.0,
    LAG.0,
    WAITING.0,
    GIVEN_UP.0,
    OPEN.0,
    INSTANCES.0,
    DRIVEN.0,
    EXPIRIES.0,
    BUILD.0,
];

impl Metrics {
    /// With every figure at nought.
    ///
    /// # Errors
    ///
    /// Where two figures have one name: a bug.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let all = &registry;
        levels(all, BUILD)?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let seconds = Opts::new(EXPIRIES.0, EXPIRIES.1);
        let (given_up, driven) = (levels(all, GIVEN_UP)?, levels(all, DRIVEN)?);
        let waiting = levels(all, WAITING)?;
        Ok(Self {
            requests: times(all, REQUESTS, QUICK)?,
            states: kept(
                all,
                IntCounterVec::new(Opts::new(STATES.0, STATES.1), STATES.2)?,
            )?,
            steps: times(all, STEPS, LONG)?,
            calls: times(all, CALLS, QUICK)?,
            waits: times(all, WAITS, QUICK)?,
            notified: times(all, NOTIFIED, LONG)?,
            lag: kept(all, Gauge::with_opts(Opts::new(LAG.0, LAG.1))?)?,
            waiting: waiting.with_label_values::<&str>(&[]),
            given_up: given_up.with_label_values::<&str>(&[]),
            open: levels(all, OPEN)?,
            instances: levels(all, INSTANCES)?,
            driven: driven.with_label_values::<&str>(&[]),
            expiries: kept(all, GaugeVec::new(seconds, EXPIRIES.2)?)?,
            vims: Mutex::default(),
            outbox: Mutex::default(),
            registry,
        })
    }

    /// A notification was offered, `age` after it was written.
    pub(crate) fn notified(&self, taken: bool, age: Duration) {
        let end = if taken { "taken" } else { "refused" };
        self.notified
            .with_label_values(&[end])
            .observe(age.as_secs_f64());
    }

    /// That a subscription waits for a notification to be taken; no more where `since` is absent.
    pub(crate) fn waits(&self, subscription_id: &str, since: Option<Timestamp>) {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        match since {
            Some(since) => drop(outbox.insert(subscription_id.to_owned(), since)),
            None => drop(outbox.remove(subscription_id)),
        }
    }

    /// What waits in the outbox now.
    fn look_at_outbox(&self, now: Timestamp) {
        let outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting
            .set(i64::try_from(outbox.len()).unwrap_or(i64::MAX));
        let oldest = outbox
            .values()
            .min()
            .map(|since| now.duration_since(*since).as_secs_f64());
        self.lag.set(oldest.unwrap_or_default().max(0.0));
    }

    /// What the database says now.
    fn take(&self, figures: &Statistics) {
        self.open.reset();
        for (operation, state, count) in &figures.open_ops {
            self.open.with_label_values(&[operation, state]).set(*count);
        }
        self.instances.reset();
        for (state, count) in &figures.instances {
            self.instances.with_label_values(&[state]).set(*count);
        }
        self.given_up.set(figures.given_up);
        self.expiries.reset();
        for vim in &figures.vims {
            if let Some(at) = vim.expires_at {
                self.expires("vim", &vim.id, at.as_second());
            }
        }
        self.forget_all_but(figures);
    }

    /// Figures of VIMs that are in the registry no more.
    fn forget_all_but(&self, figures: &Statistics) {
        let mut vims = self.vims.lock().unwrap_or_else(PoisonError::into_inner);
        vims.retain(|id| {
            let is_there = id == "inline" || figures.vims.iter().any(|vim| vim.id == *id);
            if !is_there {
                for end in ENDS {
                    let _ = self.calls.remove_label_values(&[id.as_str(), end]); // it may never have ended so
                }
                let _ = self.waits.remove_label_values(&[id.as_str()]);
            }
            is_there
        });
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds since 1970 fit for millions of years"
    )]
    fn expires(&self, what: &str, name: &str, second: i64) {
        self.expiries
            .with_label_values(&[what, name])
            .set(second as f64);
    }
}

fn times(all: &Registry, figure: Figure, buckets: &[f64]) -> prometheus::Result<HistogramVec> {
    let (name, help, labels) = figure;
    kept(
        all,
        HistogramVec::new(histogram_opts!(name, help, buckets.to_vec()), labels)?,
    )
}

fn levels(all: &Registry, (name, help, labels): Figure) -> prometheus::Result<IntGaugeVec> {
    kept(all, IntGaugeVec::new(Opts::new(name, help), labels)?)
}

fn kept<C: Collector + Clone + 'static>(all: &Registry, figure: C) -> prometheus::Result<C> {
    all.register(Box::new(figure.clone()))?;
    Ok(figure)
}

const ENDS: &[&str] = &["answered", "failed", "dropped"];

impl Observer for Metrics {
    fn entered(&self, operation: LcmOperationType, state: LcmOperationState) {
        self.states
            .with_label_values(&[operation.as_str(), state.as_str()])
            .inc();
    }

    fn step_ended(
        &self,
        operation: LcmOperationType,
        (step, status): (&str, StepStatus),
        took: Duration,
    ) {
        let end = match status {
            StepStatus::Done => "done",
            StepStatus::Undone => "undone",
            StepStatus::Skipped => return,
            StepStatus::Started | StepStatus::Undoing => "failed",
        };
        self.steps
            .with_label_values(&[operation.as_str(), step, end])
            .observe(took.as_secs_f64());
    }

    fn vim_called(&self, vim: &str, end: CallEnd, (waited, took): (Duration, Duration)) {
        let end = match end {
            CallEnd::Answered => ENDS[0],
            CallEnd::Failed => ENDS[1],
            CallEnd::Dropped => ENDS[2],
        };
        self.calls
            .with_label_values(&[vim, end])
            .observe(took.as_secs_f64());
        self.waits
            .with_label_values(&[vim])
            .observe(waited.as_secs_f64());
        let mut vims = self.vims.lock().unwrap_or_else(PoisonError::into_inner);
        if !vims.contains(vim) {
            vims.insert(vim.to_owned());
        }
    }
}

/// Counts a request.
pub async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = match *request.method() {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    };
    let response = next.run(request).await;
    // Without braces, which some who read the format do not expect inside of a label.
    let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
    let route = route.replace('{', ":").replace('}', "");
    let status = response.status();
    let labels = [route.as_str(), method, status.as_str()];
    app.operating
        .metrics
        .requests
        .with_label_values(&labels)
        .observe(began.elapsed().as_secs_f64());
    response
}

/// `GET /metrics`, in Prometheus' text format.
///
/// # Errors
///
/// 503 where the database does not answer.
pub async fn show(State(app): State<App>) -> Answer {
    let metrics = &app.operating.metrics;
    metrics.look_at_outbox(app.engine.now());
    metrics
        .driven
        .set(i64::try_from(app.engine.driven()).unwrap_or(i64::MAX));
    if let Some(upkeep) = &app.upkeep {
        metrics.take(&upkeep.figures().await?);
    }
    for (name, second) in certificates::expiries(&app.operating.certificates).await {
        metrics.expires("certificate", &name, second);
    }
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    encoder
        .encode(&metrics.registry.gather(), &mut text)
        .map_err(|error| Problem::bug(&error))?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}
