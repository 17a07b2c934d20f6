//! Validates bodies by the official schemas of SOL003 V3.7.1, which `VNFM_SOL_DATA` locates.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::path::Path;

use jsonschema::Validator;
use serde_json::{Value, json};

const BUNDLE: &str = "jsonschema/sol003-v3.7.1.patched.bundle.json";

/// The schema of one type.
#[derive(Debug)]
pub struct SolSchema {
    kind: &'static str,
    validator: Validator,
}

impl SolSchema {
    /// The schema of a type; skips the test if the official files are missing.
    pub fn for_type(kind: &'static str) -> Option<Self> {
        crate::live::sol_data().map(|data| Self::from(&data, kind))
    }

    fn from(data: &Path, kind: &'static str) -> Self {
        let text = std::fs::read_to_string(data.join(BUNDLE)).unwrap();
        let bundle: Value = serde_json::from_str(&text).unwrap();
        assert!(
            bundle["$defs"][kind].is_object(),
            "the standard has no {kind}"
        );
        let schema = json!({"$schema": bundle["$schema"], "$ref": format!("#/$defs/{kind}"),
            "$defs": bundle["$defs"]});
        Self {
            kind,
            validator: jsonschema::validator_for(&schema).unwrap(),
        }
    }

    /// Violations of the schema by a body.
    pub fn violations(&self, body: &Value) -> Vec<String> {
        let wrong = self.validator.iter_errors(body);
        wrong
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    }

    /// Asserts that a body is valid.
    pub fn check(&self, body: &Value) {
        let wrong = self.violations(body);
        assert!(
            wrong.is_empty(),
            "no {}:\n{}\nin {body:#}",
            self.kind,
            wrong.join("\n")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::SolSchema;
    use serde_json::json;

    #[test]
    fn bodies_the_schema_rejects_are_rejected() {
        let Some(standard) = SolSchema::for_type("GrantRequest") else {
            return;
        };
        let href = |id: &str| json!({"href": format!("http://vnfm.example.com/{id}")});
        let mut request = json!({"vnfInstanceId": "i", "vnfLcmOpOccId": "o", "vnfdId": "d",
            "operation": "INSTANTIATE", "isAutomaticInvocation": false, "instantiationLevelId": "l",
            "_links": {"vnfLcmOpOcc": href("o"), "vnfInstance": href("i")}});
        standard.check(&request);
        request["operation"] = json!("MODIFY_INFO");
        assert_eq!(standard.violations(&request).len(), 1);
    }
}
