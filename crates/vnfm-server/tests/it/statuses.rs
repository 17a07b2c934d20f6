//! The statuses that SOL013 6.4 and SOL003 5.4 have for what is refused, each where it belongs. The bench looks at the
//! ProblemDetails of each.

use crate::bench::{Answer, Bench, INSTANCES, OPS, PACKAGES, Setup};
use crate::tenants::users;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const TASKS: [&str; 8] = [
    "scale",
    "scale_to_level",
    "change_flavour",
    "operate",
    "change_ext_conn",
    "change_vnfpkg",
    "create_snapshot",
    "revert_to_snapshot",
];

const RENAMES: &str = r#"{"vnfInstanceName": "other"}"#;

/// Sends with these headers and this body.
async fn ask(
    bench: &Bench,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = bench.bare(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    bench.send(request.body(body.to_owned())).await
}

#[tokio::test]
async fn each_status_of_the_standard_is_answered_where_it_belongs() {
    let bench = Bench::new().await;
    let (package, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let one = format!("{INSTANCES}/{id}");
    let instantiate = format!("{one}/instantiate");
    let used = format!("{PACKAGES}/{package}");
    let huge = json!({"flavourId": "x".repeat(2 << 20)}).to_string();
    let unknown = json!({"vnfdId": "nobody"}).to_string();
    let marker = format!("{INSTANCES}?nextpage_opaque_marker=mine");
    let version = ("version", "2.3.0");
    let json_body = ("content-type", "application/json");
    for (what, headers, body, status) in [
        (
            (Method::POST, &*instantiate),
            &[version, json_body][..],
            "{",
            400,
        ),
        ((Method::GET, INSTANCES), &[], "", 400),
        ((Method::GET, &marker), &[version], "", 400),
        (
            (Method::GET, &format!("{INSTANCES}?filter=(eq,id)")),
            &[version],
            "",
            400,
        ),
        (
            (Method::PATCH, &one),
            &[version, json_body, ("if-match", "seven")],
            "{}",
            400,
        ),
        ((Method::GET, &format!("{OPS}/nobody")), &[version], "", 404),
        (
            (Method::POST, &format!("{OPS}/nobody/retry")),
            &[version],
            "",
            404,
        ),
        ((Method::DELETE, INSTANCES), &[version], "", 405),
        ((Method::PUT, &one), &[version], "", 405),
        ((Method::DELETE, "/vnflcm/api_versions"), &[], "", 405),
        ((Method::GET, &one), &[("version", "3.0.0")], "", 406),
        (
            (Method::GET, &one),
            &[version, ("accept", "text/html")],
            "",
            406,
        ),
        ((Method::DELETE, &used), &[version], "", 409),
        (
            (Method::POST, &format!("{one}/heal")),
            &[version, json_body],
            "{}",
            409,
        ),
        (
            (Method::PATCH, &one),
            &[version, json_body, ("if-match", "\"77\"")],
            RENAMES,
            412,
        ),
        (
            (Method::DELETE, &one),
            &[version, ("if-match", "\"77\"")],
            "",
            412,
        ),
        (
            (Method::DELETE, &one),
            &[
                version,
                ("if-unmodified-since", "Thu, 01 Jan 1970 00:00:01 GMT"),
            ],
            "",
            412,
        ),
        (
            (Method::POST, &instantiate),
            &[version, json_body],
            &huge,
            413,
        ),
        (
            (Method::POST, &instantiate),
            &[version, ("content-type", "text/xml")],
            "<a/>",
            415,
        ),
        (
            (Method::POST, INSTANCES),
            &[version, json_body],
            &unknown,
            422,
        ),
    ] {
        let told = format!("{what:?} {headers:?}");
        let answer = ask(&bench, what, headers, body).await;
        assert_eq!(answer.status, status, "{told}: {answer:?}");
        assert_eq!(
            answer.headers.contains_key("allow"),
            status == 405,
            "{told}: {answer:?}"
        );
    }
    assert_eq!(bench.get(&one).await.status, 200, "it is there as it was");
}

#[tokio::test]
async fn a_task_that_no_vnf_supports_is_not_there() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    for task in TASKS {
        let answer = bench
            .post(&format!("{INSTANCES}/{id}/{task}"), &json!({}))
            .await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (404, &json!("request.not-supported"))
        );
        assert!(answer.detail().contains(task), "{}", answer.detail());
        let nobody = bench
            .post(&format!("{INSTANCES}/nobody/{task}"), &json!({}))
            .await;
        assert_ne!(nobody.body["code"], "request.not-supported", "{nobody:?}");
    }
}

#[tokio::test]
async fn who_may_not_and_who_comes_too_often_is_told_so() {
    let bench = Bench::with(Setup {
        token: Some("planted"),
        ..Setup::default()
    })
    .await;
    let answer = bench.get(INSTANCES).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.headers.contains_key("www-authenticate"));
    let bench = Bench::with(users("rate: {per_second: 1, burst: 2}")).await;
    bench.log_in("acme-reader");
    let answer = bench.post(INSTANCES, &json!({"vnfdId": "d"})).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    bench.get(INSTANCES).await;
    let answer = bench.get(INSTANCES).await;
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.headers.contains_key("retry-after"));
}

/// Longer than our own client would send it.
#[tokio::test]
async fn an_address_that_is_too_long_is_said_to_be() {
    let bench = Bench::new().await;
    let address = bench.url.strip_prefix("http://").unwrap();
    let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
    let path = format!("{INSTANCES}?filter={}", "x".repeat(70_000));
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nversion: 2.3.0\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 414");
    assert_eq!(bench.get(INSTANCES).await.body, Value::Array(Vec::new()));
}
