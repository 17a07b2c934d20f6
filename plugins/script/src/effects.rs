//! Standard output of a script: empty, or effects that match `schemas/plugin/effects.schema.json`.

use serde_json::Value;
use vnfm_plugin_sdk::prelude::{DriverError, Effects, HookContext};

const SCHEMA: &str = include_str!("../../../schemas/plugin/effects.schema.json");
/// How many characters of a malformed output an error shows.
const MAX_SHOWN: usize = 80;

/// Parses a script's standard output; empty output means no effects.
///
/// # Errors
///
/// `bad-effects`, naming each member that violates the schema.
pub(crate) fn read(cx: &HookContext, output: &[u8]) -> Result<Effects, DriverError> {
    if output.trim_ascii().is_empty() {
        return Ok(Effects::none());
    }
    let value: Value = serde_json::from_slice(output).map_err(|error| not_json(output, &error))?;
    let schema: Value =
        serde_json::from_str(SCHEMA).map_err(|error| malformed(&error.to_string()))?;
    let validator =
        jsonschema::validator_for(&schema).map_err(|error| malformed(&error.to_string()))?;
    // The value may be a secret.
    let violations: Vec<_> = validator
        .iter_errors(&value)
        .map(|error| {
            let path = error.instance_path().to_string().replace('/', ".");
            format!("effects{path}: {}", error.masked_with("the value"))
        })
        .collect();
    if !violations.is_empty() {
        return Err(malformed(&violations.join("; ")));
    }
    let known = schema["properties"].as_object();
    for name in value
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys)
    {
        if let Some(known) = known.filter(|known| !known.contains_key(name)) {
            let known: Vec<_> = known.keys().collect();
            cx.warn(&format!(
                "ignoring `{name}`: effects have no such member; they have {known:?}"
            ));
        }
    }
    serde_json::from_value(value).map_err(|error| malformed(&error.to_string()))
}

fn not_json(output: &[u8], error: &serde_json::Error) -> DriverError {
    let start: String = String::from_utf8_lossy(output)
        .chars()
        .take(MAX_SHOWN)
        .collect();
    let detail = format!(
        "standard output is not JSON ({error}): it starts with {start:?}; write only effects to it, and log lines to \
        standard error"
    );
    DriverError::new("bad-effects", detail)
}

fn malformed(detail_text: &str) -> DriverError {
    let detail = format!("{detail_text}; see schemas/plugin/effects.schema.json");
    DriverError::new("bad-effects", detail)
}

#[cfg(test)]
mod tests {
    use super::read;
    use vnfm_plugin_sdk::testkit::TestHost;

    #[test]
    fn empty_output_means_no_effects_and_each_violation_is_named() {
        let host = TestHost::new();
        let cx = host.context();
        assert_eq!(read(&cx, b" \n").unwrap(), vnfm_plugin_sdk::Effects::none());
        let good = br#"{"schemaVersion": 1, "metadata": {"a": 1}, "registerVim": []}"#;
        assert_eq!(read(&cx, good).unwrap().metadata["a"], 1);
        assert!(
            host.logs()[0].contains("ignoring `registerVim`"),
            "{:?}",
            host.logs()
        );
        for (output, words) in [
            (
                "installed\n{}",
                &["not JSON", "standard error", "installed"][..],
            ),
            ("{}", &["schemaVersion"][..]),
            (
                r#"{"schemaVersion": 1, "metadata": [], "registerVims": [{"name": 7}]}"#,
                &["effects.metadata", "effects.registerVims.0.name"][..],
            ),
            ("[]", &["object"][..]),
        ] {
            let error = read(&cx, output.as_bytes()).unwrap_err();
            assert_eq!(error.code, "bad-effects");
            for word in words {
                assert!(error.detail.contains(word), "no `{word}` in {error}");
            }
        }
    }
}
