//! The [`Store`] trait on SQLite: each method is one query of `read` or one call of the writing thread.

use super::SqliteStore;
use crate::fault::Done;
use crate::group_commit::{Answer, Work};
use crate::refusals::absent;
use crate::secret_keys::SecretKeys;
use crate::statement::{FromRow as _, Query as Sql, Row};
use crate::{read, tenant_usage};
use async_trait::async_trait;
use jiff::Timestamp;
use std::time::Duration;
use vnfm_core::ports::{
    Change, ChangeCounters, Claim, Fence, HostPin, InstanceRecord, JournalRow, LinkRecord,
    OpRecord, OpenStep, OutboxRow, PackageRecord, PinnedKey, QuotaResource, ScheduleRecord,
    Schedules, SecretJson, SnapshotRecord, Store, StoreError, SubscriptionRecord, Usage, VimRecord,
    VimUse, VolumeRecord,
};
use vnfm_core::query::Query;
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone, VimConnectionInfo};

#[async_trait]
impl Schedules for SqliteStore {
    async fn schedule(
        &self,
        tenant: &str,
        instance_id: &str,
    ) -> Result<ScheduleRecord, StoreError> {
        let (query, action) = (read::schedule(tenant, instance_id), "read a schedule");
        let found = self.database.unsealed(action, query, read::schedule_record);
        only(found.await?, "schedule of VNF instance", instance_id)
    }

    async fn due_schedules(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        let query = read::due_schedules(now, limit);
        self.database
            .unsealed(
                "list the schedules that are due",
                query,
                read::schedule_record,
            )
            .await
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn installation_id(&self) -> &str {
        &self.database.installation_id
    }

    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError> {
        let ended = self.kept_addresses.ended_by(&changes);
        let changes = match self.quotas.get() {
            Some(quotas) => quotas.on(changes),
            None => changes,
        };
        let work = Work::Write {
            fence: fence.cloned(),
            changes,
        };
        self.database.execute(work).await?;
        self.kept_addresses.remove(&ended);
        Ok(())
    }

    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError> {
        let work = Work::Claim {
            owner: owner.to_owned(),
            lease,
            op_id: op_id.map(ToOwned::to_owned),
        };
        match self.database.execute(work).await? {
            Answer::Claimed(claim) => Ok(claim),
            Answer::Written | Answer::Renewed(_) => Ok(None),
        }
    }

    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<CancelMode>, StoreError> {
        let work = Work::Renew {
            fence: fence.clone(),
            lease,
        };
        match self.database.execute(work).await? {
            Answer::Renewed(cancel) => Ok(cancel),
            Answer::Written | Answer::Claimed(_) => Ok(None),
        }
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let work = Work::Release {
            fence: fence.clone(),
        };
        self.database.execute(work).await.map(drop)
    }

    fn keeps_address(&self, tenant: &str, vim: Option<&str>, info: &VimConnectionInfo) -> bool {
        self.kept_addresses.has(tenant, vim, info)
    }

    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError> {
        let (query, action) = (read::instance(tenant, id), "read an instance");
        let found = self.database.unsealed(action, query, read::instance_record);
        only(found.await?, "VNF instance", id)
    }

    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        let action = "list instances";
        let query = made(action, read::instances(tenant, query))?;
        self.database
            .unsealed(action, query, read::instance_record)
            .await
    }

    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError> {
        let (query, action) = (read::op(tenant, id), "read an operation");
        let found = self.database.unsealed(action, query, read::op_record);
        only(found.await?, "operation", id)
    }

    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError> {
        let action = "list operations";
        let query = made(action, read::ops(tenant, query))?;
        self.database.unsealed(action, query, read::op_record).await
    }

    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError> {
        let query = read::journal(op_id);
        self.database
            .unsealed("read the journal", query, read::journal_row)
            .await
    }

    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError> {
        let query = read::open_steps();
        self.database
            .all("list unfinished steps", query, read::open_step)
            .await
    }

