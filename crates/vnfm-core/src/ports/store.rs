//! The database. One call writes: a list of [`Change`]s, all or none, in one durable transaction, each
//! with the condition under which it holds. So a rule that must survive races (one active operation per
//! instance, no new VNF on a cluster that is being taken away) is a condition here and not a lock elsewhere.

use super::{
    Change, Counted, ErrorKind, HostPin, InstanceRecord, JournalRow, OpRecord, OpenStep, OutboxRow,
    PackageRecord, PinnedKey, PortError, SecretJson, SubscriptionRecord, Use, VimRecord,
};
use crate::query::Query;
use async_trait::async_trait;
use std::time::Duration;
use vnfm_types::{AuditEntry, LogLine, Tombstone, VimConnectionInfo};

/// That this process drives an operation: writes under it fail once somebody else does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The operation.
    pub op_id: String,
    /// Of the claim.
    pub epoch: u64,
}

/// What a claim gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose.
    pub tenant: String,
    /// To write under.
    pub fence: Fence,
}

/// How often there was something new; each number only ever rises while a process lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct News {
    /// In the outbox.
    pub outbox: u64,
    /// Among the subscriptions.
    pub subscriptions: u64,
}

/// How much a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Instances, instantiated or not.
    pub instances: u64,
    /// Operations that are not ended.
    pub operations: u64,
    /// Records of packages.
    pub packages: u64,
    /// Bytes of packages, those that are set aside for packages on their way included.
    pub package_bytes: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// VIMs that were registered by hand.
    pub vims: u64,
    /// Bytes of the audit.
    pub audit_bytes: u64,
}

impl Usage {
    /// How much of `what` it is.
    pub fn of(&self, what: Counted) -> u64 {
        match what {
            Counted::Instances => self.instances,
            Counted::Operations => self.operations,
            Counted::Packages => self.packages,
            Counted::PackageBytes => self.package_bytes,
            Counted::Subscriptions => self.subscriptions,
            Counted::Vims => self.vims,
            Counted::AuditBytes => self.audit_bytes,
        }
    }
}

/// Why a store call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such row.
    #[error("there is no {what} `{id}`")]
    NotFound {
        /// Kind of row.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// Its id or name is taken.
    #[error("there is a {what} `{id}` already")]
    Exists {
        /// Kind of row.
        what: &'static str,
        /// Its id or name.
        id: String,
    },
    /// The instance has an operation that is not ended.
    #[error("VNF instance `{instance_id}` has the operation `{op_id}` that is not ended")]
    Busy {
        /// The instance.
        instance_id: String,
        /// Its operation.
        op_id: String,
    },
    /// The row is not in the state that the change starts from.
    #[error("{what} `{id}` is {found}")]
    WrongState {
        /// Kind of row.
        what: &'static str,
        /// Its id.
        id: String,
        /// Its state.
        found: String,
    },
    /// Somebody else changed the row.
    #[error("{what} `{id}` was changed by somebody else")]
    Changed {
        /// Kind of row.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// Others need it.
    #[error("{what} `{id}` is used by {}", by.join(", "))]
    InUse {
        /// Kind of row.
        what: &'static str,
        /// Its id.
        id: String,
        /// Instances that use it.
        by: Vec<String>,
    },
    /// The tenant has as much as it may have.
    #[error(
        "the quota `{what}` of the tenant `{tenant}` is {most}, {used} are used, and this would be more"
    )]
    UsedUp {
        /// Whose.
        tenant: String,
        /// What is counted.
        what: Counted,
        /// How much there is.
        used: u64,
        /// How much there may be.
        most: u64,
    },
    /// Operation `op_id` is taking it away.
    #[error("the cluster behind VIM `{vim}` is being taken away by operation `{op_id}`")]
    Retiring {
        /// The VIM.
        vim: String,
        /// The operation.
        op_id: String,
    },
    /// Another process drives the operation now: this one must stop.
    #[error("operation `{op_id}` is driven by another process now")]
    LeaseLost {
        /// The operation.
        op_id: String,
    },
    /// The database does not answer; trying again may help.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// What it holds makes no sense, or cannot be unsealed.
    #[error("the database is not as it should be: {0}")]
    Broken(String),
    /// The keys that seal secrets cannot be had, or not be changed.
    #[error("{detail}")]
    Keys {
        /// What the caller can do about it.
        kind: ErrorKind,
        /// What whoever keeps them says, and what to do next.
        detail: String,
    },
}

