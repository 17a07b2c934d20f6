//! Details of the standard on which clients rely: one test for each deviation that was found and fixed.

use crate::bench::{Bench, INSTANCES, OPS, PACKAGES, Setup};
use crate::process::{command, started};
use crate::subscriptions::Sink;
use axum::http::StatusCode;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering::SeqCst;

/// An instance whose instantiation is in FAILED_TEMP; returns it with the operation.
async fn stopped(bench: &Bench) -> (String, String) {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    bench.world.fails.store(true, SeqCst);
    let request = bench.request_b().await;
    let op = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await
        .created_id();
    assert_eq!(bench.ended(&op).await["operationState"], "FAILED_TEMP");
    (id, op)
}

#[tokio::test]
async fn an_error_remains_during_a_retry_and_is_removed_on_success() {
    let bench = Bench::new().await;
    let (_, op) = stopped(&bench).await;
    let before = bench.get(&format!("{OPS}/{op}")).await.body["error"].clone();
    assert_eq!(before["step"], "allocate");
    bench.world.fails.store(false, SeqCst);
    bench.world.held.send_replace(true);
    assert_eq!(
        bench
            .post(&format!("{OPS}/{op}/retry"), &Value::Null)
            .await
            .status,
        202
    );
    let running = bench.get(&format!("{OPS}/{op}")).await.body;
    assert_eq!(running["operationState"], "PROCESSING", "{running:#}");
    assert_eq!(running["error"], before);
    bench.world.held.send_replace(false);
    let done = bench.ended(&op).await;
    assert_eq!(done["operationState"], "COMPLETED", "{done:#}");
    assert!(done.get("error").is_none(), "{done:#}");
}

#[tokio::test]
async fn a_rollback_keeps_and_notifies_the_error() {
    let bench = Bench::new().await;
    let sink = Sink::answering(StatusCode::NO_CONTENT).await;
    let filter = json!({"notificationTypes": ["VnfLcmOperationOccurrenceNotification"]});
    bench
        .post(
            "/vnflcm/v2/subscriptions",
            &json!({"callbackUri": sink.url, "filter": filter}),
        )
        .await;
    let (_, op) = stopped(&bench).await;
    assert_eq!(
        bench
            .post(&format!("{OPS}/{op}/rollback"), &Value::Null)
            .await
            .status,
        202
    );
    let ended = bench.ended(&op).await;
    assert_eq!(
        (&ended["operationState"], &ended["error"]["step"]),
        (&json!("ROLLED_BACK"), &json!("allocate"))
    );
    let received = sink.notifications(5).await;
    let received: Vec<_> = received
        .iter()
        .map(|one| {
            (
                one["operationState"].as_str().unwrap(),
                one.get("error").is_some(),
            )
        })
        .collect();
    assert_eq!(
        received,
        [
            ("STARTING", false),
            ("PROCESSING", false),
            ("FAILED_TEMP", true),
            ("ROLLING_BACK", false),
            ("ROLLED_BACK", true)
        ]
    );
}

#[tokio::test]
async fn the_uri_prefix_is_absolute_behind_a_proxy() {
    let public_url = Some("https://vnfm.example.com/outer/".to_owned());
    let bench = Bench::with(Setup {
        public_url,
        ..Setup::default()
    })
    .await;
    for (path, prefix) in [
        (
            "/vnflcm/v2/api_versions",
            "https://vnfm.example.com/outer/vnflcm/v2/",
        ),
        (
            "/vnflcm/v1/api_versions",
            "https://vnfm.example.com/outer/vnflcm/v1/",
        ),
        (
            "/vnfpkgm/v2/api_versions",
            "https://vnfm.example.com/outer/vnfpkgm/v2/",
        ),
    ] {
        let response = bench.send(bench.bare(Method::GET, path)).await;
        assert_eq!(response.body["uriPrefix"], prefix);
    }
}

#[tokio::test]
async fn api_versions_are_served_for_any_version_header() {
    let bench = Bench::new().await;
    for (path, requested, expected) in [
        ("/vnflcm/v2/api_versions", "2.0.0", "2.0.0"),
        ("/vnflcm/v2/api_versions", "9.0.0", "2.3.0"),
        ("/vnflcm/v1/api_versions", "nonsense", "1.3.0"),
        ("/vnflcm/api_versions", "1.3.0", "1.3.0"),
    ] {
        let response = bench
            .send(bench.bare(Method::GET, path).header("version", requested))
            .await;
        assert_eq!(
            (response.status, &response.headers["version"]),
            (200, &expected.parse().unwrap()),
            "{path}"
        );
    }
    let wrong = bench
        .send(bench.bare(Method::DELETE, "/vnflcm/v2/api_versions"))
        .await;
    assert_eq!(
        (wrong.status, &wrong.headers["version"]),
        (405, &"2.3.0".parse().unwrap())
    );
}

