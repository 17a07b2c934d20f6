//! Observability: health, Prometheus metrics and traces.

use crate::bench::{Bench, INSTANCES, Setup};
use axum::http::{Method as Verb, StatusCode};
use prometheus_parse::{Sample, Scrape, Value};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use tokio::sync::watch;
use tokio::task::JoinSet;
use vnfm_server::reference::METRICS;

async fn figures(bench: &Bench) -> Scrape {
    let response = bench.get("/metrics").await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(
        response.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain")
    );
    Scrape::parse(response.text.lines().map(|line| Ok(line.to_owned()))).unwrap()
}

/// Value of the metric with this name and these labels.
fn count(scrape: &Scrape, name: &str, labels: &[(&str, &str)]) -> String {
    let fits = |sample: &&Sample| {
        let has = |(label, value): &(&str, &str)| sample.labels.get(label) == Some(value);
        sample.metric == name && labels.iter().all(has)
    };
    let samples = scrape
        .samples
        .iter()
        .filter(fits)
        .map(|sample| match &sample.value {
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => *value,
            Value::Histogram(buckets) => buckets.last().map_or(0.0, |bucket| bucket.count),
            Value::Summary(_) => 0.0,
        });
    format!("{}", samples.fold(0.0, |sum, value| sum + value))
}

#[tokio::test]
async fn health_needs_no_login_and_metrics_do() {
    let bench = Bench::with(Setup {
        token: Some("planted-0123456789"),
        ..Setup::default()
    })
    .await;
    assert_eq!(bench.get("/healthz").await.text, "ok\n");
    let ready = bench.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.body["ready"].clone()),
        (200, json!(true))
    );
    assert_eq!(bench.get("/metrics").await.status, 401);
    let request = bench.request(Method::GET, "/metrics");
    let request = request.header("authorization", "Bearer planted-0123456789");
    assert_eq!(bench.send(request).await.status, 200);
}

#[tokio::test]
async fn metrics_count_requests_operations_steps_and_calls() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let begun = bench
        .post(
            &format!("{INSTANCES}/{id}/instantiate"),
            &bench.request_b().await,
        )
        .await;
    assert_eq!(begun.status, 202, "{begun:?}");
    assert_eq!(
        bench.ended(&begun.created_id()).await["operationState"],
        "COMPLETED"
    );
    bench.get(&format!("{INSTANCES}/nowhere")).await;
    bench.get("/nothing/of/the/kind").await;
    let seen = figures(&bench).await;
    let route = ("route", "/vnflcm/v2/vnf_instances/:id");
    let requests = "vnfm_http_request_duration_seconds";
    assert_eq!(
        count(
            &seen,
            requests,
            &[route, ("method", "GET"), ("status", "404")]
        ),
        "1"
    );
    assert_eq!(
        count(&seen, requests, &[("route", "unknown"), ("status", "404")]),
        "1"
    );
    let instantiate = ("operation", "INSTANTIATE");
    for state in ["STARTING", "PROCESSING", "COMPLETED"] {
        let states = count(
            &seen,
            "vnfm_operation_states_total",
            &[instantiate, ("state", state)],
        );
        assert_eq!(states, "1", "{state}");
    }
    let steps = [instantiate, ("step", "allocate"), ("end", "done")];
    assert_eq!(count(&seen, "vnfm_step_duration_seconds", &steps), "1");
    assert_eq!(count(&seen, "vnfm_operations_driven", &[]), "0");
    assert_eq!(
        count(
            &seen,
            "vnfm_build_info",
            &[("version", env!("CARGO_PKG_VERSION"))]
        ),
        "1"
    );
}

#[tokio::test]
async fn metric_labels_have_few_values_and_no_tenant_data() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let before = series(&bench).await;
    for number in 0..20 {
        bench.get(&format!("{INSTANCES}/unknown-{number}")).await;
        bench.get(&format!("/unknown-{number}")).await;
        let odd = Method::from_bytes(format!("ODD{number}").as_bytes()).unwrap();
        bench.send(bench.request(odd, "/")).await;
    }
    let text = bench.get("/metrics").await.text;
    assert!(
        !text.contains(&id) && !text.contains("unknown-") && !text.contains(&vnfd),
        "{text}"
    );
    let after = series(&bench).await;
    let more: Vec<_> = after.difference(&before).collect();
    assert!(more.len() <= 8, "more series than called routes: {more:#?}");
}

