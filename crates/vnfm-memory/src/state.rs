//! All tables, and how a list of changes is applied completely or not at all.

use crate::table::Table;
use crate::{instances, ops, packages_and_outbox, quotas, vims};
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use vnfm_core::ports::{
    Change, ChangeCounters, Fence, InstanceLocation, InstanceRecord, JournalRow, OpRecord,
    OutboxRow, PackageRecord, PinnedHost, QuotaResource, SecretJson, StoreError,
    SubscriptionRecord, VimRecord,
};
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone};

/// (tenant, id)
pub(crate) type Owned = (String, String);
/// (operation, step, key)
pub(crate) type Three = (String, String, String);
/// Tenant and namespace of a use.
pub(crate) type Whose = (String, Option<String>);

/// An instance with the columns that its record does not contain.
#[derive(Clone)]
pub(crate) struct InstanceRow {
    pub(crate) record: Arc<InstanceRecord>,
    pub(crate) active_op: Option<String>,
    pub(crate) changed_at: Option<Timestamp>,
}

/// An operation with its lease.
#[derive(Clone)]
pub(crate) struct OpRow {
    pub(crate) record: Arc<OpRecord>,
    /// Always 0 in the record itself.
    pub(crate) epoch: u64,
    pub(crate) cancel: Option<CancelMode>,
    pub(crate) owner: Option<String>,
    pub(crate) lease_until: Timestamp,
    /// Where its instance lived; set when the operation ends.
    pub(crate) lived: Vec<InstanceLocation>,
}

/// All tables.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) packages: Table<String, PackageRecord>,
    pub(crate) instances: Table<String, InstanceRow>,
    pub(crate) ops: Table<String, OpRow>,
    /// Operations that have to be driven, oldest first.
    pub(crate) driven: Table<(Timestamp, String), ()>,
    /// By operation: its steps in the order of their first write.
    pub(crate) journal: Table<String, Vec<Arc<JournalRow>>>,
    /// The processes that left an operation in order; an empty id means all of theirs.
    pub(crate) left: Table<Owned, ()>,
    /// Values by operation, step and key.
    pub(crate) checkpoints: Table<Three, SecretJson>,
    pub(crate) vims: Table<Owned, VimRecord>,
    /// Tenant by instance, VIM and identity; empty if unknown.
    pub(crate) uses: Table<Three, Whose>,
    /// Identity by operation, tenant and VIM.
    pub(crate) retiring: Table<Three, String>,
    pub(crate) outbox: Table<u64, OutboxRow>,
    /// Number in the outbox, by tenant and its own number.
    pub(crate) events: Table<(String, u64), u64>,
    /// Last own number, by tenant.
    pub(crate) event_numbers: Table<String, u64>,
    /// Reservations by id: tenant, resource, amount.
    pub(crate) reservations: Table<String, (String, QuotaResource, u64)>,
    /// Size in bytes by package.
    pub(crate) package_sizes: Table<String, u64>,
    pub(crate) subscriptions: Table<Owned, SubscriptionRecord>,
    pub(crate) audit: Table<u64, (String, AuditEntry)>,
    pub(crate) tombstones: Table<Owned, Tombstone>,
    /// Instance and key by host; an empty key is a deleted one.
    pub(crate) host_keys: Table<PinnedHost, (String, String)>,
    /// Last numbers of the counters.
    pub(crate) counters: Table<&'static str, u64>,
    /// Logs are appended outside of change lists.
    pub(crate) logs: BTreeMap<String, VecDeque<LogLine>>,
    pub(crate) news: ChangeCounters,
}

/// Calls `$does` on every table.
macro_rules! each_table {
    ($state:ident, $does:ident) => {
        each_table!($state, $does, packages instances ops driven journal left checkpoints vims uses retiring
            outbox events event_numbers reservations package_sizes subscriptions audit tombstones host_keys counters)
    };
    ($state:ident, $does:ident, $($table:ident)+) => {
        ($($state.$table.$does(),)+)
    };
}

impl State {
    /// Writes all of `changes`, or none. The caller drops the returned old rows after releasing the lock.
    pub(crate) fn write(
        &mut self,
        fence: Option<&Fence>,
        changes: Vec<Change>,
        now: Timestamp,
    ) -> Result<impl Sized + use<>, StoreError> {
        // Discard what a panic left half-written.
        self.roll_back();
        let news = self.news;
        let held = fence.map_or(Ok(()), |fence| ops::is_held(self, fence));
        let mut changes = changes.into_iter();
        let written = held.and_then(|()| changes.try_for_each(|change| self.apply(change, now)));
        if let Err(error) = written {
            self.news = news;
            self.roll_back();
            return Err(error);
        }
        Ok(self.commit())
    }

    fn roll_back(&mut self) {
        each_table!(self, roll_back);
    }

    fn commit(&mut self) -> impl Sized + use<> {
        each_table!(self, commit)
    }

    /// The next number of a counter.
    pub(crate) fn next(&mut self, counter: &'static str) -> u64 {
        let next = self.last(counter) + 1;
        self.counters.put(counter, next);
        next
    }

    /// The last number of a counter.
    pub(crate) fn last(&self, counter: &'static str) -> u64 {
        self.counters.get(&counter).copied().unwrap_or_default()
    }

