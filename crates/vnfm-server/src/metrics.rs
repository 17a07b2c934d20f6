//! Prometheus metrics at `/metrics`: requests, operations, steps, VIM calls, notifications, and expiry
//! times. docs/how-to/monitor.md explains each metric.
//!
//! Labels have few values: paths as in the router, ids of registered VIMs, names from tables. They contain no tenants,
//! no instances and no text from requests.

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::{
    Encoder as _, Gauge, GaugeVec, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder, histogram_opts,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vnfm_core::ports::Statistics;
use vnfm_core::ports::{CallEnd, Observer, StepStatus};
use vnfm_types::{LcmOperationState, LcmOperationType};

/// Buckets in seconds for requests and calls.
const CALL_BUCKETS: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];
/// Buckets in seconds for steps and notifications.
const STEP_BUCKETS: &[f64] = &[
    0.1, 0.5, 2.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0,
];

/// All metrics of one server.
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
    /// VIMs that have a label value.
    vims: Mutex<BTreeSet<String>>,
    heard: GaugeVec,
    /// When each VIM that is followed sent its last event.
    events: Mutex<BTreeMap<String, Timestamp>>,
    /// Since when a notification is pending, by subscription.
    outbox: Mutex<BTreeMap<String, Timestamp>>,
}

/// Name, help and labels of a metric.
type Definition = (&'static str, &'static str, &'static [&'static str]);

const REQUESTS: Definition = (
    "vnfm_http_request_duration_seconds",
    "Requests by path, method and status",
    &["route", "method", "status"],
);
const STATES: Definition = (
    "vnfm_operation_states_total",
    "Operations that entered a state",
    &["operation", "state"],
);
const STEPS: Definition = (
    "vnfm_step_duration_seconds",
    "Steps of operations, done or undone, by outcome",
    &["operation", "step", "end"],
);
const CALLS: Definition = (
    "vnfm_vim_call_duration_seconds",
    "Calls to a VIM by outcome",
    &["vim", "end"],
);
const WAITS: Definition = (
    "vnfm_vim_call_wait_seconds",
    "How long calls to a VIM waited for a slot",
    &["vim"],
);
const HEARD: Definition = (
    "vnfm_vim_event_age_seconds",
    "Time since a VIM that is followed sent an event, or confirmed that there is none",
    &["vim"],
);
const NOTIFIED: Definition = (
    "vnfm_notification_delay_seconds",
    "Age of notifications when a subscriber accepted or rejected them",
    &["end"],
);
const LAG: Definition = (
    "vnfm_outbox_lag_seconds",
    "Age of the oldest pending notification; 0 if none is pending",
    &[],
);
const WAITING: Definition = (
    "vnfm_outbox_waiting",
    "Subscriptions with a pending notification",
    &[],
);
const GIVEN_UP: Definition = (
    "vnfm_notifications_given_up",
    "Notifications of existing subscriptions that were dropped because they were not accepted in time",
    &[],
);
const OPEN: Definition = (
    "vnfm_operations_open",
    "Operations that have not ended",
    &["operation", "state"],
);
const INSTANCES: Definition = ("vnfm_vnf_instances", "VNF instances", &["state"]);
const DRIVEN: Definition = (
    "vnfm_operations_driven",
    "Operations that this process drives",
    &[],
);
const EXPIRIES: Definition = (
    "vnfm_expiry_timestamp_seconds",
    "When a certificate, or the login to a VIM, expires",
    &["what", "name"],
);
const BUILD: Definition = (
    "vnfm_build_info",
    "Always 1; the label is the version",
    &["version"],
);

