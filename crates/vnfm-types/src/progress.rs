//! Our own API, in addition to SOL003: what an operation is doing, and why it waits.

use crate::{LcmOperationState, ProblemDetails};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What an operation occurrence is doing right now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// `id` of the operation occurrence.
    pub vnf_lcm_op_occ_id: String,
    /// State of the operation occurrence.
    pub operation_state: LcmOperationState,
    /// The step that is running or has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Attempts at that step so far, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// Progress within the step, 0 to 100, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// The last message of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Set while the step waits for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Set while a step that failed is to be repeated, and while its repetition runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryProgress>,
    /// Why the operation stopped, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ProblemDetails>,
    /// What cancel, retry, rollback and fail would do now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways_on: Vec<PossibleAction>,
    /// The steps of the operation with their journal status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepProgress>,
}

/// Why an operation is waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What it waits for, in a phrase.
    #[serde(rename = "for")]
    pub for_what: String,
    /// Start of the wait, UTC.
    pub since: Timestamp,
    /// Deadline of the step, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A step that failed and is repeated, as the policy of the instance says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryProgress {
    /// How often the step has failed since it was last started by a person or for the first time.
    pub failures: u32,
    /// Start of the next attempt, UTC; absent while the attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// Why the last attempt failed.
    pub last_error: String,
}

/// One of cancel, retry, rollback, fail: whether it is allowed, and what it would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PossibleAction {
    /// `cancel`, `retry`, `rollback` or `fail`.
    pub task: String,
    /// Whether it would be accepted now.
    pub allowed: bool,
    /// What it would do, or why it is refused.
    pub what: String,
}

/// The journal status of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// Key of the step in the journal.
    pub name: String,
    /// `planned`, `started`, `done`, `skipped` or `undone`.
    pub status: String,
    /// Start of the last attempt, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// End of the last attempt, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// One line of an operation's log: messages of hooks, hosts and VIMs, limited in length and redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Number within the operation, from 1.
    pub seq: u64,
    /// Time of the message, UTC.
    pub at: Timestamp,
    /// `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// The step, hook or host that logged it.
    pub source: String,
    /// The message, with secrets hidden.
    pub text: String,
}

/// A resource on a VIM with our installation id that no instance and no snapshot accounts for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// Id of the registered VIM.
    pub vim_id: String,
    /// Its type, such as `OS::Heat::Stack` or `Namespace`.
    pub kind: String,
    /// Its id on the VIM.
    pub id: String,
    /// Its name on the VIM.
    pub name: String,
    /// The instance that it is tagged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_id: Option<String>,
    /// The snapshot that it is tagged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot_info_id: Option<String>,
    /// The shared virtual link that it is tagged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_id: Option<String>,
    /// The retained volume that it is tagged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_id: Option<String>,
    /// When that instance was abandoned, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned_at: Option<Timestamp>,
}
