//! The variants of VNF-A's sample, and request bodies of the samples with their placeholders replaced.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::paths;

/// The packages that VNF-A comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// TOSCA only: our driver generates the HOT.
    Tosca,
    /// The package contains its HOT.
    BaseHot,
}

impl Shape {
    /// Folder of the package below `vnfd-samples`.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Tosca => "vnf-a-k8s-cluster",
            Self::BaseHot => "vnf-a-k8s-cluster-base-hot",
        }
    }
}

/// Values of the placeholders, by name.
pub(crate) type Values = BTreeMap<&'static str, Value>;

/// Writes a request of a sample, such as `instantiate`; returns the path of the file.
///
/// # Errors
/// If the sample has none of this name, or a placeholder has no value.
pub(crate) fn fill(
    (sample, request): (&str, &str),
    values: &Values,
    folder: &Path,
) -> Result<String> {
    let template = paths::root()
        .join("vnfd-samples")
        .join(sample)
        .join(format!("requests/{request}.json"));
    let text = std::fs::read_to_string(&template)
        .with_context(|| format!("cannot read `{}`", template.display()))?;
    let body: Value = serde_json::from_str(&text)
        .with_context(|| format!("`{}` is not JSON", template.display()))?;
    let filled =
        fill_value(body, values).with_context(|| format!("in `{}`", template.display()))?;
    let file = folder.join(format!("{sample}.{request}.json"));
    std::fs::write(&file, filled.to_string())
        .with_context(|| format!("cannot write `{}`", file.display()))?;
    Ok(file.to_string_lossy().into_owned())
}

/// A string that is one placeholder becomes its value, whatever its type.
fn fill_value(value: Value, values: &Values) -> Result<Value> {
    Ok(match value {
        Value::String(text) => match placeholder(&text) {
            Some(name) => match values.get(name) {
                Some(value) => value.clone(),
                None => bail!("the placeholder `{name}` has no value"),
            },
            None => Value::String(text),
        },
        Value::Array(items) => items
            .into_iter()
            .map(|item| fill_value(item, values))
            .collect::<Result<_>>()?,
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, field)| Ok((name, fill_value(field, values)?)));
            Value::Object(fields.collect::<Result<_>>()?)
        }
        other => other,
    })
}

/// The name of a placeholder: `NAME` in `@NAME@`.
fn placeholder(text: &str) -> Option<&str> {
    let name = text.strip_prefix('@')?.strip_suffix('@')?;
    (!name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
    .then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_take_the_type_of_their_value() {
        let values: Values = [("SSH_PORT", json!(2222)), ("VIM_ID", json!("v"))].into();
        let body = json!({ "a": ["@VIM_ID@", "as it is", 1], "b": { "port": "@SSH_PORT@" } });
        let filled = fill_value(body, &values).unwrap();
        assert_eq!(
            filled,
            json!({ "a": ["v", "as it is", 1], "b": { "port": 2222 } })
        );
    }

    #[test]
    fn an_unknown_placeholder_is_an_error() {
        let error = fill_value(json!(["@WHAT@", "me@example"]), &Values::new()).unwrap_err();
        assert!(error.to_string().contains("`WHAT`"), "{error}");
    }
}
