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
    /// What it was before it was replaced, to be deleted once the new one exists.
    pub(crate) replaced: Vec<Replaced>,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) requires: BTreeSet<String>,
    pub(crate) nested: bool,
    pub(crate) created: String,
    pub(crate) updated: String,
}

/// What a resource was before it was replaced.
#[derive(Debug, Clone)]
pub(crate) struct Replaced {
    pub(crate) physical: String,
    pub(crate) properties: Map<String, Value>,
    /// Whether it was complete, and not marked as unhealthy.
    pub(crate) is_healthy: bool,
}

impl Resource {
    /// Returns to what it was before a replacement that failed, as the next update of a stack does. The ports of a server are not
    /// attached again.
    pub(crate) fn readopt(&mut self) {
        let has_failed = matches!(self.status.as_str(), "CREATE_FAILED" | "UPDATE_FAILED");
        let old = self.replaced.iter().rposition(|one| one.is_healthy);
        let Some(old) = old.filter(|_| has_failed) else {
            return;
        };
        let old = self.replaced.remove(old);
        let failed = Replaced {
            physical: std::mem::replace(&mut self.physical, old.physical),
            properties: std::mem::replace(&mut self.properties, old.properties),
            is_healthy: false,
        };
        self.replaced
            .extend(Some(failed).filter(|one| !one.physical.is_empty()));
        "UPDATE_COMPLETE".clone_into(&mut self.status);
    }
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
