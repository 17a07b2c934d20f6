//! Each kind of fault once, added through the control API as by a checker in another process.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use vnfm_sim::World;

use crate::support::{Answer, Client, http, read, three_servers, world};

async fn control(world: &World, method: Method, path: &str, body: Value) -> Answer {
    read(
        http()
            .request(method, format!("{}{path}", world.endpoints().control))
            .json(&body),
    )
    .await
    .unwrap()
}

async fn arm(world: &World, rule: Value) {
    let armed = control(world, Method::POST, "/faults", rule).await;
    assert_eq!(
        (armed.status.as_u16(), &armed.body["armed"]),
        (200, &json!(1)),
        "{}",
        armed.body
    );
}

async fn stacks(nfv: &Client) -> usize {
    nfv.get("orchestration", "/stacks").await.body["stacks"]
        .as_array()
        .unwrap()
        .len()
}

fn empty() -> Value {
    json!({ "heat_template_version": "2018-08-31" })
}

#[tokio::test]
async fn a_status_fault_prevents_the_effect() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    arm(
        &world,
        json!({ "call": "heat.stack_create", "subject": "vnf-", "fault": { "status": 503 } }),
    )
    .await;
    let refused = nfv.create("vnf-1", &empty(), json!({})).await;
    assert_eq!(
        (
            refused.status.as_u16(),
            refused.body["title"].as_str(),
            stacks(&nfv).await
        ),
        (503, Some("Service Unavailable"), 0)
    );
    assert_eq!(nfv.create("vnf-1", &empty(), json!({})).await.status, 201);
}

#[tokio::test]
async fn an_error_after_effect_fault_keeps_the_effect() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    arm(
        &world,
        json!({ "call": "heat.stack_create", "fault": { "errorAfterEffect": 500 } }),
    )
    .await;
    let refused = nfv.create("vnf-1", &empty(), json!({})).await;
    assert_eq!((refused.status.as_u16(), stacks(&nfv).await), (500, 1));
}

#[tokio::test]
async fn a_drop_fault_cuts_the_connection_before_or_after_the_effect() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let body = json!({ "stack_name": "vnf-1", "template": empty() });
    for (when, left) in [("before", 0), ("after", 1)] {
        arm(
            &world,
            json!({ "call": "heat.stack_create", "fault": { "drop": when } }),
        )
        .await;
        let cut = nfv
            .ask(Method::POST, ("orchestration", "/stacks"), Some(&body))
            .await;
        assert!(cut.is_err(), "{when}");
        assert_eq!(stacks(&nfv).await, left, "{when}");
    }
    let noted: Vec<(i64, String)> = world
        .ledger()
        .calls_named("heat.stack_create")
        .into_iter()
        .map(|c| (c.status, c.detail))
        .collect();
    assert_eq!(
        noted,
        [
            (0, "fault: cut before the effect".into()),
            (0, "fault: cut after the effect (201)".into())
        ]
    );
}

#[tokio::test]
async fn a_delay_fault_delays_and_a_hang_fault_sends_no_response() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    arm(
        &world,
        json!({ "call": "heat.stack_list", "fault": { "delayMs": 60 } }),
    )
    .await;
    let begin = Instant::now();
    assert_eq!(stacks(&nfv).await, 0);
    assert!(begin.elapsed() >= Duration::from_millis(60));
    arm(
        &world,
        json!({ "call": "heat.stack_list", "fault": { "hang": true } }),
    )
    .await;
    let pending = nfv.get("orchestration", "/stacks");
    assert!(
        tokio::time::timeout(Duration::from_millis(100), pending)
            .await
            .is_err()
    );
    assert_eq!(stacks(&nfv).await, 0);
}

#[tokio::test]
async fn a_failing_resource_fails_its_stack_and_a_hanging_one_keeps_it_in_progress() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    arm(&world, json!({ "call": "heat.resource_create", "subject": "vnf-1/worker1", "nth": 2, "fault": { "status": 500 } })).await;
    let stack = nfv.stack("vnf-1", &three_servers(), json!({})).await;
    assert_eq!(stack["stack_status"], "CREATE_FAILED");
    assert!(
        stack["stack_status_reason"]
            .as_str()
            .unwrap()
            .contains("No valid host was found"),
        "{}",
        stack["stack_status_reason"]
    );
    nfv.delete(&stack).await;
    arm(&world, json!({ "call": "heat.resource_create", "subject": "vnf-2/master_port", "fault": { "hang": true } })).await;
    let created = nfv.create("vnf-2", &three_servers(), json!({})).await;
    let id = created.body["stack"]["id"].as_str().unwrap().to_owned();
    let hung = nfv
        .get("orchestration", &format!("/stacks/vnf-2/{id}"))
        .await
        .body["stack"]
        .clone();
    assert_eq!(hung["stack_status"], "CREATE_IN_PROGRESS");
    nfv.delete(&hung).await;
    assert_eq!(world.ledger().left_behind(), []);
}

fn count_servers(entries: &Value) -> usize {
    let entries = entries.as_array().unwrap().iter();
    entries.filter(|entry| entry["kind"] == "server").count()
}

#[tokio::test]
async fn the_control_api_reports_state_and_performs_actions() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    nfv.stack("vnf-1", &three_servers(), json!({})).await;
    let seen = control(&world, Method::GET, "/world", Value::Null)
        .await
        .body;
    assert_eq!(seen["authUrl"], world.endpoints().auth_url.as_str());
    assert_eq!(
        count_servers(
            &control(&world, Method::GET, "/left-behind", Value::Null)
                .await
                .body
        ),
        3
    );
    let act = async |body: Value| {
        control(&world, Method::POST, "/actions", body)
            .await
            .status
            .as_u16()
    };
    for (action, status) in [
        (
            json!({ "action": "delete-server", "server": "master" }),
            200,
        ),
        (
            json!({ "action": "break-server", "server": "worker0" }),
            200,
        ),
        (
            json!({ "action": "set-quota", "quota": "instances", "value": 1 }),
            200,
        ),
        (json!({ "action": "delete-server", "server": "none" }), 404),
        (json!({ "action": "nonsense" }), 400),
    ] {
        assert_eq!(act(action.clone()).await, status, "{action}");
    }
    let books = control(&world, Method::GET, "/books", Value::Null)
        .await
        .body;
    assert_eq!(count_servers(&books["stock"]), 2);
    let statuses: Vec<&Value> = books["stock"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["kind"] == "server")
        .map(|e| &e["detail"]["status"])
        .collect();
    assert!(statuses.contains(&&json!("ERROR")));
    assert_eq!(act(json!({ "action": "revoke-tokens" })).await, 200);
    assert_eq!(nfv.get("compute", "/servers").await.status, 401);
    assert_eq!(
        control(&world, Method::DELETE, "/faults", Value::Null)
            .await
            .body,
        json!([])
    );
}
