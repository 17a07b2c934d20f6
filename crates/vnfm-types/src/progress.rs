//! Our own API beside SOL003: what an operation is doing, and why it waits.

use crate::{LcmOperationState, ProblemDetails};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What an operation occurrence is doing right now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The operation occurrence.
    pub vnf_lcm_op_occ_id: String,
    /// Its state.
    pub operation_state: LcmOperationState,
    /// The step that runs or that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// How often that step was begun, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// 0 to 100 within the step, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// The last thing that the step said of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// What went wrong, once it has stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ProblemDetails>,
    /// What each way on would do now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways_on: Vec<WayOn>,
    /// The steps of the operation with what the journal says of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepProgress>,
}

/// Why an operation waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What for, in words.
    #[serde(rename = "for")]
    pub for_what: String,
    /// Since when.
    pub since: Timestamp,
    /// Until when at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// One of cancel, retry, rollback, fail: whether it is possible, and what it would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WayOn {
    /// `cancel`, `retry`, `rollback` or `fail`.
    pub task: String,
    /// Whether it would be accepted now.
    pub allowed: bool,
    /// What it would do, or why it is refused.
    pub what: String,
}

/// What the journal says of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// Name of the step.
    pub name: String,
    /// `planned`, `started`, `done`, `skipped` or `undone`.
    pub status: String,
    /// When it was last begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// One line of an operation's log: what hooks, hosts and VIMs said, bounded and redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Number within the operation, from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// Who: a step, a hook, a host.
    pub source: String,
    /// What.
    pub text: String,
}

/// Something on a VIM that carries our installation id and that no instance explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// The VIM that it is on.
    pub vim_id: String,
    /// What it is, such as `OS::Heat::Stack` or `Namespace`.
    pub kind: String,
    /// Its identifier there.
    pub id: String,
    /// Its name there.
    pub name: String,
    /// The instance that it says it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_id: Option<String>,
    /// When that instance was abandoned, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned_at: Option<Timestamp>,
}
