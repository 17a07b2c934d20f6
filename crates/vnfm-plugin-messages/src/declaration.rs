//! How a plugin describes itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A plugin's description of itself, read before any of its code runs.
///
/// ```
/// use vnfm_plugin_sdk::messages::{Declaration, HookDeclaration};
///
/// let hook = HookDeclaration { undo: true, ..HookDeclaration::default() };
/// let declaration = Declaration {
///     name: "drain".into(),
///     version: "1.0.0".into(),
///     hooks: [("heal_start".to_owned(), hook)].into(),
///     config_schema: None,
/// };
/// assert!(declaration.hooks["heal_start"].undo);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Declaration {
    /// Unique together with the version.
    pub name: String,
    /// Version of the plugin: `MAJOR.MINOR.PATCH`, in decimal numbers.
    pub version: String,
    /// The hooks that it implements, by name; no other is ever called.
    pub hooks: BTreeMap<String, HookDeclaration>,
    /// JSON Schema of its configuration.
    pub config_schema: Option<Value>,
}

/// A plugin's description of one hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookDeclaration {
    /// JSON Schema of `additionalParams`; secret members are `writeOnly`.
    pub parameters: Option<Value>,
    /// True if the hook can be undone: on rollback it is called again, with [`HookRequest::undo`](crate::HookRequest::undo) set.
    pub undo: bool,
}
