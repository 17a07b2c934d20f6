//! What follows when a step, or its undo, fails. The policy of the instance decides, or else that of its tenant or of the
//! server ([`Limits::policy`](crate::Limits::policy)).
//!
//! ```text
//! step fails ─┬─ as Unavailable, with retries left: journaled, then started again after a pause
//!             ├─ `then: ROLLBACK`, and every step begun can be undone: FAILED_TEMP and ROLLING_BACK in one transaction
//!             └─ else it stops: ROLLED_BACK from STARTING, FAILED_TEMP otherwise
//! ```
//!
//! The journal counts the failures of a step, and holds the time of the next attempt: a crash resets neither. During the
//! pause the operation holds no slot at its VIM. A cancel request ends the pause and prevents a rollback: the operator
//! decides. The policy is read at each failure, so a new one applies to running operations too.

use super::crash_suspects;
use super::op_context::Op;
use super::step::Step;
use super::step_journal::{report_step, store, stored};
use crate::ports::{
    Change, JournalRow, PortError, StepRetry, StepStatus, StoreError, Watcher as _,
};
use futures_util::future::select;
use jiff::Timestamp;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use vnfm_types::LcmOperationState::Processing;
use vnfm_types::{AfterRetries, OnFailure};

/// The first pause; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How often a waiting operation checks whether its process shuts down.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of an error in the journal.
const MAX_ERROR_CHARS: usize = 1_000;

/// What follows a failure.
pub(super) enum Next {
    Retry(StepRetry),
    RollBack,
    Stop,
}

/// What follows the failure of `step`.
pub(super) async fn next(op: &Op, step: &Step, error: &PortError) -> Result<Next, StoreError> {
    if op.live.cancel_mode().is_some() {
        return Ok(Next::Stop);
    }
    let instance = op.context.store();
    let instance = instance.instance(op.tenant(), &op.instance.vnf.id).await?;
    let limits = op.context.limits();
    let policy = limits.policy(op.tenant(), instance.on_failure).on_failure;
    if let Some(retry) = retry(op, step, error, &policy) {
        return Ok(Next::Retry(retry));
    }
    if policy.then == AfterRetries::Stop || op.record.op.operation_state != Processing {
        return Ok(Next::Stop);
    }
    let Some(begun) = &op.record.point_of_no_return else {
        return Ok(Next::RollBack);
    };
    let text = format!("not rolled back: step `{begun}` has begun and cannot be undone");
    op.watcher().log("warn", step.name, &text);
    Ok(Next::Stop)
}

/// The next attempt, if the policy allows one more.
fn retry(op: &Op, step: &Step, error: &PortError, policy: &OnFailure) -> Option<StepRetry> {
    let before = op.rows.get(step.name).and_then(|row| row.retry.as_ref());
    let failures = before.map_or(0, |before| before.failures) + 1;
    if !error.is_unavailable() || failures > policy.retries {
        return None;
    }
    let now = op.clock().now();
    let first_failed_at = before.map_or(now, |before| before.first_failed_at);
    let until = first_failed_at + Duration::from_secs(policy.retry_within_seconds.into());
    let next_at = now + pause(failures, error.retry_after());
    let text = op.live.redact(&error.to_string());
    (next_at <= until).then(|| StepRetry {
        failures,
        first_failed_at,
        next_at,
        last_error: text.chars().take(MAX_ERROR_CHARS).collect(),
    })
}

/// The pause before the next attempt, at least as long as the neighbour asks for.
fn pause(failures: u32, wanted: Option<Duration>) -> Duration {
    let doubled = 1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
    let own = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
    // No policy allows a longer one.
    let longest = Duration::from_secs(u64::from(OnFailure::MAX_SECONDS) + 1);
    own.max(wanted.unwrap_or_default()).min(longest)
}

/// Journals a failure, and when the step starts again.
pub(super) async fn journal(op: &mut Op, step: &Step, retry: StepRetry) -> Result<(), StoreError> {
    let Some(row) = crash_suspects::close_row(op, step) else {
        return Ok(());
    };
    report_step(op, &row);
    let seconds = retry.next_at.duration_since(op.clock().now()).as_secs();
    let (error, failures) = (&retry.last_error, retry.failures);
    let text =
        format!("{error}; failure {failures} of this step, which starts again in {seconds} s");
    op.watcher().log("warn", step.name, &text);
    let row = Arc::new(JournalRow {
        retry: Some(retry),
        ..row
    });
    store(op, vec![Change::Journal(row.clone())]).await?;
    op.rows.insert(step.name.to_owned(), row);
    op.live.set_stored(stored(op));
    Ok(())
}

/// Waits until a step that failed may start again. A cancel request, or the shutdown of this process, ends the wait.
pub(super) async fn wait(op: &Op) {
    let waiting = |step: &'static Step| Some((step, pending(op.rows.get(step.name)?)?));
    let Some((step, (row, retry, mut left))) = op.operation.steps.iter().find_map(waiting) else {
        return;
    };
    let left_now = retry.next_at.duration_since(op.clock().now());
    left = left.min(left_now.try_into().unwrap_or_default());
    op.live.start_step(step.name, row.attempt, retry.next_at);
    let (failures, error) = (retry.failures, &retry.last_error);
    op.live.waiting(&format!(
        "the next attempt at step `{}`, which has failed {failures} times: {error}",
        step.name
    ));
    // Not by the clock, which may jump.
    while !left.is_zero() && !op.context.live.is_paused() {
        let stopped = pin!(op.live.stop_requested());
        let tick = left.min(RECHECK_INTERVAL);
        select(op.clock().sleep(tick), stopped).await;
        if op.live.is_shutting_down() || op.live.cancel_mode().is_some() {
            return;
        }
        left -= tick;
    }
}

/// A row that waits for the next attempt, and for how long it was to wait.
fn pending(row: &JournalRow) -> Option<(&JournalRow, &StepRetry, Duration)> {
    let is_begun = matches!(row.status, StepStatus::Started | StepStatus::Undoing);
    let (retry, failed_at): (_, Timestamp) = (row.retry.as_ref()?, row.ended_at?);
    let planned = retry.next_at.duration_since(failed_at);
    is_begun.then(|| (row, retry, planned.try_into().unwrap_or_default()))
}

/// The row of a step at which the operation stops, without its failures: the next attempt is somebody's decision. `None`
/// if nothing is to be written.
pub(super) fn given_up(op: &Op, step: &Step) -> Option<JournalRow> {
    let waiting = || {
        let row = op.rows.get(step.name)?;
        row.retry.as_ref().map(|_| JournalRow::clone(row))
    };
    let row = crash_suspects::close_row(op, step).or_else(waiting)?;
    Some(JournalRow { retry: None, ..row })
}

#[cfg(test)]
mod tests {
    use super::pause;
    use std::time::Duration;

    #[test]
    fn pauses_double_up_to_a_minute_unless_the_neighbour_asks_for_more() {
        let seconds = |failures, wanted: Option<u64>| {
            pause(failures, wanted.map(Duration::from_secs)).as_secs()
        };
        let own = [1, 2, 3, 6, 7, 40, 1_000].map(|failures| seconds(failures, None));
        assert_eq!(own, [1, 2, 4, 32, 60, 60, 60]);
        assert_eq!(seconds(3, Some(2)), 4);
        assert_eq!(seconds(3, Some(90)), 90);
        assert_eq!(seconds(1, Some(u64::MAX)), 604_801);
    }
}
