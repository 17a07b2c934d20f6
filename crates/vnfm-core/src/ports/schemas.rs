//! JSON Schema: hook parameters and values declared in a VNFD are checked before anything is created.

use serde_json::Value;

/// Validates values. Any function of this shape implements it; we ship `vnfm_schema::schema_violations`.
pub trait Schemas: Send + Sync {
    /// Every member of `value` that violates `schema`, as `root.member: why`; empty if it is valid. The values are not
    /// quoted: they may be secrets.
    ///
    /// # Errors
    ///
    /// What is wrong with the schema itself.
    fn violations(&self, schema: &Value, value: &Value, root: &str) -> Result<Vec<String>, String>;
}

impl<F> Schemas for F
where
    F: Fn(&Value, &Value, &str) -> Result<Vec<String>, String> + Send + Sync,
{
    fn violations(&self, schema: &Value, value: &Value, root: &str) -> Result<Vec<String>, String> {
        self(schema, value, root)
    }
}

/// No JSON Schema support: any value that has a schema is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSchemas;

impl Schemas for NoSchemas {
    fn violations(&self, _: &Value, _: &Value, root: &str) -> Result<Vec<String>, String> {
        Err(format!(
            "`{root}` cannot be checked: this engine was built without JSON Schema; hint: set \
             `EngineParts::schemas` to `vnfm::schema_violations` (feature `schema`)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{NoSchemas, Schemas};
    use serde_json::{Value, json};

    #[test]
    fn a_function_implements_schemas_and_no_schemas_refuses_everything() {
        #[expect(clippy::unnecessary_wraps, reason = "the signature of `Schemas`")]
        fn picky(_: &Value, _: &Value, root: &str) -> Result<Vec<String>, String> {
            Ok(vec![format!("{root}: no")])
        }
        assert_eq!(
            picky.violations(&json!({}), &json!(1), "x").unwrap(),
            ["x: no"]
        );
        let error = NoSchemas
            .violations(&json!({}), &json!({}), "additionalParams")
            .unwrap_err();
        assert!(
            error.contains("`additionalParams`") && error.contains("hint: "),
            "{error}"
        );
    }
}
