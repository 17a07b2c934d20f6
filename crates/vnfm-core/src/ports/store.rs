//! The database. One call writes: a list of [`Change`]s, all or none, in one durable transaction, each with its
//! condition. So a rule that must survive races (one active operation per instance, no new VNF on a cluster that is
//! being deleted) is a condition here and not a lock elsewhere.

use super::{
    Change, ErrorKind, HostPin, InstanceRecord, JournalRow, LinkRecord, OpRecord, OpenStep,
    OutboxRow, PackageRecord, PinnedKey, PortError, QuotaResource, Schedules, SecretJson,
    SnapshotRecord, SubscriptionRecord, Usage, VimRecord, VimUse, VolumeRecord,
};
use crate::query::Query;
use async_trait::async_trait;
use std::time::Duration;
use vnfm_types::{AuditEntry, LogLine, Tombstone, VimConnectionInfo};

/// Proof that this process drives an operation: writes with it fail once another process does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// `id` of the operation occurrence.
    pub op_id: String,
    /// Number of the claim; the next one is higher.
    pub epoch: u64,
}

/// The result of claiming an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Tenant that owns the operation.
    pub tenant: String,
    /// Proof of the claim, for writes and renewals.
    pub fence: Fence,
}

/// Change counters; each one only rises while a process lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCounters {
    /// Raised by each new notification.
    pub outbox: u64,
    /// Raised by new and deleted subscriptions.
    pub subscriptions: u64,
}

/// Why a store call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The row does not exist, or belongs to another tenant.
    #[error("{what} `{id}` does not exist")]
    NotFound {
        /// Kind of row, for messages only.
        what: &'static str,
        /// Id of the row that was requested.
        id: String,
    },
    /// The id or name is taken.
    #[error("{what} `{id}` already exists")]
    Exists {
        /// Kind of row, for messages only.
        what: &'static str,
        /// Id or name that is taken.
        id: String,
    },
    /// The instance has an operation that has not ended.
    #[error("VNF instance `{instance_id}` has the operation `{op_id}`, which has not ended")]
    Busy {
        /// `id` of the VNF instance.
        instance_id: String,
        /// `id` of the operation that has not ended.
        op_id: String,
    },
    /// The row is not in the state that the change requires.
    #[error("{what} `{id}` is {found}")]
    WrongState {
        /// Kind of row, for messages only.
        what: &'static str,
        /// Id of the row that was requested.
        id: String,
        /// State in which the row is.
        found: String,
    },
    /// The row was changed concurrently.
    #[error("{what} `{id}` was changed concurrently")]
    Changed {
        /// Kind of row, for messages only.
        what: &'static str,
        /// Id of the row that was requested.
        id: String,
    },
    /// Instances use the row, so it cannot be deleted.
    #[error("{what} `{id}` is used by {}", by.join(", "))]
    InUse {
        /// Kind of row, for messages only.
        what: &'static str,
        /// Id of the row that was requested.
        id: String,
        /// Ids of the instances that use it.
        by: Vec<String>,
    },
    /// A quota of the tenant is exhausted.
    #[error(
        "the quota `{what}` of the tenant `{tenant}` is {most}; {used} are used, and this request would exceed it"
    )]
    QuotaExceeded {
        /// Name of the tenant that made the request.
        tenant: String,
        /// The quota that is exhausted.
        what: QuotaResource,
        /// Usage without this request, in the quota's unit.
        used: u64,
        /// Upper bound of the usage, inclusive.
        most: u64,
    },
    /// Operation `op_id` is deleting the cluster behind the VIM.
    #[error("the cluster behind VIM `{vim}` is being deleted by operation `{op_id}`")]
    VimLeaving {
        /// Id of the VIM in the registry.
        vim: String,
        /// `id` of the operation occurrence.
        op_id: String,
    },
    /// Another process drives the operation now: this one must stop.
    #[error("operation `{op_id}` is driven by another process now")]
    LeaseLost {
        /// `id` of the operation occurrence.
        op_id: String,
    },
    /// The database does not respond; a retry may help.
    #[error("the database does not respond: {0}")]
    Unavailable(String),
    /// A stored value is inconsistent or cannot be unsealed.
    #[error("the database is inconsistent: {0}")]
    Broken(String),
    /// The keys that seal secrets cannot be fetched or changed.
    #[error("{detail}")]
    Keys {
        /// Whether a retry can help.
        kind: ErrorKind,
        /// Message and hint of the key provider.
        detail: String,
    },
}

impl StoreError {
    /// Wraps an error of the key provider.
    pub fn keys(error: &PortError) -> Self {
        Self::Keys {
            kind: error.kind(),
            detail: format!("{error}; hint: {}", error.next()),
        }
    }
}

