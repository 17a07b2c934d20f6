//! Operations that begin at an interval: an `operate` request that an operator has stored with an instance, such as the backup of
//! the cluster that it has installed.
//!
//! ```text
//! due ── the last one has not ended: nothing begins
//!    ├── an operation is active, or the request is refused: logged, and the next turn is an interval later
//!    └── it begins; if it stops in FAILED_TEMP it is failed, so that the instance is not blocked until somebody looks
//! ```
//! Of several processes one takes a turn: the next time is written with the version that was read, before anything begins.

use crate::engine::Engine;
use crate::lcm::{Begin, operate};
use crate::ports::{Change, ScheduleRecord, StoreError};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use std::time::Duration;
use vnfm_types::{LcmOperationState, Schedule};

/// Upper bound of the number of schedules of one call of [`Engine::begin_due`]; the others have the next one.
const MAX_DUE: usize = 100;

impl Engine {
    /// The schedule of an instance.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant has no such instance, or it has no schedule.
    pub async fn schedule(&self, tenant: &str, instance_id: &str) -> Result<Schedule, Refusal> {
        Ok(self.store().schedule(tenant, instance_id).await?.schedule)
    }

    /// Lets `request`, an `OperateVnfRequest`, begin every `every_seconds`, for the first time at once; in the place of the
    /// schedule that the instance has.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant has no such instance; `Unprocessable` if the interval is out of range, or the request could not
    /// begin for another reason than an operation in progress.
    pub async fn set_schedule(
        &self,
        tenant: &str,
        instance_id: &str,
        (every_seconds, request): (u32, Value),
    ) -> Result<Schedule, Refusal> {
        if !(Schedule::MIN_SECONDS..=Schedule::MAX_SECONDS).contains(&every_seconds) {
            let what = format!(
                "everySeconds must be {} to {}",
                Schedule::MIN_SECONDS,
                Schedule::MAX_SECONDS
            );
            return Err(Refusal::new(
                Why::Unprocessable,
                &refusal::BAD_SCHEDULE,
                what,
            ));
        }
        let begin = Begin::new(&operate::OPERATION, request.clone());
        match self.try_to_begin(tenant, instance_id, begin).await {
            Err(refusal) if refusal.code.name != refusal::BUSY.name => return Err(refusal),
            _ => {}
        }
        let schedule = Schedule {
            every_seconds,
            next_at: self.now(),
            last_at: None,
            last_op_occ_id: None,
            last_result: None,
        };
        let record = ScheduleRecord {
            tenant: tenant.to_owned(),
            instance_id: instance_id.to_owned(),
            version: 0,
            schedule: schedule.clone(),
            running: false,
            request: request.into(),
        };
        let set = Change::SetSchedule(Box::new(record));
        self.store().write(None, vec![set]).await?;
        Ok(schedule)
    }

    /// Ends the schedule of an instance; an operation that it has begun goes on.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant has no such instance, or it has no schedule.
    pub async fn remove_schedule(&self, tenant: &str, instance_id: &str) -> Result<(), Refusal> {
        let remove = Change::RemoveSchedule {
            tenant: tenant.to_owned(),
            instance_id: instance_id.to_owned(),
        };
        Ok(self.store().write(None, vec![remove]).await?)
    }

    /// Begins the scheduled operations whose time has come, and fails those that have stopped in FAILED_TEMP. The ids of those
    /// to drive. Call it every few seconds.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn begin_due(&self) -> Result<Vec<String>, StoreError> {
        let mut begun = Vec::new();
        for record in self.store().due_schedules(self.now(), MAX_DUE).await? {
            match self.turn(record).await {
                Ok(op_id) => begun.extend(op_id),
                // Another process had the turn, or an operator changed the schedule.
                Err(StoreError::Changed { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(begun)
    }

    /// One look at a schedule; the id of the operation that has begun.
    async fn turn(&self, mut record: ScheduleRecord) -> Result<Option<String>, StoreError> {
        if record.running {
            if !self.last_ended(&mut record).await? {
                return Ok(None);
            }
            record = self.put_schedule(record).await?;
        }
        let now = self.now();
        if record.schedule.next_at > now {
            return Ok(None);
        }
        let interval = Duration::from_secs(record.schedule.every_seconds.into());
        record.schedule.next_at = now.saturating_add(interval).unwrap_or(now);
        record.schedule.last_at = Some(now);
        record = self.put_schedule(record).await?;
        let begin = Begin {
            automatic: true,
            ..Begin::new(&operate::OPERATION, Value::clone(&record.request))
        };
        let begun = self.begin(&record.tenant, &record.instance_id, begin).await;
        let op_id = match begun {
            Ok(op_id) => Some(op_id),
            Err(refusal) => {
                let (vnf, why) = (&record.instance_id, &refusal.detail);
                tracing::warn!(vnf, why, "the scheduled operation was skipped");
                record.schedule.last_result = Some(format!("skipped: {why}"));
                None
            }
        };
        if let Some(op_id) = &op_id {
            record.running = true;
            record.schedule.last_op_occ_id = Some(op_id.clone());
            record.schedule.last_result = Some("STARTING".to_owned());
        }
        match self.put_schedule(record).await {
            // The operator's change stays, and the operation is driven nevertheless.
            Err(StoreError::Changed { .. } | StoreError::NotFound { .. }) | Ok(_) => Ok(op_id),
            Err(error) => Err(error),
        }
    }

    /// Whether the last operation has ended; fails it if it has stopped in FAILED_TEMP.
    async fn last_ended(&self, record: &mut ScheduleRecord) -> Result<bool, StoreError> {
        let op_id = record.schedule.last_op_occ_id.clone().unwrap_or_default();
        let op = match self.store().op(&record.tenant, &op_id).await {
            Ok(op) => op.op,
            Err(StoreError::NotFound { .. }) => {
                record.running = false;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let error = op.error.as_ref().map(|problem| problem.detail.clone());
        if op.operation_state == LcmOperationState::FailedTemp {
            let (vnf, why) = (&record.instance_id, error.as_deref().unwrap_or_default());
            tracing::warn!(vnf, op_id, why, "the scheduled operation has failed");
            if let Err(refusal) = self.fail(&record.tenant, &op_id).await {
                tracing::warn!(op_id, why = refusal.detail, "cannot fail the operation");
                return Ok(false);
            }
            record.schedule.last_result = Some(format!("FAILED: {}", error.unwrap_or_default()));
        } else if op.operation_state.is_final() {
            record.schedule.last_result = Some(op.operation_state.to_string());
        } else {
            return Ok(false);
        }
        record.running = false;
        Ok(true)
    }

    async fn put_schedule(&self, record: ScheduleRecord) -> Result<ScheduleRecord, StoreError> {
        let put = Change::PutSchedule(Box::new(record.clone()));
        self.store().write(None, vec![put]).await?;
        let version = record.version + 1;
        Ok(ScheduleRecord { version, ..record })
    }
}
