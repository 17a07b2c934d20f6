//! Bodies of requests: from a file, and from `NAME=VALUE` on the command line.

use crate::args::TaskOptions;
use crate::client::{Outcome, local};
use crate::input;
use serde_json::{Value, json};
use std::path::Path;

/// The body in a file; an empty object without one.
pub(super) fn request_body(file: Option<&Path>) -> Outcome<Value> {
    file.map_or_else(|| Ok(json!({})), read)
}

/// As [`request_body`]; refuses one that is not an object.
pub(super) fn object_body(file: Option<&Path>) -> Outcome<Value> {
    let body = request_body(file)?;
    if body.is_object() {
        Ok(body)
    } else {
        Err(local("the request must be an object"))
    }
}

pub(super) fn read(file: &Path) -> Outcome<Value> {
    let name = file.display();
    let text = input::text(file).map_err(|e| local(format!("cannot read `{name}`: {e}")))?;
    serde_yaml::from_str(&text)
        .map_err(|e| local(format!("`{name}` is neither JSON nor YAML: {e}")))
}

/// The body in the file of `--request`, with the parameters of `--param`.
pub(super) fn task_body(options: &TaskOptions) -> Outcome<Value> {
    let mut body = object_body(options.request.as_deref())?;
    let mut params = options.params.iter();
    params.try_for_each(|param| set(&mut body["additionalParams"], param))?;
    Ok(body)
}

/// Sets `a.b.c=value` in `params`; a value that is valid JSON is parsed.
pub(super) fn set(params: &mut Value, assignment: &str) -> Outcome<()> {
    let Some((key, value)) = assignment.split_once('=') else {
        return Err(local(format!("`{assignment}` is not KEY=VALUE")));
    };
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let member = key.split('.').fold(params, |parent, name| {
        if !parent.is_object() {
            *parent = json!({});
        }
        &mut parent[name]
    });
    *member = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::set;
    use serde_json::{Value, json};

    #[test]
    fn dots_in_a_parameter_name_address_nested_members() {
        let mut params = Value::Null;
        for assignment in ["a.b=1", "a.c=text", "d=[true]"] {
            set(&mut params, assignment).unwrap();
        }
        assert_eq!(params, json!({"a": {"b": 1, "c": "text"}, "d": [true]}));
        assert!(set(&mut params, "no value").is_err());
    }
}
