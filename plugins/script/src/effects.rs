//! Standard output of a script: nothing, or effects as `schemas/plugin/effects.schema.json` has them.

use serde_json::Value;
use vnfm_plugin_sdk::prelude::{DriverError, Effects, HookContext};

const SCHEMA: &str = include_str!("../../../schemas/plugin/effects.schema.json");
/// How much of a wrong output is shown.
const SHOWN: usize = 80;

/// Reads what a script wrote to standard output; nothing means that nothing is to change.
///
/// # Errors
///
/// `bad-effects`, naming each place that does not fit.
pub(crate) fn read(cx: &HookContext, output: &[u8]) -> Result<Effects, DriverError> {
    if output.trim_ascii().is_empty() {
        return Ok(Effects::none());
    }
    let value: Value = serde_json::from_slice(output).map_err(|error| no_json(output, &error))?;
    let schema: Value = serde_json::from_str(SCHEMA).map_err(|error| wrong(&error.to_string()))?;
    let validator =
        jsonschema::validator_for(&schema).map_err(|error| wrong(&error.to_string()))?;
    // What stands there may be a secret.
    let places: Vec<_> = validator
        .iter_errors(&value)
        .map(|error| {
            let place = error.instance_path().to_string().replace('/', ".");
            format!("effects{place}: {}", error.masked_with("the value"))
        })
        .collect();
    if !places.is_empty() {
        return Err(wrong(&places.join("; ")));
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
                "effects have no member `{name}`, it is ignored; they have {known:?}"
            ));
        }
    }
    serde_json::from_value(value).map_err(|error| wrong(&error.to_string()))
}

fn no_json(output: &[u8], error: &serde_json::Error) -> DriverError {
    let begin: String = String::from_utf8_lossy(output)
        .chars()
        .take(SHOWN)
        .collect();
    let said = format!(
        "standard output is not JSON ({error}): it begins with {begin:?}; write effects there and nothing else, and \
         lines for the log to standard error"
    );
    DriverError::new("bad-effects", said)
}

fn wrong(what: &str) -> DriverError {
    let said = format!("{what}; schemas/plugin/effects.schema.json says what effects are");
    DriverError::new("bad-effects", said)
}

#[cfg(test)]
mod tests {
    use super::read;
    use vnfm_plugin_sdk::testkit::TestHost;

    #[test]
    fn nothing_is_no_change_and_each_wrong_place_is_named() {
        let host = TestHost::new();
        let cx = host.context();
        assert_eq!(read(&cx, b" \n").unwrap(), vnfm_plugin_sdk::Effects::none());
        let good = br#"{"schemaVersion": 1, "metadata": {"a": 1}, "registerVim": []}"#;
        assert_eq!(read(&cx, good).unwrap().metadata["a"], 1);
        assert!(
            host.logs()[0].contains("no member `registerVim`"),
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
