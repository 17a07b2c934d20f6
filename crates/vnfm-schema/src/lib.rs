//! Reports where a value violates a JSON Schema, without quoting the value: it may be a secret.
//!
//! Implements the port `Schemas` of `vnfm-core`. It is a separate crate because JSON Schema needs many dependencies of its
//! own: embedders that do not use schemas do not build them.
use serde_json::Value;

/// Every member of `value` that violates `schema`, as `root.member: why`; empty if it is valid.
///
/// # Errors
///
/// What is wrong with the schema itself.
pub fn schema_violations(schema: &Value, value: &Value, root: &str) -> Result<Vec<String>, String> {
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    let violations = validator.iter_errors(value).map(|error| {
        let path = error.instance_path().to_string().replace('/', ".");
        format!("{root}{path}: {}", error.masked_with("the value"))
    });
    Ok(violations.collect())
}

#[cfg(test)]
mod tests {
    use super::schema_violations;
    use serde_json::json;

    #[test]
    fn every_violation_is_located_and_no_value_is_quoted() {
        let schema = json!({"properties": {"a": {"type": "integer"}, "b": {"maxLength": 3}}});
        let violations =
            schema_violations(&schema, &json!({"a": "planted", "b": "planted"}), "config").unwrap();
        assert_eq!(violations.len(), 2, "{violations:?}");
        assert!(
            violations[0].starts_with("config.a: the value"),
            "{violations:?}"
        );
        assert!(!violations.join(" ").contains("planted"), "{violations:?}");
        assert!(schema_violations(&json!({"type": 7}), &json!({}), "config").is_err());
    }
}
