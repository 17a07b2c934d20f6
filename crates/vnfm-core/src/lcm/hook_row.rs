//! What the journal's row of a hook keeps beside its output: which plugin the operation began with.
//!
//! ```text
//! {"v": 1, "data": …, "plugin": {"for": spelling, "is": name, version, SHA-256}}
//! ```
//!
//! Older versions kept there, too, which process ran the hook and how many had died (`by`, `deaths`); now every row
//! keeps that for itself ([`Lives`]).

use super::Op;
use super::step::Step;
use crate::hooks;
use crate::ports::{DriverId, JournalRow, Lives};
use serde::Deserialize as _;
use serde_json::{Value, json};
use vnfm_types::KeyValuePairs;

const PLUGIN: &str = "plugin";
const BY: &str = "by";
const DEATHS: &str = "deaths";
/// So many deaths an older version counted at most.
const MOST_DEATHS: u64 = 2;

/// What the row of a hook keeps when it is begun.
pub(super) fn begun(op: &Op, step: &Step) -> Value {
    let before = op.rows.get(step.name);
    let mut output = before.map(|row| Value::clone(&row.output)).unwrap_or_default();
    if let Some(output) = output.as_object_mut() {
        output.remove(BY);
        output.remove(DEATHS);
    }
    if let Some((wanted, driver)) = hooks::serving(op, step.name) {
        output[PLUGIN] = json!({"for": wanted, "is": driver});
    }
    output
}

/// The processes that ran a step. Older versions recorded this only for hooks, inside the hook's output.
pub(super) fn lives(row: &JournalRow) -> Lives {
    let (Some(by), true) = (row.output[BY].as_str(), row.lives.by.is_empty()) else {
        return row.lives.clone();
    };
    let deaths = row.output[DEATHS].as_u64().unwrap_or_default().min(MOST_DEATHS);
    let died = (1..=deaths).map(|number| format!("unknown-{number}")).collect();
    Lives { by: by.to_owned(), died, ..row.lives.clone() }
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

/// What a hook is not to do once more, with its plugin.
pub(super) fn once_more(op: &Op, step: &Step) -> String {
    let row = op.rows.get(step.name);
    let is = row.and_then(|row| row.output.get(PLUGIN)).map(|plugin| &plugin["is"]);
    let is = is.and_then(|is| DriverId::deserialize(is).ok());
    let plugin = is.map_or_else(|| "of its plugin".to_owned(), |is| format!("of plugin {is}"));
    format!("run hook `{}` {plugin} once more", step.name)
}
