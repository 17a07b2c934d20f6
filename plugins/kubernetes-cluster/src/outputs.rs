//! References of the request to outputs of the stack: `${output.NAME}`.

use vnfm_plugin_sdk::Object;

/// The name of the output that a value is, as `${output.NAME}`.
pub(crate) fn output_of(value: &str) -> Option<&str> {
    value.strip_prefix("${output.")?.strip_suffix('}')
}

/// The text of an output.
///
/// # Errors
///
/// If the stack has no output of that name with one value; the text names those that it has.
pub(crate) fn text_of(outputs: &Object, name: &str) -> Result<String, String> {
    match outputs.get(name) {
        Some(serde_json::Value::String(text)) => Ok(text.clone()),
        Some(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => {
            Ok(value.to_string())
        }
        _ => {
            let known: Vec<_> = outputs.keys().map(String::as_str).collect();
            Err(format!(
                "the stack has no output `{name}` with one value; its outputs are {}",
                known.join(", ")
            ))
        }
    }
}
