//! Schedules: operations of instances that begin at an interval.

use super::{SecretJson, StoreError};
use async_trait::async_trait;
use jiff::Timestamp;
use vnfm_types::Schedule;

/// The schedule of an instance; at most one each.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleRecord {
    /// Tenant that owns the instance.
    pub tenant: String,
    /// `id` of the VNF instance.
    pub instance_id: String,
    /// Raised by every write.
    pub version: u64,
    /// The schedule as our API shows it.
    pub schedule: Schedule,
    /// Whether the last operation has not ended yet, as far as it is known.
    pub running: bool,
    /// The `OperateVnfRequest` that begins it, which may contain secrets.
    pub request: SecretJson,
}

/// Reads schedules. [`Change::SetSchedule`](super::Change), [`Change::PutSchedule`](super::Change) and
/// [`Change::RemoveSchedule`](super::Change) write them; one ends with its instance.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// The schedule of an instance of the tenant.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if it has none, also for another tenant's instance.
    async fn schedule(&self, tenant: &str, instance_id: &str)
    -> Result<ScheduleRecord, StoreError>;

    /// The schedules of all tenants whose next time is not after `now`, or whose last operation has not ended yet; those that
    /// have waited the longest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn due_schedules(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<ScheduleRecord>, StoreError>;
}
