//! Recovery after restoring an older database: compares each instance with the resources that its VIMs hold in our name,
//! before anything is done. Nothing is changed: missing and surplus resources are reported.

use crate::engine::Engine;
use crate::orphans::orphaned;
use crate::ports::{InstanceRecord, StoreError};
use crate::query::Query;
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_types::{
    ComparedInstance, Comparison, ComparisonResult, InstantiationState, OpInFlight, Orphan,
    UnreachableVim,
};

/// What the VIMs hold in our name, and which VIMs did not respond.
struct Seen {
    of_instances: BTreeSet<String>,
    unreachable: BTreeMap<String, UnreachableVim>,
    reached: BTreeSet<String>,
    /// VIMs that an instance registered: if they do not respond, that says nothing about where the instance lives.
    made_by: BTreeMap<String, String>,
    orphans: Vec<Orphan>,
}

impl Engine {
    /// Compares every instance of a tenant with its VIMs.
    ///
    /// # Errors
    ///
    /// If the database does not respond. A VIM that does not respond is named in the comparison.
    pub async fn compare(&self, tenant: &str) -> Result<Comparison, Refusal> {
        let records = self.store().instances(tenant, &Query::default()).await?;
        let seen = self.observe_vims(tenant, &records).await?;
        let in_flight = self.in_flight(tenant, &records).await?;
        let instances = records
            .iter()
            .map(|record| compared(record, &seen))
            .collect();
        let unreachable = seen.unreachable.into_values().collect();
        Ok(Comparison {
            instances,
            orphans: seen.orphans,
            in_flight,
            not_asked: unreachable,
        })
    }

    /// As [`Engine::compare`], for all tenants.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::compare`], for any tenant.
    pub async fn compare_all(&self) -> Result<Comparison, Refusal> {
        let mut all = Comparison::default();
        for tenant in self.store().tenants().await? {
            let one = self.compare(&tenant).await?;
            all.instances.extend(one.instances);
            all.in_flight.extend(one.in_flight);
            // A shared VIM is queried for each tenant.
            append_new(&mut all.orphans, one.orphans);
            append_new(&mut all.not_asked, one.not_asked);
        }
        Ok(all)
    }

    async fn observe_vims(
        &self,
        tenant: &str,
        records: &[InstanceRecord],
    ) -> Result<Seen, StoreError> {
        let (mut explained, abandoned) = self.other_tenants(tenant).await?;
        explained.extend(abandoned);
        let snapshots = self.all_snapshots().await?;
        let links = self.all_links().await?;
        let volumes = self.all_volumes().await?;
        let ours = records.iter().filter(|record| may_have_resources(record));
        explained.extend(ours.map(|record| record.vnf.id.clone()));
        let mut seen = Seen {
            of_instances: BTreeSet::new(),
            unreachable: BTreeMap::new(),
            reached: BTreeSet::new(),
            made_by: BTreeMap::new(),
            orphans: Vec::new(),
        };
        let vims = self.store().vims(tenant).await?;
        for (vim, found) in self.resources_on_all(vims).await {
            if let Some(maker) = &vim.vim.registered_by {
                seen.made_by.insert(vim.vim.id.clone(), maker.clone());
            }
            match found {
                Ok(found) => {
                    seen.reached.insert(vim.vim.id);
                    let own = found
                        .iter()
                        .filter(|found| found.vnf_snapshot_info_id.is_none());
                    let of_instances = own.filter_map(|found| found.vnf_instance_id.clone());
                    seen.of_instances.extend(of_instances);
                    seen.orphans.extend(orphaned(
                        found,
                        |id| explained.contains(id),
                        [&snapshots, &links, &volumes],
                    ));
                }
                Err(why) => {
                    let unreachable = UnreachableVim {
                        vim: vim.vim.name,
                        why: why.to_string(),
                    };
                    seen.unreachable.insert(vim.vim.id, unreachable);
                }
            }
        }
        Ok(seen)
    }

    async fn in_flight(
        &self,
        tenant: &str,
        records: &[InstanceRecord],
    ) -> Result<Vec<OpInFlight>, StoreError> {
        let mut in_flight = Vec::new();
        for id in records
            .iter()
            .filter_map(|record| record.active_op.as_deref())
        {
            let op = self.store().op(tenant, id).await?.op;
            in_flight.push(OpInFlight {
                vnf_lcm_op_occ_id: op.id,
                operation: op.operation.as_str().to_owned(),
                operation_state: op.operation_state.as_str().to_owned(),
                vnf_instance_id: op.vnf_instance_id,
            });
        }
        Ok(in_flight)
    }
}

fn append_new<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// True if resources of this instance are expected.
pub(crate) fn may_have_resources(record: &InstanceRecord) -> bool {
    record.active_op.is_some() || record.vnf.instantiation_state == InstantiationState::Instantiated
}

fn compared(record: &InstanceRecord, seen: &Seen) -> ComparedInstance {
    let vnf = &record.vnf;
    let exists = seen.of_instances.contains(&vnf.id);
    let instantiated = vnf.instantiation_state == InstantiationState::Instantiated;
    let answers = |id: &str| seen.reached.contains(id) || seen.made_by.get(id) == Some(&vnf.id);
    let mut vims = vnf.vim_connection_info.values();
    let all_queried = vims.all(|vim| vim.vim_id.as_deref().is_some_and(answers));
    let found = match (instantiated, exists) {
        (true, true) => ComparisonResult::AsRecorded,
        (true, false) if !all_queried => ComparisonResult::NotAsked,
        // For an operation in flight, it is up to that operation to find out what exists.
        (_, _) if record.active_op.is_some() => ComparisonResult::AsRecorded,
        (true, false) => ComparisonResult::Missing,
        (false, true) => ComparisonResult::Unexpected,
        (false, false) => ComparisonResult::AsRecorded,
    };
    ComparedInstance {
        vnf_instance_id: vnf.id.clone(),
        vnf_instance_name: vnf.vnf_instance_name.clone(),
        instantiation_state: vnf.instantiation_state,
        found,
    }
}