/// The database: records, journal, outbox and leases.
#[async_trait]
pub trait Store: Schedules {
    /// Id of this installation, created with the database.
    fn installation_id(&self) -> &str;

    /// Writes all of `changes` or none; durable when this returns. With a fence, writes nothing if the lease is lost.
    ///
    /// # Errors
    ///
    /// The condition that failed, or a database error.
    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError>;

    /// Claims an operation that has to be driven and has no valid lease: `op_id`, or any. `None`: there is none.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError>;

    /// Renews the lease of an operation, and returns the requested cancel mode, if any.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseLost`] if another process has claimed it.
    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<vnfm_types::CancelMode>, StoreError>;

    /// Gives up the lease of an operation.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn release(&self, fence: &Fence) -> Result<(), StoreError>;

    /// One instance of the tenant.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for another tenant's.
    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError>;

    /// Instances ordered by id, without sealed members. To write one, read it by its id first.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError>;

    /// One operation occurrence of the tenant.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for another tenant's.
    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError>;

    /// Operation occurrences ordered by id, without sealed members.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError>;

    /// All journal rows of an operation, in the order in which they were first written.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError>;

    /// Every open step of operations that have to be driven, and every step
    /// that killed a process ([`Lives::killed`](super::ProcessHistory)).
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError>;

    /// The processes that left an operation in order ([`Change::RecordOrderlyExit`]).
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn orderly_exits(&self, op_id: &str) -> Result<Vec<String>, StoreError>;

    /// What a hook saved under `key`.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError>;

    /// One VIM by id or name: the tenant's own first, then a shared one.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for one that is not shared.
    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError>;

    /// VIMs ordered by name: the tenant's own and the shared ones.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError>;

    /// The instances that use a VIM, or the cluster behind it.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<VimUse>, StoreError>;

    /// One package record of the tenant.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for another tenant's.
    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError>;

    /// Package records ordered by id.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError>;

    /// One snapshot of the tenant.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for another tenant's.
    async fn snapshot(&self, tenant: &str, id: &str) -> Result<SnapshotRecord, StoreError>;

    /// Snapshots ordered by id, without sealed members.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn snapshots(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SnapshotRecord>, StoreError>;

    /// One shared virtual link of the tenant, by id or name.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for another tenant's.
    async fn link(&self, tenant: &str, id_or_name: &str) -> Result<LinkRecord, StoreError>;

    /// Shared virtual links ordered by id; none for a limited scope.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn links(&self, tenant: &str, query: &Query) -> Result<Vec<LinkRecord>, StoreError>;

    /// A retained volume of the tenant.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for another tenant's.
    async fn volume(&self, tenant: &str, id: &str) -> Result<VolumeRecord, StoreError>;

    /// Retained volumes ordered by id; none for a limited scope.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn volumes(&self, tenant: &str, query: &Query) -> Result<Vec<VolumeRecord>, StoreError>;

    /// Appends to an operation's log; beyond its size limit the oldest lines are dropped.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError>;

    /// Log lines of an operation with a `seq` above `after`, in order.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError>;

    /// Notifications with a `seq` above `after`, in order, at most `limit`.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError>;

    /// Notifications of one tenant with a number above `after`, in order, at most `limit`. Their `seq` counts the tenant's
    /// own notifications, so it reveals nothing about other tenants.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// One subscription of the tenant.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for another tenant's.
    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError>;

    /// Subscriptions ordered by id, without sealed members.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError>;

    /// The subscriptions of all tenants.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError>;

    /// Completes once a counter is above its value in `seen`, and returns the counters.
    async fn wait_for_changes(&self, seen: ChangeCounters) -> ChangeCounters;

    /// Audit entries with a `seq` above `after`, in order, at most `limit`.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// The tombstones of abandoned instances.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError>;

    /// What a tenant uses of each quota.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError>;

    /// What a tenant uses of one quota.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn used(&self, tenant: &str, what: QuotaResource) -> Result<u64, StoreError> {
        Ok(self.usage(tenant).await?.amount(what))
    }

    /// Every tenant that has an instance, a VIM, a package, a snapshot, a shared link or a tombstone, ordered by name.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn tenants(&self) -> Result<Vec<String>, StoreError>;

    /// The key pinned to a host; if there is none, the key that an older version pinned to it.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError>;

    /// All pinned keys of a tenant. An empty tenant: the keys that older versions pinned regardless of the tenant.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError>;

    /// Whether a registered VIM, or with `vim: None` a connection from a request, was in use with this endpoint and
    /// proxy before addresses were checked.
    fn keeps_address(
        &self,
        tenant: &str,
        vim: Option<&str>,
        connection: &VimConnectionInfo,
    ) -> bool {
        let _ = (tenant, vim, connection);
        false
    }
}
