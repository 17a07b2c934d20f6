//! The spans that a collector gets: what a request began, down to the calls and the commands on hosts.

use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use vnfm_tests::stage::VNF_A;

use super::stage_with;

/// Whatever was sent to it, request by request.
struct Collector {
    server: Arc<tiny_http::Server>,
    taking: JoinHandle<Vec<Value>>,
}

impl Collector {
    fn begin() -> Self {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let listening = server.clone();
        let taking = std::thread::spawn(move || {
            let mut sent = Vec::new();
            for mut request in listening.incoming_requests() {
                assert_eq!(request.url(), "/v1/traces");
                sent.push(serde_json::from_reader(request.as_reader()).unwrap());
                request.respond(tiny_http::Response::from_string("{}")).unwrap();
            }
            sent
        });
        Self { server, taking }
    }

    fn spans(self) -> Vec<Value> {
        self.server.unblock();
        let sent = self.taking.join().unwrap();
        let each = |value: &Value, member: &str| value[member].as_array().unwrap().clone();
        let resources = sent.iter().flat_map(|sent| each(sent, "resourceSpans"));
        let scopes = resources.flat_map(|resource| each(&resource, "scopeSpans"));
        scopes.flat_map(|scope| each(&scope, "spans")).collect()
    }
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.and_then(|found| found["value"]["stringValue"].as_str()).unwrap_or_default()
}

#[test]
fn a_collector_gets_a_span_for_each_request_operation_step_and_call() {
    let collector = Collector::begin();
    let url = format!("http://{}", collector.server.server_addr());
    let (_sim, mut stage) = stage_with(&format!("monitoring: {{traces: '{url}'}}"));
    let (_, request) = stage.create_a("vnf-a-k8s-cluster");
    let op = stage.instantiate(VNF_A, &request);
    stage.ends_as(&op, "COMPLETED");
    let missing = stage.server.http("GET", "/vnflcm/v2/vnf_instances/nowhere", "").1;
    stage.server.terminate();
    let spans = collector.spans();
    let one = |what: &str, fits: &dyn Fn(&Value) -> bool| {
        spans.iter().find(|span| fits(span)).unwrap_or_else(|| panic!("no {what}: {spans:#?}"))
    };
    let begun_by = |child: &Value, parent: &Value| {
        assert_eq!(child["parentSpanId"], parent["spanId"], "{child}\n{parent}");
        assert_eq!(child["traceId"], parent["traceId"]);
    };
    let operation = one("operation", &|span| attribute(span, "op_id") == op);
    assert_eq!(attribute(operation, "operation"), "INSTANTIATE");
    let request = one("request", &|span| {
        span["name"] == "request" && attribute(span, "path").ends_with("/instantiate")
    });
    begun_by(operation, request);
    for (step, name, key, value) in [
        ("allocate", "vim_call", "doing", "create stack"),
        ("instantiate_end", "hook_call", "service", "ssh.run"),
    ] {
        let step = one(step, &|span| span["name"] == "step" && attribute(span, "step") == step);
        begun_by(step, operation);
        one(value, &|span| {
            span["name"] == name
                && span["traceId"] == operation["traceId"]
                && attribute(span, key).starts_with(value)
        });
    }
    one("trace of a problem", &|span| span["traceId"] == missing["traceId"]);
    assert_ne!(json!(null), missing["traceId"]);
}
