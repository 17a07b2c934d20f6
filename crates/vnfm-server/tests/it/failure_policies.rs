//! The policy of an instance over HTTP, and what an operation that is retried shows.

use crate::bench::{Bench, INSTANCES};
use axum::http::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn an_instance_gets_shows_and_loses_its_own_policy() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let policy = format!("/vnfm/v1/vnf_instances/{id}/policy");
    let put = async |body: Value| {
        let request = bench.request(Method::PUT, &policy).json(&body);
        bench.send(request).await
    };
    let default = json!({"retries": 0, "retryWithinSeconds": 3600, "then": "STOP"});
    let default = json!({"onFailure": default, "source": "SERVER"});
    assert_eq!(bench.get(&policy).await.body, default);

    let tag = bench.get(&format!("{INSTANCES}/{id}")).await;
    let set = put(json!({"onFailure": {"retries": 3, "then": "ROLLBACK"}})).await;
    let own = json!({"retries": 3, "retryWithinSeconds": 3600, "then": "ROLLBACK"});
    let own = json!({"onFailure": own, "source": "INSTANCE"});
    assert_eq!((set.status, &set.body), (200, &own));
    assert_eq!(bench.get(&policy).await.body, own);
    let shown = bench.get(&format!("{INSTANCES}/{id}")).await;
    assert_eq!(
        shown.body, tag.body,
        "the resource of the standard is unchanged"
    );

    for (body, status, expected) in [
        (
            json!({"onFailure": {"retries": 1_001}}),
            422,
            "`onFailure.retries` is 1001",
        ),
        (json!({"onFailure": {"then": "GIVE_UP"}}), 422, "onFailure"),
        (json!({"onFailure": {"retry": 1}}), 422, "retry"),
        (json!({}), 422, "onFailure"),
    ] {
        let refused = put(body.clone()).await;
        assert_eq!(refused.status, status, "{body}: {refused:?}");
        assert!(refused.detail().contains(expected), "{refused:?}");
    }
    assert_eq!(bench.get(&policy).await.body, own);
    let missing = bench.get("/vnfm/v1/vnf_instances/none/policy").await;
    assert_eq!(missing.status, 404);

    assert_eq!(bench.delete(&policy).await.status, 204);
    assert_eq!(bench.get(&policy).await.body, default);
}