/// The names of all metrics that alert rules and dashboards may use.
pub const NAMES: &[&str] = &[
    REQUESTS.0,
    STATES.0,
    STEPS.0,
    CALLS.0,
    WAITS.0,
    HEARD.0,
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

/// What a scrape reads, in addition to what is counted as it happens.
pub(crate) struct Snapshot {
    pub(crate) at: Timestamp,
    /// Operations that this process drives.
    pub(crate) driven: usize,
    /// Absent if the database belongs to an embedder.
    pub(crate) statistics: Option<Statistics>,
    /// The expiry of each certificate, in seconds since 1970, by the name of its configuration member.
    pub(crate) certificates: Vec<(String, i64)>,
}

impl Metrics {
    /// All counters start at zero.
    ///
    /// # Errors
    ///
    /// If two metrics have the same name: a bug.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let all = &registry;
        gauges(all, BUILD)?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let (seconds, ages) = (
            Opts::new(EXPIRIES.0, EXPIRIES.1),
            Opts::new(HEARD.0, HEARD.1),
        );
        let (given_up, driven) = (gauges(all, GIVEN_UP)?, gauges(all, DRIVEN)?);
        let waiting = gauges(all, WAITING)?;
        Ok(Self {
            requests: histograms(all, REQUESTS, CALL_BUCKETS)?,
            states: register(
                all,
                IntCounterVec::new(Opts::new(STATES.0, STATES.1), STATES.2)?,
            )?,
            steps: histograms(all, STEPS, STEP_BUCKETS)?,
            calls: histograms(all, CALLS, CALL_BUCKETS)?,
            waits: histograms(all, WAITS, CALL_BUCKETS)?,
            notified: histograms(all, NOTIFIED, STEP_BUCKETS)?,
            lag: register(all, Gauge::with_opts(Opts::new(LAG.0, LAG.1))?)?,
            waiting: waiting.with_label_values::<&str>(&[]),
            given_up: given_up.with_label_values::<&str>(&[]),
            open: gauges(all, OPEN)?,
            instances: gauges(all, INSTANCES)?,
            driven: driven.with_label_values::<&str>(&[]),
            expiries: register(all, GaugeVec::new(seconds, EXPIRIES.2)?)?,
            heard: register(all, GaugeVec::new(ages, HEARD.2)?)?,
            vims: Mutex::default(),
            events: Mutex::default(),
            outbox: Mutex::default(),
            registry,
        })
    }

    /// Records a delivery attempt, `age` after the notification was created.
    pub(crate) fn notified(&self, taken: bool, age: Duration) {
        let end = if taken { "taken" } else { "refused" };
        self.notified
            .with_label_values(&[end])
            .observe(age.as_secs_f64());
    }

    /// Records since when a notification of a subscription is pending; `None` if none is.
    pub(crate) fn waits(&self, subscription_id: &str, since: Option<Timestamp>) {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        match since {
            Some(since) => drop(outbox.insert(subscription_id.to_owned(), since)),
            None => drop(outbox.remove(subscription_id)),
        }
    }

    /// All metrics in Prometheus' text format, with the state of the moment.
    ///
    /// # Errors
    ///
    /// If a metric has no text: a bug.
    pub(crate) fn text(&self, now: &Snapshot) -> prometheus::Result<Vec<u8>> {
        self.update_outbox(now.at);
        self.update_events(now.at);
        self.driven
            .set(i64::try_from(now.driven).unwrap_or(i64::MAX));
        if let Some(statistics) = &now.statistics {
            self.update(statistics);
        }
        for (name, second) in &now.certificates {
            self.expires("certificate", name, *second);
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }

    /// Updates the metrics of the outbox to the time `now`.
    fn update_outbox(&self, now: Timestamp) {
        let outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting
            .set(i64::try_from(outbox.len()).unwrap_or(i64::MAX));
        let oldest = outbox
            .values()
            .min()
            .map(|since| now.duration_since(*since).as_secs_f64());
        self.lag.set(oldest.unwrap_or_default().max(0.0));
    }

    /// Updates the age of each VIM's last event to the time `now`.
    fn update_events(&self, now: Timestamp) {
        self.heard.reset();
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for (vim, at) in &*events {
            let age = now.duration_since(*at).as_secs_f64().max(0.0);
            self.heard.with_label_values(&[vim.as_str()]).set(age);
        }
    }

    /// Updates metrics from database statistics.
    fn update(&self, statistics: &Statistics) {
        self.open.reset();
        for (operation, state, count) in &statistics.open_ops {
            self.open.with_label_values(&[operation, state]).set(*count);
        }
        self.instances.reset();
        for (state, count) in &statistics.instances {
            self.instances.with_label_values(&[state]).set(*count);
        }
        self.given_up.set(statistics.given_up);
        self.expiries.reset();
        for vim in &statistics.vims {
            if let Some(at) = vim.expires_at {
                self.expires("vim", &vim.id, at.as_second());
            }
        }
        self.remove_old_vims(statistics);
    }

    /// Removes metrics of VIMs that are no longer registered.
    fn remove_old_vims(&self, statistics: &Statistics) {
        let mut vims = self.vims.lock().unwrap_or_else(PoisonError::into_inner);
        vims.retain(|id| {
            let is_registered = id == "inline" || statistics.vims.iter().any(|vim| vim.id == *id);
            if !is_registered {
                for end in ENDS {
                    let _ = self.calls.remove_label_values(&[id.as_str(), end]); // this outcome may never have occurred
                }
                let _ = self.waits.remove_label_values(&[id.as_str()]);
            }
            is_registered
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

fn histograms(
    all: &Registry,
    definition: Definition,
    buckets: &[f64],
) -> prometheus::Result<HistogramVec> {
    let (name, help, labels) = definition;
    register(
        all,
        HistogramVec::new(histogram_opts!(name, help, buckets.to_vec()), labels)?,
    )
}

fn gauges(all: &Registry, (name, help, labels): Definition) -> prometheus::Result<IntGaugeVec> {
    register(all, IntGaugeVec::new(Opts::new(name, help), labels)?)
}

fn register<C: Collector + Clone + 'static>(all: &Registry, metric: C) -> prometheus::Result<C> {
    all.register(Box::new(metric.clone()))?;
    Ok(metric)
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
        step: &str,
        status: StepStatus,
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

    fn vim_called(&self, vim: &str, end: CallEnd, waited: Duration, took: Duration) {
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

    fn vim_heard(&self, vim: &str, at: Option<Timestamp>) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        match at {
            Some(at) => drop(events.insert(vim.to_owned(), at)),
            None => drop(events.remove(vim)),
        }
    }
}

/// Records the duration of a request.
pub(crate) async fn count(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
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
    // Without braces: some parsers of the format do not expect them in a label.
    let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
    let route = route.replace('{', ":").replace('}', "");
    let status = response.status();
    let labels = [route.as_str(), method, status.as_str()];
    metrics
        .requests
        .with_label_values(&labels)
        .observe(started.elapsed().as_secs_f64());
    response
}
