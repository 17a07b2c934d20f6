//! The statuses of refused requests (SOL013 6.4, SOL003 5.4). The bench checks the ProblemDetails of each.

use crate::bench::{Bench, INSTANCES, OPS, PACKAGES, Response, Setup};
use crate::tenants::users;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const RENAMES: &str = r#"{"vnfInstanceName": "other"}"#;

/// Sends a request with exactly these headers.
async fn ask(
    bench: &Bench,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut request = bench.bare(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    bench.send(request.body(body.to_owned())).await
}

/// Method, path, headers, body and the expected status.
type Case = (
    Method,
    String,
    Vec<(&'static str, &'static str)>,
    String,
    u16,
);

const VERSION: (&str, &str) = ("version", "2.3.0");
const JSON: (&str, &str) = ("content-type", "application/json");

fn case(
    method: &str,
    path: &str,
    headers: &[(&'static str, &'static str)],
    body: &str,
    status: u16,
) -> Case {
    let (method, path) = (method.parse().unwrap(), path.to_owned());
    (method, path, headers.to_vec(), body.to_owned(), status)
}

/// Requests that are refused in any state of the resources.
fn bad_requests(instance: &str) -> Vec<Case> {
    let instantiate = || format!("{instance}/instantiate");
    vec![
        case("POST", &instantiate(), &[VERSION, JSON], "{", 400),
        case("GET", INSTANCES, &[], "", 400),
        case(
            "GET",
            &format!("{INSTANCES}?nextpage_opaque_marker=mine"),
            &[VERSION],
            "",
            400,
        ),
        case(
            "GET",
            &format!("{INSTANCES}?filter=(eq,id)"),
            &[VERSION],
            "",
            400,
        ),
        case(
            "PATCH",
            instance,
            &[VERSION, JSON, ("if-match", "seven")],
            "{}",
            400,
        ),
        case("GET", &format!("{OPS}/nobody"), &[VERSION], "", 404),
        case("POST", &format!("{OPS}/nobody/retry"), &[VERSION], "", 404),
        case("DELETE", INSTANCES, &[VERSION], "", 405),
        case("PUT", instance, &[VERSION], "", 405),
        case("DELETE", "/vnflcm/api_versions", &[], "", 405),
        case("GET", instance, &[("version", "3.0.0")], "", 406),
        case(
            "GET",
            instance,
            &[VERSION, ("accept", "text/html")],
            "",
            406,
        ),
    ]
}

/// Requests that the state of a resource, a precondition or the content of the body rules out.
fn conflicts(instance: &str, package: &str) -> Vec<Case> {
    let instantiate = || format!("{instance}/instantiate");
    let huge = json!({"flavourId": "x".repeat(2 << 20)}).to_string();
    let unknown = json!({"vnfdId": "nobody"}).to_string();
    vec![
        case("DELETE", package, &[VERSION], "", 409),
        case(
            "POST",
            &format!("{instance}/heal"),
            &[VERSION, JSON],
            "{}",
            409,
        ),
        case(
            "PATCH",
            instance,
            &[VERSION, JSON, ("if-match", "\"77\"")],
            RENAMES,
            412,
        ),
        case(
            "DELETE",
            instance,
            &[VERSION, ("if-match", "\"77\"")],
            "",
            412,
        ),
        case(
            "DELETE",
            instance,
            &[
                VERSION,
                ("if-unmodified-since", "Thu, 01 Jan 1970 00:00:01 GMT"),
            ],
            "",
            412,
        ),
        case("POST", &instantiate(), &[VERSION, JSON], &huge, 413),
        case(
            "POST",
            &instantiate(),
            &[VERSION, ("content-type", "text/xml")],
            "<a/>",
            415,
        ),
        case("POST", INSTANCES, &[VERSION, JSON], &unknown, 422),
    ]
}

#[tokio::test]
async fn every_status_of_the_standard_is_sent_in_its_case() {
    let bench = Bench::new().await;
    let (package, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let one = format!("{INSTANCES}/{id}");
    let used = format!("{PACKAGES}/{package}");
    for case in bad_requests(&one).into_iter().chain(conflicts(&one, &used)) {
        let (method, path, headers, body, status) = case;
        let what = format!("{method} {path} {headers:?}");
        let response = ask(&bench, (method, &path), &headers, &body).await;
        assert_eq!(response.status, status, "{what}: {response:?}");
        assert_eq!(
            response.headers.contains_key("allow"),
            status == 405,
            "{what}: {response:?}"
        );
    }
    assert_eq!(
        bench.get(&one).await.status,
        200,
        "the instance still exists"
    );
}

#[tokio::test]
async fn an_unsupported_task_gets_404() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    for task in ["create_snapshots", "coordinate"] {
        for instance in [&*id, "nobody"] {
            let path = format!("{INSTANCES}/{instance}/{task}");
            let response = bench.post(&path, &json!({})).await;
            assert_eq!(response.status, 404, "{path}: {response:?}");
        }
    }
}

#[tokio::test]
async fn missing_rights_and_too_many_requests_get_401_403_and_429() {
    let bench = Bench::with(Setup {
        token: Some("planted"),
        ..Setup::default()
    })
    .await;
    let response = bench.get(INSTANCES).await;
    assert_eq!(response.status, 401, "{response:?}");
    assert!(response.headers.contains_key("www-authenticate"));
    let bench = Bench::with(users("rate: {per_second: 1, burst: 2}")).await;
    bench.log_in("acme-reader");
    let response = bench.post(INSTANCES, &json!({"vnfdId": "d"})).await;
    assert_eq!(response.status, 403, "{response:?}");
    bench.get(INSTANCES).await;
    let response = bench.get(INSTANCES).await;
    assert_eq!(response.status, 429, "{response:?}");
    assert!(response.headers.contains_key("retry-after"));
}

/// A raw request, because the client refuses to send such a URI.
#[tokio::test]
async fn an_overlong_uri_gets_414() {
    let bench = Bench::new().await;
    let address = bench.url.strip_prefix("http://").unwrap();
    let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
    let path = format!("{INSTANCES}?filter={}", "x".repeat(70_000));
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nversion: 2.3.0\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = vec![0; 12];
    connection.read_exact(&mut response).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&response), "HTTP/1.1 414");
    assert_eq!(bench.get(INSTANCES).await.body, Value::Array(Vec::new()));
}
