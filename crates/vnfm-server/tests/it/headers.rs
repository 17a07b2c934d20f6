//! Headers of responses: those that the official OpenAPI documents require for a path, method and status, and those
//! that HTTP requires with a status. The bench checks every response of every test; the tests here call every route for
//! every status that needs no VIM.

use crate::bench::{Bench, INSTANCES, PACKAGES, Response, Setup, paths};
use crate::oracle;
use crate::tenants::users;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use vnfm_server::reference::OPENAPI;

const DOCUMENTS: [(&str, &str); 2] = [
    ("/vnflcm/v2", "openapi-bundled/vnflcm-v3.7.1.patched.json"),
    (
        "/vnfpkgm/v2",
        "openapi-bundled/vnfpkgm-sol005-v3.7.1.patched.json",
    ),
];

/// Panics if a response lacks a header that the standard or HTTP requires with its status.
pub(crate) fn check(method: &str, path: &str, response: &Response) {
    let what = format!("{method} {path}: {response:?}");
    let wanted: &[&str] = match (method, response.status) {
        (_, 201 | 303) => &["location"],
        (_, 304) => &["etag"],
        (_, 401) => &["www-authenticate"],
        (_, 405) => &["allow"],
        ("PATCH", 415) => &["accept-patch"],
        (_, 416) => &["content-range"],
        (_, 429 | 503) => &["retry-after"],
        _ => &[],
    };
    for name in wanted {
        assert!(
            response.headers.contains_key(*name),
            "missing header `{name}`: {what}"
        );
    }
    for name in mandatory(&method.to_lowercase(), path, response.status) {
        assert!(
            response.headers.contains_key(&name),
            "the standard requires `{name}`: {what}"
        );
    }
}

/// The mandatory headers of the official document; those of v2 are also required of v1.
fn mandatory(method: &str, path: &str, status: u16) -> Vec<String> {
    static READ: OnceLock<Vec<(&str, Value)>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let documents = DOCUMENTS.iter();
        documents
            .filter_map(|(prefix, file)| Some((*prefix, oracle::document(file)?)))
            .collect()
    });
    let path = path.replacen("/vnflcm/v1/", "/vnflcm/v2/", 1);
    let found = read
        .iter()
        .find_map(|(prefix, document)| Some((document, path.strip_prefix(prefix)?)));
    let Some((document, rest)) = found else {
        return Vec::new();
    };
    let paths = document["paths"].as_object().unwrap();
    let template = paths.keys().find(|template| fits(template, rest));
    let Some(template) = template else {
        return Vec::new();
    };
    let responses = &paths[template][method]["responses"];
    let response = resolved(document, &responses[status.to_string()]);
    let headers = response["headers"].as_object().into_iter().flatten();
    let needed = headers.filter(|(_, header)| resolved(document, header)["required"] == true);
    needed.map(|(name, _)| name.to_lowercase()).collect()
}

fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(place) => document.pointer(&place[1..]).unwrap(),
        None => value,
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    let same = |(one, other): (&&str, &&str)| one == other || one.starts_with('{');
    template.len() == path.len() && template.iter().zip(&path).all(same)
}

