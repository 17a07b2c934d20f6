//! The VIM registry, and which instance lives on which VIM. A cluster is the same under every registration,
//! if its `identity` is known.

use crate::state::{OpRow, State, absent, in_use};
use crate::{links, snapshots, volumes};
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_core::ports::{EventScope, InstanceLocation, PinnedHost, StoreError, VimRecord, VimUse};
use vnfm_core::query::VisibilityScope;

const WHAT: &str = "VIM";

/// Tenant and name of instances by id.
type Users = BTreeMap<String, (String, Option<String>)>;

pub(crate) fn add(state: &mut State, record: VimRecord) -> Result<(), StoreError> {
    let key = (record.tenant.clone(), record.vim.id.clone());
    if state.vims.get(&key).is_some() {
        return Err(StoreError::Exists {
            what: WHAT,
            id: key.1,
        });
    }
    if is_named(state, &record) {
        return Err(StoreError::Exists {
            what: WHAT,
            id: record.vim.name,
        });
    }
    state.vims.put(key, record);
    Ok(())
}

/// Whether another VIM of the tenant has this name.
fn is_named(state: &State, record: &VimRecord) -> bool {
    state.vims.iter().any(|((tenant, id), other)| {
        *tenant == record.tenant && *id != record.vim.id && other.vim.name == record.vim.name
    })
}

/// Replaces a VIM; its version must be the one that was read. One that other tenants use stays shared.
pub(crate) fn put(state: &mut State, record: VimRecord) -> Result<(), StoreError> {
    let key = (record.tenant.clone(), record.vim.id.clone());
    let known = state.vims.get(&key).ok_or_else(|| absent(WHAT, &key.1))?;
    if known.version != record.version {
        return Err(StoreError::Changed {
            what: WHAT,
            id: key.1,
        });
    }
    if known.vim.shared && !record.vim.shared {
        let packages_and_outbox = users(state, |use_| use_.vim_id == key.1 && use_.tenant != key.0);
        if !packages_and_outbox.is_empty() {
            return Err(in_use(WHAT, (&key.0, &key.1), &packages_and_outbox));
        }
    }
    if is_named(state, &record) {
        return Err(StoreError::Exists {
            what: WHAT,
            id: record.vim.name,
        });
    }
    state.vims.put(
        key,
        VimRecord {
            version: record.version + 1,
            ..record
        },
    );
    Ok(())
}

/// Removes a VIM without users, or with `force` any; succeeds if it does not exist.
pub(crate) fn remove(
    state: &mut State,
    tenant: &str,
    id: &str,
    force: bool,
) -> Result<(), StoreError> {
    let key = (tenant.to_owned(), id.to_owned());
    let Some(known) = state.vims.get(&key) else {
        return Ok(());
    };
    let is_its =
        |use_: &Lives<'_>| use_.vim_id == id && (use_.tenant == tenant || known.vim.shared);
    let mut users = users(state, is_its);
    let is_shared = known.vim.shared;
    let is_on = |whose: &str, vim: &str| vim == id && (whose == tenant || is_shared);
    users.extend(snapshots::on_vims(state, is_on));
    users.extend(links::on_vims(state, is_on));
    users.extend(volumes::on_vims(state, is_on));
    if !force && !users.is_empty() {
        return Err(in_use(WHAT, (tenant, id), &users));
    }
    state.vims.remove(&key);
    let is_its = |host: &PinnedHost| host.vim_id == id && (is_shared || host.tenant == tenant);
    state.host_keys.remove_if(|host, _| is_its(host));
    Ok(())
}

/// The VIM with this id that a tenant sees: its own, otherwise a shared one.
fn visible<'s>(state: &'s State, tenant: &str, id: &str) -> Option<&'s VimRecord> {
    let own = state.vims.get(&(tenant.to_owned(), id.to_owned()));
    own.or_else(|| {
        let mut all = state.vims.iter();
        all.find(|((_, of), record)| of == id && record.vim.shared)
            .map(|(_, record)| record)
    })
}

/// The VIM with this id or name that a tenant sees: its own before a shared one, an id before a name.
pub(crate) fn named(
    state: &State,
    tenant: &str,
    id_or_name: &str,
) -> Result<Arc<VimRecord>, StoreError> {
    if let Some(own) = state
        .vims
        .share(&(tenant.to_owned(), id_or_name.to_owned()))
    {
        return Ok(own);
    }
    let candidates = state.vims.iter().filter(|((of, id), record)| {
        (of == tenant || record.vim.shared) && (id == id_or_name || record.vim.name == id_or_name)
    });
    let first = candidates.min_by_key(|((of, id), _)| (of != tenant, id != id_or_name, of));
    first
        .and_then(|(key, _)| state.vims.share(key))
        .ok_or_else(|| absent(WHAT, id_or_name))
}

