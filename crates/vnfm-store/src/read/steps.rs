//! Steps of operations, and which processes ran them.

use crate::fault::{Done, Fault};
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Row};
use crate::write::status_text;
use vnfm_core::ports::{JournalRow, OpenStep, StepStatus, StoreError};

/// The journal of an operation, in the order in which its rows were first written.
pub(crate) fn journal(op_id: &str) -> Query {
    const ALL: &str = "
        SELECT op_id, step, status, attempt, output, started_at, ended_at, lives, hook, retry
        FROM journal WHERE op_id = $1 ORDER BY seq";
    Query::new(ALL).bind(op_id)
}

/// A row of [`journal`]. Databases of older versions do not tell which processes ran a step.
pub(crate) fn journal_row(mut row: Row, keys: &SecretKeys) -> Done<JournalRow> {
    let (op_id, step) = (row.take()?, row.take()?);
    Ok(JournalRow {
        op_id,
        step,
        status: status(&row.take::<String>()?)?,
        attempt: u32::try_from(row.take::<i64>()?).unwrap_or(u32::MAX),
        output: keys.unseal(row.take::<Option<String>>()?.as_deref())?,
        started_at: row.time()?,
        ended_at: row.some_time()?,
        lives: row.some_json()?.unwrap_or_default(),
        hook: row.some_json()?,
        retry: row.some_json()?,
    })
}

/// Every unfinished step of operations that must be driven, and every step that killed a process.
pub(crate) fn open_steps() -> Query {
    const OPEN: &str = "
        SELECT ops.tenant AS tenant, op_id, ended_at, lives FROM ops JOIN journal ON op_id = ops.id
        WHERE driven = 1 AND status IN ('started', 'undoing') AND ended_at IS NULL
        UNION
        SELECT ops.tenant AS tenant, op_id, ended_at, lives FROM journal JOIN ops ON op_id = ops.id
        WHERE killed = 1
        ORDER BY op_id";
    Query::new(OPEN)
}

/// Converts a row of [`open_steps`] to a record.
pub(crate) fn open_step(mut row: Row) -> Done<OpenStep> {
    Ok(OpenStep {
        tenant: row.take()?,
        op_id: row.take()?,
        ended_at: row.some_time()?,
        lives: row.some_json()?.unwrap_or_default(),
    })
}

/// The processes that released an operation in an orderly shutdown.
pub(crate) fn left_in_order(op_id: &str) -> Query {
    Query::new("SELECT process FROM left_in_order WHERE op_id IN ('', $1)").bind(op_id)
}

fn status(stored: &str) -> Done<StepStatus> {
    const ALL: [StepStatus; 5] = [
        StepStatus::Started,
        StepStatus::Done,
        StepStatus::Skipped,
        StepStatus::Undoing,
        StepStatus::Undone,
    ];
    ALL.into_iter()
        .find(|status| status_text(*status) == stored)
        .ok_or_else(|| {
            Fault::Port(StoreError::Broken(format!(
                "`{stored}` is not a step status"
            )))
        })
}
