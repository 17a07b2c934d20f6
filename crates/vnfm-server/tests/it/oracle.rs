//! Checks responses against the official schemas, all types of SOL003 V3.7.1 in one document, found by
//! `VNFM_SOL_DATA`; and our own OpenAPI document.

use crate::bench::paths;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use vnfm_server::reference;

/// The schemas that responses must match.
const TYPES: &[&str] = &[
    "VnfInstance",
    "VnfLcmOpOcc",
    "VnfPkgInfo",
    "LccnSubscription",
    "VnfLcmOperationOccurrenceNotification",
    "VnfIdentifierCreationNotification",
    "VnfIdentifierDeletionNotification",
    "VnfPackageOnboardingNotification",
    "VnfPackageChangeNotification",
    "ProblemDetails",
    "ApiVersionInformation",
];
const BUNDLE: &str = "jsonschema/sol003-v3.7.1.patched.bundle.json";

/// Panics if `value` is not a valid `kind` of the standard; prints a warning once if the schemas are missing.
pub(crate) fn check(kind: &str, value: &Value) {
    static VALIDATORS: OnceLock<Option<HashMap<&'static str, Validator>>> = OnceLock::new();
    let Some(validators) = VALIDATORS.get_or_init(load) else {
        return;
    };
    let wrong: Vec<_> = validators[kind]
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        wrong.is_empty(),
        "no {kind}:\n{}\nin {value:#}",
        wrong.join("\n")
    );
}

/// The same for `vnflcm/v1`: removes the differences of SOL003 V2.6.1, then checks against V3.7.1.
/// There are no official schemas of V2.6.1.
pub(crate) fn check_v1(kind: &str, value: &Value) {
    let mut value = value.clone();
    let members = value.as_object_mut().unwrap();
    if kind == "VnfInstance" {
        assert!(
            members.remove("vnfPkgId").is_some_and(|id| id.is_string()),
            "no vnfPkgId"
        );
    }
    for member in ["operationParams", "changedInfo"] {
        if let Some(inside) = members.get_mut(member).and_then(Value::as_object_mut) {
            as_a_map(inside);
        }
    }
    as_a_map(members);
    let ext_cps = value.pointer_mut("/instantiatedVnfInfo/extCpInfo");
    for cp in ext_cps.and_then(Value::as_array_mut).into_iter().flatten() {
        assert!(
            cp.as_object_mut()
                .unwrap()
                .insert("cpConfigId".into(), "x".into())
                .is_none()
        );
    }
    if matches!(
        kind,
        "LccnSubscription" | "VnfLcmOperationOccurrenceNotification"
    ) {
        assert!(
            value
                .get("verbosity")
                .is_none_or(|verbosity| verbosity == "SHORT"),
            "{value}"
        );
        value["verbosity"] = "FULL".into();
    }
    check(kind, &value);
}

/// Converts the list of connections to a map.
fn as_a_map(of: &mut serde_json::Map<String, Value>) {
    let Some(listed) = of.get_mut("vimConnectionInfo") else {
        return;
    };
    let entries = listed.as_array().unwrap().iter().map(|entry| {
        let mut entry = entry.clone();
        let id = entry.as_object_mut().unwrap().remove("id").unwrap();
        (id.as_str().unwrap().to_owned(), entry)
    });
    *listed = entries.collect::<serde_json::Map<_, _>>().into();
}

/// The same for types that only SOL005 has.
pub(crate) fn check_sol005(kind: &str, value: &Value) {
    const DOCUMENT: &str = "openapi-bundled/vnfpkgm-sol005-v3.7.1.patched.json";
    let Ok(text) = std::fs::read_to_string(data().join(DOCUMENT)) else {
        return;
    };
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema =
        json!({"$ref": format!("#/components/schemas/{kind}"), "components": schema["components"]});
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let wrong: Vec<_> = validator
        .iter_errors(value)
        .map(|error| error.to_string())
        .collect();
    assert!(
        wrong.is_empty(),
        "no {kind}:\n{}\nin {value:#}",
        wrong.join("\n")
    );
}

/// An official document; `None` if they are missing, about which [`check`] warns.
pub(crate) fn document(file: &str) -> Option<Value> {
    let text = std::fs::read_to_string(data().join(file)).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn data() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("VNFM_SOL_DATA").map(PathBuf::from);
    data.unwrap_or_else(|| workspace.join("../shared/sol"))
}

