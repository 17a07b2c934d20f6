//! What the journal stores about a hook ([`HookState`]): the driver that serves it, and whether it can undo the hook.

use super::hook_call;
use super::op_context::Op;
use super::step::{HookOf, Step};
use crate::deployment::{Deployment, PLUGINS_MEMBER};
use crate::ports::{HookState, StepStatus};
use serde_json::json;
use vnfm_types::KeyValuePairs;

/// The state of a hook when its step, or its undo, begins: the driver that was called first is retained.
pub(super) fn begun(op: &Op, step: &Step) -> Option<HookState> {
    if !step.is_hook() {
        return None;
    }
    let before = op.rows.get(step.name).and_then(|row| row.hook.clone());
    let now = hook_call::state(op, step.name);
    let could_undo = before.as_ref().is_some_and(|before| before.can_undo);
    now.map(|now| HookState {
        can_undo: now.can_undo || could_undo,
        ..now
    })
    .or(before)
}

/// The state of a hook when its step, or its undo, has ended. What was undone cannot be undone again.
pub(super) fn ended(op: &Op, step: &Step, status: StepStatus) -> Option<HookState> {
    let state = op.rows.get(step.name).and_then(|row| row.hook.clone())?;
    Some(HookState {
        can_undo: state.can_undo && status != StepStatus::Undone,
        ..state
    })
}

/// Records what the hooks of this operation leave: in the deployment the logins that they requested, and the plugins that
/// served those of its package; the latter also in the metadata shown to clients.
pub(super) fn note_plugins(op: &Op, deployment: &mut Deployment, metadata: &mut KeyValuePairs) {
    let is_new = deployment.leaves_package(&op.instance.vnf_pkg_id);
    let package = if is_new {
        HookOf::Target
    } else {
        HookOf::Before
    };
    let rows = op.rows.values();
    let rows = rows.filter(|row| !op.changes_package() || op.hook_of(&row.step) == package);
    let states = rows.filter_map(|row| row.hook.as_ref());
    let began = states.map(|state| (state.implementation.clone(), state.driver.versioned_name()));
    deployment.plugins.extend(began);
    let requested = op.hook_credentials();
    let requested = requested.flat_map(|requested| requested.credentials);
    deployment.credentials.extend(requested);
    if !deployment.plugins.is_empty() {
        metadata.insert(PLUGINS_MEMBER.to_owned(), json!(deployment.plugins));
    }
}

/// The action for the error of a hook that is not repeated because the process died during it.
pub(super) fn repeat_action(op: &Op, step: &Step) -> String {
    let state = op.rows.get(step.name).and_then(|row| row.hook.as_ref());
    let plugin = state.map_or_else(
        || "of its plugin".to_owned(),
        |state| format!("of plugin {}", state.driver),
    );
    format!("run hook `{}` {plugin} again", step.name)
}
