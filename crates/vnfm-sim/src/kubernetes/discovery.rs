//! Discovery of groups, versions and kinds, legacy and aggregated.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::{Kind, Store};
use crate::http::{Reply, Request};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The response to a discovery path; none for any other path or an unknown group.
pub(crate) fn discover(store: &Store, path: &[&str], request: &Request) -> Option<Reply> {
    let aggregated = request
        .header("accept")
        .contains("as=APIGroupDiscoveryList");
    let groups = groups(store);
    match path {
        ["version"] => Some(Reply::json(200, &version())),
        ["healthz" | "livez" | "readyz"] => Some(
            Reply {
                body: "ok".into(),
                ..Reply::empty(200)
            }
            .with_header("content-type", "text/plain; charset=utf-8"),
        ),
        ["api"] if aggregated => Some(discovery(groups.get("").into_iter())),
        ["apis"] if aggregated => Some(discovery(
            groups
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(_, kinds)| kinds),
        )),
        ["api"] => Some(Reply::json(
            200,
            &json!({ "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": request.header("host") }] }),
        )),
        ["apis"] => {
            let list: Vec<Value> = groups
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, kinds)| group(name, kinds))
                .collect();
            Some(Reply::json(
                200,
                &json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": list }),
            ))
        }
        ["apis", name] => groups.get(*name).map(|kinds| {
            let mut body = group(name, kinds);
            body["kind"] = json!("APIGroup");
            body["apiVersion"] = json!("v1");
            Reply::json(200, &body)
        }),
        ["api", "v1"] => resources(groups.get("")?, "v1"),
        ["apis", name, version] => resources(groups.get(*name)?, version),
        _ => None,
    }
}

fn groups(store: &Store) -> BTreeMap<String, Vec<Arc<Kind>>> {
    let mut groups: BTreeMap<String, Vec<Arc<Kind>>> = BTreeMap::new();
    for kind in &store.kinds {
        groups
            .entry(kind.group.clone())
            .or_default()
            .push(Arc::clone(kind));
    }
    groups
}

fn versions(kinds: &[Arc<Kind>]) -> Vec<&str> {
    let mut versions: Vec<&str> = kinds.iter().map(|kind| kind.version.as_str()).collect();
    versions.dedup();
    versions
}

fn group(name: &str, kinds: &[Arc<Kind>]) -> Value {
    let all: Vec<Value> = versions(kinds)
        .iter()
        .map(|v| json!({ "groupVersion": format!("{name}/{v}"), "version": v }))
        .collect();
    json!({ "name": name, "versions": all, "preferredVersion": all.first() })
}

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

fn resources(kinds: &[Arc<Kind>], version: &str) -> Option<Reply> {
    let of_version: Vec<&Arc<Kind>> = kinds
        .iter()
        .filter(|kind| kind.version == version)
        .collect();
    let api_version = of_version.first()?.api_version();
    let mut list = Vec::new();
    for kind in of_version {
        let entry = |name: String, verbs: &[&str]| json!({ "name": name, "singularName": kind.kind.to_lowercase(), "namespaced": kind.namespaced, "kind": kind.kind, "verbs": verbs });
        list.push(entry(kind.plural.clone(), &VERBS));
        list.push(entry(
            format!("{}/status", kind.plural),
            &["get", "patch", "update"],
        ));
        if scales(&kind.kind) {
            list.push(entry(
                format!("{}/scale", kind.plural),
                &["get", "patch", "update"],
            ));
        }
    }
    Some(Reply::json(
        200,
        &json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": list }),
    ))
}

/// Whether a kind has the subresource `scale`.
fn scales(kind: &str) -> bool {
    matches!(
        kind,
        "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController"
    )
}

fn discovery<'a>(groups: impl Iterator<Item = &'a Vec<Arc<Kind>>>) -> Reply {
    let items: Vec<Value> = groups.map(|kinds| aggregated(kinds)).collect();
    let mut reply = Reply::json(
        200,
        &json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items }),
    );
    reply.headers = vec![("content-type", AGGREGATED.to_owned())];
    reply
}

fn aggregated(kinds: &[Arc<Kind>]) -> Value {
    let resource = |kind: &&Arc<Kind>| {
        let response = json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
        let scope = if kind.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        let subresource = |name: &str| json!({ "subresource": name, "responseKind": response, "verbs": ["get", "patch", "update"] });
        let names = ["status", "scale"].into_iter();
        let subresources = names.filter(|name| *name == "status" || scales(&kind.kind));
        json!({ "resource": kind.plural, "responseKind": response, "scope": scope, "singularResource": kind.kind.to_lowercase(), "verbs": VERBS,
            "subresources": subresources.map(subresource).collect::<Vec<_>>() })
    };
    let version = |version: &str| {
        let all: Vec<Value> = kinds
            .iter()
            .filter(|kind| kind.version == version)
            .map(|kind| resource(&kind))
            .collect();
        json!({ "version": version, "resources": all, "freshness": "Current" })
    };
    let all: Vec<Value> = versions(kinds).iter().map(|v| version(v)).collect();
    json!({ "metadata": { "name": kinds.first().map(|kind| kind.group.clone()), "creationTimestamp": null }, "versions": all })
}

/// The version that `kubectl version` prints.
pub(crate) fn version() -> Value {
    json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "0000000000000000000000000000000000000000", "gitTreeState": "clean",
        "buildDate": "2026-06-10T00:00:00Z", "goVersion": "go1.26.0", "compiler": "gc", "platform": "linux/amd64" })
}
