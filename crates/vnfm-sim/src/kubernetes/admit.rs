//! Admission: validation and defaults of an object before it is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::objects::{Key, Kind, Store};
use super::quota;
use super::writes::{error, status};
use crate::http::Reply;

/// Validates a new object and adds defaults.
pub(crate) fn admit(
    store: &mut Store,
    kind: &Arc<Kind>,
    key: &Key,
    body: &mut Value,
) -> Result<(), Reply> {
    if kind.namespaced {
        let namespace = store.get(&Key::new("namespaces", "", &key.namespace));
        let namespace = namespace.ok_or_else(|| {
            error(
                404,
                "NotFound",
                &format!("namespaces \"{}\" not found", key.namespace),
            )
        })?;
        if !namespace["metadata"]["deletionTimestamp"].is_null() {
            let message = format!(
                "{} \"{}\" is forbidden: unable to create new content in namespace {} because it is being terminated",
                kind.qualified(),
                key.name,
                key.namespace
            );
            let cause = json!({ "causes": [{ "reason": "NamespaceTerminating", "message": format!("namespace {} is being terminated", key.namespace), "field": "metadata.namespace" }] });
            return Err(
                Reply::json(403, &status(403, "Forbidden", &message, cause)).with_remark(message)
            );
        }
    }
    ask_webhooks(store, kind)?;
    body["apiVersion"] = json!(kind.api_version());
    body["kind"] = json!(kind.kind);
    check(kind, &key.name, body)?;
    default(store, kind, body);
    if let Some(why) = quota::exceeded(store, &kind.qualified(), &key.namespace) {
        let message = format!("{} \"{}\" is forbidden: {why}", kind.qualified(), key.name);
        return Err(error(403, "Forbidden", &message));
    }
    if !body["spec"].is_null() {
        body["metadata"]["generation"] = json!(1);
    }
    Ok(())
}

/// A webhook whose rules match the resource refuses it with the message in its configuration's annotation `denies`.
fn ask_webhooks(store: &Store, kind: &Kind) -> Result<(), Reply> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for (_, configuration) in store.list(
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "",
    ) {
        for webhook in list(&configuration["webhooks"]) {
            let mut resources = list(&webhook["rules"])
                .into_iter()
                .flat_map(|r| list(&r["resources"]));
            if resources.any(|resource| resource == kind.plural.as_str()) {
                let name = webhook["name"].as_str().unwrap_or_default();
                let why = configuration["metadata"]["annotations"]["denies"].as_str();
                let message = format!(
                    "admission webhook \"{name}\" denied the request: {}",
                    why.unwrap_or("no reason given")
                );
                return Err(error(403, "Forbidden", &message));
            }
        }
    }
    Ok(())
}

/// Validates as the real server does.
pub(crate) fn check(kind: &Kind, name: &str, body: &Value) -> Result<(), Reply> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let free = matches!(kind.group.as_str(), "rbac.authorization.k8s.io");
    let subdomain = name.len() <= 253
        && name.chars().all(plain)
        && ends(name.chars().next())
        && ends(name.chars().last());
    if !free && !subdomain {
        let why = format!(
            "Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
        );
        return Err(invalid(kind, name, "metadata.name", &why));
    }
    match kind.kind.as_str() {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => {
            check_workload(kind, name, body)
        }
        "Job" => check_containers(
            kind,
            name,
            ("spec.template.spec", &body["spec"]["template"]["spec"]),
        ),
        "Pod" => check_containers(kind, name, ("spec", &body["spec"])),
        "Service"
            if body["spec"]["ports"].as_array().is_none_or(Vec::is_empty)
                && body["spec"]["clusterIP"] != "None"
                && body["spec"]["type"] != "ExternalName" =>
        {
            Err(invalid(kind, name, "spec.ports", "Required value"))
        }
        _ => Ok(()),
    }
}

fn check_workload(kind: &Kind, name: &str, body: &Value) -> Result<(), Reply> {
    let selector = &body["spec"]["selector"]["matchLabels"];
    if body["spec"]["selector"].is_null() {
        return Err(invalid(kind, name, "spec.selector", "Required value"));
    }
    let labels = &body["spec"]["template"]["metadata"]["labels"];
    if selector
        .as_object()
        .into_iter()
        .flatten()
        .any(|(label, value)| labels[label] != *value)
    {
        let why = format!("Invalid value: {labels}: `selector` does not match template `labels`");
        return Err(invalid(kind, name, "spec.template.metadata.labels", &why));
    }
    check_containers(
        kind,
        name,
        ("spec.template.spec", &body["spec"]["template"]["spec"]),
    )
}

