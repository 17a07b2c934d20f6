//! Shared virtual links, and which instances use them.

use crate::state::{State, absent, in_use};
use std::collections::BTreeMap;
use vnfm_core::ports::{LinkRecord, StoreError};
use vnfm_types::LinkState;

const WHAT: &str = "shared virtual link";

pub(crate) fn add(state: &mut State, record: LinkRecord) -> Result<(), StoreError> {
    let (new, name) = (&record.link, &record.link.spec.name);
    let is_same = |known: &LinkRecord| {
        let is_own = known.tenant == record.tenant;
        is_own && (known.link.id == new.id || known.link.spec.name == *name)
    };
    if state.links.iter().any(|(_, known)| is_same(known)) {
        return Err(StoreError::Exists {
            what: WHAT,
            id: name.clone(),
        });
    }
    let key = (record.tenant.clone(), record.link.id.clone());
    state.links.put(key, record);
    Ok(())
}

pub(crate) fn put(state: &mut State, record: LinkRecord) -> Result<(), StoreError> {
    let (tenant, id) = (record.tenant.clone(), record.link.id.clone());
    if record.link.state == LinkState::Deleting {
        check_unused(state, &tenant, &id)?;
    }
    let known = state.links.get(&(tenant.clone(), id.clone()));
    if known.ok_or_else(|| absent(WHAT, &id))?.version != record.version {
        return Err(StoreError::Changed { what: WHAT, id });
    }
    let version = record.version + 1;
    state
        .links
        .put((tenant, id), LinkRecord { version, ..record });
    Ok(())
}

pub(crate) fn remove(state: &mut State, tenant: &str, id: &str) -> Result<(), StoreError> {
    check_unused(state, tenant, id)?;
    state.links.remove(&(tenant.to_owned(), id.to_owned()));
    Ok(())
}

fn check_unused(state: &State, tenant: &str, id: &str) -> Result<(), StoreError> {
    let users: BTreeMap<_, _> = users(state, tenant, id)
        .map(|user| (user.clone(), named(state, tenant, user)))
        .collect();
    if users.is_empty() {
        return Ok(());
    }
    Err(in_use(WHAT, (tenant, id), &users))
}

/// Tenant and name of an instance, for errors.
fn named(state: &State, tenant: &str, instance: &String) -> (String, Option<String>) {
    let row = state.instances.get(instance);
    let name = row.and_then(|row| row.record.vnf.vnf_instance_name.clone());
    (tenant.to_owned(), name)
}

/// The ids of the instances that use a link.
fn users<'s>(state: &'s State, tenant: &'s str, id: &'s str) -> impl Iterator<Item = &'s String> {
    let its = state
        .link_uses
        .iter()
        .filter(move |((_, link), whose)| link == id && *whose == tenant);
    its.map(|((instance, _), _)| instance)
}

/// An instance uses these links and no others.
pub(crate) fn set_uses(
    state: &mut State,
    tenant: &str,
    instance: &str,
    links: &[String],
) -> Result<(), StoreError> {
    remove_uses(state, instance);
    for id in links {
        let known = state.links.get(&(tenant.to_owned(), id.clone()));
        let found = known.ok_or_else(|| absent(WHAT, id))?.link.state;
        if found != LinkState::Available {
            return Err(StoreError::WrongState {
                what: WHAT,
                id: id.clone(),
                found: found.as_str().to_owned(),
            });
        }
        let key = (instance.to_owned(), id.clone());
        state.link_uses.put(key, tenant.to_owned());
    }
    Ok(())
}

pub(crate) fn remove_uses(state: &mut State, instance: &str) {
    let first = (instance.to_owned(), String::new());
    state
        .link_uses
        .remove_from(first, |(user, _)| user == instance);
}

/// A link as it is read.
pub(crate) fn shown(state: &State, record: &LinkRecord) -> LinkRecord {
    let mut shown = record.clone();
    let users = users(state, &record.tenant, &record.link.id);
    shown.link.used_by = users.cloned().collect();
    shown.link.used_by.sort();
    shown
}

pub(crate) fn find(
    state: &State,
    tenant: &str,
    id_or_name: &str,
) -> Result<LinkRecord, StoreError> {
    let mut own = state.links.iter().filter(|((whose, _), _)| whose == tenant);
    let is_it =
        |record: &LinkRecord| record.link.id == id_or_name || record.link.spec.name == id_or_name;
    let found = own.find(|(_, record)| is_it(record));
    found
        .map(|(_, record)| shown(state, record))
        .ok_or_else(|| absent(WHAT, id_or_name))
}

/// Tenant and kind of the links on VIMs that `is_on` accepts by tenant and id, for errors.
pub(crate) fn on_vims(
    state: &State,
    is_on: impl Fn(&str, &str) -> bool,
) -> BTreeMap<String, (String, Option<String>)> {
    let on = state
        .links
        .iter()
        .filter(|((tenant, _), record)| is_on(tenant, &record.link.spec.vim_id));
    on.map(|((tenant, id), _)| (id.clone(), (tenant.clone(), Some(WHAT.to_owned()))))
        .collect()
}
