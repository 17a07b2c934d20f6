//! The spans that a collector receives: from a request down to VIM calls and commands on hosts.

use vnfm_spans::{Collector, Span};
use vnfm_tests::testbed::VNF_A;

use super::testbed_with;

#[test]
fn traces_contain_requests_operations_steps_and_calls() {
    let collector = Collector::begin().unwrap();
    let (_sim, mut testbed) =
        testbed_with(&format!("monitoring: {{traces: '{}'}}", collector.url()));
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    let op = testbed.instantiate(VNF_A, &request);
    testbed.wait_for_state(&op, "COMPLETED");
    let missing = testbed
        .server
        .http("GET", "/vnflcm/v2/vnf_instances/nowhere", "")
        .1;
    testbed.server.terminate();
    let spans = collector.end().unwrap();
    let attribute = |span: &Span, key: &str| span.attribute(key).unwrap_or_default();
    let one = |what: &str, fits: &dyn Fn(&Span) -> bool| {
        spans
            .iter()
            .find(|span| fits(span))
            .unwrap_or_else(|| panic!("no {what}: {spans:#?}"))
    };
    let begun_by = |child: &Span, parent: &Span| {
        assert_eq!(child.parent, parent.id, "{child:?}\n{parent:?}");
        assert_eq!(child.trace_id, parent.trace_id);
    };
    let operation = one("operation", &|span| attribute(span, "op_id") == op);
    assert_eq!(attribute(operation, "operation"), "INSTANTIATE");
    let request = one("request", &|span| {
        span.name == "request" && attribute(span, "path").ends_with("/instantiate")
    });
    begun_by(operation, request);
    for (step, name, key, value) in [
        ("allocate", "vim_call", "doing", "create stack"),
        ("instantiate_end", "hook_call", "service", "ssh.run"),
    ] {
        let step = one(step, &|span| {
            span.name == "step" && attribute(span, "step") == step
        });
        begun_by(step, operation);
        one(value, &|span| {
            span.name == name
                && span.trace_id == operation.trace_id
                && attribute(span, key).starts_with(value)
        });
    }
    one("trace of a problem", &|span| {
        missing["traceId"] == span.trace_id
    });
}
