//! The NFVO's decision on a grant request, and the checks of SOL003 on it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Policy;

/// The rules of SOL003 9.5.2.2 that a request breaks.
pub(super) fn broken_rules(request: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is_text = |name: &str, value: &Value| {
        if value.as_str().is_none_or(str::is_empty) {
            wrong.push(format!("{name} is missing"));
        }
    };
    for name in ["vnfInstanceId", "vnfLcmOpOccId", "vnfdId", "operation"] {
        is_text(name, &request[name]);
    }
    for name in ["vnfLcmOpOcc", "vnfInstance"] {
        is_text(&format!("_links.{name}"), &request["_links"][name]["href"]);
    }
    if !request["isAutomaticInvocation"].is_boolean() {
        wrong.push("isAutomaticInvocation is missing".to_owned());
    }
    let nothing = request["addResources"].is_null() && request["instantiationLevelId"].is_null();
    if request["operation"] == "INSTANTIATE" && nothing {
        wrong.push("neither instantiationLevelId nor addResources".to_owned());
    }
    let mut ids = BTreeSet::new();
    for list in LISTS {
        for one in resources(request, list) {
            let id = one["id"].as_str().unwrap_or_default();
            if id.is_empty() || !ids.insert(id) {
                wrong.push(format!("{list}: id `{id}` is empty or there twice"));
            }
            if one["resource"].is_object() == (list == "addResources") {
                wrong.push(format!(
                    "{list}: `{id}` has a resource, or has none, against the rule"
                ));
            }
            if one["type"] == "COMPUTE" && !one["vduId"].is_string() {
                wrong.push(format!("{list}: `{id}` is of no VDU"));
            }
        }
    }
    for one in resources(request, "placementConstraints") {
        let refs = one["resource"].as_array().map_or(&[][..], Vec::as_slice);
        let unknown = |it: &&Value| {
            it["idType"] == "GRANT" && !ids.contains(it["resourceId"].as_str().unwrap_or_default())
        };
        if refs.len() < 2 || refs.iter().any(|it| unknown(&it)) {
            wrong.push("placementConstraints: not two resources of the request".to_owned());
        }
    }
    wrong
}

const LISTS: [&str; 3] = ["addResources", "removeResources", "updateResources"];

fn resources<'a>(request: &'a Value, list: &str) -> &'a [Value] {
    request[list].as_array().map_or(&[], Vec::as_slice)
}

/// Status and body of the response.
pub(super) fn decide(policy: &Policy, request: &Value, (id, url): (&str, &str)) -> (u16, Value) {
    if let Some(reason) = &policy.deny {
        let problem = json!({
            "type": "https://nfvo.example.com/no-room",
            "title": "Grant rejected",
            "status": 403,
            "detail": reason,
        });
        return (403, problem);
    }
    let mut grant = json!({
        "id": id,
        "vnfInstanceId": request["vnfInstanceId"],
        "vnfLcmOpOccId": request["vnfLcmOpOccId"],
        "_links": {
            "self": { "href": format!("{url}/grant/v1/grants/{id}") },
            "vnfLcmOpOcc": request["_links"]["vnfLcmOpOcc"],
            "vnfInstance": request["_links"]["vnfInstance"],
        },
    });
    for list in LISTS {
        let infos: Vec<_> = resources(request, list)
            .iter()
            .map(|one| {
                let mut info = json!({ "resourceDefinitionId": one["id"] });
                let placed = list == "addResources" && one["type"] == "COMPUTE";
                if placed && policy.zone.is_some() {
                    info["zoneId"] = json!("zone-1");
                }
                info
            })
            .collect();
        if !infos.is_empty() {
            grant[list] = json!(infos);
        }
    }
    if let Some(zone) = &policy.zone {
        grant["zones"] = json!([{ "id": "zone-1", "zoneId": zone }]);
    }
    merge(&mut grant, &policy.grant);
    (201, grant)
}

/// Applies a JSON merge patch (RFC 7396).
pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (name, value) in members {
        match value {
            Value::Null => {
                into.as_object_mut().map(|all| all.shift_remove(name));
            }
            Value::Object(_) => merge(&mut into[name.as_str()], value),
            _ => into[name.as_str()] = value.clone(),
        }
    }
}