fn check_containers(kind: &Kind, name: &str, (path, spec): (&str, &Value)) -> Result<(), Reply> {
    let containers = spec["containers"]
        .as_array()
        .filter(|list| !list.is_empty());
    let Some(containers) = containers else {
        return Err(invalid(
            kind,
            name,
            &format!("{path}.containers"),
            "Required value",
        ));
    };
    let mut names = BTreeSet::new();
    for (n, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                return Err(invalid(
                    kind,
                    name,
                    &format!("{path}.containers[{n}].{field}"),
                    "Required value",
                ));
            }
        }
        if !names.insert(container["name"].as_str()) {
            return Err(invalid(
                kind,
                name,
                &format!("{path}.containers[{n}].name"),
                &format!("Duplicate value: {}", container["name"]),
            ));
        }
    }
    Ok(())
}

/// Adds the real server's defaults, as far as clients read them.
pub(crate) fn default(store: &mut Store, kind: &Kind, body: &mut Value) {
    match kind.kind.as_str() {
        "Namespace" => {
            fill(body, "spec", json!({ "finalizers": ["kubernetes"] }));
            fill(body, "status", json!({ "phase": "Active" }));
            body["metadata"]["labels"]["kubernetes.io/metadata.name"] =
                body["metadata"]["name"].clone();
        }
        "Deployment" => {
            fill(&mut body["spec"], "replicas", json!(1));
            fill(
                &mut body["spec"],
                "strategy",
                json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } }),
            );
            fill(&mut body["spec"], "revisionHistoryLimit", json!(10));
            fill(&mut body["spec"], "progressDeadlineSeconds", json!(600));
            fill(body, "status", json!({}));
        }
        "ReplicaSet" | "StatefulSet" => {
            fill(&mut body["spec"], "replicas", json!(1));
            fill(body, "status", json!({ "replicas": 0 }));
        }
        "DaemonSet" => fill(
            body,
            "status",
            json!({ "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0 }),
        ),
        "Job" => {
            fill(&mut body["spec"], "completions", json!(1));
            fill(&mut body["spec"], "parallelism", json!(1));
            fill(body, "status", json!({}));
        }
        "Pod" => {
            fill(&mut body["spec"], "restartPolicy", json!("Always"));
            fill(
                &mut body["spec"],
                "terminationGracePeriodSeconds",
                json!(30),
            );
            fill(body, "status", json!({ "phase": "Pending" }));
        }
        "Service" => default_service(store, body),
        "Secret" => default_secret(body),
        "PersistentVolumeClaim" => fill(body, "status", json!({ "phase": "Pending" })),
        _ => {}
    }
}

fn default_service(store: &mut Store, body: &mut Value) {
    let spec = &mut body["spec"];
    fill(spec, "type", json!("ClusterIP"));
    fill(spec, "sessionAffinity", json!("None"));
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        fill(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        fill(port, "targetPort", number);
    }
    if spec["clusterIP"].as_str().is_none_or(str::is_empty) && spec["type"] != "ExternalName" {
        let address = store.next_address();
        spec["clusterIP"] = json!(address);
        spec["clusterIPs"] = json!([address]);
    }
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        let taken = spec["clusterIP"]
            .as_str()
            .map_or(0, |ip| ip.bytes().map(u32::from).sum());
        for (n, port) in spec["ports"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .enumerate()
        {
            fill(
                port,
                "nodePort",
                json!(30_000 + (usize::try_from(taken).unwrap_or(0) + n) % 2767),
            );
        }
    }
    fill(body, "status", json!({ "loadBalancer": {} }));
}

fn default_secret(body: &mut Value) {
    fill(body, "type", json!("Opaque"));
    let plain = body
        .as_object_mut()
        .and_then(|map| map.remove("stringData"));
    for (name, value) in plain.iter().filter_map(Value::as_object).flatten() {
        body["data"][name] = json!(STANDARD.encode(value.as_str().unwrap_or_default()));
    }
}

fn fill(body: &mut Value, name: &str, value: Value) {
    if body[name].is_null() {
        body[name] = value;
    }
}

/// `… is invalid: field: why`
pub(crate) fn invalid(kind: &Kind, name: &str, field: &str, why: &str) -> Reply {
    let group_kind = if kind.group.is_empty() {
        kind.kind.clone()
    } else {
        format!("{}.{}", kind.kind, kind.group)
    };
    let message = format!("{group_kind} \"{name}\" is invalid: {field}: {why}");
    let reason = if why.starts_with("Required") {
        "FieldValueRequired"
    } else {
        "FieldValueInvalid"
    };
    let details = json!({ "name": name, "group": kind.group, "kind": kind.kind, "causes": [{ "reason": reason, "message": why, "field": field }] });
    Reply::json(422, &status(422, "Invalid", &message, details)).with_remark(message)
}