    async fn orderly_exits(&self, op_id: &str) -> Result<Vec<String>, StoreError> {
        let action = "read which processes shut down in order";
        let process = |mut row: Row| row.take();
        self.database
            .all(action, read::left_in_order(op_id), process)
            .await
    }

    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError> {
        let query = read::checkpoint(op_id, step, key);
        let found = self
            .database
            .unsealed("read a checkpoint", query, |mut row, keys| {
                keys.unseal(row.take::<Option<String>>()?.as_deref())
            });
        Ok(found.await?.pop())
    }

    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError> {
        let (query, action) = (read::vim(tenant, id_or_name), "read a VIM");
        only(self.vim_records(action, query).await?, "VIM", id_or_name)
    }

    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError> {
        self.vim_records("list VIMs", read::vims(tenant)).await
    }

    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<VimUse>, StoreError> {
        let query = read::uses(tenant, vim_id);
        self.database
            .all("read who uses a VIM", query, read::vim_use)
            .await
    }

    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError> {
        let (query, action) = (read::package(tenant, id), "read a VNF package's record");
        let found = self.database.unsealed(action, query, read::package_record);
        only(found.await?, "VNF package", id)
    }

    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        let action = "list VNF packages";
        let query = made(action, read::packages(tenant, query))?;
        self.database
            .unsealed(action, query, read::package_record)
            .await
    }

    async fn snapshot(&self, tenant: &str, id: &str) -> Result<SnapshotRecord, StoreError> {
        let (query, action) = (read::snapshot(tenant, id), "read a snapshot");
        let found = self.database.unsealed(action, query, read::snapshot_record);
        only(found.await?, "VNF snapshot", id)
    }

    async fn snapshots(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SnapshotRecord>, StoreError> {
        let action = "list snapshots";
        let query = made(action, read::snapshots(tenant, query))?;
        self.database
            .unsealed(action, query, read::snapshot_record)
            .await
    }

    async fn link(&self, tenant: &str, id_or_name: &str) -> Result<LinkRecord, StoreError> {
        let (query, action) = (read::link(tenant, id_or_name), "read a shared virtual link");
        let found = self.database.all(action, query, read::link_record);
        only(found.await?, "shared virtual link", id_or_name)
    }

    async fn links(&self, tenant: &str, query: &Query) -> Result<Vec<LinkRecord>, StoreError> {
        let action = "list shared virtual links";
        let query = made(action, read::links(tenant, query))?;
        self.database.all(action, query, read::link_record).await
    }

    async fn volume(&self, tenant: &str, id: &str) -> Result<VolumeRecord, StoreError> {
        let (query, action) = (read::volume(tenant, id), "read a retained volume");
        let found = self.database.all(action, query, read::volume_record);
        only(found.await?, "retained volume", id)
    }

    async fn volumes(&self, tenant: &str, query: &Query) -> Result<Vec<VolumeRecord>, StoreError> {
        let action = "list retained volumes";
        let query = made(action, read::volumes(tenant, query))?;
        self.database.all(action, query, read::volume_record).await
    }

    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let work = Work::Log {
            op_id: op_id.to_owned(),
            lines,
        };
        self.database.execute(work).await.map(drop)
    }

    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError> {
        let query = read::log(op_id, after);
        self.database
            .all("read an operation's log", query, read::log_line)
            .await
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        let query = read::outbox(after, limit);
        self.database
            .all("read the outbox", query, read::outbox_row)
            .await
    }

    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let query = read::events(tenant, after, limit);
        self.database
            .all("read the outbox of a tenant", query, read::outbox_row)
            .await
    }

    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError> {
        let (query, action) = (read::subscription(tenant, id), "read a subscription");
        let found = self
            .database
            .unsealed(action, query, read::subscription_record);
        only(found.await?, "subscription", id)
    }

    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        let action = "list subscriptions";
        let query = made(action, read::subscriptions(tenant, query))?;
        self.database
            .unsealed(action, query, read::subscription_record)
            .await
    }

    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError> {
        let query = read::subscribers();
        self.database
            .unsealed("list all subscriptions", query, read::subscription_record)
            .await
    }

    async fn wait_for_changes(&self, seen: ChangeCounters) -> ChangeCounters {
        let mut change_counters = self.database.shared.change_counters.subscribe();
        // The store outlives the caller, so the channel stays open.
        change_counters
            .wait_for(|now| *now != seen)
            .await
            .map_or(seen, |now| *now)
    }

    async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let query = read::audit(tenant, after, limit);
        self.database
            .all("read the audit", query, read::audit_entry)
            .await
    }

    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError> {
        let query = read::tombstones(tenant);
        self.database
            .all("list the abandoned instances", query, read::tombstone)
            .await
    }

    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError> {
        let tenant = tenant.to_owned();
        self.database
            .read("count the resources of a tenant", move |db| {
                tenant_usage::usage(db, &tenant)
            })
            .await
    }

    async fn used(&self, tenant: &str, what: QuotaResource) -> Result<u64, StoreError> {
        let tenant = tenant.to_owned();
        self.database
            .read("count the resources of a tenant", move |db| {
                tenant_usage::used(db, &tenant, what)
            })
            .await
    }

    async fn tenants(&self) -> Result<Vec<String>, StoreError> {
        self.database
            .read("list tenants", tenant_usage::tenants)
            .await
    }

    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError> {
        let query = read::host_key(pin);
        let found = self.database.all("read a host key", query, read::pinned);
        Ok(found.await?.pop().filter(|pinned| !pinned.key.is_empty()))
    }

    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError> {
        let query = read::host_keys(tenant);
        self.database
            .all("list host keys", query, read::pinned)
            .await
    }
}

impl SqliteStore {
    /// The VIMs that a query finds.
    async fn vim_records(&self, action: &str, query: Sql) -> Result<Vec<VimRecord>, StoreError> {
        let cache = &self.database.shared.vims;
        let record = |row: Row, keys: &SecretKeys| cache.record(<_>::from_row(row)?, keys);
        self.database.unsealed(action, query, record).await
    }
}

/// The record with an id, which is the only one found.
fn only<T>(found: Vec<T>, kind: &'static str, id: &str) -> Result<T, StoreError> {
    found.into_iter().next().ok_or_else(|| absent(kind, id))
}

fn made<T>(action: &str, query: Done<T>) -> Result<T, StoreError> {
    query.map_err(|fault| fault.with_action(action))
}
