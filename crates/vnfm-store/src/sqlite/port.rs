//! The [`Store`] trait on SQLite: each method is one call of `read`, `write`, `lease` or `usage`.

use super::SqliteStore;
use crate::group::{Answer, Work};
use crate::{read, usage};
use async_trait::async_trait;
use std::time::Duration;
use vnfm_core::ports::{
    Change, ChangeCounters, Claim, Fence, HostPin, InstanceRecord, JournalRow, OpRecord, OpenStep,
    OutboxRow, PackageRecord, PinnedKey, QuotaResource, SecretJson, Store, StoreError,
    SubscriptionRecord, Usage, VimRecord, VimUse,
};
use vnfm_core::query::Query;
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone, VimConnectionInfo};

#[async_trait]
impl Store for SqliteStore {
    fn installation_id(&self) -> &str {
        &self.installation_id
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
        self.group.execute(work).await?;
        self.kept_addresses.remove(&ended);
        Ok(())
    }

    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError> {
        let op_id = op_id.map(ToOwned::to_owned);
        match self
            .group
            .execute(Work::Claim {
                owner: owner.to_owned(),
                lease,
                op_id,
            })
            .await?
        {
            Answer::Claimed(claim) => Ok(claim),
            _ => Ok(None),
        }
    }

    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<CancelMode>, StoreError> {
        match self
            .group
            .execute(Work::Renew {
                fence: fence.clone(),
                lease,
            })
            .await?
        {
            Answer::Renewed(cancel) => Ok(cancel),
            _ => Ok(None),
        }
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.group
            .execute(Work::Release {
                fence: fence.clone(),
            })
            .await
            .map(drop)
    }

