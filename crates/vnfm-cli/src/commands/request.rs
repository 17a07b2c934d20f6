//! Bodies of requests: from a file, and from `NAME=VALUE` on the command line.

use crate::args::TaskOptions;
use crate::client::{Failure, Outcome, local};
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

/// Refuses a body with a placeholder, such as the `@VIM_ID@` of the sample requests: the operation would fail later, or hosts
/// would get the placeholder as a password.
pub(super) fn refuse_placeholders(body: &Value) -> Outcome<()> {
    match placeholder(body) {
        None => Ok(()),
        Some(found) => Err(Failure::Hinted {
            message: format!("the request has the placeholder `{found}`"),
            hint: "replace it in the file; `--vim` of instantiate and `--param` take precedence over the file".to_owned(),
        }),
    }
}

/// The first text of capitals, digits and `_` between two `@`.
fn placeholder(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix('@')?.strip_suffix('@')?;
            let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            (!name.is_empty() && name.chars().all(is_part)).then_some(text)
        }
        Value::Array(items) => items.iter().find_map(placeholder),
        Value::Object(members) => members.values().find_map(placeholder),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{placeholder, set};
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

    #[test]
    fn a_placeholder_is_found_at_any_depth() {
        let body = json!({"vimConnectionInfo": {"vim1": {"vimId": "@VIM_ID@"}}});
        assert_eq!(placeholder(&body), Some("@VIM_ID@"));
        assert_eq!(
            placeholder(&json!(["a", {"b": "@VNFC_1@"}])),
            Some("@VNFC_1@")
        );
        for text in ["@", "@@", "@name@", "user@HOST@", "@A B@"] {
            assert_eq!(placeholder(&json!(text)), None, "{text}");
        }
    }
}
