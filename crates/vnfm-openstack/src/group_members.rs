//! Members of auto scaling groups that a smaller size does not need.
//!
//! A smaller `OS::Heat::ResourceGroup` loses its highest indices, which are the last VNFCs. A smaller
//! `OS::Heat::AutoScalingGroup` loses its failed members, and then the oldest ones: those that should go are marked as
//! unhealthy first. That are members that the record does not name, since a rollback must leave those of before, and then
//! the last ones of the record, which is what hooks were told.

use crate::heat::Resource;
use crate::inventory::SERVER;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use vnfm_core::ports::Convergence;

const GROUP: &str = "OS::Heat::AutoScalingGroup";
/// More nested stacks than any template has.
const MAX_DEPTH: usize = 32;

/// The members of all auto scaling groups that the target has no room for.
pub(crate) fn surplus<'r>(
    resources: &'r [Resource],
    change: &Convergence<'_>,
) -> Vec<&'r Resource> {
    let recorded = change.current.into_iter();
    let recorded = recorded.flat_map(|current| &current.inventory.vnfc_resource_info);
    let recorded: BTreeMap<&str, (usize, &str)> = recorded
        .enumerate()
        .map(|(position, vnfc)| {
            let id = vnfc.compute_resource.resource_id.as_str();
            (id, (position, vnfc.vdu_id.as_str()))
        })
        .collect();
    let deployment = &change.target.deployment;
    let mut surplus = Vec::new();
    for mut members in groups(resources).into_values() {
        let known = |member: &&Member<'_>| recorded.contains_key(member.server);
        let Some(vdu) = members.iter().find(known) else {
            continue; // no VNFC of before: Heat removes any, or none
        };
        let keep = deployment.instances_of(recorded[vdu.server].1) as usize;
        members.sort_by_key(|member| {
            let position = recorded.get(member.server).map(|(position, _)| *position);
            (position.is_some(), Reverse(position), member.server)
        });
        let count = members.len().saturating_sub(keep);
        surplus.extend(
            members
                .into_iter()
                .take(count)
                .map(|member| member.resource),
        );
    }
    surplus
}

/// A member of a group, and the id of a server in it.
struct Member<'r> {
    resource: &'r Resource,
    server: &'r str,
}

/// The members of each group, by the group's id, each with its first server.
fn groups(resources: &[Resource]) -> BTreeMap<&str, Vec<Member<'_>>> {
    let mut groups: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
    for server in resources.iter().filter(|one| one.kind == SERVER) {
        let Some((group, resource)) = member(resources, server) else {
            continue;
        };
        let members = groups.entry(group.id()).or_default();
        if members
            .iter()
            .all(|known| known.resource.id() != resource.id())
        {
            let server = server.id();
            members.push(Member { resource, server });
        }
    }
    groups
}

/// The auto scaling group of a server, and the member of it that contains the server.
fn member<'r>(
    resources: &'r [Resource],
    server: &'r Resource,
) -> Option<(&'r Resource, &'r Resource)> {
    let mut at = server;
    for _ in 0..MAX_DEPTH {
        let stack = at.stack_id()?;
        let above = resources.iter().find(|one| one.id() == stack)?;
        if above.kind == GROUP {
            return Some((above, at));
        }
        at = above;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::surplus;
    use crate::heat::Resource;
    use crate::testing::{cluster_request, new_allocation, sample};
    use std::sync::Arc;
    use vnfm_core::ports::{Convergence, Recorded};
    use vnfm_types::{ResourceHandle, VnfcResourceInfo};

    /// A group of members, each a nested stack with a server.
    fn resources(servers: &[&str]) -> Vec<Resource> {
        let mut all = vec![Resource::for_test(
            "workers",
            super::GROUP,
            "nested-workers",
            None,
        )];
        for server in servers {
            let member = format!("nested-{server}");
            all.push(Resource::for_test(
                server,
                "worker.yaml",
                &member,
                Some("workers"),
            ));
            all.push(Resource::for_test(
                "worker",
                super::SERVER,
                server,
                Some(server),
            ));
        }
        all
    }

    fn recorded(servers: &[&str]) -> Recorded {
        let vnfc = |server: &&str| VnfcResourceInfo {
            id: (*server).to_owned(),
            vdu_id: "workerNode".into(),
            compute_resource: ResourceHandle {
                resource_id: (*server).to_owned(),
                ..ResourceHandle::default()
            },
            ..VnfcResourceInfo::default()
        };
        let mut recorded = Recorded::default();
        recorded.inventory.vnfc_resource_info = servers.iter().map(vnfc).collect();
        recorded
    }

    fn names(servers: &[&str], before: &[&str], count: u32) -> Vec<String> {
        let mut target = new_allocation(sample("vnf-a-k8s-cluster-base-hot"), cluster_request());
        let deployment = Arc::make_mut(&mut target.deployment);
        deployment.vdu_instances.insert("workerNode".into(), count);
        let (resources, current) = (resources(servers), recorded(before));
        let change = Convergence::update(&current, &target);
        let members = surplus(&resources, &change).into_iter();
        members.map(|member| member.name.clone()).collect()
    }

    #[test]
    fn unknown_members_go_first_and_then_the_last_ones_of_the_record() {
        let all = ["c", "a", "d", "b"];
        assert_eq!(names(&all, &["a", "b", "c"], 2), ["d", "c"]);
        assert_eq!(names(&all, &["a", "b", "c", "d"], 2), ["d", "c"]);
        assert_eq!(names(&all, &["a", "b"], 2), ["c", "d"]);
        assert_eq!(names(&all, &["a", "b"], 4), [""; 0]);
        assert_eq!(names(&all, &[], 0), [""; 0], "Heat removes all of them");
    }
}