    fn keeps_address(&self, tenant: &str, vim: Option<&str>, info: &VimConnectionInfo) -> bool {
        self.kept_addresses.has(tenant, vim, info)
    }

    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError> {
        let row = read::instance(&mut *self.reader().await, tenant, id).await;
        row.and_then(|row| row.record(&self.keys()))
            .map_err(|e| e.with_action("read an instance"))
    }

    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        let rows = read::instances(&mut *self.reader().await, tenant, query).await;
        let keys = self.keys();
        let records = rows.and_then(|rows| rows.into_iter().map(|row| row.record(&keys)).collect());
        records.map_err(|e| e.with_action("list instances"))
    }

    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError> {
        let row = read::op(&mut *self.reader().await, tenant, id).await;
        row.and_then(|row| row.record(&self.keys()))
            .map_err(|e| e.with_action("read an operation"))
    }

    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError> {
        let rows = read::ops(&mut *self.reader().await, tenant, query).await;
        let keys = self.keys();
        let records = rows.and_then(|rows| rows.into_iter().map(|row| row.record(&keys)).collect());
        records.map_err(|e| e.with_action("list operations"))
    }

    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError> {
        let rows = read::journal(&mut *self.reader().await, op_id).await;
        let keys = self.keys();
        let records = rows.and_then(|rows| rows.into_iter().map(|row| row.record(&keys)).collect());
        records.map_err(|e| e.with_action("read the journal"))
    }

    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError> {
        let rows = read::open_steps(&mut *self.reader().await).await;
        let steps = rows.and_then(|rows| rows.into_iter().map(read::OpenStepRow::record).collect());
        steps.map_err(|e| e.with_action("list unfinished steps"))
    }

    async fn orderly_exits(&self, op_id: &str) -> Result<Vec<String>, StoreError> {
        let left = read::left_in_order(&mut *self.reader().await, op_id).await;
        left.map_err(|e| e.with_action("read which processes shut down in order"))
    }

    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError> {
        let found = read::checkpoint(&mut *self.reader().await, op_id, step, key).await;
        let keys = self.keys();
        let value = found.and_then(|found| {
            found
                .map(|sealed| keys.unseal(sealed.as_deref()))
                .transpose()
        });
        value.map_err(|e| e.with_action("read a checkpoint"))
    }

    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError> {
        let changes = match self.writer.vims.get(tenant, id_or_name) {
            Ok(known) => return Ok(known),
            Err(changes) => changes,
        };
        let row = read::vim(&mut *self.reader().await, tenant, id_or_name).await;
        let record = row
            .and_then(|row| row.record(&self.keys()))
            .map_err(|e| e.with_action("read a VIM"))?;
        self.writer
            .vims
            .keep(changes, (tenant, id_or_name), &record);
        Ok(record)
    }

    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError> {
        let rows = read::vims(&mut *self.reader().await, tenant).await;
        let keys = self.keys();
        let records = rows.and_then(|rows| rows.into_iter().map(|row| row.record(&keys)).collect());
        records.map_err(|e| e.with_action("list VIMs"))
    }

    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<VimUse>, StoreError> {
        let uses = read::uses(&mut *self.reader().await, tenant, vim_id).await;
        uses.map_err(|e| e.with_action("read who uses a VIM"))
    }

    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError> {
        let row = read::package(&mut *self.reader().await, (tenant, id)).await;
        // A key that came meanwhile is among these.
        let record = row.and_then(|row| read::unsealed_package_of(&row, &self.keys()));
        record.map_err(|e| e.with_action("read a VNF package's record"))
    }

    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        let records = read::packages(&mut *self.reader().await, tenant, query).await;
        records.map_err(|e| e.with_action("list VNF packages"))
    }

    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        self.group
            .execute(Work::Log {
                op_id: op_id.to_owned(),
                lines,
            })
            .await
            .map(drop)
    }

    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError> {
        let lines = read::log(&mut *self.reader().await, op_id, after).await;
        lines.map_err(|e| e.with_action("read an operation's log"))
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        let rows = read::outbox(&mut *self.reader().await, after, limit).await;
        rows.map_err(|e| e.with_action("read the outbox"))
    }

    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let rows = read::events(&mut *self.reader().await, tenant, after, limit).await;
        rows.map_err(|e| e.with_action("read the outbox of a tenant"))
    }

    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError> {
        let row = read::subscription(&mut *self.reader().await, tenant, id).await;
        row.and_then(|row| row.record(&self.keys()))
            .map_err(|e| e.with_action("read a subscription"))
    }

    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        let rows = read::subscriptions(&mut *self.reader().await, tenant, query).await;
        let keys = self.keys();
        let records = rows.and_then(|rows| rows.into_iter().map(|row| row.record(&keys)).collect());
        records.map_err(|e| e.with_action("list subscriptions"))
    }

    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError> {
        let rows = read::subscribers(&mut *self.reader().await).await;
        let keys = self.keys();
        let records = rows.and_then(|rows| rows.into_iter().map(|row| row.record(&keys)).collect());
        records.map_err(|e| e.with_action("list all subscriptions"))
    }

    async fn wait_for_changes(&self, seen: ChangeCounters) -> ChangeCounters {
        let mut change_counters = self.writer.change_counters.subscribe();
        // The writer outlives the caller, so the channel stays open.
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
        let entries = read::audit(&mut *self.reader().await, tenant, after, limit).await;
        entries.map_err(|e| e.with_action("read the audit"))
    }

    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError> {
        let rows = read::tombstones(&mut *self.reader().await, tenant).await;
        rows.map_err(|e| e.with_action("read what was abandoned"))
    }

    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError> {
        let usage = usage::usage(&mut *self.reader().await, tenant).await;
        usage.map_err(|e| e.with_action("count what a tenant has"))
    }

    async fn used(&self, tenant: &str, what: QuotaResource) -> Result<u64, StoreError> {
        let used = usage::used(&mut *self.reader().await, tenant, what).await;
        used.map_err(|e| e.with_action("count what a tenant has"))
    }

    async fn tenants(&self) -> Result<Vec<String>, StoreError> {
        let tenants = usage::tenants(&mut *self.reader().await).await;
        tenants.map_err(|e| e.with_action("list tenants"))
    }

    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError> {
        let key = read::host_key(&mut *self.reader().await, pin).await;
        key.map_err(|e| e.with_action("read a host key"))
    }

    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError> {
        let keys = read::host_keys(&mut *self.reader().await, tenant).await;
        keys.map_err(|e| e.with_action("list host keys"))
    }
}
