//! Packages, notifications and subscriptions, audit entries, tombstones, host keys.

use crate::state::{InstanceRow, Owned, State, absent, in_use};
use std::collections::BTreeMap;
use vnfm_core::ports::{
    HostPin, OutboxRow, PackageRecord, PinnedHost, SecretJson, StoreError, SubscriptionRecord,
};
use vnfm_types::{AuditEntry, PackageUsageState, Tombstone};

const PACKAGE: &str = "VNF package";
const SUBSCRIPTION: &str = "subscription";
/// Names of the counters that number entries.
pub(crate) const OUTBOX: &str = "outbox";
const AUDIT: &str = "audit";

pub(crate) fn add_package(state: &mut State, record: PackageRecord) -> Result<(), StoreError> {
    if state.packages.get(&record.info.id).is_some() {
        return Err(StoreError::Exists {
            what: PACKAGE,
            id: record.info.id,
        });
    }
    check_vnfd_unique(state, &record)?;
    state.packages.put(record.info.id.clone(), record);
    Ok(())
}

pub(crate) fn put_package(state: &mut State, record: PackageRecord) -> Result<(), StoreError> {
    package(state, &record.tenant, &record.info.id)?;
    check_vnfd_unique(state, &record)?;
    state.packages.put(record.info.id.clone(), record);
    Ok(())
}

/// Checks that no other package of the tenant has this VNFD.
fn check_vnfd_unique(state: &State, record: &PackageRecord) -> Result<(), StoreError> {
    let Some(vnfd_id) = &record.info.vnfd_id else {
        return Ok(());
    };
    let mut packages_and_outbox = state
        .packages
        .iter()
        .filter(|(id, _)| **id != record.info.id);
    let is_same = |(_, other): (&String, &PackageRecord)| {
        other.tenant == record.tenant && other.info.vnfd_id.as_ref() == Some(vnfd_id)
    };
    if packages_and_outbox.any(is_same) {
        let id = vnfd_id.clone();
        return Err(StoreError::Exists {
            what: "VNF package with VNFD",
            id,
        });
    }
    Ok(())
}

pub(crate) fn package<'s>(
    state: &'s State,
    tenant: &str,
    id: &str,
) -> Result<&'s PackageRecord, StoreError> {
    let found = state
        .packages
        .get(&id.to_owned())
        .filter(|record| record.tenant == tenant);
    found.ok_or_else(|| absent(PACKAGE, id))
}

/// A package record with its usage state.
pub(crate) fn shown_package(state: &State, record: &PackageRecord) -> PackageRecord {
    let mut record = record.clone();
    let id = &record.info.id;
    let is_used = state
        .instances
        .iter()
        .any(|(_, instance)| uses_package(state, instance, id));
    record.info.usage_state = if is_used {
        PackageUsageState::InUse
    } else {
        PackageUsageState::NotInUse
    };
    record
}

/// A package record for lists, without secrets.
pub(crate) fn listed_package(state: &State, record: &PackageRecord) -> PackageRecord {
    PackageRecord {
        fetching: SecretJson::default(),
        ..shown_package(state, record)
    }
}

/// Whether an instance has the package, or its active operation changes it to the package.
fn uses_package(state: &State, instance: &InstanceRow, id: &str) -> bool {
    let active = instance.active_op.as_ref();
    let active = active.and_then(|op_id| state.ops.get(op_id));
    let next = active.and_then(|row| row.record.next_package());
    instance.record.vnf_pkg_id == id || next == Some(id)
}

/// Removes a package without instances, to which no operation changes one either.
pub(crate) fn remove_package(state: &mut State, tenant: &str, id: &str) -> Result<(), StoreError> {
    package(state, tenant, id)?;
    let instances = state
        .instances
        .iter()
        .filter(|(_, instance)| uses_package(state, instance, id));
    let users: BTreeMap<_, _> = instances
        .map(|(of, instance)| {
            let record = &instance.record;
            (
                of.clone(),
                (record.tenant.clone(), record.vnf.vnf_instance_name.clone()),
            )
        })
        .collect();
    if !users.is_empty() {
        return Err(in_use(PACKAGE, (tenant, id), &users));
    }
    state.packages.remove(&id.to_owned());
    state.package_sizes.remove(&id.to_owned());
    Ok(())
}