fn load() -> Option<HashMap<&'static str, Validator>> {
    let file = data().join(BUNDLE);
    let Ok(text) = std::fs::read_to_string(&file) else {
        let what = format!(
            "SKIPPED: answers are not checked by the standard: no `{}`; set VNFM_SOL_DATA",
            file.display()
        );
        assert!(
            std::env::var_os("VNFM_REQUIRE_LIVE").is_none_or(|v| v != "1"),
            "{what}"
        );
        eprintln!("{what}");
        return None;
    };
    let mut bundle: Value = serde_json::from_str(&text).unwrap();
    // Packages follow SOL005, where a checksum is an object (9.5.3.3); in SOL003 it is a string.
    bundle["$defs"]["Checksum"] = json!({
        "type": "object",
        "required": ["algorithm", "hash"],
        "properties": {"algorithm": {"type": "string"}, "hash": {"type": "string"}},
    });
    // There an artifact has a path or one URI; in SOL003 it always has a path, and a list of URIs.
    let artifact = &mut bundle["$defs"]["VnfPackageArtifactInfo"];
    artifact["required"] = json!(["checksum", "isEncrypted"]);
    artifact["properties"]["artifactURI"] = json!({"$ref": "#/$defs/Uri"});
    let properties = |kind: &&'static str| {
        let schema = json!({"$schema": bundle["$schema"], "$ref": format!("#/$defs/{kind}"), "$defs": bundle["$defs"]});
        (*kind, jsonschema::validator_for(&schema).unwrap())
    };
    Some(TYPES.iter().map(properties).collect())
}

#[test]
fn the_oracle_refuses_what_the_standard_refuses() {
    check("ProblemDetails", &json!({"status": 404, "detail": "gone"}));
    let wrong = std::panic::catch_unwind(|| check("ProblemDetails", &json!({"status": "404"})));
    let is_there = std::panic::catch_unwind(load).ok().flatten().is_some();
    assert_eq!(wrong.is_err(), is_there);
}

/// Panics if our OpenAPI document does not declare this response: path, method, status, and the schema of its body.
pub(crate) fn documented(method: &str, path: &str, response: &crate::bench::Response) {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    static V1: OnceLock<Value> = OnceLock::new();
    let is_v1 = path.starts_with("/vnflcm/v1/");
    let (parsed, text) = if is_v1 {
        (&V1, reference::OPENAPI_V1)
    } else {
        (&DOCUMENT, reference::OPENAPI)
    };
    let document = parsed.get_or_init(|| serde_yaml::from_str(text).unwrap());
    // The table has the paths of version 2; those of version 1 are the same.
    let path = &path.replacen("/vnflcm/v1/", "/vnflcm/v2/", 1);
    let segments = |path: &str| path.split('/').map(ToOwned::to_owned).collect::<Vec<_>>();
    let fits = |template: &str| {
        let (template, path) = (segments(template), segments(path));
        let same = |(t, p): (&String, &String)| t == p || t.starts_with('{');
        template.len() == path.len() && template.iter().zip(&path).all(same)
    };
    let Some(template) = paths().into_keys().find(|template| fits(template)) else {
        return;
    };
    let at = if is_v1 {
        template.replacen("/v2/", "/v1/", 1)
    } else {
        template.clone()
    };
    if is_v1 && document["paths"][&at].is_null() {
        return; // a task added later
    }
    let operation = &document["paths"][&at][method.to_lowercase()];
    if operation.is_null() {
        return assert_eq!(response.status, 405, "{method} {template}");
    }
    let what = format!("{method} {template} answers {}", response.status);
    let documented_response = &operation["responses"][response.status.to_string()];
    assert!(
        documented_response.is_object(),
        "{what}, which the document does not declare"
    );
    let documented_response = documented_response["$ref"]
        .as_str()
        .map_or(documented_response, |place| {
            document.pointer(&place[1..]).unwrap()
        });
    let Some((kind, schema)) = documented_response["content"]
        .as_object()
        .and_then(|kinds| kinds.iter().next())
    else {
        return assert_eq!(response.text, "", "{what}");
    };
    if !kind.ends_with("json") {
        return;
    }
    assert_valid(&what, &schema["schema"], document, &response.body);
}

/// Panics if `body` violates `schema`, which may refer to components of `document`.
fn assert_valid(what: &str, schema: &Value, document: &Value, body: &Value) {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let wrong: Vec<_> = validator
        .iter_errors(body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        wrong.is_empty(),
        "{what}, which violates the schema:\n{}\n{:#}",
        wrong.join("\n"),
        body
    );
}

#[test]
fn the_openapi_document_refuses_undeclared_responses() {
    let response = |status: u16, body: Value| crate::bench::Response {
        status,
        headers: reqwest::header::HeaderMap::new(),
        text: body.to_string(),
        bytes: Vec::new(),
        is_all: true,
        body,
    };
    let vim = json!({"id": "i", "name": "n", "vimType": "t", "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": "2026-01-01T00:00:00Z"});
    documented("GET", "/vnfm/v1/vims/i", &response(200, vim.clone()));
    for (method, status, body) in [
        ("GET", 418, json!({})),
        ("GET", 200, json!({"id": 1})),
        ("PUT", 200, vim),
    ] {
        let wrong = std::panic::catch_unwind(|| {
            documented(method, "/vnfm/v1/vims/i", &response(status, body));
        });
        assert!(wrong.is_err(), "{method} {status}");
    }
}
