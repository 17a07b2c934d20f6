//! Which leases of an instance stay, which leave, and which are missing.

use crate::host_lease::Lease;
use crate::survey::Survey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::Deployment;
use vnfm_core::ports::Ownership;

/// A VNFC and its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Member {
    pub(crate) host: String,
    pub(crate) vnfc: String,
    pub(crate) vdu: String,
    pub(crate) index: u32,
}

/// The handle of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Handle {
    pub(crate) hosts: Vec<Member>,
    /// Hosts that did not respond when their VNFC was replaced or removed: their lease is still there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lost: Vec<Member>,
}

impl Handle {
    /// Reads a recorded handle; an unknown or missing one is empty.
    pub(crate) fn read(recorded: &Value) -> Self {
        Self::deserialize(recorded).unwrap_or_default()
    }
}

/// The leases of an instance, compared with what it should have.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Those that stay, by VDU and position.
    pub(crate) kept: Vec<Member>,
    /// Those on responsive hosts that leave, each with the line of its lease; replaced or surplus.
    pub(crate) leaving: Vec<(Member, Lease, String)>,
    /// Those on silent hosts that leave.
    pub(crate) lost: Vec<Member>,
    /// VDU and position of those that have no host.
    pub(crate) missing: Vec<(String, u32)>,
}

impl Members {
    /// Compares; `replace` has the ids of VNFCs that do not stay.
    pub(crate) fn compare(
        survey: &Survey,
        owner: &Ownership,
        handle: &Handle,
        (target, replace): (&Deployment, &[String]),
    ) -> Self {
        let mut found = existing(survey, owner, handle);
        let mut members = Self::default();
        let silent = silent_hosts(survey);
        // Silent hosts of earlier changes stay lost.
        let still_lost = |one: &&Member| silent.contains(one.host.as_str());
        members
            .lost
            .extend(handle.lost.iter().filter(still_lost).cloned());
        for (vdu, count) in &target.vdu_instances {
            let own: Vec<_> = found
                .extract_if(.., |one| one.member.vdu == vdu.as_str())
                .collect();
            members.settle(own, (vdu.as_str(), *count), (handle, replace));
        }
        for one in found {
            members.leave(one);
        }
        members
    }

    /// Keeps the first `count` VNFCs of a VDU.
    fn settle(
        &mut self,
        mut own: Vec<Existing>,
        (vdu, count): (&str, u32),
        (handle, replace): (&Handle, &[String]),
    ) {
        let is_recorded = |one: &Existing| handle.hosts.contains(&one.member);
        own.sort_by_cached_key(|one| {
            (one.member.index, !is_recorded(one), one.member.vnfc.clone())
        });
        let mut positions = BTreeSet::new();
        for one in own {
            let leaves = replace.contains(&one.member.vnfc);
            let room = positions.len() < count as usize;
            if leaves || !room || !positions.insert(one.member.index) {
                self.leave(one);
            } else {
                self.kept.push(one.member);
            }
        }
        let unused = (0..).filter(|index| !positions.contains(index));
        let missing = (count as usize).saturating_sub(positions.len());
        self.missing
            .extend(unused.take(missing).map(|index| (vdu.to_owned(), index)));
    }

    fn leave(&mut self, one: Existing) {
        match one.lease {
            Some((lease, line)) => self.leaving.push((one.member, lease, line)),
            None if self.lost.contains(&one.member) => {}
            None => self.lost.push(one.member),
        }
    }
}

/// A VNFC that exists; without a lease if its host is silent and only the record tells.
struct Existing {
    member: Member,
    lease: Option<(Lease, String)>,
}

fn silent_hosts(survey: &Survey) -> BTreeSet<&str> {
    survey.silent().map(|(host, _)| host.name()).collect()
}

/// The VNFCs of an instance, without those that are being returned.
fn existing(survey: &Survey, owner: &Ownership, handle: &Handle) -> Vec<Existing> {
    let leases = survey
        .leases_of(owner)
        .filter(|(_, lease, _)| !lease.returning);
    let leased = leases.map(|(host, lease, line)| Existing {
        member: Member {
            host: host.name().to_owned(),
            vnfc: lease.vnfc.clone(),
            vdu: lease.vdu.clone(),
            index: lease.index,
        },
        lease: Some((lease.clone(), line.to_owned())),
    });
    let silent = silent_hosts(survey);
    let recorded = handle
        .hosts
        .iter()
        .filter(|one| silent.contains(one.host.as_str()));
    let recorded = recorded.map(|one| Existing {
        member: one.clone(),
        lease: None,
    });
    leased.chain(recorded).collect()
}

/// The VNFCs of an instance as they are, by VDU and position.
pub(crate) fn present(survey: &Survey, owner: &Ownership, handle: &Handle) -> Vec<Member> {
    let mut all: Vec<_> = existing(survey, owner, handle)
        .into_iter()
        .map(|one| one.member)
        .collect();
    all.sort_by_cached_key(|one| (one.vdu.clone(), one.index, one.vnfc.clone()));
    all
}
