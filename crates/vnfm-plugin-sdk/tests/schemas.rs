//! The JSON Schemas in `schemas/plugin` match the SDK's types.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use schemars::{JsonSchema, schema_for};
use serde_json::Value;
use std::path::Path;
use vnfm_plugin_sdk::{DriverError, Effects, HookRequest};

fn check<T: JsonSchema>(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/plugin");
    let path = folder.join(format!("{name}.schema.json"));
    let mut schema = schema_for!(T).to_value();
    schema["$id"] = format!("urn:vnfm:plugin:1:{name}").into();
    let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    if std::env::var_os("VNFM_UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "`{}` is stale; hint: run this test with VNFM_UPDATE_GENERATED=1",
        path.display()
    );
}

#[test]
fn the_hook_request_schema_is_current() {
    check::<HookRequest<Value>>("hook-request");
}

#[test]
fn the_effects_schema_is_current() {
    check::<Effects>("effects");
}

#[test]
fn the_driver_error_schema_is_current() {
    check::<DriverError>("driver-error");
}
