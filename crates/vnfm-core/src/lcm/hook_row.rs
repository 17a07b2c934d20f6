//! What the journal's row of a hook keeps beside its output: which plugin the operation began with, and how often
//! the server died during it.
//!
//! ```text
//! {"v": 1, "data": …, "plugin": {"for": spelling, "is": name, version, SHA-256}, "by": process, "deaths": 1}
//! ```
//!
//! A row that another process has begun and that has no end was left by one that died: one that stops in order, or
//! whose step fails, writes the end. A process that finds its own open row lost its lease for a while: nobody died.

use super::Op;
use super::step::Step;
use crate::hooks;
use crate::ports::{Code, DriverId, ErrorKind, JournalRow, PortError, StepStatus};
use serde::Deserialize as _;
use serde_json::{Value, json};
use vnfm_types::KeyValuePairs;

const PLUGIN: &str = "plugin";
const BY: &str = "by";
const DEATHS: &str = "deaths";
/// So often may the server die in one hook before it is not begun again.
const MOST_DEATHS: u64 = 2;

/// What the row of a hook keeps when it is begun.
pub(super) fn begun(op: &Op, step: &Step) -> Value {
    let before = op.rows.get(step.name);
    let mut output = before.map(|row| Value::clone(&row.output)).unwrap_or_default();
    let deaths = match before.filter(|row| is_open(row)) {
        Some(row) if row.output.get(BY) == Some(&json!(&*op.engine.owner)) => deaths(row),
        Some(row) => deaths(row) + 1,
        None => 0,
    };
    output[DEATHS] = json!(deaths);
    output[BY] = json!(&*op.engine.owner);
    if let Some((wanted, driver)) = hooks::serving(op, step.name) {
        output[PLUGIN] = json!({"for": wanted, "is": driver});
    }
    output
}

/// `output` with what the row of a step kept of its plugin.
pub(super) fn kept(op: &Op, step: &Step, mut output: Value) -> Value {
    let plugin = op.rows.get(step.name).and_then(|row| row.output.get(PLUGIN));
    if let (true, Some(plugin)) = (step.hook, plugin) {
        output[PLUGIN] = plugin.clone();
    }
    output
}

/// The plugin with which this operation began to serve the spelling `wanted`.
pub(crate) fn plugin(op: &Op, wanted: &Value) -> Option<DriverId> {
    let mut kept = op.rows.values().filter_map(|row| row.output.get(PLUGIN));
    let plugin = kept.find(|plugin| plugin["for"] == *wanted)?;
    DriverId::deserialize(&plugin["is"]).ok()
}

/// The plugins with which this operation began, as `name@version` by the spelling of an `implementation`.
pub(super) fn plugins(op: &Op) -> KeyValuePairs {
    let kept = op.rows.values().filter_map(|row| row.output.get(PLUGIN));
    let versions = kept.filter_map(|plugin| {
        let driver = DriverId::deserialize(&plugin["is"]).ok()?;
        Some((plugin["for"][0].as_str()?.to_owned(), hooks::versioned(&driver).into()))
    });
    versions.collect()
}

/// Notes in what is known of the instance which plugins serve it from now on.
pub(super) fn note_plugins(op: &Op, metadata: &mut KeyValuePairs) {
    let plugins = plugins(op);
    if plugins.is_empty() {
        return;
    }
    match metadata.get_mut(hooks::DRIVERS).and_then(Value::as_object_mut) {
        Some(known) => known.extend(plugins),
        None => drop(metadata.insert(hooks::DRIVERS.to_owned(), Value::Object(plugins))),
    }
}

/// Why a hook is not begun again: the server died in it, and died in it again.
pub(super) fn refusal(op: &Op, step: &Step) -> Option<PortError> {
    let row = op.rows.get(step.name).filter(|_| step.hook)?;
    if deaths(row) < MOST_DEATHS {
        return None;
    }
    let is = row.output.get(PLUGIN).map(|plugin| &plugin["is"]);
    let is = is.and_then(|is| DriverId::deserialize(is).ok());
    let plugin = is.map_or_else(|| "of its plugin".to_owned(), |is| format!("of plugin {is}"));
    let doing = format!("run hook `{}` {plugin} once more", step.name);
    let what = format!("the server ended {MOST_DEATHS} times running while it ran");
    Some(PortError::new(&DIED, doing, what))
}

/// The row of a step that was begun, with its end; `None` where there is nothing to end.
pub(super) fn ended(op: &Op, step: &Step) -> Option<JournalRow> {
    let row = op.rows.get(step.name).filter(|row| is_open(row))?;
    Some(JournalRow { ended_at: Some(op.clock().now()), ..JournalRow::clone(row) })
}

fn is_open(row: &JournalRow) -> bool {
    matches!(row.status, StepStatus::Started | StepStatus::Undoing) && row.ended_at.is_none()
}

fn deaths(row: &JournalRow) -> u64 {
    row.output.get(DEATHS).and_then(Value::as_u64).unwrap_or_default()
}

/// The server died twice in a hook.
pub(crate) const DIED: Code = Code {
    name: "hook.server-died",
    kind: ErrorKind::Refused,
    means: "the server ended twice running in the middle of this hook, which is not begun a third time",
    next: "see in the server's log why it ended; let the plugin run in processes of its own (`plugins.runners`) or \
           mend it, then retry; or roll back",
};