/// Adds a notification with the next number.
pub(crate) fn add_notification(state: &mut State, row: OutboxRow) {
    let seq = state.next(OUTBOX);
    let tenant = row.tenant.clone();
    let number = state
        .event_numbers
        .get(&tenant)
        .copied()
        .unwrap_or_default()
        + 1;
    state.event_numbers.put(tenant.clone(), number);
    state.events.put((tenant, number), seq);
    state.outbox.put(seq, OutboxRow { seq, ..row });
    state.news.outbox += 1;
}

/// Adds a subscription that gets no earlier notifications.
pub(crate) fn subscribe(state: &mut State, record: SubscriptionRecord) -> Result<(), StoreError> {
    let key = (record.tenant.clone(), record.subscription.id.clone());
    if state.subscriptions.get(&key).is_some() {
        return Err(StoreError::Exists {
            what: SUBSCRIPTION,
            id: key.1,
        });
    }
    let sent = state.last(OUTBOX);
    state.subscriptions.put(
        key,
        SubscriptionRecord {
            sent,
            lost: 0,
            ..record
        },
    );
    state.news.subscriptions += 1;
    Ok(())
}

pub(crate) fn unsubscribe(state: &mut State, tenant: &str, id: &str) -> Result<(), StoreError> {
    if !state
        .subscriptions
        .remove(&(tenant.to_owned(), id.to_owned()))
    {
        return Err(absent(SUBSCRIPTION, id));
    }
    state.news.subscriptions += 1;
    Ok(())
}

pub(crate) fn subscription(
    state: &State,
    tenant: &str,
    id: &str,
) -> Result<SubscriptionRecord, StoreError> {
    let found = state.subscriptions.get(&(tenant.to_owned(), id.to_owned()));
    found.cloned().ok_or_else(|| absent(SUBSCRIPTION, id))
}

/// Advances a subscription to `seq`; does nothing if it does not exist.
pub(crate) fn sent(state: &mut State, key: &Owned, seq: u64, lost: u64) {
    if state
        .subscriptions
        .get(key)
        .is_some_and(|record| record.sent < seq)
    {
        state.subscriptions.change(key, |record| {
            record.sent = seq;
            record.lost += lost;
        });
    }
}

/// Adds an audit entry with the next number.
pub(crate) fn audit(state: &mut State, tenant: String, entry: AuditEntry) {
    let seq = state.next(AUDIT);
    state.audit.put(seq, (tenant, AuditEntry { seq, ..entry }));
}

/// Adds the tombstone of an abandoned instance.
pub(crate) fn add_tombstone(state: &mut State, tenant: String, tombstone: Tombstone) {
    state
        .tombstones
        .put((tenant, tombstone.vnf_instance_id.clone()), tombstone);
}

/// Removes the tombstone of an abandoned instance.
pub(crate) fn remove_tombstone(
    state: &mut State,
    tenant: &str,
    id: &str,
) -> Result<(), StoreError> {
    if !state.tombstones.remove(&(tenant.to_owned(), id.to_owned())) {
        return Err(absent("abandoned VNF instance", id));
    }
    Ok(())
}

/// Pins the first key of a host until it is deleted; the same key again succeeds, another one is refused.
pub(crate) fn pin(state: &mut State, pin: HostPin, key: String) -> Result<(), StoreError> {
    let known = state.host_keys.get(&pin.at).map(|(_, known)| known);
    if known.is_some_and(|known| !known.is_empty() && *known != key) {
        return Err(StoreError::Exists {
            what: "pinned host key of host",
            id: pin.at.host,
        });
    }
    state.host_keys.put(pin.at, (pin.instance_id, key));
    Ok(())
}

/// Deletes the pin of a host; the next key is trusted.
pub(crate) fn unpin(state: &mut State, host: PinnedHost) -> Result<(), StoreError> {
    match state.host_keys.get(&host).cloned() {
        Some((instance_id, key)) if !key.is_empty() => {
            state.host_keys.put(host, (instance_id, String::new()));
            Ok(())
        }
        _ => Err(absent("pinned host key", &host.id())),
    }
}
