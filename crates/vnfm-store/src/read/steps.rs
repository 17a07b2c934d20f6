//! Steps of operations, and which processes ran them.

use super::{status, time};
use crate::fault::Done;
use crate::keys::SecretKeys;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row as _, query_as, query_scalar};
use vnfm_core::ports::{JournalRow, OpenStep, ProcessHistory};

from_columns!(StepRow: op_id, step, status, attempt, output, started_at, ended_at, lives, hook);
from_columns!(OpenStepRow: tenant, op_id, ended_at, lives);

/// A row of `journal`.
pub(crate) struct StepRow {
    op_id: String,
    step: String,
    status: String,
    attempt: i64,
    output: Option<String>,
    started_at: String,
    ended_at: Option<String>,
    lives: Option<String>,
    hook: Option<String>,
}

impl StepRow {
    /// Converts it to the port's record.
    pub(crate) fn record(self, keys: &SecretKeys) -> Done<JournalRow> {
        Ok(JournalRow {
            status: status(&self.status)?,
            attempt: u32::try_from(self.attempt).unwrap_or(u32::MAX),
            output: keys.unseal(self.output.as_deref())?,
            started_at: time(&self.started_at)?,
            ended_at: self.ended_at.as_deref().map(time).transpose()?,
            lives: lives(self.lives.as_deref())?,
            hook: self.hook.as_deref().map(serde_json::from_str).transpose()?,
            op_id: self.op_id,
            step: self.step,
        })
    }
}

/// The journal of an operation, in the order in which its rows were first written.
pub(crate) async fn journal(connection: &mut SqliteConnection, op_id: &str) -> Done<Vec<StepRow>> {
    const ALL: &str = "
        SELECT op_id, step, status, attempt, output, started_at, ended_at, lives, hook
        FROM journal WHERE op_id = $1 ORDER BY seq";
    Ok(query_as(ALL).bind(op_id).fetch_all(connection).await?)
}

/// A step without its output.
pub(crate) struct OpenStepRow {
    tenant: String,
    op_id: String,
    ended_at: Option<String>,
    lives: Option<String>,
}

impl OpenStepRow {
    /// Converts it to the port's record.
    pub(crate) fn record(self) -> Done<OpenStep> {
        Ok(OpenStep {
            ended_at: self.ended_at.as_deref().map(time).transpose()?,
            lives: lives(self.lives.as_deref())?,
            tenant: self.tenant,
            op_id: self.op_id,
        })
    }
}

/// Every unfinished step of operations that must be driven, and every step that killed a process.
pub(crate) async fn open_steps(connection: &mut SqliteConnection) -> Done<Vec<OpenStepRow>> {
    const OPEN: &str = "
        SELECT ops.tenant AS tenant, op_id, ended_at, lives FROM ops JOIN journal ON op_id = ops.id
        WHERE driven = 1 AND status IN ('started', 'undoing') AND ended_at IS NULL
        UNION
        SELECT ops.tenant AS tenant, op_id, ended_at, lives FROM journal JOIN ops ON op_id = ops.id
        WHERE killed = 1
        ORDER BY op_id";
    Ok(query_as(OPEN).fetch_all(connection).await?)
}

/// The processes that released an operation in an orderly shutdown.
pub(crate) async fn left_in_order(
    connection: &mut SqliteConnection,
    op_id: &str,
) -> Done<Vec<String>> {
    let left = query_scalar("SELECT process FROM left_in_order WHERE op_id IN ('', $1)");
    Ok(left.bind(op_id).fetch_all(connection).await?)
}

/// The processes that ran a step; absent in databases of older versions.
fn lives(stored: Option<&str>) -> Done<ProcessHistory> {
    Ok(stored
        .map(serde_json::from_str)
        .transpose()?
        .unwrap_or_default())
}