impl StoreError {
    /// What whoever keeps the keys says.
    pub fn keys(error: &PortError) -> Self {
        Self::Keys {
            kind: error.kind(),
            detail: format!("{error}; hint: {}", error.next()),
        }
    }
}

/// The database.
#[async_trait]
pub trait Store: Send + Sync {
    /// Identifies this installation, made with the database.
    fn installation_id(&self) -> &str;

    /// Writes all of `changes` or none; durable once this returns. Under a fence, also none where the lease is lost.
    ///
    /// # Errors
    ///
    /// The condition that failed, or that the database does not answer.
    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError>;

    /// Takes an operation that has to be driven and that nobody drives: `op_id`, or any. `None`: there is none.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError>;

    /// Keeps an operation for another `lease`, and says how it is to be cancelled, if so.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseLost`] where somebody else has it.
    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<vnfm_types::CancelMode>, StoreError>;

    /// Gives an operation back.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn release(&self, fence: &Fence) -> Result<(), StoreError>;

    /// One instance.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; also for another tenant's.
    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError>;

    /// Instances in order of id, without what is sealed: whoever writes one reads it by its id.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError>;

    /// One operation occurrence.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; also for another tenant's.
    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError>;

    /// Operation occurrences in order of id, without what is sealed.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError>;

    /// All rows of an operation's journal, in the order in which they were first written.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError>;

    /// Every step that has not ended of operations that are to be driven, and every one that killed a process
    /// ([`Lives::killed`](super::Lives)).
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError>;

    /// The processes that left an operation in order, as [`Change::LeftInOrder`] noted.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn left_in_order(&self, op_id: &str) -> Result<Vec<String>, StoreError>;

    /// What a hook remembers under `key`.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError>;

    /// One VIM, by id or by name: one of the tenant, else one that is shared.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError>;

    /// VIMs in order of name: those of the tenant, and those that are shared.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError>;

    /// Who uses a VIM, or the cluster behind it.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<Use>, StoreError>;

    /// One package.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError>;

    /// Packages in order of id.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError>;

    /// Appends to an operation's log; the oldest lines go where it grows beyond its bound.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError>;

    /// Lines of an operation's log with a `seq` above `after`, in order.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError>;

    /// Notifications with a `seq` above `after`, in order, at most `limit`.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError>;

    /// Notifications of one tenant with a number above `after`, in order, at most `limit`. Their `seq` counts those of
    /// the tenant alone, so it tells nothing of what others do.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// One subscription.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; also for another tenant's.
    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError>;

    /// Subscriptions in order of id, without what is sealed.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError>;

    /// Everybody's subscriptions.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError>;

    /// Completes once there is something newer than `seen`, and says up to what.
    async fn news(&self, seen: News) -> News;

    /// Entries of the audit with a `seq` above `after`, in order, at most `limit`.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// What is kept of the instances that were abandoned.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError>;

    /// How much a tenant has.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError>;

    /// How much of `what` a tenant has.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn used(&self, tenant: &str, what: Counted) -> Result<u64, StoreError> {
        Ok(self.usage(tenant).await?.of(what))
    }

    /// Every tenant that has an instance, a VIM, a package or a tombstone, in order of name.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn tenants(&self) -> Result<Vec<String>, StoreError>;

    /// The key that is pinned to a host; where there is none, that which an older version pinned to it.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError>;

    /// All pinned keys of a tenant; of none (an empty text) those that an older version pinned for whomever.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError>;

    /// Whether a VIM of the registry, or a connection that came with a request where `vim` is `None`, was in use with this
    /// endpoint and proxy before addresses were checked.
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
