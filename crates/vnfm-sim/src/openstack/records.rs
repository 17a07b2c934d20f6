//! Heat's records: stacks and resources with status and reason.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::template::Environment;

/// A resource of a stack.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resource {
    pub(crate) kind: String,
    pub(crate) properties: Map<String, Value>,
    pub(crate) physical: String,
    /// Physical ids of replaced resources, to be deleted once the new one exists.
    pub(crate) replaced: Vec<String>,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) requires: BTreeSet<String>,
    pub(crate) nested: bool,
    pub(crate) created: String,
    pub(crate) updated: String,
}

/// A stack, nested ones included.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stack {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The parent stack, and the resource in it that this stack implements.
    pub(crate) parent: Option<(String, String)>,
    pub(crate) template: Value,
    pub(crate) environment: Environment,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) tags: Vec<String>,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) rollback: bool,
    pub(crate) timeout_mins: Value,
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) resources: BTreeMap<String, Resource>,
    pub(crate) events: Vec<Value>,
    pub(crate) created: String,
    pub(crate) updated: Option<String>,
    pub(crate) deleted: Option<String>,
    /// Counts requests; the engine drops a request with an older number.
    pub(crate) generation: u64,
}
