//! Recovery: the database is older than the world, so each instance is compared with what its VIMs hold in our name
//! before anything is done. Nothing is changed here: what is missing and what is too much is told.

use crate::engine::Engine;
use crate::orphans::unexplained;
use crate::ports::{InstanceRecord, StoreError};
use crate::query::Query;
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_types::{
    ComparedInstance, Comparison, Found, InstantiationState, NotAsked, OpInFlight, Orphan,
};

/// What the VIMs hold in our name, and which of them did not say.
struct Seen {
    of_instances: BTreeSet<String>,
    silent: BTreeMap<String, NotAsked>,
    asked: BTreeSet<String>,
    /// VIMs that an instance is itself: that they do not answer says nothing about where it lives.
    made_by: BTreeMap<String, String>,
    orphans: Vec<Orphan>,
}

impl Engine {
    /// Compares every instance with its VIMs.
    ///
    /// # Errors
    ///
    /// Where the database does not answer. A VIM that does not answer is named in the comparison.
    pub async fn compare(&self, tenant: &str) -> Result<Comparison, Refusal> {
        let records = self.store().instances(tenant, &Query::default()).await?;
        let seen = self.look_around(tenant, &records).await?;
        let in_flight = self.in_flight(tenant, &records).await?;
        let instances = records
            .iter()
            .map(|record| compared(record, &seen))
            .collect();
        let not_asked = seen.silent.into_values().collect();
        Ok(Comparison {
            instances,
            orphans: seen.orphans,
            in_flight,
            not_asked,
        })
    }

    /// The same for all tenants.
    ///
    /// # Errors
    ///
    /// As [`Engine::compare`].
    pub async fn compare_all(&self) -> Result<Comparison, Refusal> {
        let mut all = Comparison::default();
        for tenant in self.store().tenants().await? {
            let one = self.compare(&tenant).await?;
            all.instances.extend(one.instances);
            all.in_flight.extend(one.in_flight);
            // A VIM that is shared was asked for each of them.
            add_new(&mut all.orphans, one.orphans);
            add_new(&mut all.not_asked, one.not_asked);
        }
        Ok(all)
    }

    async fn look_around(
        &self,
        tenant: &str,
        records: &[InstanceRecord],
    ) -> Result<Seen, StoreError> {
        let (mut explained, abandoned) = self.of_others(tenant).await?;
        explained.extend(abandoned);
        let ours = records.iter().filter(|record| is_explained(record));
        explained.extend(ours.map(|record| record.vnf.id.clone()));
        let mut seen = Seen {
            of_instances: BTreeSet::new(),
            silent: BTreeMap::new(),
            asked: BTreeSet::new(),
            made_by: BTreeMap::new(),
            orphans: Vec::new(),
        };
        for vim in self.store().vims(tenant).await? {
            if let Some(maker) = &vim.vim.registered_by {
                seen.made_by.insert(vim.vim.id.clone(), maker.clone());
            }
            match self.ours_on(&vim).await {
                Ok(found) => {
                    seen.asked.insert(vim.vim.id);
                    let of_instances = found
                        .iter()
                        .filter_map(|found| found.vnf_instance_id.clone());
                    seen.of_instances.extend(of_instances);
                    seen.orphans
                        .extend(unexplained(found, |id| explained.contains(id)));
                }
                Err(why) => {
                    let silent = NotAsked {
                        vim: vim.vim.name,
                        why: why.to_string(),
                    };
                    seen.silent.insert(vim.vim.id, silent);
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

fn add_new<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// True where resources of an instance are no surprise.
pub(crate) fn is_explained(record: &InstanceRecord) -> bool {
    record.active_op.is_some() || record.vnf.instantiation_state == InstantiationState::Instantiated
}

fn compared(record: &InstanceRecord, seen: &Seen) -> ComparedInstance {
    let vnf = &record.vnf;
    let is_there = seen.of_instances.contains(&vnf.id);
    let instantiated = vnf.instantiation_state == InstantiationState::Instantiated;
    let answers = |id: &str| seen.asked.contains(id) || seen.made_by.get(id) == Some(&vnf.id);
    let mut vims = vnf.vim_connection_info.values();
    let all_asked = vims.all(|vim| vim.vim_id.as_deref().is_some_and(answers));
    let found = match (instantiated, is_there) {
        (true, true) => Found::AsRecorded,
        (true, false) if !all_asked => Found::NotAsked,
        // What an operation in flight has made, or not yet, is for that operation to find out.
        (_, _) if record.active_op.is_some() => Found::AsRecorded,
        (true, false) => Found::Missing,
        (false, true) => Found::Unexpected,
        (false, false) => Found::AsRecorded,
    };
    ComparedInstance {
        vnf_instance_id: vnf.id.clone(),
        vnf_instance_name: vnf.vnf_instance_name.clone(),
        instantiation_state: vnf.instantiation_state,
        found,
    }
}
