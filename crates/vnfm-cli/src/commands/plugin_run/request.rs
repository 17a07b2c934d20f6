//! The request of the hook of `plugin run`: the members of a file, and what the server would add to them.

use super::inventory::{Inventory, text};
use crate::args::Run;
use crate::client::{Failure, Outcome, local};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;
use vnfm::descriptor::{Hook, Package};
use vnfm::ports::{Clock as _, HookRequest};
use vnfm::types::LcmOperationType;
use vnfm::{Redactor, SystemClock};
use vnfm_descriptor::nearest;

/// Members of a request; any other in the file is rejected as a typo.
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
    "scriptProtocol",
    "deadline",
    "attempt",
];

/// Interfaces whose operation has another name in SOL003 than in SOL001 (SOL001 6.7, SOL003 5.5.4.5).
const SOL003_NAMES: &[(&str, &str)] = &[
    ("CHANGE_EXTERNAL_CONNECTIVITY", "CHANGE_EXT_CONN"),
    ("MODIFY_INFORMATION", "MODIFY_INFO"),
    ("CHANGE_CURRENT_PACKAGE", "CHANGE_VNFPKG"),
];

/// Builds the request: defaults, overridden by the file, then by the command line's hook, attempt and deadline.
///
/// # Errors
///
/// If the file is not a valid request; the message names the member.
pub(super) fn build(
    args: &Run,
    (inventory, package): (&Inventory, Option<&Package>),
    attempt: u32,
    secrets: &mut Redactor,
) -> Outcome<HookRequest> {
    let mut request = defaults(args, inventory);
    request["instance"]["vdus"] = json!(vdus(inventory, package));
    if let Some(hook) = package.and_then(|package| package_hook(package, &args.hook)) {
        request["inputs"] = serde_json::to_value(&hook.inputs).map_err(local)?;
        let artifact = hook.artifact.as_ref();
        let file = artifact.and_then(|artifact| Some((artifact, artifact.file.as_ref()?)));
        request["artifacts"] = file
            .map(|(artifact, path)| json!({"name": artifact.name, "path": path, "type": artifact.kind}))
            .into_iter()
            .collect();
    }
    if let Some(path) = &args.request {
        merge(&mut request, read(path)?, path)?;
    }
    request["hook"] = args.hook.as_str().into();
    request["attempt"] = attempt.into();
    let deadline = SystemClock.now() + Duration::from_secs(args.deadline.into());
    request["deadline"] = deadline.to_string().into();
    if args.undo {
        request["undo"] = true.into();
    }
    inventory.insert_secrets(&mut request["additionalParams"], secrets)?;
    let invalid = |error: serde_json::Error| Failure::Hinted {
        message: format!("the request of hook `{}` is not valid: {error}", args.hook),
        hint: "see schemas/plugin/hook-request.schema.json for its format".into(),
    };
    check_operation(&request["operation"]).map_err(invalid)?;
    serde_json::from_value(request).map_err(invalid)
}

/// Refuses an operation that SOL003 does not define: no engine would send it.
fn check_operation(operation: &Value) -> Result<(), serde_json::Error> {
    LcmOperationType::deserialize(operation).map(drop)
}

/// The hook in the package's VNFD, from the first flavour that has it.
fn package_hook<'a>(package: &'a Package, hook: &str) -> Option<&'a Hook> {
    package
        .vnfd()
        .flavours
        .values()
        .find_map(|flavour| flavour.hook(hook))
}

/// The VDUs of the hosts, and those of the package, which may be scaled to zero.
fn vdus<'a>(inventory: &'a Inventory, package: Option<&'a Package>) -> BTreeSet<&'a str> {
    let mut vdus = inventory.vdus();
    let flavours = package.map(|package| package.vnfd().flavours.values());
    let names = flavours
        .into_iter()
        .flatten()
        .flat_map(|flavour| flavour.vdus.keys());
    vdus.extend(names.map(String::as_str));
    vdus
}

/// A request with a plausible value for every member.
fn defaults(args: &Run, inventory: &Inventory) -> Value {
    // The same inventory gives the same instance id, since hooks name things on hosts by it.
    let hosts = args
        .hosts
        .canonicalize()
        .unwrap_or_else(|_| args.hosts.clone());
    let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, hosts.display().to_string().as_bytes());
    json!({
        "schemaVersion": 1,
        "operation": operation(&args.hook),
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

/// The operation of a hook, derived from its name.
fn operation(hook: &str) -> String {
    let interface = hook
        .rsplit_once('_')
        .map_or(hook, |(interface, _)| interface)
        .to_uppercase();
    let renamed = SOL003_NAMES.iter().find(|(sol001, _)| *sol001 == interface);
    renamed.map_or(interface, |(_, operation)| (*operation).to_owned())
}

/// Overrides the defaults with the members of a file; `instance` and `inventory` are merged member by member.
fn merge(request: &mut Value, file: Value, path: &Path) -> Outcome<()> {
    let Value::Object(members) = file else {
        return Err(local(format!("`{}` is not an object", path.display())));
    };
    for (name, member) in members {
        if !MEMBERS.contains(&name.as_str()) {
            return Err(Failure::Hinted {
                message: format!(
                    "`{}`: a hook's request has no member `{name}`",
                    path.display()
                ),
                hint: match nearest(&name, MEMBERS.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "put the hook's parameters into `additionalParams`; valid members: {}",
                        MEMBERS.join(", ")
                    ),
                },
            });
        }
        match (name.as_str(), member) {
            ("instance" | "inventory", Value::Object(inner)) => {
                let target = request[&name].as_object_mut();
                target.unwrap_or(&mut Map::new()).extend(inner);
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
/// If it cannot be read, or is neither JSON nor YAML.
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
    use super::{check_operation, operation};

    #[test]
    fn an_operation_that_sol003_does_not_define_is_refused() {
        assert!(check_operation(&"SCALE_TO_LEVEL".into()).is_ok());
        let error = check_operation(&"SCALE_UP".into()).unwrap_err();
        assert!(error.to_string().contains("`SCALE_UP`"), "{error}");
    }

    #[test]
    fn the_operation_is_derived_from_the_name_of_the_hook() {
        assert_eq!(operation("instantiate_end"), "INSTANTIATE");
        assert_eq!(operation("scale_to_level_start"), "SCALE_TO_LEVEL");
        assert_eq!(
            operation("change_external_connectivity_end"),
            "CHANGE_EXT_CONN"
        );
    }
}
