//! Events in order, returned at once or as a long poll.

use crate::bench::{Bench, INSTANCES};
use crate::tenants::users;
use serde_json::{Value, json};

const EVENTS: &str = "/vnfm/v1/events";

fn summaries(response: &Value) -> Vec<String> {
    let events = response["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| {
            let kind = event["operationState"]
                .as_str()
                .or(event["notificationType"].as_str());
            kind.unwrap().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn events_are_ordered_and_can_be_waited_for() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let nothing = bench.get(EVENTS).await.body;
    assert_eq!(nothing, json!({"events": [], "next": 0}));
    let id = bench.create(&vnfd).await;
    let op = bench
        .post(
            &format!("{INSTANCES}/{id}/instantiate"),
            &bench.request_b().await,
        )
        .await;
    bench.ended(&op.created_id()).await;
    let all = bench.get(EVENTS).await.body;
    let expected = [
        "VnfIdentifierCreationNotification",
        "STARTING",
        "PROCESSING",
        "COMPLETED",
    ];
    assert_eq!(summaries(&all), expected);
    let second = &all["events"][1];
    assert_eq!(
        (&second["vnfInstanceId"], &second["vnfLcmOpOccId"]),
        (&json!(id), &json!(op.created_id()))
    );
    let path = format!("{EVENTS}?after={}&wait_seconds=60", all["next"]);
    let (waited, created) = tokio::join!(bench.get(&path), bench.create(&vnfd));
    assert_eq!(
        summaries(&waited.body),
        ["VnfIdentifierCreationNotification"]
    );
    assert_eq!(waited.body["events"][0]["vnfInstanceId"], created.as_str());
    for wrong in ["after=x", "after=-1", "wait_seconds=61", "since=1"] {
        assert_eq!(
            bench.get(&format!("{EVENTS}?{wrong}")).await.status,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn events_of_other_tenants_are_hidden() {
    let bench = Bench::with(users("")).await;
    bench.log_in("acme-admin");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    for _ in 0..3 {
        bench.create(&vnfd).await;
    }
    bench.log_in("other-admin");
    let seen = bench.get(EVENTS).await.body;
    assert_eq!(
        seen,
        json!({"events": [], "next": 0}),
        "their number is hidden too"
    );
}

#[tokio::test]
async fn event_lists_are_bounded_and_can_be_continued() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let name = "n".repeat(4_000);
    let mut created = Vec::new();
    for index in 0..40 {
        let body = json!({"vnfdId": vnfd, "vnfInstanceName": format!("{index}-{name}")});
        created.push(bench.post(INSTANCES, &body).await.created_id());
    }
    let (mut seen, mut after, mut responses) = (Vec::new(), json!(0), 0);
    loop {
        let response = bench.get(&format!("{EVENTS}?after={after}")).await;
        let events = response.body["events"].as_array().unwrap();
        if events.is_empty() {
            break;
        }
        assert!(
            response.body.to_string().len() <= (64 << 10) + 64,
            "a response with {} events",
            events.len()
        );
        let ids = events
            .iter()
            .map(|event| event["vnfInstanceId"].as_str().unwrap().to_owned());
        seen.extend(ids);
        after = response.body["next"].clone();
        responses += 1;
    }
    assert_eq!(seen, created, "each event once, in order");
    assert!(responses >= 3, "{responses} answers for 160 kB");
}
