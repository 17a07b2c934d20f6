//! The official schemas: all types of SOL003 V3.7.1 in one document, found by `VNFM_SOL_DATA`.

use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What answers are checked against.
const TYPES: &[&str] =
    &["VnfInstance", "VnfLcmOpOcc", "VnfPkgInfo", "ProblemDetails", "ApiVersionInformation"];
const BUNDLE: &str = "jsonschema/sol003-v3.7.1.patched.bundle.json";

/// Panics where `value` is no `kind` of the standard; says loudly, once, where the schemas are not there.
pub(crate) fn check(kind: &str, value: &Value) {
    static VALIDATORS: OnceLock<Option<HashMap<&'static str, Validator>>> = OnceLock::new();
    let Some(validators) = VALIDATORS.get_or_init(load) else { return };
    let wrong: Vec<_> = validators[kind]
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "no {kind}:\n{}\nin {value:#}", wrong.join("\n"));
}

fn load() -> Option<HashMap<&'static str, Validator>> {
    let data = std::env::var_os("VNFM_SOL_DATA").map(PathBuf::from);
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = data.unwrap_or_else(|| workspace.join("../shared/sol")).join(BUNDLE);
    let Ok(text) = std::fs::read_to_string(&file) else {
        let what = format!(
            "SKIPPED: answers are not checked by the standard: no `{}`; set VNFM_SOL_DATA",
            file.display()
        );
        assert!(std::env::var_os("VNFM_REQUIRE_LIVE").is_none_or(|v| v != "1"), "{what}");
        eprintln!("{what}");
        return None;
    };
    let mut bundle: Value = serde_json::from_str(&text).unwrap();
    // Packages are served the SOL005 way, where a checksum is an object (9.5.3.3); SOL003 has a string.
    bundle["$defs"]["Checksum"] = json!({
        "type": "object",
        "required": ["algorithm", "hash"],
        "properties": {"algorithm": {"type": "string"}, "hash": {"type": "string"}},
    });
    let of = |kind: &&'static str| {
        let schema = json!({"$schema": bundle["$schema"], "$ref": format!("#/$defs/{kind}"), "$defs": bundle["$defs"]});
        (*kind, jsonschema::validator_for(&schema).unwrap())
    };
    Some(TYPES.iter().map(of).collect())
}

#[test]
fn the_oracle_refuses_what_the_standard_refuses() {
    check("ProblemDetails", &json!({"status": 404, "detail": "gone"}));
    let wrong = std::panic::catch_unwind(|| check("ProblemDetails", &json!({"status": "404"})));
    let is_there = std::panic::catch_unwind(load).ok().flatten().is_some();
    assert_eq!(wrong.is_err(), is_there);
}