/// Adds a use of a VIM, unless the cluster behind it is leaving. If the identity is not given, the registry's is used.
pub(crate) fn add_use(state: &mut State, lives_on: VimUse) -> Result<(), StoreError> {
    let VimUse {
        tenant,
        instance_id,
        vim_id,
        identity,
        namespace,
    } = lives_on;
    let vim_id = vim_id.unwrap_or_default();
    let known = visible(state, &tenant, &vim_id);
    if !vim_id.is_empty() && known.is_none() {
        return Err(absent(WHAT, &vim_id));
    }
    let registered = known.and_then(|record| record.vim.identity.clone());
    let identity = identity.or(registered).unwrap_or_default();
    if let Some(op_id) = retired_by(state, &tenant, (&vim_id, &identity)) {
        let vim = if vim_id.is_empty() { identity } else { vim_id };
        return Err(StoreError::VimLeaving { vim, op_id });
    }
    if !identity.is_empty() {
        state
            .uses
            .remove(&(instance_id.clone(), vim_id.clone(), String::new()));
    }
    state
        .uses
        .put((instance_id, vim_id, identity), (tenant, namespace));
    Ok(())
}

/// Removes all uses of an instance; its active operation retains where it lived.
pub(crate) fn remove_uses(state: &mut State, instance_id: &str) {
    let instance = state.instances.get(&instance_id.to_owned());
    if let Some(op_id) = instance.and_then(|row| row.active_op.clone()) {
        let homes = homes(state, instance_id);
        state.ops.change(&op_id, |row| row.lived.extend(homes));
    }
    let first = (instance_id.to_owned(), String::new(), String::new());
    state
        .uses
        .remove_from(first, |(instance, ..)| instance == instance_id);
    links::remove_uses(state, instance_id);
    volumes::remove_uses(state, instance_id);
}

/// The operation that deletes a VIM or the cluster behind it; the tenant's own first.
fn retired_by(state: &State, tenant: &str, (vim, cluster): (&str, &str)) -> Option<String> {
    let is_shared = |whose: &String, id: &String| {
        let record = state.vims.get(&(whose.clone(), id.clone()));
        record.is_some_and(|record| record.vim.shared)
    };
    let going = state.retiring.iter().filter(|((_, whose, id), identity)| {
        let is_the_vim = id == vim && (whose == tenant || is_shared(whose, id));
        is_the_vim || (*identity == cluster && !cluster.is_empty())
    });
    let first = going.min_by_key(|((op_id, whose, _), _)| (whose != tenant, op_id));
    first.map(|((op_id, ..), _)| op_id.clone())
}

/// Marks the VIMs that an instance registered as leaving, unless another instance than `besides` lives on one of
/// them.
pub(crate) fn retire(
    state: &mut State,
    (tenant, instance_id): (&str, &str),
    op_id: &str,
    besides: &[String],
) -> Result<(), StoreError> {
    let mut users = users_of_instance(state, tenant, instance_id);
    users.retain(|id, _| !besides.contains(id));
    if !users.is_empty() {
        return Err(in_use("VNF instance", (tenant, instance_id), &users));
    }
    let going = registered(state, tenant, instance_id).map(|record| {
        let key = (op_id.to_owned(), tenant.to_owned(), record.vim.id.clone());
        (key, record.vim.identity.clone().unwrap_or_default())
    });
    for (key, identity) in going.collect::<Vec<_>>() {
        state.retiring.put(key, identity);
    }
    Ok(())
}

fn registered<'s>(
    state: &'s State,
    tenant: &str,
    instance_id: &str,
) -> impl Iterator<Item = &'s VimRecord> {
    let of_it = move |record: &&VimRecord| {
        record.tenant == tenant && record.vim.registered_by.as_deref() == Some(instance_id)
    };
    let all: Vec<_> = state
        .vims
        .iter()
        .map(|(_, record)| record)
        .filter(of_it)
        .collect();
    all.into_iter()
}

