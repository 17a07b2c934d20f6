//! The port: one lock over everything, held only during a call.

use crate::state::{InstanceRow, OpRow, State};
use crate::{instances, links, ops, packages_and_outbox, quotas, snapshots, vims, volumes};
use async_trait::async_trait;
use event_listener::Event;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{
    Change, ChangeCounters, Claim, Clock, Fence, HostPin, InstanceRecord, JournalRow, LinkRecord,
    OpRecord, OpenStep, OutboxRow, PackageRecord, PinnedKey, SecretJson, SnapshotRecord, Store,
    StoreError, SubscriptionRecord, Usage, VimRecord, VimUse, VolumeRecord,
};
use vnfm_core::query::{Query, VisibilityScope};
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone};

/// Retained log lines per operation, and bytes per line.
const LOG_LINES: usize = 2_000;
const LOG_LINE_BYTES: usize = 4_096;

/// A store in memory; see the crate documentation for its limits.
pub struct MemoryStore {
    installation_id: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Event,
}

impl MemoryStore {
    /// An empty store. Leases expire by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            installation_id: uuid::Uuid::new_v4().to_string(),
            clock,
            state: Mutex::default(),
            changed: Event::new(),
        }
    }

    /// Deletes operations that have ended and began before `time`, with all their data, and notifications written before it;
    /// returns the numbers of deleted operations and notifications. Nothing is deleted automatically.
    pub fn delete_ended_before(&self, time: jiff::Timestamp) -> (usize, usize) {
        let mut state = self.state();
        let before = (state.ops.len(), state.outbox.len());
        state.ops.remove_if(|_, row| {
            row.record.op.operation_state.is_final() && row.record.op.start_time < time
        });
        state.outbox.remove_if(|_, row| row.at < time);
        let State {
            ops,
            journal,
            checkpoints,
            logs,
            outbox,
            events,
            ..
        } = &mut *state;
        events.remove_if(|_, seq| outbox.get(seq).is_none());
        journal.remove_if(|op_id, _| ops.get(op_id).is_none());
        checkpoints.remove_if(|(op_id, ..), _| ops.get(op_id).is_none());
        logs.retain(|op_id, _| ops.get(op_id).is_some());
        let removed = (before.0 - ops.len(), before.1 - outbox.len());
        let no_more = (
            ops.commit(),
            journal.commit(),
            checkpoints.commit(),
            outbox.commit(),
            events.commit(),
        );
        drop(state);
        drop(no_more);
        removed
    }

    /// A panic elsewhere leaves consistent data: an incomplete list of changes was not committed, and the
    /// next write rolls it back.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn installation_id(&self) -> &str {
        &self.installation_id
    }

    async fn write(&self, fence: Option<&Fence>, changes: Vec<Change>) -> Result<(), StoreError> {
        let (before, after, _no_more) = {
            let mut state = self.state();
            let before = state.news;
            let no_more = state.write(fence, changes, self.clock.now())?;
            (before, state.news, no_more)
        };
        if before != after {
            self.changed.notify(usize::MAX);
        }
        Ok(())
    }

    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        op_id: Option<&str>,
    ) -> Result<Option<Claim>, StoreError> {
        Ok(ops::claim(
            &mut self.state(),
            owner,
            (lease, self.clock.now()),
            op_id,
        ))
    }

    async fn renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Option<CancelMode>, StoreError> {
        ops::renew(&mut self.state(), fence, lease, self.clock.now())
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        ops::release(&mut self.state(), fence);
        Ok(())
    }

    async fn instance(&self, tenant: &str, id: &str) -> Result<InstanceRecord, StoreError> {
        let row = instances::find(&self.state(), tenant, id)?.clone();
        Ok(instances::record_of(&row))
    }

    async fn instances(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        let state = self.state();
        let is_seen = |id: &str| vims::is_seen(&state, &query.scope, id);
        let own = state.instances.iter();
        let own = own.filter(|(id, row)| row.record.tenant == tenant && is_seen(id));
        let unsealed = |row: &InstanceRow| InstanceRecord {
            deployment: None,
            ..instances::record_of(row)
        };
        Ok(page(
            query,
            own.map(|(id, row)| (id, unsealed(row))),
            |record| &record.vnf,
        ))
    }

    async fn op(&self, tenant: &str, id: &str) -> Result<OpRecord, StoreError> {
        let row = ops::find(&self.state(), tenant, id)?;
        Ok(ops::record_of(&row))
    }

    async fn ops(&self, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError> {
        let state = self.state();
        let is_seen = |row: &OpRow| vims::is_op_seen(&state, &query.scope, row);
        let own = state.ops.iter();
        let own = own.filter(|(_, row)| row.record.tenant == tenant && is_seen(row));
        let unsealed = own.map(|(id, row)| (id, without_secrets(ops::record_of(row))));
        Ok(page(query, unsealed, |record| &record.op))
    }

    async fn journal(&self, op_id: &str) -> Result<Vec<JournalRow>, StoreError> {
        let rows = self.state().journal.share(&op_id.to_owned());
        let rows = rows.iter().flat_map(|rows| rows.iter());
        Ok(rows.map(|row| JournalRow::clone(row)).collect())
    }

    async fn open_steps(&self) -> Result<Vec<OpenStep>, StoreError> {
        Ok(ops::open_steps(&self.state()))
    }

    async fn orderly_exits(&self, op_id: &str) -> Result<Vec<String>, StoreError> {
        let state = self.state();
        let of_it = |of: &String| of.is_empty() || of == op_id;
        let left = state.left.iter().filter(|((_, of), ())| of_it(of));
        Ok(left.map(|((process, _), ())| process.clone()).collect())
    }

    async fn checkpoint(
        &self,
        op_id: &str,
        step: &str,
        key: &str,
    ) -> Result<Option<SecretJson>, StoreError> {
        let key = (op_id.to_owned(), step.to_owned(), key.to_owned());
        Ok(self.state().checkpoints.get(&key).cloned())
    }

    async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, StoreError> {
        let record = vims::named(&self.state(), tenant, id_or_name)?;
        Ok(VimRecord::clone(&record))
    }

    async fn vims(&self, tenant: &str) -> Result<Vec<VimRecord>, StoreError> {
        let state = self.state();
        let seen = state
            .vims
            .iter()
            .filter(|((of, _), record)| of == tenant || record.vim.shared);
        let mut seen: Vec<_> = seen.map(|(_, record)| record.clone()).collect();
        seen.sort_by(|a, b| (&a.vim.name, &a.tenant).cmp(&(&b.vim.name, &b.tenant)));
        Ok(seen)
    }

    async fn uses(&self, tenant: &str, vim_id: &str) -> Result<Vec<VimUse>, StoreError> {
        Ok(vims::uses(&self.state(), tenant, vim_id))
    }

    async fn package_record(&self, tenant: &str, id: &str) -> Result<PackageRecord, StoreError> {
        let state = self.state();
        packages_and_outbox::package(&state, tenant, id)
            .map(|record| packages_and_outbox::shown_package(&state, record))
    }

    async fn package_records(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        let state = self.state();
        let is_seen = |record: &PackageRecord| {
            let vendor = record.info.vnf_provider.as_deref().unwrap_or_default();
            query.scope.is_among_vendors(vendor)
        };
        let own = state.packages.iter();
        let own = own.filter(|(_, record)| record.tenant == tenant && is_seen(record));
        let records =
            own.map(|(id, record)| (id, packages_and_outbox::listed_package(&state, record)));
        Ok(page(query, records, |record| &record.info))
    }

    async fn append_log(&self, op_id: &str, lines: Vec<LogLine>) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        if state.ops.get(&op_id.to_owned()).is_none() {
            return Err(crate::state::absent("operation", op_id));
        }
        let log = state.logs.entry(op_id.to_owned()).or_default();
        for line in lines {
            let seq = log.back().map_or(0, |last| last.seq) + 1;
            log.push_back(LogLine {
                seq,
                ..truncate_line(line)
            });
            if log.len() > LOG_LINES {
                log.pop_front();
            }
        }
        Ok(())
    }

    async fn log(&self, op_id: &str, after: u64) -> Result<Vec<LogLine>, StoreError> {
        let state = self.state();
        let lines = state.logs.get(op_id).into_iter().flatten();
        Ok(lines.filter(|line| line.seq > after).cloned().collect())
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        let state = self.state();
        let rows = state.outbox.range(after.saturating_add(1)..).take(limit);
        Ok(rows.map(|(_, row)| row.clone()).collect())
    }

    async fn events(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let state = self.state();
        let own = state
            .events
            .range((tenant.to_owned(), after.saturating_add(1))..);
        let own = own.take_while(|((whose, _), _)| whose == tenant);
        let rows = own.filter_map(|((_, seq), row)| {
            Some(OutboxRow {
                seq: *seq,
                ..state.outbox.get(row)?.clone()
            })
        });
        Ok(rows.take(limit).collect())
    }

    async fn snapshot(&self, tenant: &str, id: &str) -> Result<SnapshotRecord, StoreError> {
        snapshots::find(&self.state(), tenant, id)
    }

    async fn snapshots(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SnapshotRecord>, StoreError> {
        let state = self.state();
        let is_seen = |sight: &VisibilityScope| query.scope.is_unlimited() || query.scope == *sight;
        let own = state.snapshots.iter();
        let own = own.filter(|((of, _), record)| of == tenant && is_seen(&record.scope));
        let unsealed = own.map(|((_, id), record)| {
            let record = SnapshotRecord {
                deployment: None,
                ..snapshots::shown(&state, record)
            };
            (id, record)
        });
        Ok(page(query, unsealed, |record| &record.info))
    }

    async fn link(&self, tenant: &str, id_or_name: &str) -> Result<LinkRecord, StoreError> {
        links::find(&self.state(), tenant, id_or_name)
    }

    async fn links(&self, tenant: &str, query: &Query) -> Result<Vec<LinkRecord>, StoreError> {
        if !query.scope.is_unlimited() {
            return Ok(Vec::new());
        }
        let state = self.state();
        let own = state.links.iter().filter(|((of, _), _)| of == tenant);
        let shown = own.map(|((_, id), record)| (id, links::shown(&state, record)));
        Ok(page(query, shown, |record| &record.link))
    }

    async fn volume(&self, tenant: &str, id: &str) -> Result<VolumeRecord, StoreError> {
        volumes::find(&self.state(), tenant, id)
    }

    async fn volumes(&self, tenant: &str, query: &Query) -> Result<Vec<VolumeRecord>, StoreError> {
        if !query.scope.is_unlimited() {
            return Ok(Vec::new());
        }
        let state = self.state();
        let own = state.volumes.iter().filter(|((of, _), _)| of == tenant);
        let records = own.map(|((_, id), record)| (id, record.clone()));
        Ok(page(query, records, |record| &record.volume))
    }

    async fn subscription(&self, tenant: &str, id: &str) -> Result<SubscriptionRecord, StoreError> {
        packages_and_outbox::subscription(&self.state(), tenant, id)
    }

    async fn subscriptions(
        &self,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        let state = self.state();
        let is_seen = |sight: &VisibilityScope| query.scope.is_unlimited() || query.scope == *sight;
        let own = state.subscriptions.iter();
        let own = own.filter(|((of, _), record)| of == tenant && is_seen(&record.scope));
        let unsealed = own.map(|((_, id), record)| {
            (
                id,
                SubscriptionRecord {
                    authentication: SecretJson::default(),
                    ..record.clone()
                },
            )
        });
        Ok(page(query, unsealed, |record| &record.subscription))
    }

    async fn subscribers(&self) -> Result<Vec<SubscriptionRecord>, StoreError> {
        Ok(self
            .state()
            .subscriptions
            .iter()
            .map(|(_, record)| record.clone())
            .collect())
    }

    async fn wait_for_changes(&self, seen: ChangeCounters) -> ChangeCounters {
        loop {
            let listener = self.changed.listen();
            let now = self.state().news;
            if now != seen {
                return now;
            }
            listener.await;
        }
    }

    async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let state = self.state();
        let entries = state
            .audit
            .range(after.saturating_add(1)..)
            .map(|(_, entry)| entry);
        let own = entries
            .filter(|(of, _)| of == tenant)
            .map(|(_, entry)| entry.clone());
        Ok(own.take(max_count(limit)).collect())
    }

    async fn tombstones(&self, tenant: &str) -> Result<Vec<Tombstone>, StoreError> {
        let state = self.state();
        let own = state.tombstones.iter().filter(|((of, _), _)| of == tenant);
        Ok(own.map(|(_, tombstone)| tombstone.clone()).collect())
    }

    async fn usage(&self, tenant: &str) -> Result<Usage, StoreError> {
        Ok(quotas::usage(&self.state(), tenant))
    }

    async fn tenants(&self) -> Result<Vec<String>, StoreError> {
        let state = self.state();
        let mut all: BTreeSet<&String> = BTreeSet::new();
        all.extend(state.instances.iter().map(|(_, row)| &row.record.tenant));
        all.extend(state.vims.iter().map(|((tenant, _), _)| tenant));
        all.extend(state.packages.iter().map(|(_, record)| &record.tenant));
        all.extend(state.snapshots.iter().map(|((tenant, _), _)| tenant));
        all.extend(state.links.iter().map(|((tenant, _), _)| tenant));
        all.extend(state.volumes.iter().map(|((tenant, _), _)| tenant));
        all.extend(state.tombstones.iter().map(|((tenant, _), _)| tenant));
        Ok(all.into_iter().cloned().collect())
    }

    async fn host_key(&self, pin: &HostPin) -> Result<Option<PinnedKey>, StoreError> {
        let state = self.state();
        let known = state
            .host_keys
            .get(&pin.at)
            .filter(|(_, key)| !key.is_empty());
        Ok(known.cloned().map(|(instance_id, key)| PinnedKey {
            at: pin.at.clone(),
            instance_id,
            key,
        }))
    }

    async fn host_keys(&self, tenant: &str) -> Result<Vec<PinnedKey>, StoreError> {
        let state = self.state();
        let all = state.host_keys.iter();
        let all = all.filter(|(at, (_, key))| at.tenant == tenant && !key.is_empty());
        let all = all.map(|(at, (instance_id, key))| PinnedKey {
            at: at.clone(),
            instance_id: instance_id.clone(),
            key: key.clone(),
        });
        Ok(all.collect())
    }
}

/// The page of records that a list asks for, in order of id.
fn page<'s, R, D: Serialize + 's>(
    query: &Query,
    records: impl Iterator<Item = (&'s String, R)>,
    document: impl Fn(&R) -> &D,
) -> Vec<R> {
    let is_after = |id: &String| query.after.as_ref().is_none_or(|after| id > after);
    let fits = |record: &R| {
        query.filter.0.is_empty()
            || serde_json::to_value(document(record))
                .is_ok_and(|records| query.filter.holds(&records))
    };
    let found = records.filter(|(id, record)| is_after(id) && fits(record));
    found
        .map(|(_, record)| record)
        .take(max_count(query.limit))
        .collect()
}

/// A limit as a maximum count; 0: unlimited.
fn max_count(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// Truncates a line to its maximum length.
fn truncate_line(mut line: LogLine) -> LogLine {
    for text in [&mut line.level, &mut line.source, &mut line.text] {
        text.truncate(text.floor_char_boundary(LOG_LINE_BYTES));
    }
    line
}

/// An operation as it appears in lists.
fn without_secrets(record: OpRecord) -> OpRecord {
    OpRecord {
        request: SecretJson::default(),
        before: None,
        target: None,
        ..record
    }
}