/// Each metric name with its labels, without buckets.
async fn series(bench: &Bench) -> BTreeSet<String> {
    let text = bench.get("/metrics").await.text;
    let samples = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    samples
        .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
        .collect()
}

#[tokio::test]
async fn a_problem_contains_the_trace_id_of_the_request() {
    let bench = Bench::new().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = bench.request(Method::GET, &format!("{INSTANCES}/nowhere"));
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(bench.send(request).await.body["traceId"], trace);
    let own = bench.get(&format!("{INSTANCES}/nowhere")).await.body;
    assert_eq!(own["traceId"].as_str().unwrap().len(), 32, "{own}");
}

/// A callback that accepts nothing until it is opened.
async fn slow_callback(open: &watch::Sender<bool>) -> (String, JoinSet<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/callback", listener.local_addr().unwrap());
    let seen = open.subscribe();
    let take = move |verb: Verb| {
        let mut seen = seen.clone();
        async move {
            if verb == Verb::POST {
                let _ = seen.wait_for(|open| *open).await; // also continues when the sender is dropped
            }
            StatusCode::NO_CONTENT
        }
    };
    let mut task = JoinSet::new();
    let router = axum::Router::new().fallback(take);
    task.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, task)
}

#[tokio::test]
async fn metrics_show_the_backlog_of_the_outbox() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let waiting = async || count(&figures(&bench).await, "vnfm_outbox_waiting", &[]);
    assert_eq!(waiting().await, "0");
    let open = watch::Sender::new(false);
    let (url, _task) = slow_callback(&open).await;
    let created = bench
        .post("/vnflcm/v2/subscriptions", &json!({"callbackUri": url}))
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    bench.create(&vnfd).await;
    while waiting().await != "1" {}
    let lag = async || {
        let lag = count(&figures(&bench).await, "vnfm_outbox_lag_seconds", &[]);
        lag.parse::<f64>().unwrap()
    };
    let first = lag().await;
    assert!(first > 0.0, "{first}");
    assert!(lag().await > first, "the lag grows");
    open.send_replace(true);
    while waiting().await != "0" {}
    assert!(lag().await.abs() < f64::EPSILON, "there is no backlog");
}

/// The metrics that a text names, without the suffixes of histograms.
fn named(text: &str) -> BTreeSet<String> {
    let is_of_a_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text
        .split(|c: char| !is_of_a_name(c))
        .filter(|word| word.starts_with("vnfm_"));
    let plain = |word: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        let found = ends.iter().find_map(|end| word.strip_suffix(end));
        found.unwrap_or(word).to_owned()
    };
    words.map(plain).collect()
}

#[test]
fn alert_rules_dashboard_and_documentation_name_existing_metrics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let known: BTreeSet<String> = METRICS.iter().map(|name| (*name).to_owned()).collect();
    for path in [
        "packaging/prometheus/alerts.yaml",
        "packaging/grafana/vnfm.json",
    ] {
        let used = named(&read(path));
        assert!(used.len() > 5, "{path}: {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(
            unknown.is_empty(),
            "{path} names unknown metrics: {unknown:?}"
        );
    }
    let page = named(&read("../../docs/how-to/monitor.md"));
    let undocumented: Vec<_> = known.difference(&page).collect();
    assert!(
        undocumented.is_empty(),
        "docs/how-to/monitor.md does not describe {undocumented:?}"
    );
}

#[tokio::test]
async fn every_referenced_name_is_a_metric() {
    let bench = Bench::new().await;
    let text = bench.get("/metrics").await.text;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for name in types.filter_map(|line| line.split(' ').next()) {
        assert!(
            METRICS.contains(&name),
            "`{name}` is not in `reference::METRICS`"
        );
    }
}
