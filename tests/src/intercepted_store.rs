//! A store whose calls pass through an interceptor, which may count them, delay them, or let them fail.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use vnfm_core::ports::{
    Change, ChangeCounters, Claim, Fence, HostPin, InstanceRecord, JournalRow, LinkRecord,
    OpRecord, OpenStep, OutboxRow, PackageRecord, PinnedKey, QuotaResource, ScheduleRecord,
    Schedules, SecretJson, SnapshotRecord, Store, StoreError, SubscriptionRecord, Usage, VimRecord,
    VimUse, VolumeRecord,
};
use vnfm_core::query::Query;
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone, VimConnectionInfo};

/// A call of the store, as an interceptor sees it before it is made.
#[derive(Debug, Clone, Copy)]
pub enum StoreCall<'a> {
    /// A transaction with one or several changes.
    Write {
        /// Absent for changes that belong to no operation.
        fence: Option<&'a Fence>,
        /// Changes of the transaction, in order.
        changes: &'a [Change],
    },
    /// A claim of one operation, or of any.
    Claim(Option<&'a str>),
    /// The lease of an operation is extended.
    Renew,
    /// A lease is given up.
    Release(&'a Fence),
    /// Log lines of an operation are stored.
    AppendLog {
        /// Id of the operation occurrence.
        op_id: &'a str,
        /// They may be empty; then the store does nothing.
        lines: &'a [LogLine],
    },
    /// The outbox is read for delivery.
    Outbox,
    /// Any other read of records.
    Read,
}

/// Decides the outcome of each call.
pub trait Intercept: Send + Sync + 'static {
    /// What [`Intercept::around`] must know about a call.
    type Call: Send;

    /// Inspects a call before it is made.
    fn before(&self, call: StoreCall<'_>) -> Self::Call;

    /// Runs `work`, the call on the real store; or does not, or returns another result.
    fn around<T: Send>(
        &self,
        call: Self::Call,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;
}

/// A store that forwards every call to another one through an interceptor,
/// except `installation_id`, `wait_for_changes` and `keeps_address`.
pub struct Intercepted<I> {
    inner: Arc<dyn Store>,
    interceptor: I,
}

impl<I: Intercept> Intercepted<I> {
    /// Puts `interceptor` in front of `inner`.
    pub fn new(inner: Arc<dyn Store>, interceptor: I) -> Self {
        Self { inner, interceptor }
    }

    /// The interceptor, with its counters and switches.
    pub fn interceptor(&self) -> &I {
        &self.interceptor
    }

    async fn call<T: Send>(
        &self,
        call: StoreCall<'_>,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let call = self.interceptor.before(call);
        self.interceptor.around(call, work).await
    }

    async fn read<T: Send>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.call(StoreCall::Read, work).await
    }
}

#[async_trait]
impl<I: Intercept> Schedules for Intercepted<I> {
    async fn schedule(&self, tenant: &str, id: &str) -> Result<ScheduleRecord, StoreError> {
        self.read(self.inner.schedule(tenant, id)).await
    }
    async fn due_schedules(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.read(self.inner.due_schedules(now, limit)).await
    }
}

#[async_trait]
impl<I: Intercept> Store for Intercepted<I> {
    fn installation_id(&self) -> &str {
        self.inner.installation_id()
    }
    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError> {
        let seen = StoreCall::Write {
            fence,
            changes: &changes,
        };
        let call = self.interceptor.before(seen);
        let work = self.inner.write(fence, changes);
        self.interceptor.around(call, work).await
    }
    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError> {
        let work = self.inner.claim(owner, lease, op_id);
        self.call(StoreCall::Claim(op_id), work).await
    }
    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<CancelMode>, StoreError> {
        let work = self.inner.renew(fence, lease);
        self.call(StoreCall::Renew, work).await
    }
    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let work = self.inner.release(fence);
        self.call(StoreCall::Release(fence), work).await
    }
    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError> {
        let seen = StoreCall::AppendLog {
            op_id,
            lines: &lines,
        };
        let call = self.interceptor.before(seen);
        let work = self.inner.append_log(op_id, lines);
        self.interceptor.around(call, work).await
    }
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        let work = self.inner.outbox(after, limit);
        self.call(StoreCall::Outbox, work).await
    }
    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError> {
        self.read(self.inner.instance(tenant, id)).await
    }
    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        self.read(self.inner.instances(tenant, query)).await
    }
    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError> {
        self.read(self.inner.op(tenant, id)).await
    }
    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError> {
        self.read(self.inner.ops(tenant, query)).await
    }
    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError> {
        self.read(self.inner.journal(op_id)).await
    }
    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError> {
        self.read(self.inner.open_steps()).await
    }
    async fn orderly_exits(&self, op_id: &str) -> Result<Vec<String>, StoreError> {
        self.read(self.inner.orderly_exits(op_id)).await
    }
    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError> {
        self.read(self.inner.checkpoint(op_id, step, key)).await
    }
    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError> {
        self.read(self.inner.vim(tenant, id_or_name)).await
    }
    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError> {
        self.read(self.inner.vims(tenant)).await
    }
    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<VimUse>, StoreError> {
        self.read(self.inner.uses(tenant, vim_id)).await
    }
    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError> {
        self.read(self.inner.package_record(tenant, id)).await
    }
    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        self.read(self.inner.package_records(tenant, query)).await
    }
    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError> {
        self.read(self.inner.log(op_id, after)).await
    }
    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(self.inner.events(tenant, after, limit)).await
    }
    async fn snapshot(&self, tenant: &str, id: &str) -> Result<SnapshotRecord, StoreError> {
        self.read(self.inner.snapshot(tenant, id)).await
    }
    async fn link(&self, tenant: &str, id_or_name: &str) -> Result<LinkRecord, StoreError> {
        self.read(self.inner.link(tenant, id_or_name)).await
    }

    async fn volume(&self, tenant: &str, id: &str) -> Result<VolumeRecord, StoreError> {
        self.read(self.inner.volume(tenant, id)).await
    }

    async fn volumes(&self, tenant: &str, query: &Query) -> Result<Vec<VolumeRecord>, StoreError> {
        self.read(self.inner.volumes(tenant, query)).await
    }

    async fn links(&self, tenant: &str, query: &Query) -> Result<Vec<LinkRecord>, StoreError> {
        self.read(self.inner.links(tenant, query)).await
    }

    async fn snapshots(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SnapshotRecord>, StoreError> {
        self.read(self.inner.snapshots(tenant, query)).await
    }
    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError> {
        self.read(self.inner.subscription(tenant, id)).await
    }
    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        self.read(self.inner.subscriptions(tenant, query)).await
    }
    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError> {
        self.read(self.inner.subscribers()).await
    }
    async fn wait_for_changes(&self, seen: ChangeCounters) -> ChangeCounters {
        self.inner.wait_for_changes(seen).await
    }
    async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.read(self.inner.audit(tenant, after, limit)).await
    }
    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError> {
        self.read(self.inner.tombstones(tenant)).await
    }
    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError> {
        self.read(self.inner.usage(tenant)).await
    }
    async fn used(&self, tenant: &str, what: QuotaResource) -> Result<u64, StoreError> {
        self.read(self.inner.used(tenant, what)).await
    }
    fn keeps_address(
        &self,
        tenant: &str,
        vim: Option<&str>,
        connection: &VimConnectionInfo,
    ) -> bool {
        self.inner.keeps_address(tenant, vim, connection)
    }
    async fn tenants(&self) -> Result<Vec<String>, StoreError> {
        self.read(self.inner.tenants()).await
    }
    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError> {
        self.read(self.inner.host_key(pin)).await
    }
    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError> {
        self.read(self.inner.host_keys(tenant)).await
    }
}
