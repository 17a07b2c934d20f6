//! The OpenAPI document of `vnflcm/v1`: that of `v2` with the differences of SOL003 V2.6.1. It is generated here, and
//! every response of `v1` is checked against it.
//!
//! ```text
//! VNFM_UPDATE_GENERATED=1 cargo nextest run -p vnfm-server the_document_of_version_1_is_current
//! ```

use crate::bench::Bench;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use vnfm_server::reference::{OPENAPI, OPENAPI_V1};

/// Tasks that were added after V2.6.1.
const LATER: [&str; 3] = ["/change_vnfpkg", "/create_snapshot", "/revert_to_snapshot"];
const HEAD: &str = "# Made of vnfm.yaml by crates/vnfm-server/tests/it/openapi_v1.rs, which tells how; not to be edited.\n";
const ABOUT: &str = "VNF LCM as SOL003 V2.6.1 has it (vnflcm/v1): the same resources as below vnflcm/v2, in that form.";

fn derived() -> Value {
    let mut document: Value = serde_yaml::from_str(OPENAPI).unwrap();
    document["info"]["description"] = json!(ABOUT);
    let paths = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(path, item)| {
            let rest = path.strip_prefix("/vnflcm/v2")?;
            let is_later =
                LATER.iter().any(|task| rest.ends_with(task)) || rest.starts_with("/vnf_snapshots");
            (!is_later).then(|| (format!("/vnflcm/v1{rest}"), item.clone()))
        });
    document["paths"] = Value::Object(paths.collect());
    document["paths"]["/vnflcm/v1/api_versions"]["get"]["operationId"] = json!("apiVersionsLcmV1");
    let version = &mut document["components"]["parameters"]["Version"];
    version["required"] = json!(false);
    version["description"] = json!(
        "The version of the interface that the request is made for: `1.3.0`, which is what is taken without it."
    );
    as_in_v1(&mut document["components"]["schemas"]);
    without_unused(&mut document);
    document
}

/// The differences that `vnfm_types::v1` implements.
fn as_in_v1(schemas: &mut Value) {
    let connection = json!({"$ref": "#/components/schemas/VimConnectionInfo"});
    for of in [
        "VnfInstance",
        "InstantiateVnfRequest",
        "ChangeVnfFlavourRequest",
        "ChangeExtVnfConnectivityRequest",
        "VnfInfoModificationRequest",
    ] {
        let member = &mut schemas[of]["properties"]["vimConnectionInfo"];
        assert_eq!(member["type"], "object", "{of}");
        *member = json!({"type": "array", "items": connection});
    }
    let connection = &mut schemas["VimConnectionInfo"];
    connection["properties"]["id"] = json!({"type": "string"});
    needs(connection, "id");
    schemas["VnfInfoModificationRequest"]["properties"]["vimConnectionInfoDeleteIds"] =
        json!({"type": "array", "items": {"type": "string"}});
    let instance = &mut schemas["VnfInstance"];
    instance["properties"]["vnfPkgId"] = json!({"type": "string"});
    needs(instance, "vnfPkgId");
    for of in ["VnfLcmOpOcc", "LccnSubscriptionRequest"] {
        let members = schemas[of]["properties"].as_object_mut().unwrap();
        let removed = ["warnings", "verbosity"]
            .iter()
            .filter_map(|name| members.remove(*name));
        assert_eq!(removed.count(), 1, "{of}");
    }
    let occurrence = &mut schemas["VnfLcmOpOcc"]["properties"];
    let occurrence = occurrence.as_object_mut().unwrap();
    let modifications = occurrence.remove("modificationsTriggeredByVnfPkgChange");
    assert!(modifications.is_some());
    let operations = &mut schemas["VnfLcmOpOcc"]["properties"]["operation"]["enum"];
    let is_later = |name: &Value| {
        let task = format!("/{}", name.as_str().unwrap().to_lowercase());
        LATER.contains(&&*task)
    };
    operations
        .as_array_mut()
        .unwrap()
        .retain(|name| !is_later(name));
    let subscription = &mut schemas["LccnSubscription"];
    subscription["required"]
        .as_array_mut()
        .unwrap()
        .retain(|name| name != "verbosity");
    subscription["properties"]["verbosity"]["description"] =
        json!("Of a subscription that was made below `vnflcm/v2` and wants less than everything.");
}

fn needs(schema: &mut Value, member: &str) {
    match schema["required"].as_array_mut() {
        Some(required) => required.push(member.into()),
        None => schema["required"] = json!([member]),
    }
}

/// Removes components that nothing refers to.
fn without_unused(document: &mut Value) {
    let mut used = BTreeSet::new();
    references(&document["paths"], &mut used);
    loop {
        let before = used.len();
        for place in used.clone() {
            references(document.pointer(&place[1..]).unwrap(), &mut used);
        }
        if used.len() == before {
            break;
        }
    }
    for kind in ["schemas", "parameters", "responses"] {
        let all = document["components"][kind].as_object_mut().unwrap();
        let retained: Map<_, _> = std::mem::take(all)
            .into_iter()
            .filter(|(name, _)| used.contains(&format!("#/components/{kind}/{name}")))
            .collect();
        *all = retained;
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(
                members
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(ToOwned::to_owned),
            );
            members
                .values()
                .for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn the_document_of_version_1_is_current() {
    let text = format!("{HEAD}{}", serde_yaml::to_string(&derived()).unwrap());
    if std::env::var_os("VNFM_UPDATE_GENERATED").is_some() {
        let file =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas/openapi/vnfm-v1.yaml");
        return std::fs::write(file, text).unwrap();
    }
    assert!(
        text == OPENAPI_V1,
        "schemas/openapi/vnfm-v1.yaml is outdated; regenerate it with VNFM_UPDATE_GENERATED=1"
    );
}

#[tokio::test]
async fn both_documents_are_served() {
    let bench = Bench::new().await;
    for (path, document) in [("/openapi.yaml", OPENAPI), ("/openapi-v1.yaml", OPENAPI_V1)] {
        let response = bench.get(path).await;
        assert_eq!(
            (response.status, response.text.as_str()),
            (200, document),
            "{path}"
        );
    }
    let v1: Value = serde_yaml::from_str(OPENAPI_V1).unwrap();
    let paths = v1["paths"].as_object().unwrap();
    assert!(paths.len() > 10 && paths.keys().all(|path| path.starts_with("/vnflcm/v1/")));
}
