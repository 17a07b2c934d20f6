//! Where a value does not fit a JSON Schema, without what stands there: it may be a secret.
//!
//! It fills the port `Schemas` of `vnfm-core`, which is a crate of its own because half of what a JSON Schema needs is
//! needed by nothing else: whoever embeds the engine without schemas does not build it.
use serde_json::Value;

/// Every place of `value` that does not fit `schema`, as `root.member: why`; none where it fits.
///
/// # Errors
///
/// What is wrong with the schema, where it is none.
pub fn misfits(schema: &Value, value: &Value, root: &str) -> Result<Vec<String>, String> {
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    let told = validator.iter_errors(value).map(|error| {
        let place = error.instance_path().to_string().replace('/', ".");
        format!("{root}{place}: {}", error.masked_with("the value"))
    });
    Ok(told.collect())
}

#[cfg(test)]
mod tests {
    use super::misfits;
    use serde_json::json;

    #[test]
    fn every_place_is_named_and_no_value_is_told() {
        let schema = json!({"properties": {"a": {"type": "integer"}, "b": {"maxLength": 3}}});
        let told = misfits(&schema, &json!({"a": "planted", "b": "planted"}), "config").unwrap();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("config.a: the value"), "{told:?}");
        assert!(!told.join(" ").contains("planted"), "{told:?}");
        assert!(misfits(&json!({"type": 7}), &json!({}), "config").is_err());
    }
}
