//! Checks of every request: credential, `Version` and `Accept`.

use crate::bench::{Bench, INSTANCES, PACKAGES, Response, Setup, VIMS};
use reqwest::Method;
use serde_json::json;

async fn with(bench: &Bench, path: &str, header: (&str, &str)) -> Response {
    let base = if header.0 == "version" {
        bench.bare(Method::GET, path)
    } else {
        bench.request(Method::GET, path)
    };
    bench.send(base.header(header.0, header.1)).await
}

#[tokio::test]
async fn a_server_with_a_token_refuses_requests_without_it() {
    let bench = Bench::with(Setup {
        token: Some("planted-0123456789"),
        ..Setup::default()
    })
    .await;
    let none = bench.request(Method::GET, INSTANCES);
    let response = bench
        .request(Method::GET, "/vnfm/v1/health")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    assert_eq!(none.send().await.unwrap().status(), 401);
    for wrong in [
        "Bearer planted-012345678",
        "Bearer planted-0123456788",
        "Basic planted-0123456789",
        "",
    ] {
        let request = bench
            .request(Method::GET, INSTANCES)
            .header("authorization", wrong);
        assert_eq!(request.send().await.unwrap().status(), 401, "{wrong}");
    }
    assert_eq!(
        with(
            &bench,
            INSTANCES,
            ("authorization", "Bearer planted-0123456789")
        )
        .await
        .status,
        200
    );
}

#[tokio::test]
async fn versions() {
    let bench = Bench::new().await;
    for (asked, status, answered) in [
        ("2.0.0", 200, "2.0.0"),
        ("2.3.0-impl:a:b:1", 200, "2.3.0"),
        ("1.0.0", 406, "2.3.0"),
        ("x", 400, "2.3.0"),
        ("2.3", 400, "2.3.0"),
        ("", 400, "2.3.0"),
    ] {
        let response = with(&bench, INSTANCES, ("version", asked)).await;
        assert_eq!(response.status, status, "{asked}");
        assert_eq!(response.headers["version"], answered);
    }
    let all = bench.get("/vnflcm/v2/api_versions").await.body;
    crate::oracle::check("ApiVersionInformation", &all);
    assert_eq!(
        all["apiVersions"][0],
        json!({"version": "2.0.0", "isDeprecated": false})
    );
}

#[tokio::test]
async fn a_request_without_the_version_header_is_refused() {
    let bench = Bench::new().await;
    for (path, status) in [
        (INSTANCES, 400),
        (PACKAGES, 400),
        ("/vnflcm/api_versions", 200),
        ("/vnflcm/v2/api_versions", 200),
        ("/vnfpkgm/v2/api_versions", 200),
        (VIMS, 200),
    ] {
        let response = bench.send(bench.bare(Method::GET, path)).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
        if status == 400 {
            assert!(
                response.detail().contains("`Version` is missing"),
                "{response:?}"
            );
            assert_eq!(response.body["code"], "request.no-version");
        }
    }
}

#[tokio::test]
async fn an_updated_vim_is_trusted_only_by_its_new_certificate() {
    let bench = Bench::new().await;
    let connection = |trust: serde_json::Value| {
        let mut interface = json!({"endpoint": "https://192.0.2.9:6443"});
        interface
            .as_object_mut()
            .unwrap()
            .extend(trust.as_object().unwrap().clone());
        json!({"vimType": "ETSINFV.KUBERNETES.V_1", "interfaceInfo": interface,
            "accessInfo": {"bearer_token": "planted-token"}})
    };
    let insecure = connection(json!({"skipCertificateVerification": true}));
    let vim = bench
        .post(VIMS, &json!({"name": "k", "connection": insecure}))
        .await
        .id();
    let verified = json!({"connection": connection(json!({"ssl_ca_cert": "PEM"}))});
    let path = format!("{VIMS}/{vim}");
    let patched = bench
        .send(bench.request(Method::PATCH, &path).json(&verified))
        .await;
    assert_eq!(patched.status, 200, "{patched:?}");
    let wanted = json!({"endpoint": "https://192.0.2.9:6443", "ssl_ca_cert": "PEM"});
    assert_eq!(patched.body["interfaceInfo"], wanted);
    let renamed = bench
        .request(Method::PATCH, &path)
        .json(&json!({"name": "k2"}));
    assert_eq!(bench.send(renamed).await.body["interfaceInfo"], wanted);
}

#[tokio::test]
async fn a_client_that_does_not_accept_json_gets_406() {
    let bench = Bench::new().await;
    let refused = with(&bench, INSTANCES, ("accept", "text/html, image/*")).await;
    assert_eq!(refused.status, 406, "{refused:?}");
    for taken in [
        "",
        "*/*",
        "text/html, application/json;q=0.1",
        "application/*",
    ] {
        assert_eq!(
            with(&bench, INSTANCES, ("accept", taken)).await.status,
            200,
            "{taken}"
        );
    }
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let bench = Bench::new().await;
    assert!(!bench.get("/vnfm/v1/health").await.headers["x-request-id"].is_empty());
    let response = with(&bench, "/vnfm/v1/health", ("x-request-id", "mine")).await;
    assert_eq!(response.headers["x-request-id"], "mine");
}
