//! Values of ours as JSON. They always have a JSON form; one that has none is a bug, and must not turn into `null`.

use crate::ports::StoreError;
use serde::Serialize;
use serde_json::Value;

/// `value` as JSON; `what` names it in the error.
///
/// # Errors
///
/// `Broken`, naming the type's member, if the value has no JSON form.
pub fn to_json<T: Serialize>(what: &str, value: &T) -> Result<Value, StoreError> {
    serde_json::to_value(value)
        .map_err(|error| StoreError::Broken(format!("cannot write {what} as JSON: {error}")))
}

/// `value` as JSON where no error can be returned: a failure is logged as an error, and the member is left out.
pub fn to_json_or_log<T: Serialize>(what: &str, value: &T) -> Option<Value> {
    to_json(what, value)
        .inspect_err(|error| tracing::error!(%error, "a value is left out"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::{to_json, to_json_or_log};
    use std::collections::BTreeMap;

    #[test]
    fn a_value_without_a_json_form_is_an_error_and_never_null() {
        let value = BTreeMap::from([((1, 2), 3)]);
        let error = to_json("a request", &value).unwrap_err().to_string();
        assert!(error.contains("a request"), "{error}");
        assert_eq!(to_json_or_log("a request", &value), None);
        assert_eq!(to_json_or_log("a number", &7), Some(7.into()));
    }
}
