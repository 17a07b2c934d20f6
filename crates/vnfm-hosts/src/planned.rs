//! What a change would do to the hosts of an instance.

use crate::converge::Change;
use crate::members::{Handle, Member, Members, present};
use crate::records::HOST;
use crate::survey::Survey;
use vnfm_core::ports::{Ownership, PlannedResource, ResourceAction, ResourcePlan};

fn row(member: &Member, action: ResourceAction) -> PlannedResource {
    let id = Some(member.vnfc.clone());
    PlannedResource::new(HOST, &member.host, action).of_vdu(&member.vdu, id)
}

/// What a change of the leases would do.
pub(crate) fn plan_change(change: &Change<'_>, members: Members) -> ResourcePlan {
    let leaving = members.leaving.into_iter().map(|(member, ..)| member);
    // A host that was lost earlier is no VNFC any more.
    let lost = members
        .lost
        .into_iter()
        .filter(|one| change.handle.hosts.contains(one));
    let mut missing = members.missing;
    let mut rows: Vec<_> = members
        .kept
        .iter()
        .map(|one| row(one, ResourceAction::Keep))
        .collect();
    for member in leaving.chain(lost) {
        let is_replaced = change.wanted.replace.vnfcs.contains(&member.vnfc);
        let successor = missing.iter().position(|(vdu, _)| *vdu == member.vdu);
        let (action, because) = match successor.filter(|_| is_replaced) {
            Some(position) => {
                missing.remove(position);
                (ResourceAction::Replace, "vnfcInstanceId".to_owned())
            }
            None => (
                ResourceAction::Delete,
                format!("vduInstances.{}", member.vdu),
            ),
        };
        rows.push(row(&member, action).because(vec![because]));
    }
    rows.extend(missing.into_iter().map(|(vdu, _)| {
        let because = vec![format!("vduInstances.{vdu}")];
        let new = PlannedResource::new(HOST, &vdu, ResourceAction::Create);
        new.of_vdu(vdu, None).because(because)
    }));
    ResourcePlan::from_resources(rows)
}

/// What a release would do.
pub(crate) fn plan_release(survey: &Survey, owner: &Ownership, handle: &Handle) -> ResourcePlan {
    let members = present(survey, owner, handle);
    let rows = members.iter().map(|one| row(one, ResourceAction::Delete));
    ResourcePlan::from_resources(rows.collect())
}
