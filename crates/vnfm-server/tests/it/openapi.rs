//! The OpenAPI document, the table of paths and the router agree.

use crate::bench::{Bench, VIMS, paths};
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_server::reference::OPENAPI;

const METHODS: &[&str] = &["get", "post", "put", "patch", "delete"];

#[test]
fn the_document_lists_exactly_the_routed_paths() {
    let document: Value = serde_yaml::from_str(OPENAPI).unwrap();
    let in_document: BTreeSet<_> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            let has = |method: &&&str| item.get(**method).is_some();
            METHODS
                .iter()
                .filter(has)
                .map(move |method| (path.clone(), (*method).to_owned()))
        })
        .collect();
    let in_table: BTreeSet<_> = paths()
        .into_iter()
        .flat_map(|(path, methods)| methods.into_iter().map(move |m| (path.clone(), m)))
        .collect();
    assert_eq!(in_document, in_table);
}

#[test]
fn every_route_documents_the_limits_of_requests() {
    // Behind a trusted proxy, any request of an address with too many concurrent ones gets 429.
    let document: Value = serde_yaml::from_str(OPENAPI).unwrap();
    for (path, methods) in paths() {
        for method in methods {
            let responses = &document["paths"][&path][&method]["responses"];
            assert!(responses["429"].is_object(), "{method} {path}");
        }
    }
}

#[test]
fn every_reference_in_the_document_resolves() {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(
                    members
                        .get("$ref")
                        .and_then(Value::as_str)
                        .map(ToOwned::to_owned),
                );
                members.values().for_each(|member| walk(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let document: Value = serde_yaml::from_str(OPENAPI).unwrap();
    let mut found = Vec::new();
    walk(&document, &mut found);
    assert!(found.len() > 100, "only {} references", found.len());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(
            document.pointer(pointer).is_some(),
            "{reference} leads nowhere"
        );
    }
}

#[tokio::test]
async fn every_path_is_routed_with_exactly_its_methods() {
    let bench = Bench::new().await;
    for (path, methods) in paths() {
        let mut concrete = String::new();
        for segment in path.split('/').skip(1) {
            concrete += if segment.starts_with('{') {
                "/none"
            } else {
                "/"
            };
            concrete += if segment.starts_with('{') {
                ""
            } else {
                segment
            };
        }
        for method in METHODS {
            let verb = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let response = bench.send(bench.request(verb, &concrete)).await;
            let what = format!("{method} {path}: {response:?}");
            assert!(!response.text.contains("no resource at"), "{what}");
            assert_eq!(
                response.status == 405,
                !methods.iter().any(|one| one == method),
                "{what}"
            );
            if response.status == 405 {
                let allowed = response.headers["allow"].to_str().unwrap().to_lowercase();
                let allowed: BTreeSet<_> = allowed.split(',').filter(|m| *m != "head").collect();
                assert_eq!(
                    allowed,
                    methods.iter().map(String::as_str).collect(),
                    "{what}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_vim_check_omits_unknown_members() {
    let bench = Bench::new().await;
    let vim = bench.vim().await;
    let response = bench
        .post(&format!("{VIMS}/{vim}/check"), &Value::Null)
        .await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(response.body.get("expiresAt").is_none(), "{response:?}");
}