    fn apply(&mut self, change: Change, now: Timestamp) -> Result<(), StoreError> {
        match change {
            Change::AddInstance(record) => instances::add(self, *record, now),
            Change::PutInstance(record) => instances::put(self, *record, now),
            Change::RemoveInstance { tenant, id } => instances::remove(self, &tenant, &id),
            Change::Abandon { tenant, id, force } => instances::abandon(self, &tenant, &id, force),
            Change::AddOp(record) => ops::add(self, *record, now),
            Change::PutOp { record, from } => ops::put(self, record, from, now),
            Change::Cancel { op_id, mode } => ops::cancel(self, &op_id, mode),
            Change::RevokeLease {
                instance_id,
                op_id,
                force,
            } => ops::revoke_lease(self, (&instance_id, &op_id), force, now),
            Change::Journal(row) => ops::journal(self, row),
            Change::RecordOrderlyExit { process, op_id } => {
                self.left.put((process, op_id.unwrap_or_default()), ());
                Ok(())
            }
            Change::Checkpoint {
                op_id,
                step,
                key,
                value,
            } => ops::checkpoint(self, (op_id, step, key), value),
            Change::RemoveCheckpoints { op_id, step } => {
                let first = (op_id.clone(), step.clone(), String::new());
                self.checkpoints
                    .remove_from(first, |(op, of, _)| *op == op_id && *of == step);
                Ok(())
            }
            other => self.apply_vims(other),
        }
    }

    fn apply_vims(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::AddVim(record) => vims::add(self, *record),
            Change::PutVim(record) => vims::put(self, *record),
            Change::RemoveVim { tenant, id, force } => vims::remove(self, &tenant, &id, force),
            Change::AddUse(lives_on) => vims::add_use(self, lives_on),
            Change::RemoveUses { instance_id } => {
                vims::remove_uses(self, &instance_id);
                Ok(())
            }
            Change::MarkVimsLeaving {
                tenant,
                instance_id,
                op_id,
            } => vims::retire(self, &tenant, &instance_id, &op_id),
            Change::UnmarkVimsLeaving { op_id } => {
                let first = (op_id.clone(), String::new(), String::new());
                self.retiring.remove_from(first, |(op, ..)| *op == op_id);
                Ok(())
            }
            other => self.apply_packages_and_outbox(other),
        }
    }

    fn apply_packages_and_outbox(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::AddPackage(record) => packages_and_outbox::add_package(self, *record),
            Change::PutPackage(record) => packages_and_outbox::put_package(self, *record),
            Change::RemovePackage { tenant, id } => {
                packages_and_outbox::remove_package(self, &tenant, &id)
            }
            Change::Outbox(row) => {
                packages_and_outbox::add_notification(self, *row);
                Ok(())
            }
            Change::AddSubscription(record) => packages_and_outbox::subscribe(self, *record),
            Change::RemoveSubscription { tenant, id } => {
                packages_and_outbox::unsubscribe(self, &tenant, &id)
            }
            Change::AdvanceSubscription {
                tenant,
                id,
                seq,
                lost,
            } => {
                packages_and_outbox::sent(self, &(tenant, id), seq, lost);
                Ok(())
            }
            Change::Audit { tenant, entry } => {
                packages_and_outbox::audit(self, tenant, *entry);
                Ok(())
            }
            Change::AddTombstone { tenant, tombstone } => {
                packages_and_outbox::add_tombstone(self, tenant, *tombstone);
                Ok(())
            }
            Change::RemoveTombstone {
                tenant,
                instance_id,
            } => packages_and_outbox::remove_tombstone(self, &tenant, &instance_id),
            Change::PinHostKey { pin, key } => packages_and_outbox::pin(self, *pin, key),
            Change::RemoveHostKey(host) => packages_and_outbox::unpin(self, host),
            other => self.apply_quotas(other),
        }
    }

    fn apply_quotas(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Reserve {
                tenant,
                id,
                what,
                amount,
            } => {
                self.reservations.put(id, (tenant, what, amount));
                Ok(())
            }
            Change::Release { id } => {
                self.reservations.remove(&id);
                Ok(())
            }
            Change::PackageSize { tenant, id, bytes } => {
                packages_and_outbox::package(self, &tenant, &id)?;
                self.package_sizes.put(id, bytes);
                Ok(())
            }
            Change::CheckQuota {
                tenant,
                what,
                most,
                adds,
            } => quotas::within(self, tenant, what, (most, adds)),
            other => Err(StoreError::Broken(format!(
                "this store does not support {other:?}"
            ))),
        }
    }
}

pub(crate) fn absent(what: &'static str, id: &str) -> StoreError {
    StoreError::NotFound {
        what,
        id: id.to_owned(),
    }
}

/// The error for a resource that instances use, listed as `name (id)`; another tenant's are not identified.
pub(crate) fn in_use(
    what: &'static str,
    (tenant, id): (&str, &str),
    users: &BTreeMap<String, (String, Option<String>)>,
) -> StoreError {
    let labels = users.iter().map(|(id, (whose, name))| match name {
        _ if whose != tenant => "an instance of another tenant".to_owned(),
        Some(name) => format!("{name} ({id})"),
        None => id.clone(),
    });
    StoreError::InUse {
        what,
        id: id.to_owned(),
        by: labels.collect(),
    }
}
