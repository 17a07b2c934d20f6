//! A store whose process ends at a chosen write: from there on nothing answers, before or after the write took
//! effect. Everything else is the real store.

use async_trait::async_trait;
use futures::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;
use vnfm_core::ports::*;
use vnfm_core::query::Query;
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone};

/// The store of a process that ends.
pub(super) struct Stopping {
    inner: Arc<dyn Store>,
    writes: AtomicUsize,
    /// Reads of the outbox.
    reads: AtomicUsize,
    at: usize,
    after_effect: bool,
    stopped: Notify,
}

impl Stopping {
    /// Ends at write `at`, from 1.
    pub(super) fn new(inner: Arc<dyn Store>, at: usize, after_effect: bool) -> Self {
        let (writes, reads) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self {
            inner,
            writes,
            reads,
            at,
            after_effect,
            stopped: Notify::new(),
        }
    }

    /// How often the outbox was read.
    pub(super) fn reads(&self) -> usize {
        self.reads.load(SeqCst)
    }

    /// How many writes there were.
    pub(super) fn writes(&self) -> usize {
        self.writes.load(SeqCst)
    }

    /// Completes once that write was reached.
    pub(super) async fn stopped(&self) {
        self.stopped.notified().await;
    }
}

#[async_trait]
impl Store for Stopping {
    fn installation_id(&self) -> &str {
        self.inner.installation_id()
    }
    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError> {
        if self.writes.fetch_add(1, SeqCst) + 1 < self.at {
            return self.inner.write(fence, changes).await;
        }
        if self.after_effect && self.writes.load(SeqCst) == self.at {
            self.inner.write(fence, changes).await?;
        }
        self.stopped.notify_one();
        pending().await
    }
    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError> {
        self.inner.claim(owner, lease, op_id).await
    }
    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<CancelMode>, StoreError> {
        self.inner.renew(fence, lease).await
    }
    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.inner.release(fence).await
    }
    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError> {
        self.inner.instance(tenant, id).await
    }
    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        self.inner.instances(tenant, query).await
    }
    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError> {
        self.inner.op(tenant, id).await
    }
    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError> {
        self.inner.ops(tenant, query).await
    }
    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError> {
        self.inner.journal(op_id).await
    }
    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError> {
        self.inner.open_steps().await
    }
    async fn left_in_order(&self, op_id: &str) -> Result<Vec<String>, StoreError> {
        self.inner.left_in_order(op_id).await
    }
    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError> {
        self.inner.checkpoint(op_id, step, key).await
    }
    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError> {
        self.inner.vim(tenant, id_or_name).await
    }
    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError> {
        self.inner.vims(tenant).await
    }
    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<Use>, StoreError> {
        self.inner.uses(tenant, vim_id).await
    }
    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError> {
        self.inner.package_record(tenant, id).await
    }
    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        self.inner.package_records(tenant, query).await
    }
    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError> {
        self.inner.append_log(op_id, lines).await
    }
    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError> {
        self.inner.log(op_id, after).await
    }
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        self.reads.fetch_add(1, SeqCst);
        self.inner.outbox(after, limit).await
    }
    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.inner.events(tenant, after, limit).await
    }
    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError> {
        self.inner.subscription(tenant, id).await
    }
    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        self.inner.subscriptions(tenant, query).await
    }
    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError> {
        self.inner.subscribers().await
    }
    async fn news(&self, seen: News) -> News {
        self.inner.news(seen).await
    }
    async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.inner.audit(tenant, after, limit).await
    }
    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError> {
        self.inner.tombstones(tenant).await
    }
    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError> {
        self.inner.usage(tenant).await
    }
    async fn tenants(&self) -> Result<Vec<String>, StoreError> {
        self.inner.tenants().await
    }
    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError> {
        self.inner.host_key(pin).await
    }

    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError> {
        self.inner.host_keys(tenant).await
    }
}
