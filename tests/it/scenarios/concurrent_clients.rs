//! Concurrent clients: the database lets one succeed.

use std::collections::BTreeMap;

use vnfm_tests::testbed::Testbed;

use super::testbed;

const CLIENTS: usize = 16;

/// Sends the same POST from many clients at once; counts the responses by status.
fn concurrent(testbed: &Testbed, path: &str, body: &str) -> BTreeMap<u16, usize> {
    let start = std::sync::Barrier::new(CLIENTS);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|_| {
            scope.spawn(|| {
                start.wait();
                testbed.server.http("POST", path, body)
            })
        });
        let clients: Vec<_> = clients.collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    let mut statuses = BTreeMap::new();
    for (status, body) in answers {
        assert!(
            status == 202 || body["detail"].is_string(),
            "{status}: {body}"
        );
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}

#[test]
fn one_of_16_concurrent_http_clients_is_accepted() {
    let (sim, testbed) = testbed(&[], "info");
    let (id, request) = testbed.create_a("vnf-a-k8s-cluster");
    let path = format!("/vnflcm/v2/vnf_instances/{id}");
    let one_accepted = BTreeMap::from([(202, 1), (409, CLIENTS - 1)]);
    let statuses = concurrent(
        &testbed,
        &format!("{path}/instantiate"),
        &request.to_string(),
    );
    assert_eq!(statuses, one_accepted);
    testbed.wait_for_state(&only_operation(&testbed, "INSTANTIATE"), "COMPLETED");
    let body = r#"{"terminationType": "FORCEFUL"}"#;
    assert_eq!(
        concurrent(&testbed, &format!("{path}/terminate"), body),
        one_accepted
    );
    testbed.wait_for_state(&only_operation(&testbed, "TERMINATE"), "COMPLETED");
    assert_eq!(sim.calls("heat.stack_create", "").len(), 1);
    sim.assert_clean();
}

/// The one operation of this kind.
fn only_operation(testbed: &Testbed, operation: &str) -> String {
    let all = testbed.server.ctl(&["op", "list"]);
    let ours: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .filter(|op| op["operation"] == operation)
        .collect();
    assert_eq!(ours.len(), 1, "{all:#}");
    ours[0]["id"].as_str().unwrap().to_owned()
}