#[tokio::test]
async fn a_media_type_with_quality_zero_is_not_sent() {
    let bench = Bench::new().await;
    let refused = bench
        .request(Method::GET, INSTANCES)
        .header("accept", "application/json;q=0, */*");
    assert_eq!(bench.send(refused).await.status, 406);
    let taken = bench
        .request(Method::GET, INSTANCES)
        .header("accept", "text/html;q=0, */*;q=0.1");
    assert_eq!(bench.send(taken).await.status, 200);
}

#[tokio::test]
async fn a_matching_if_none_match_gets_304() {
    let bench = Bench::new().await;
    let (package, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let instance = format!("{INSTANCES}/{id}");
    let package = format!("{PACKAGES}/{package}");
    for path in [
        &instance,
        &package,
        &format!("{package}/package_content"),
        &format!("{package}/vnfd"),
    ] {
        let first = bench.get(path).await;
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let request = bench
                .request(Method::GET, path)
                .header("if-none-match", &known);
            let response = bench.send(request).await;
            assert_eq!(
                (response.status, response.text.as_str()),
                (304, ""),
                "{path} {known}: {response:?}"
            );
            assert_eq!(response.headers["etag"], tag.as_str());
            assert!(
                !response.headers.contains_key("content-type"),
                "{response:?}"
            );
        }
        for other in ["\"x\"", "nonsense", ""] {
            let request = bench
                .request(Method::GET, path)
                .header("if-none-match", other);
            assert_eq!(bench.send(request).await.status, 200, "{path} {other}");
        }
    }
    let tag = bench.get(&instance).await.headers["etag"]
        .to_str()
        .unwrap()
        .to_owned();
    let patch = bench
        .request(Method::PATCH, &instance)
        .header("if-none-match", &tag);
    let op = bench
        .send(patch.json(&json!({"vnfInstanceName": "web"})))
        .await
        .created_id();
    bench.ended(&op).await;
    let changed = bench
        .request(Method::GET, &instance)
        .header("if-none-match", &tag);
    assert_eq!(bench.send(changed).await.body["vnfInstanceName"], "web");
}

#[tokio::test]
async fn a_patch_of_another_media_type_gets_accept_patch() {
    let bench = Bench::new().await;
    for path in [
        format!("{INSTANCES}/none"),
        format!("{PACKAGES}/none"),
        "/vnfm/v1/vims/none".to_owned(),
    ] {
        let request = bench
            .request(Method::PATCH, &path)
            .header("content-type", "application/json-patch+json");
        let response = bench.send(request.body("[]")).await;
        assert_eq!(response.status, 415, "{response:?}");
        assert_eq!(
            response.headers["accept-patch"],
            "application/merge-patch+json, application/json"
        );
    }
}

/// A client of a later minor version may send members that we do not know yet (SOL013 9.1).
#[tokio::test]
async fn unknown_members_are_ignored() {
    let bench = Bench::new().await;
    let (package, vnfd) = bench.onboard("vnf-b-cnf").await;
    let created = bench
        .post(INSTANCES, &json!({"vnfdId": vnfd, "later": 1}))
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    let patch = |path: String, body: Value| bench.request(Method::PATCH, &path).json(&body);
    let path = format!("{INSTANCES}/{}", created.id());
    let begun = bench
        .send(patch(
            path.clone(),
            json!({"vnfInstanceName": "web", "later": {"a": 1}}),
        ))
        .await;
    assert_eq!(begun.status, 202, "{begun:?}");
    let op = bench.ended(&begun.created_id()).await;
    assert_eq!(op["operationParams"], json!({"vnfInstanceName": "web"}));
    assert_eq!(bench.get(&path).await.body["vnfInstanceName"], "web");
    let body = json!({"userDefinedData": {"a": 1}, "later": 1});
    let changed = bench
        .send(patch(format!("{PACKAGES}/{package}"), body))
        .await;
    assert_eq!(
        (changed.status, &changed.body),
        (200, &json!({"userDefinedData": {"a": 1}}))
    );
}

#[tokio::test]
async fn a_modification_begins_in_processing() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let patch = bench.request(Method::PATCH, &format!("{INSTANCES}/{id}"));
    let op = bench
        .send(patch.json(&json!({"vnfInstanceName": "web"})))
        .await
        .created_id();
    let done = bench.ended(&op).await;
    assert_eq!(done["operationState"], "COMPLETED", "{done:#}");
    let filter = format!("{OPS}?filter=(eq,operationState,STARTING)");
    assert_eq!(bench.get(&filter).await.body, json!([]));
}

