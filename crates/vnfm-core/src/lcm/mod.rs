//! Lifecycle operations: one file per operation and one shared runner.
//!
//! From top to bottom; a file imports those below it. `op_context`, `operation` and `step` are one unit: a row has functions of an
//! [`Op`], an `Op` knows its row, and both know steps.
//!
//! | file | content |
//! |---|---|
//! | `accept` | how a request becomes an operation |
//! | `operation_table` | all operations, each with its row |
//! | [`step_runner`] | runs the steps, resumes, undoes |
//! | `operation_control` | writes a new operation; retry, rollback, fail, cancel |
//! | [`instantiate`], [`heal`], [`scale`], [`scale_to_level`], [`operate`], [`change_flavour`], [`change_ext_conn`], [`change_vnfpkg`], [`create_snapshot`], [`revert_to_snapshot`], [`modify_info`], [`terminate`] | one operation each, top to bottom, with its row |
//! | [`retarget`] | what changes to another deployment share |
//! | `comparison` | two flavours: which VNFCs stay, come and go |
//! | `resize` | what the two scalings share |
//! | `snapshot_use` | what the two operations on snapshots share |
//! | `link_use` | which shared virtual links an instance uses |
//! | `scale_refusal` | why a size or a list of levels is not possible |
//! | `dependents` | updates the records of VNFs on the VIMs that hooks change |
//! | `refresh` | observes an instance without an operation, and writes its record if it differs |
//! | `cascade` | terminates the instances on the clusters of one that is terminated |
//! | `outcome` | the record of an instance that an operation has changed |
//! | `step_attempt` | one attempt at a step, bounded by its deadline |
//! | `descriptor_shortage` | repeats a step that ran out of file descriptors |
//! | `failure_policy` | what follows when a step fails: another attempt, a rollback, or a stop |
//! | `driven` | the state in which a process left an operation |
//! | `step_work` | runs or undoes a step: asks for the grant, calls the hook, or works |
//! | `transition` | the one writer of operation states |
//! | `load` | an operation from its records, with the grant that it has |
//! | `step_journal` | writes the journal: *started* before a side effect, *done* after it |
//! | `crash_suspects` | steps during which the server died: run one at a time, with nothing else running |
//! | [`grant`], `grant_request`, `grant_check`, `approved` | asks the NFVO for a grant, checks it, and applies it |
//! | `hook_call`, `hook_journal` | calls a hook for an operation; what the journal stores about it |
//! | `hook_vims` | registers the VIMs that a hook created |
//! | `vim_slot` | limits concurrent operations per VIM |
//! | `explain` | progress, reason for waiting, possible next actions |
//! | `problem` | the error recorded in the occurrence |
//! | `op_context` | one operation while it is driven |
//! | `operation` | the row: all that others need to know about an operation |
//! | `support` | what flavour, VNFD and VIM must have for an operation |
//! | `step` | one step: what it does, and how it is undone |
//! | `changes`, `notification`, `state_log` | `resourceChanges`, the notification and the log line about an operation |

mod accept;
mod approved;
mod cascade;
pub mod change_ext_conn;
pub mod change_flavour;
pub mod change_vnfpkg;
mod changes;
mod comparison;
mod crash_suspects;
pub mod create_snapshot;
mod dependents;
mod descriptor_shortage;
mod driven;
pub(crate) mod explain;
mod failure_policy;
pub mod grant;
mod grant_check;
mod grant_request;
pub mod heal;
mod hook_call;
mod hook_credentials;
mod hook_journal;
mod hook_vims;
pub mod instantiate;
mod link_use;
mod load;
pub mod modify_info;
mod notification;
mod op_context;
pub mod operate;
mod operation;
mod operation_control;
mod operation_table;
mod outcome;
mod problem;
mod refresh;
pub mod resize;
pub mod retarget;
pub mod revert_to_snapshot;
pub mod scale;
mod scale_refusal;
pub mod scale_to_level;
mod snapshot_use;
mod state_log;
mod step;
mod step_attempt;
mod step_journal;
pub mod step_runner;
mod step_work;
mod support;
pub mod terminate;
mod transition;
mod vim_slot;
mod volume_use;

pub use crate::context::Context;
pub(crate) use accept::{Tried, begin, check_unchanged, try_to_begin};
pub use driven::{Driven, NotCompleted};
pub use op_context::Op;
pub(crate) use op_context::check_budget;
pub use operation::{
    Begin, Body, Completion, Dependant, Expected, GrantDecides, GrantNeeds, GrantRule, Operation,
    Requested, Requires, SnapshotUse, Target, TargetFn, find,
};
pub(crate) use operation_control::Control;
pub use operation_table::OPERATIONS;
pub(crate) use outcome::recorded;
pub(crate) use refresh::{Refreshed, Refresher};
pub(crate) use snapshot_use::{Stored, being_deleted, used_by};
pub use step::{
    Ends, HookOf, InventoryFn, Output, Step, StepCondition, StepFn, StepKind, StepOutput, Undo,
    journaled, silent,
};
pub(crate) use step_attempt::TOO_LATE;
pub use support::Support;
pub(crate) use transition::Transition;
pub(crate) use volume_use::volumes_on;

use crate::ports::{Code, PACKAGE, PLAN_TOO_LARGE};

pub(crate) fn codes() -> Vec<&'static Code> {
    let own: [&Code; 8] = [
        &PLAN_TOO_LARGE,
        &step_runner::CANCELLED,
        &step_runner::TOO_LATE,
        &step_runner::PANICKED,
        &crash_suspects::DIED,
        &crash_suspects::HOOK_DIED,
        &op_context::JOURNAL,
        &PACKAGE,
    ];
    own.into_iter()
        .chain(grant::CODES)
        .chain(grant_check::CODES)
        .chain(cascade::CODES)
        .chain(volume_use::CODES)
        .collect()
}
