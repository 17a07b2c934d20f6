//! What there is, and how a list of changes becomes all or none.

use crate::table::Table;
use crate::{instances, ops, others, quotas, vims};
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use vnfm_core::ports::{
    Change, Counted, Fence, Home, InstanceRecord, JournalRow, News, OpRecord, OutboxRow,
    PackageRecord, PinnedHost, SecretJson, StoreError, SubscriptionRecord, VimRecord,
};
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone};

/// A tenant, and an id of theirs.
pub(crate) type Owned = (String, String);
/// Three names.
pub(crate) type Three = (String, String, String);
/// Whose instance lives somewhere, and in which namespace.
pub(crate) type Whose = (String, Option<String>);

/// An instance, with what is written of it alone.
#[derive(Clone)]
pub(crate) struct InstanceRow {
    pub(crate) record: Arc<InstanceRecord>,
    pub(crate) active_op: Option<String>,
    pub(crate) changed_at: Option<Timestamp>,
}

/// An operation, and who drives it until when.
#[derive(Clone)]
pub(crate) struct OpRow {
    pub(crate) record: Arc<OpRecord>,
    /// That of the record is not kept.
    pub(crate) epoch: u64,
    pub(crate) cancel: Option<CancelMode>,
    pub(crate) owner: Option<String>,
    pub(crate) lease_until: Timestamp,
    /// Where its instance lived while it ran; known once it ends.
    pub(crate) lived: Vec<Home>,
}

/// Everything.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) packages: Table<String, PackageRecord>,
    pub(crate) instances: Table<String, InstanceRow>,
    pub(crate) ops: Table<String, OpRow>,
    /// Operations that have to be driven, the oldest first.
    pub(crate) driven: Table<(Timestamp, String), ()>,
    /// By operation: its steps as they were first written.
    pub(crate) journal: Table<String, Vec<Arc<JournalRow>>>,
    /// The processes that left an operation in order; all of theirs where that is empty.
    pub(crate) left: Table<Owned, ()>,
    /// By operation, step and key.
    pub(crate) checkpoints: Table<Three, SecretJson>,
    pub(crate) vims: Table<Owned, VimRecord>,
    /// The tenant by instance, VIM and identity; an empty text where that is not known.
    pub(crate) uses: Table<Three, Whose>,
    /// The identity by operation, tenant and VIM.
    pub(crate) retiring: Table<Three, String>,
    pub(crate) outbox: Table<u64, OutboxRow>,
    /// The number in the outbox by tenant and its own number.
    pub(crate) events: Table<(String, u64), u64>,
    /// By tenant, its own number that was given last.
    pub(crate) event_numbers: Table<String, u64>,
    /// What is set aside, by id: whose, of what, how much.
    pub(crate) reservations: Table<String, (String, Counted, u64)>,
    /// Bytes of packages.
    pub(crate) package_sizes: Table<String, u64>,
    pub(crate) subscriptions: Table<Owned, SubscriptionRecord>,
    pub(crate) audit: Table<u64, (String, AuditEntry)>,
    pub(crate) tombstones: Table<Owned, Tombstone>,
    /// The instance and the key by host; an empty key is one that was forgotten.
    pub(crate) host_keys: Table<PinnedHost, (String, String)>,
    /// Numbers that were given last, under names.
    pub(crate) counters: Table<&'static str, u64>,
    /// Written line by line, for people: no part of a list of changes.
    pub(crate) logs: BTreeMap<String, VecDeque<LogLine>>,
    pub(crate) news: News,
}