#[test]
fn header_names_are_in_title_case() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&mut command(data.path()));
    let address = server.url.strip_prefix("http://").unwrap();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    let request = format!(
        "GET {INSTANCES} HTTP/1.1\r\nhost: {address}\r\nversion: 2.3.0\r\nconnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    let (head, _) = response.split_once("\r\n\r\n").unwrap();
    let mut names = head
        .lines()
        .skip(1)
        .map(|line| line.split(':').next().unwrap());
    assert!(
        head.contains("\r\nVersion: 2.3.0") && head.contains("\r\nContent-Type: "),
        "{head}"
    );
    assert!(
        names.all(|name| name.starts_with(|first: char| first.is_ascii_uppercase())),
        "{head}"
    );
}

/// The ids on all pages of a filtered list, each of at most two entries.
async fn all_pages(bench: &Bench, list: &str, filter: &str) -> Vec<String> {
    let mut path = format!("{list}?filter={filter}");
    let mut found = Vec::new();
    loop {
        let response = bench.get(&path).await;
        let entries = response
            .body
            .as_array()
            .unwrap_or_else(|| panic!("{filter}: {response:?}"));
        assert!(entries.len() <= 2, "{response:?}");
        found.extend(
            entries
                .iter()
                .map(|one| one["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = response.headers.get("link") else {
            return found;
        };
        let next = next.to_str().unwrap().split(['<', '>']).nth(1).unwrap();
        next.strip_prefix(&bench.url).unwrap().clone_into(&mut path);
    }
}

#[tokio::test]
async fn links_can_be_filtered() {
    let bench = Bench::with(Setup {
        page: 2,
        ..Setup::default()
    })
    .await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let mut created = Vec::new();
    for _ in 0..5 {
        created.push(bench.create(&vnfd).await);
    }
    created.sort();
    let (first, last) = (&created[0], &created[4]);
    let href = |id: &str| format!("{}{INSTANCES}/{id}", bench.url);
    let request = bench.request_b().await;
    let op = bench
        .post(&format!("{INSTANCES}/{last}/instantiate"), &request)
        .await
        .created_id();
    bench.ended(&op).await;
    let list = async |of: &str, filter: &str| all_pages(&bench, of, filter).await;
    let (one, other) = (href(first), href(last));
    for (filter, wanted) in [
        (format!("(eq,_links/self/href,{other})"), vec![last.clone()]),
        (
            format!("(in,_links/self/href,{one},{other})"),
            vec![first.clone(), last.clone()],
        ),
        (
            format!("(neq,_links/self/href,{one})"),
            created[1..].to_vec(),
        ),
        (
            format!("(cont,_links/self/href,{first})"),
            vec![first.clone()],
        ),
        ("(eq,_links/self/href,nowhere)".to_owned(), Vec::new()),
        // The link of a task exists while the task is possible.
        (
            "(cont,_links/terminate/href,terminate)".to_owned(),
            vec![last.clone()],
        ),
        (
            "(cont,_links/instantiate/href,http)".to_owned(),
            created[..4].to_vec(),
        ),
        (
            "(cont,_links/scaleToLevel/href,scale_to_level)".to_owned(),
            vec![last.clone()],
        ),
        ("(cont,_links/operate/href,select)".to_owned(), Vec::new()),
        (
            format!("(eq,_links/self/href,{other});(eq,instantiationState,NOT_INSTANTIATED)"),
            Vec::new(),
        ),
    ] {
        assert_eq!(list(INSTANCES, &filter).await, wanted, "{filter}");
    }
    links_of_operations_and_of_v1_are_filtered(&bench, (last, &other), &op).await;
}

/// Filters by the links of operations, by those of version 1, and by one that does not exist.
async fn links_of_operations_and_of_v1_are_filtered(
    bench: &Bench,
    (last, other): (&str, &str),
    op: &str,
) {
    let of_instance = format!("(eq,_links/vnfInstance/href,{other})");
    assert_eq!(all_pages(bench, OPS, &of_instance).await, [op]);
    let retried = all_pages(bench, OPS, "(cont,_links/retry/href,http)").await;
    assert_eq!(retried, [""; 0]);
    // Links are compared in the version of the client.
    let path = format!(
        "/vnflcm/v1/vnf_instances?filter=(eq,_links/self/href,{})",
        other.replace("/v2/", "/v1/")
    );
    let old = bench.send(bench.bare(Method::GET, &path)).await;
    assert_eq!(old.body[0]["id"], last);
    let wrong = bench
        .get(&format!("{INSTANCES}?filter=(eq,_links/sefl/href,x)"))
        .await;
    assert!(
        wrong.status == 400 && wrong.detail().contains("no link `sefl`"),
        "{wrong:?}"
    );
}
