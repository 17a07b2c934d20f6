//! A store that fails as databases do: before a write took effect, after it was committed, or by being slow. All else
//! is the real store behind it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use vnfm_core::ports::{
    Change, Claim, Clock, Fence, HostPin, InstanceRecord, JournalRow, News, OpRecord, OpenStep,
    OutboxRow, PackageRecord, PinnedKey, SecretJson, Store, StoreError, SubscriptionRecord, Usage,
    Use, VimRecord,
};
use vnfm_core::query::Query;
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone};

/// How a write goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// It is refused as unavailable, and nothing of it is there.
    Before,
    /// All of it is there, and its caller hears that the database does not answer.
    AfterCommit,
    /// It takes so much longer.
    Slow(Duration),
}

/// The store.
pub struct Faulty {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    writes: AtomicUsize,
    plan: Mutex<Option<(usize, StoreFault)>>,
    logs_to_fail: AtomicUsize,
}

impl Faulty {
    /// Over a real one.
    pub fn new(inner: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            inner,
            clock,
            writes: AtomicUsize::new(0),
            plan: Mutex::new(None),
            logs_to_fail: AtomicUsize::new(0),
        }
    }

    /// Write number `at` from now on, from 1, goes wrong, once. Claims, renewals, releases and log lines are writes.
    pub fn fails_at(&self, at: usize, how: StoreFault) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((self.writes.load(SeqCst) + at, how));
    }

    /// So many of the next log lines' writes are refused as unavailable; all else works.
    pub fn logs_fail(&self, times: usize) {
        self.logs_to_fail.store(times, SeqCst);
    }

    /// How many writes there were.
    pub fn writes(&self) -> usize {
        self.writes.load(SeqCst)
    }

    fn fault(&self) -> Option<StoreFault> {
        let number = self.writes.fetch_add(1, SeqCst) + 1;
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, how) = plan.take_if(|(at, _)| *at == number)?;
        Some(how)
    }

    async fn write_through<T>(
        &self,
        write: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let failed = |when| Err(StoreError::Unavailable(format!("told to fail {when}")));
        match self.fault() {
            None => write.await,
            Some(StoreFault::Before) => failed("before it"),
            Some(StoreFault::AfterCommit) => {
                write.await?;
                failed("after the commit")
            }
            Some(StoreFault::Slow(longer)) => {
                self.clock.sleep(longer).await;
                write.await
            }
        }
    }
}

#[async_trait]
impl Store for Faulty {
    fn installation_id(&self) -> &str {
        self.inner.installation_id()
    }
    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError> {
        self.write_through(self.inner.write(fence, changes)).await
    }
    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError> {
        self.write_through(self.inner.claim(owner, lease, op_id))
            .await
    }
    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<CancelMode>, StoreError> {
        self.write_through(self.inner.renew(fence, lease)).await
    }
    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.write_through(self.inner.release(fence)).await
    }
    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError> {
        let one_less = |left: usize| left.checked_sub(1);
        if !lines.is_empty()
            && self
                .logs_to_fail
                .fetch_update(SeqCst, SeqCst, one_less)
                .is_ok()
        {
            return Err(StoreError::Unavailable(
                "told to fail for the log alone".into(),
            ));
        }
        self.write_through(self.inner.append_log(op_id, lines))
            .await
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
    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError> {
        self.inner.log(op_id, after).await
    }
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
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