/// What `$does` gives for each table.
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
    /// Writes all of `changes`, or none; what is no more is for the caller to drop, once the lock is gone.
    pub(crate) fn write(
        &mut self,
        fence: Option<&Fence>,
        changes: Vec<Change>,
        now: Timestamp,
    ) -> Result<impl Sized + use<>, StoreError> {
        // What a panic left half is not kept.
        self.put_back();
        let news = self.news;
        let held = fence.map_or(Ok(()), |fence| ops::is_held(self, fence));
        let mut changes = changes.into_iter();
        let written = held.and_then(|()| changes.try_for_each(|change| self.apply(change, now)));
        if let Err(error) = written {
            self.news = news;
            self.put_back();
            return Err(error);
        }
        Ok(self.keep())
    }

    fn put_back(&mut self) {
        each_table!(self, put_back);
    }

    fn keep(&mut self) -> impl Sized + use<> {
        each_table!(self, keep)
    }

    /// The next number under a name.
    pub(crate) fn next(&mut self, counter: &'static str) -> u64 {
        let next = self.last(counter) + 1;
        self.counters.put(counter, next);
        next
    }

    /// The number that was given last under a name.
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
            Change::FenceOff {
                instance_id,
                op_id,
                force,
            } => ops::fence_off(self, (&instance_id, &op_id), force, now),
            Change::Journal(row) => ops::journal(self, row),
            Change::LeftInOrder { process, op_id } => {
                self.left.put((process, op_id.unwrap_or_default()), ());
                Ok(())
            }
            Change::Checkpoint {
                op_id,
                step,
                key,
                value,
            } => ops::checkpoint(self, (op_id, step, key), value),
            Change::ForgetCheckpoints { op_id, step } => {
                let first = (op_id.clone(), step.clone(), String::new());
                self.checkpoints
                    .remove_from(first, |(op, of, _)| *op == op_id && *of == step);
                Ok(())
            }
            other => self.apply_to_others(other),
        }
    }

    fn apply_to_others(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::AddVim(record) => vims::add(self, *record),
            Change::PutVim(record) => vims::put(self, *record),
            Change::RemoveVim { tenant, id, force } => vims::remove(self, &tenant, &id, force),
            Change::AddUse(lives_on) => vims::add_use(self, lives_on),
            Change::RemoveUses { instance_id } => {
                vims::remove_uses(self, &instance_id);
                Ok(())
            }
            Change::Retire {
                tenant,
                instance_id,
                op_id,
            } => vims::retire(self, &tenant, &instance_id, &op_id),
            Change::Unretire { op_id } => {
                let first = (op_id.clone(), String::new(), String::new());
                self.retiring.remove_from(first, |(op, ..)| *op == op_id);
                Ok(())
            }
            Change::AddPackage(record) => others::add_package(self, *record),
            Change::PutPackage(record) => others::put_package(self, *record),
            Change::RemovePackage { tenant, id } => others::remove_package(self, &tenant, &id),
            Change::Outbox(row) => {
                others::tell(self, *row);
                Ok(())
            }
            Change::AddSubscription(record) => others::subscribe(self, *record),
            Change::RemoveSubscription { tenant, id } => others::unsubscribe(self, &tenant, &id),
            Change::Sent {
                tenant,
                id,
                seq,
                lost,
            } => {
                others::sent(self, &(tenant, id), seq, lost);
                Ok(())
            }
            Change::Audit { tenant, entry } => {
                others::audit(self, tenant, *entry);
                Ok(())
            }
            Change::Bury { tenant, tombstone } => {
                others::bury(self, tenant, *tombstone);
                Ok(())
            }
            Change::Forget {
                tenant,
                instance_id,
            } => others::forget(self, &tenant, &instance_id),
            Change::PinHostKey { pin, key } => others::pin(self, *pin, key),
            Change::ForgetHostKey(host) => others::unpin(self, host),
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
                others::package(self, &tenant, &id)?;
                self.package_sizes.put(id, bytes);
                Ok(())
            }
            Change::Within {
                tenant,
                what,
                most,
                adds,
            } => quotas::within(self, tenant, what, (most, adds)),
            other => Err(StoreError::Broken(format!(
                "this store does not know {other:?}"
            ))),
        }
    }
}

/// That there is no such row.
pub(crate) fn absent(what: &'static str, id: &str) -> StoreError {
    StoreError::NotFound {
        what,
        id: id.to_owned(),
    }
}

/// That something is used by instances, which are told as `name (id)`; of another tenant's nothing is told.
pub(crate) fn in_use(
    what: &'static str,
    (tenant, id): (&str, &str),
    users: &BTreeMap<String, (String, Option<String>)>,
) -> StoreError {
    let told = users.iter().map(|(id, (whose, name))| match name {
        _ if whose != tenant => "an instance of another tenant".to_owned(),
        Some(name) => format!("{name} ({id})"),
        None => id.clone(),
    });
    StoreError::InUse {
        what,
        id: id.to_owned(),
        by: told.collect(),
    }
}
