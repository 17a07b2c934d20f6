//! JSON Schema: parameters of hooks and what a VNFD declares are checked before anything is made.

use serde_json::Value;

/// What checks values. A function of this shape is one: `vnfm_schema::misfits` is the one that we ship.
pub trait Schemas: Send + Sync {
    /// Every place of `value` that does not fit `schema`, as `root.member: why`; none where it fits. What stands there
    /// is not told: it may be a secret.
    ///
    /// # Errors
    ///
    /// What is wrong with the schema, where it is none.
    fn misfits(&self, schema: &Value, value: &Value, root: &str) -> Result<Vec<String>, String>;
}

impl<F> Schemas for F
where
    F: Fn(&Value, &Value, &str) -> Result<Vec<String>, String> + Send + Sync,
{
    fn misfits(&self, schema: &Value, value: &Value, root: &str) -> Result<Vec<String>, String> {
        self(schema, value, root)
    }
}

/// Checks nothing, and so lets nothing through: a value for which there is a schema is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSchemas;

impl Schemas for NoSchemas {
    fn misfits(&self, _: &Value, _: &Value, root: &str) -> Result<Vec<String>, String> {
        Err(format!(
            "`{root}` cannot be checked: this engine was made without JSON Schema; hint: give \
             `EngineParts::schemas` the function `vnfm::misfits` (feature `schema`)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{NoSchemas, Schemas};
    use serde_json::{Value, json};

    #[test]
    fn a_function_is_one_and_none_lets_nothing_through() {
        #[expect(clippy::unnecessary_wraps, reason = "of the shape that is asked for")]
        fn picky(_: &Value, _: &Value, root: &str) -> Result<Vec<String>, String> {
            Ok(vec![format!("{root}: no")])
        }
        assert_eq!(
            picky.misfits(&json!({}), &json!(1), "x").unwrap(),
            ["x: no"]
        );
        let told = NoSchemas
            .misfits(&json!({}), &json!({}), "additionalParams")
            .unwrap_err();
        assert!(
            told.contains("`additionalParams`") && told.contains("hint: "),
            "{told}"
        );
    }
}
