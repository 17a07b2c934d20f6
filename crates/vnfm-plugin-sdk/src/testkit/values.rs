//! Values that the test host returns.

use crate::{ErrorKind, ServiceError};
use serde_json::{Value, json};

/// The time of the test host: 2026-11-30T12:00:00Z.
pub(super) const TEST_TIME: i64 = 1_796_040_000_000;

/// The login `name` that the test host grants.
pub(super) fn test_credential(name: &str) -> Value {
    json!({
        "authUrl": "http://cloud.example/v3", "region": "RegionOne", "interface": "public", "projectId": "project-1",
        "id": format!("test-{name}"), "secret": format!("secret of {name}"), "tag": "vnf-test",
    })
}

pub(super) fn refused(service: &str, detail: String) -> ServiceError {
    ServiceError::new(service, ErrorKind::Refused, detail)
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
