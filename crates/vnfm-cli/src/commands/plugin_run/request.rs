//! What a hook of `plugin run` is told: the members of a file, and what the server would add to them.

use super::inventory::Inventory;
use super::text;
use crate::args::Run;
use crate::client::{Failure, Outcome, local};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;
use vnfm::descriptor::{Hook, Package};
use vnfm::ports::{Clock as _, HookRequest};
use vnfm::{Redactor, SystemClock};

/// What a request may hold; what is not here is a slip of the pen.
const MEMBERS: &[&str] = &[
    "schemaVersion",
    "operation",
    "hook",
    "undo",
    "instance",
    "inventory",
    "additionalParams",
    "inputs",
    "vims",
    "dependents",
    "heal",
    "artifacts",
    "deadline",
    "attempt",
];

/// Interfaces whose operation the standard spells otherwise (SOL001 6.7, SOL003 5.5.4.5).
const SPELT_OTHERWISE: &[(&str, &str)] = &[
    ("CHANGE_EXTERNAL_CONNECTIVITY", "CHANGE_EXT_CONN"),
    ("MODIFY_INFORMATION", "MODIFY_INFO"),
    ("CHANGE_CURRENT_PACKAGE", "CHANGE_VNFPKG"),
];

/// Makes the request. What the file says goes over what is usual; hook, attempt and deadline are the command's.
///
/// # Errors
///
/// Where the file is no request; the text names the member.
pub(super) fn build(
    wanted: &Run,
    (inventory, package): (&Inventory, Option<&Package>),
    attempt: u32,
    secrets: &mut Redactor,
) -> Outcome<HookRequest> {
    let mut request = usual(wanted, inventory);
    if let Some(hook) = package.and_then(|package| of_package(package, &wanted.hook)) {
        request["inputs"] = serde_json::to_value(&hook.inputs).map_err(local)?;
        let artifact = hook.artifact.as_ref();
        let file = artifact.and_then(|artifact| Some((artifact, artifact.file.as_ref()?)));
        request["artifacts"] = file
            .map(|(artifact, path)| json!({"name": artifact.name, "path": path, "type": artifact.kind}))
            .into_iter()
            .collect();
    }
    if let Some(path) = &wanted.request {
        over(&mut request, read(path)?, path)?;
    }
    request["hook"] = wanted.hook.as_str().into();
    request["attempt"] = attempt.into();
    let deadline = SystemClock.now() + Duration::from_secs(wanted.deadline.into());
    request["deadline"] = deadline.to_string().into();
    if wanted.undo {
        request["undo"] = true.into();
    }
    inventory.fill(&mut request["additionalParams"], secrets)?;
    serde_json::from_value(request).map_err(|error| Failure::Hinted {
        what: format!(
            "the request of hook `{}` does not fit: {error}",
            wanted.hook
        ),
        hint: "schemas/plugin/hook-request.schema.json says what it holds".into(),
    })
}

/// The hook as the package's VNFD has it, in the first flavour that has it.
fn of_package<'a>(package: &'a Package, hook: &str) -> Option<&'a Hook> {
    package
        .vnfd()
        .flavours
        .values()
        .find_map(|flavour| flavour.hook(hook))
}

/// A request in which everything has a value that makes sense.
fn usual(wanted: &Run, inventory: &Inventory) -> Value {
    // The same instance whenever the same hosts are meant: hooks name things on them by it.
    let hosts = wanted
        .hosts
        .canonicalize()
        .unwrap_or_else(|_| wanted.hosts.clone());
    let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, hosts.display().to_string().as_bytes());
    json!({
        "schemaVersion": 1,
        "operation": operation(&wanted.hook),
        "instance": {
            "id": id, "vnfInstanceName": "plugin-run", "vnfdId": "plugin-run", "vnfProvider": "nobody",
            "vnfProductName": "plugin-run", "vnfSoftwareVersion": "1", "vnfdVersion": "1", "metadata": {},
        },
        "inventory": {"vnfcResourceInfo": inventory.vnfcs()},
        "additionalParams": {},
        "inputs": {},
        "vims": [],
        "artifacts": [],
    })
}

/// The operation that a hook belongs to, by its name.
fn operation(hook: &str) -> String {
    let of = hook
        .rsplit_once('_')
        .map_or(hook, |(of, _)| of)
        .to_uppercase();
    let other = SPELT_OTHERWISE
        .iter()
        .find(|(interface, _)| *interface == of);
    other.map_or(of, |(_, operation)| (*operation).to_owned())
}

/// Puts the members of a file over the usual ones; `instance` and `inventory` member by member.
fn over(request: &mut Value, file: Value, path: &Path) -> Outcome<()> {
    let Value::Object(members) = file else {
        return Err(local(format!("`{}` is no object", path.display())));
    };
    for (name, member) in members {
        if !MEMBERS.contains(&name.as_str()) {
            return Err(Failure::Hinted {
                what: format!(
                    "`{}`: a hook's request has no member `{name}`",
                    path.display()
                ),
                hint: format!(
                    "parameters of the hook lie in `additionalParams`; members are {MEMBERS:?}"
                ),
            });
        }
        match (name.as_str(), member) {
            ("instance" | "inventory", Value::Object(inner)) => {
                let place = request[&name].as_object_mut();
                place.unwrap_or(&mut Map::new()).extend(inner);
            }
            (_, member) => request[&name] = member,
        }
    }
    Ok(())
}

/// Reads a JSON or YAML file.
///
/// # Errors
///
/// Where it is neither.
pub(super) fn read(path: &Path) -> Outcome<Value> {
    let text = text(path)?;
    serde_json::from_str(&text)
        .or_else(|_| serde_yaml::from_str(&text))
        .map_err(|error| {
            local(format!(
                "`{}` is neither JSON nor YAML: {error}",
                path.display()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::operation;

    #[test]
    fn a_hook_tells_its_operation() {
        assert_eq!(operation("instantiate_end"), "INSTANTIATE");
        assert_eq!(operation("scale_to_level_start"), "SCALE_TO_LEVEL");
        assert_eq!(
            operation("change_external_connectivity_end"),
            "CHANGE_EXT_CONN"
        );
    }
}
