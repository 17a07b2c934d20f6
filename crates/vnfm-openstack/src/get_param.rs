//! Which members of their parameters templates read: `get_param: [nfv, VDU, web, flavor]`.

use crate::errors::PARAMETER;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use vnfm_core::ports::PortError;
use vnfm_descriptor::PARAMETERS_FILE;

/// Whether any `get_param` of a template has a path that `is_match` accepts.
pub(crate) fn reads(template: &Value, is_match: &dyn Fn(&[Value]) -> bool) -> bool {
    match template {
        Value::Object(members) => {
            let path = members.get("get_param").and_then(Value::as_array);
            path.is_some_and(|path| is_match(path))
                || members.values().any(|member| reads(member, is_match))
        }
        Value::Array(items) => items.iter().any(|item| reads(item, is_match)),
        _ => false,
    }
}

/// Whether a path consists of these names.
pub(crate) fn is_path(path: &[Value], names: &[&str]) -> bool {
    path.iter()
        .map(Value::as_str)
        .eq(names.iter().copied().map(Some))
}

/// The second and third name of each path that begins with one of `parameters`: `(VDU, web)` of the example above.
pub(crate) fn entries_read(
    template: &Value,
    parameters: &BTreeSet<&str>,
    found: &mut BTreeSet<(String, String)>,
) {
    match template {
        Value::Object(members) => {
            let path = members.get("get_param").and_then(Value::as_array);
            let names: Vec<&str> = path
                .into_iter()
                .flatten()
                .map_while(Value::as_str)
                .take(3)
                .collect();
            if let [parameter, section, name] = names.as_slice()
                && parameters.contains(parameter)
            {
                found.insert(((*section).to_owned(), (*name).to_owned()));
            }
            members
                .values()
                .for_each(|member| entries_read(member, parameters, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| entries_read(item, parameters, found)),
        _ => {}
    }
}

/// Checks that the path of every `get_param: [nfv, VDU, x, flavor]` exists; Heat would report it only in
/// the middle of a create.
pub(crate) fn paths_exist(
    template: &Value,
    parameters: &Map<String, Value>,
    file: &str,
) -> Result<(), PortError> {
    match template {
        Value::Object(members) => {
            if let (1, Some(Value::Array(path))) = (members.len(), members.get("get_param")) {
                path_exists(path, parameters, file)?;
            }
            members
                .values()
                .try_for_each(|member| paths_exist(member, parameters, file))
        }
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| paths_exist(item, parameters, file)),
        _ => Ok(()),
    }
}

fn path_exists(
    path: &[Value],
    parameters: &Map<String, Value>,
    file: &str,
) -> Result<(), PortError> {
    let mut names = path.iter().map_while(Value::as_str);
    let Some(first) = names.next() else {
        return Ok(());
    };
    let Some(mut value) = parameters.get(first) else {
        return Ok(());
    };
    let mut walked = first.to_owned();
    for name in names {
        walked = format!("{walked}.{name}");
        let Value::Object(members) = value else {
            return Ok(());
        };
        value = members
            .get(name)
            .ok_or_else(|| unknown_path(&walked, members, (first, file)))?;
    }
    Ok(())
}

fn unknown_path(
    walked: &str,
    members: &Map<String, Value>,
    (parameter, file): (&str, &str),
) -> PortError {
    let action = format!("fill parameter `{parameter}` of `{file}`");
    let known: Vec<&str> = members.keys().map(String::as_str).collect();
    let name = walked.rsplit('.').next().unwrap_or(walked);
    let detail = format!(
        "the template reads `{walked}`, which nothing fills; there are {}",
        known.join(", ")
    );
    let hint = format!(
        "give `additionalParams.{walked}` in the request, or give it a parameter of its own and map that in `{PARAMETERS_FILE}`, such as `{name}: additionalParams.{name}`"
    );
    PortError::new(&PARAMETER, action, detail)
        .on(walked)
        .hint(hint)
}
