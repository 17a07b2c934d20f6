//! The hooks of a scaffolded VNFD: `--hook HOOK=PLUGIN`.

use crate::client::{Failure, Outcome};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use vnfm_descriptor::nearest;

/// Lifecycle operations of SOL001 that may have a hook, before (`_start`) and after (`_end`).
const OPERATIONS: &[&str] = &[
    "instantiate",
    "scale",
    "scale_to_level",
    "change_flavour",
    "operate",
    "heal",
    "terminate",
    "change_external_connectivity",
    "change_current_package",
    "modify_information",
    "create_snapshot",
    "revert_to_snapshot",
];

/// A hook and the name of its plugin.
pub(super) type Hook = (String, String);

/// Parses `HOOK=PLUGIN`, as in `instantiate_end=web-page`.
pub(super) fn parse(text: &str) -> Outcome<Hook> {
    let Some((hook, plugin)) = text.split_once('=') else {
        return Err(Failure::Hinted {
            message: format!("`{text}` names no plugin"),
            hint: "write it as `--hook instantiate_end=web-page`".to_owned(),
        });
    };
    check(hook)?;
    super::check_name(plugin, "plugin")?;
    Ok((hook.to_owned(), plugin.to_owned()))
}

/// Checks the name of a hook.
pub(super) fn check(hook: &str) -> Outcome<()> {
    let known: Vec<_> = OPERATIONS
        .iter()
        .flat_map(|operation| ["_start", "_end"].map(|moment| format!("{operation}{moment}")))
        .collect();
    if known.iter().any(|name| name == hook) {
        return Ok(());
    }
    let near = nearest(hook, known.iter().map(String::as_str));
    let hint = near.map_or_else(
        || {
            format!(
                "hooks are {}, each with `_start` or `_end`",
                OPERATIONS.join(", ")
            )
        },
        |near| format!("did you mean `{near}`?"),
    );
    Err(Failure::Hinted {
        message: format!("there is no hook `{hook}`"),
        hint,
    })
}

/// The interface and artifacts of the VNF's node template; empty without hooks.
pub(super) fn to_yaml(hooks: &[Hook]) -> String {
    let mut yaml = String::new();
    if hooks.is_empty() {
        return yaml;
    }
    yaml.push_str("      interfaces:\n        Vnflcm:\n          operations:\n");
    for (hook, plugin) in hooks {
        let _ = writeln!(
            yaml,
            "            {hook}:\n              implementation: {{primary: {plugin}, timeout: 600 s}}"
        );
    }
    yaml.push_str("      artifacts:\n");
    for plugin in hooks
        .iter()
        .map(|(_, plugin)| plugin)
        .collect::<BTreeSet<_>>()
    {
        let _ = writeln!(
            yaml,
            "        {plugin}:\n          type: tosca.artifacts.Implementation.SharedLibrary\n          \
             file: '-'\n          properties: {{plugin: {plugin}}}"
        );
    }
    yaml
}
