//! What every request passes: the credential, the version, what it accepts.

use crate::bench::{Answer, Bench, INSTANCES, Setup};
use reqwest::Method;
use serde_json::json;

async fn with(bench: &Bench, path: &str, header: (&str, &str)) -> Answer {
    bench.send(bench.request(Method::GET, path).header(header.0, header.1)).await
}

#[tokio::test]
async fn a_server_with_a_token_answers_nobody_else() {
    let bench = Bench::with(Setup { token: Some("planted-0123456789"), ..Setup::default() }).await;
    let none = bench.request(Method::GET, INSTANCES);
    let answer = bench.request(Method::GET, "/vnfm/v1/health").send().await.unwrap();
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    assert_eq!(none.send().await.unwrap().status(), 401);
    for wrong in
        ["Bearer planted-012345678", "Bearer planted-0123456788", "Basic planted-0123456789", ""]
    {
        let request = bench.request(Method::GET, INSTANCES).header("authorization", wrong);
        assert_eq!(request.send().await.unwrap().status(), 401, "{wrong}");
    }
    assert_eq!(
        with(&bench, INSTANCES, ("authorization", "Bearer planted-0123456789")).await.status,
        200
    );
}

#[tokio::test]
async fn versions() {
    let bench = Bench::new().await;
    for (asked, status, answered) in [
        ("2.0.0", 200, "2.0.0"),
        ("2.3.0-impl:a:b:1", 200, "2.3.0"),
        ("1.0.0", 406, ""),
        ("x", 406, ""),
    ] {
        let request = bench.request(Method::GET, INSTANCES).header("version", asked);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{asked}");
        if status == 200 {
            assert_eq!(answer.headers()["version"], answered);
        }
    }
    let all = bench.get("/vnflcm/api_versions").await.body;
    crate::oracle::check("ApiVersionInformation", &all);
    assert_eq!(all["apiVersions"][0], json!({"version": "2.0.0", "isDeprecated": false}));
}

#[tokio::test]
async fn who_takes_no_json_gets_none() {
    let bench = Bench::new().await;
    let refused = with(&bench, INSTANCES, ("accept", "text/html, image/*")).await;
    assert_eq!(refused.status, 406, "{refused:?}");
    for taken in ["*/*", "text/html, application/json;q=0.1", "application/*"] {
        assert_eq!(with(&bench, INSTANCES, ("accept", taken)).await.status, 200, "{taken}");
    }
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    let bench = Bench::new().await;
    assert!(!bench.get("/vnfm/v1/health").await.headers["x-request-id"].is_empty());
    let answer = with(&bench, "/vnfm/v1/health", ("x-request-id", "mine")).await;
    assert_eq!(answer.headers["x-request-id"], "mine");
}