/// A route of the standard, in both versions of VNF LCM: a path with unknown ids, its method,
/// and whether it takes JSON.
fn routes() -> Vec<(Method, String, bool)> {
    let document: Value = serde_yaml::from_str(OPENAPI).unwrap();
    let mut all = Vec::new();
    for (template, methods) in paths().iter().filter(|(path, _)| is_of_the_standard(path)) {
        let parts = template
            .split('/')
            .map(|part| if part.starts_with('{') { "none" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        for method in methods {
            let content = &document["paths"][template][method]["requestBody"]["content"];
            let takes_json = content
                .as_object()
                .is_some_and(|kinds| kinds.keys().any(|kind| kind.ends_with("json")));
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            all.push((method.clone(), path.clone(), takes_json));
            if path.starts_with("/vnflcm/v2/") {
                all.push((method, path.replacen("/v2/", "/v1/", 1), takes_json));
            }
        }
    }
    all
}

/// Whether a path belongs to the standard and not to our own API.
fn is_of_the_standard(path: &str) -> bool {
    path.starts_with("/vnflcm/") || path.starts_with("/vnfpkgm/")
}

/// The `Version` header for a path.
fn version(path: &str) -> &'static str {
    if path.starts_with("/vnflcm/v1") {
        "1.3.0"
    } else {
        "2.3.0"
    }
}

#[tokio::test]
async fn every_route_sends_the_mandatory_headers_of_each_status() {
    let bench = Bench::new().await;
    let huge = "x".repeat((1 << 20) + 1);
    let mut seen = BTreeSet::new();
    for (method, path, takes_json) in routes() {
        let is_list = path.ends_with("/api_versions");
        let request = || {
            bench
                .bare(method.clone(), &path)
                .header("version", version(&path))
        };
        let mut cases = Vec::new();
        if !is_list {
            cases.push((
                406,
                bench.bare(method.clone(), &path).header("version", "9.9.9"),
            ));
            cases.push((
                400,
                bench.bare(method.clone(), &path).header("version", "nine"),
            ));
        }
        if takes_json {
            let with = |kind: &str, body: &str| {
                request().header("content-type", kind).body(body.to_owned())
            };
            cases.push((400, with("application/json", "{\"a\": ")));
            cases.push((422, with("application/json", "[]")));
            cases.push((422, with("application/json", "7")));
            cases.push((415, with("text/xml", "<a/>")));
            cases.push((413, with("application/json", &huge)));
        }
        for (status, request) in cases {
            let response = bench.send(request).await;
            // Refusals before the body is read.
            let is_unsupported = response.body["code"] == "request.not-supported";
            assert!(
                response.status == status || is_unsupported,
                "{method} {path}: {status}, not {response:?}"
            );
            seen.insert(status);
        }
    }
    assert_eq!(seen, BTreeSet::from([400, 406, 413, 415, 422]));
}

#[tokio::test]
async fn every_route_answers_404_for_an_unknown_id() {
    let bench = Bench::new().await;
    let named = routes().into_iter().filter(|(method, path, _)| {
        let is_read = matches!(*method, Method::GET | Method::DELETE);
        is_read && path.contains("/none")
    });
    let mut count = 0;
    for (method, path, _) in named {
        let response = bench
            .send(
                bench
                    .bare(method.clone(), &path)
                    .header("version", version(&path)),
            )
            .await;
        assert_eq!(response.status, 404, "{method} {path}: {response:?}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[tokio::test]
async fn every_route_answers_401_without_a_login_and_403_to_a_reader() {
    let bench = Bench::with(Setup {
        token: Some("planted-0123456789"),
        ..Setup::default()
    })
    .await;
    let readers = Bench::with(users("")).await;
    readers.log_in("acme-reader");
    for (method, path, _) in routes() {
        let response = bench.send(bench.bare(method.clone(), &path)).await;
        assert_eq!(response.status, 401, "{method} {path}: {response:?}");
        if method != Method::GET {
            let response = readers.send(readers.request(method.clone(), &path)).await;
            assert_eq!(response.status, 403, "{method} {path}: {response:?}");
        }
    }
}

#[test]
fn a_missing_header_is_detected() {
    let response = |status| Response {
        status,
        headers: reqwest::header::HeaderMap::new(),
        text: String::new(),
        bytes: Vec::new(),
        is_all: true,
        body: json!(null),
    };
    for (method, path, status) in [
        ("GET", INSTANCES, 401),
        ("PATCH", INSTANCES, 415),
        ("POST", PACKAGES, 201),
        ("GET", "/vnfm/v1/vims", 503),
    ] {
        let missing = std::panic::catch_unwind(|| check(method, path, &response(status)));
        assert!(missing.is_err(), "{method} {path} {status}");
    }
    let is_there = oracle::document(DOCUMENTS[0].1).is_some();
    let missing = std::panic::catch_unwind(|| check("GET", INSTANCES, &response(200)));
    assert_eq!(
        missing.is_err(),
        is_there,
        "`Version` is mandatory in the official document"
    );
}