/// Other instances of any tenant that live on a VIM registered by an instance, or on the cluster behind it.
pub(crate) fn users_of_instance(state: &State, tenant: &str, instance_id: &str) -> Users {
    let its: Vec<_> = registered(state, tenant, instance_id).collect();
    if its.is_empty() {
        return Users::new();
    }
    let on = |use_: &Lives<'_>, vim: &VimRecord| {
        let is_the_vim = vim.vim.id == use_.vim_id && (vim.tenant == use_.tenant || vim.vim.shared);
        let lived_on = state
            .vims
            .get(&(use_.tenant.to_owned(), use_.vim_id.to_owned()));
        let behind = lived_on.and_then(|record| record.vim.identity.as_deref());
        let Some(identity) = vim.vim.identity.as_deref() else {
            return is_the_vim;
        };
        is_the_vim
            || (!use_.identity.is_empty() && use_.identity == identity)
            || behind == Some(identity)
    };
    let mut users = users(state, |use_| {
        use_.instance_id != instance_id && its.iter().any(|vim| on(use_, vim))
    });
    let is_on = |whose: &str, id: &str| {
        let is_it = |vim: &&VimRecord| vim.vim.id == id && (vim.tenant == whose || vim.vim.shared);
        its.iter().any(is_it)
    };
    users.extend(snapshots::on_vims(state, is_on));
    users.extend(links::on_vims(state, is_on));
    users.extend(volumes::on_vims(state, is_on));
    users
}

/// A use of a VIM with its tenant.
struct Lives<'s> {
    tenant: &'s str,
    instance_id: &'s str,
    vim_id: &'s str,
    identity: &'s str,
    namespace: Option<&'s str>,
}

fn lives(state: &State) -> impl Iterator<Item = Lives<'_>> {
    state.uses.iter().map(
        |((instance_id, vim_id, identity), (tenant, namespace))| Lives {
            tenant,
            instance_id,
            vim_id,
            identity,
            namespace: namespace.as_deref(),
        },
    )
}

/// Whether an operation is visible: its instance is, and so is where that lived while it ran.
pub(crate) fn is_op_seen(state: &State, sight: &VisibilityScope, row: &OpRow) -> bool {
    let instance_id = &row.record.op.vnf_instance_id;
    is_seen(state, sight, instance_id) && sight.sees_locations(&row.lived)
}

/// Whether the instance with this id is visible.
pub(crate) fn is_seen(state: &State, sight: &VisibilityScope, instance_id: &str) -> bool {
    if sight.is_unlimited() {
        return true;
    }
    let Some(row) = state.instances.get(&instance_id.to_owned()) else {
        return false;
    };
    let about = EventScope {
        lives: Some(homes(state, instance_id)),
        ..EventScope::from(&row.record.vnf)
    };
    sight.sees(&about)
}

/// The locations of an instance.
pub(crate) fn homes(state: &State, instance_id: &str) -> Vec<InstanceLocation> {
    let first = (instance_id.to_owned(), String::new(), String::new());
    let own = state
        .uses
        .range(first..)
        .take_while(|((of, ..), _)| of == instance_id);
    own.map(|((_, vim_id, _), (_, namespace))| InstanceLocation {
        vim_id: vim_id.clone(),
        namespace: namespace.clone(),
    })
    .collect()
}

fn users(state: &State, is_so: impl Fn(&Lives<'_>) -> bool) -> Users {
    let found = lives(state).filter(is_so).map(|use_| {
        let instance = state.instances.get(&use_.instance_id.to_owned());
        let name = instance.and_then(|row| row.record.vnf.vnf_instance_name.clone());
        (use_.instance_id.to_owned(), (use_.tenant.to_owned(), name))
    });
    found.collect()
}

/// Uses of a VIM, or of the cluster behind it, by a tenant; by all tenants if it is shared.
pub(crate) fn uses(state: &State, tenant: &str, vim_id: &str) -> Vec<VimUse> {
    let own = state.vims.get(&(tenant.to_owned(), vim_id.to_owned()));
    let is_shared = own.is_some_and(|record| record.vim.shared);
    let identity = own.and_then(|record| record.vim.identity.as_deref());
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    lives(state)
        .filter(|use_| use_.tenant == tenant || is_shared)
        .filter(|use_| use_.vim_id == vim_id || identity == Some(use_.identity))
        .map(|use_| VimUse {
            tenant: use_.tenant.to_owned(),
            instance_id: use_.instance_id.to_owned(),
            vim_id: some(use_.vim_id),
            identity: some(use_.identity),
            namespace: use_.namespace.map(ToOwned::to_owned),
        })
        .collect()
}
