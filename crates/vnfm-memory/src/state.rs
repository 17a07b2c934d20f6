//! All tables, whose changes are committed or rolled back together.

use crate::table::Table;
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use vnfm_core::ports::{
    ChangeCounters, InstanceLocation, InstanceRecord, JournalRow, LinkRecord, OpRecord, OutboxRow,
    PackageRecord, PinnedHost, QuotaResource, ScheduleRecord, SecretJson, SnapshotRecord,
    StoreError, SubscriptionRecord, VimRecord, VolumeRecord,
};
use vnfm_types::{AuditEntry, CancelMode, LogLine, Tombstone};

/// Key of a tenant's record: (tenant, id).
pub(crate) type Owned = (String, String);
/// Key of three parts, such as (operation, step, key).
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

/// All tables of the store, behind one lock.
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
    pub(crate) snapshots: Table<Owned, SnapshotRecord>,
    pub(crate) links: Table<Owned, LinkRecord>,
    /// Tenant by instance and link.
    pub(crate) link_uses: Table<(String, String), String>,
    pub(crate) volumes: Table<Owned, VolumeRecord>,
    /// By instance, which has at most one.
    pub(crate) schedules: Table<String, ScheduleRecord>,
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
            outbox events event_numbers reservations package_sizes snapshots links link_uses volumes schedules subscriptions audit tombstones host_keys counters)
    };
    ($state:ident, $does:ident, $($table:ident)+) => {
        ($($state.$table.$does(),)+)
    };
}

impl State {
    pub(crate) fn roll_back(&mut self) {
        each_table!(self, roll_back);
    }

    pub(crate) fn commit(&mut self) -> impl Sized + use<> {
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
