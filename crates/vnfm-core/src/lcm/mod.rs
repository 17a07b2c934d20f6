//! Life-cycle operations: one file per operation, one shared runner, one file for the ways on.
//!
//! | file | what |
//! |---|---|
//! | [`instantiate`], [`heal`], [`modify_info`], [`terminate`] | one operation each, top to bottom |
//! | `attempt` | begins one step once it may, and runs its work within its time |
//! | [`runner`] | runs steps, keeps the journal, resumes, undoes |
//! | [`grant`], `needs`, `approve` | the NFVO is asked: when, for what, and whether its answer can be used |
//! | `ways_on` | retry, rollback, fail, cancel |
//! | `hook_journal` | what the journal keeps of a hook: its driver, and whether it can be undone |
//! | `suspicion` | steps during which the server died: one at a time, with nothing else running |
//! | `in_turn` | so many operations on one VIM at a time |
//! | `notification` | what subscribers are told of an operation |
//! | `explain` | what it does, why it waits, what each way on would do |
//! | `problem` | what went wrong, for the record |
//! | `changes` | `resourceChanges` from inventories |

mod approve;
mod attempt;
mod changes;
pub(crate) mod explain;
pub mod grant;
pub mod heal;
pub(crate) mod hook_journal;
mod in_turn;
pub mod instantiate;
pub mod modify_info;
mod needs;
mod notification;
mod op;
mod problem;
pub mod runner;
mod scarce;
mod step;
pub(crate) mod suspicion;
pub mod terminate;
mod ways_on;

pub(crate) use notification::{Status, notification};
pub use op::Op;
pub(crate) use op::{PACKAGE, within_budget};
pub(crate) use runner::without_access_info;
pub use step::{AcceptFn, Operation, Output, Settled, Step, StepFn, StepOutput};

use crate::ports::{Code, PLAN_TOO_LARGE};
use vnfm_types::LcmOperationType;

/// Every operation that exists. An operation added here is covered by the generic tests and the fault machine.
pub const OPERATIONS: &[&Operation] = &[
    &instantiate::OPERATION,
    &heal::OPERATION,
    &modify_info::OPERATION,
    &terminate::OPERATION,
];

/// The operation of a type; `None` where it does not exist.
pub fn operation(kind: LcmOperationType) -> Option<&'static Operation> {
    OPERATIONS
        .iter()
        .copied()
        .find(|operation| operation.kind == kind)
}

/// All error codes of operations.
pub(crate) fn codes() -> Vec<&'static Code> {
    let own: [&Code; 7] = [
        &PLAN_TOO_LARGE,
        &runner::CANCELLED,
        &runner::TOO_LATE,
        &runner::PANICKED,
        &suspicion::DIED,
        &op::JOURNAL,
        &op::PACKAGE,
    ];
    own.into_iter()
        .chain(grant::CODES)
        .chain(approve::CODES)
        .collect()
}
