//! Heal scenarios for every cloud, simulated or real: the requested VNFCs are replaced, everything else keeps its ids.

use crate::cloud_user::CloudUser;
use crate::support::TestBed;
use std::collections::BTreeMap;
use vnfm_core::ports::{Allocation, Recorded};
use vnfm_types::VnfcResourceInfo;

/// The `index`th VNFC of a VDU.
pub(crate) fn nth<'a>(allocated: &'a Recorded, vdu: &str, index: usize) -> &'a VnfcResourceInfo {
    let mut all = allocated
        .inventory
        .vnfc_resource_info
        .iter()
        .filter(|vnfc| vnfc.vdu_id == vdu);
    all.nth(index).unwrap()
}

/// The ports of all VNFCs with their addresses, by port id: they outlive a replaced server.
fn ports(allocated: &Recorded) -> BTreeMap<String, String> {
    let cps = allocated
        .inventory
        .vnfc_resource_info
        .iter()
        .flat_map(|vnfc| &vnfc.vnfc_cp_info);
    cps.map(|cp| {
        (
            cp.id.clone(),
            format!("{} {:?}", cp.cpd_id, cp.cp_protocol_info),
        )
    })
    .collect()
}

/// Asserts that exactly the VNFCs with these ids have new ids and that nothing else changed.
pub(crate) fn assert_replaced(before: &Recorded, after: &Recorded, targets: &[String]) {
    let (old, new) = (
        &before.inventory.vnfc_resource_info,
        &after.inventory.vnfc_resource_info,
    );
    assert_eq!(old.len(), new.len());
    let stays = |vnfc: &&VnfcResourceInfo| !targets.contains(&vnfc.id);
    let kept: Vec<_> = old.iter().filter(stays).collect();
    let found: Vec<_> = new
        .iter()
        .filter(|vnfc| old.iter().any(|was| was.id == vnfc.id))
        .collect();
    assert_eq!(
        kept, found,
        "the other VNFCs are unchanged, to the last member"
    );
    assert_eq!(found.len(), old.len() - targets.len());
    let vdus = |all: &[VnfcResourceInfo]| -> Vec<String> {
        all.iter().map(|vnfc| vnfc.vdu_id.clone()).collect()
    };
    assert_eq!(vdus(old), vdus(new));
    assert_eq!(
        ports(before),
        ports(after),
        "ports and addresses are unchanged"
    );
    assert_eq!(before.handle, after.handle, "the stack is the same");
    let networks = |allocated: &Recorded| -> Vec<String> {
        let links = &allocated.inventory.vnf_virtual_link_resource_info;
        links.iter().map(|link| link.id.clone()).collect()
    };
    assert_eq!(networks(before), networks(after));
}

/// Asserts that the stack is complete and has its three tags, with the id of the current operation.
async fn assert_tagged(bed: &TestBed, user: &CloudUser, allocated: &Recorded) {
    let id = allocated.handle["stackId"].as_str().unwrap();
    let (tags, status) = user.stack(&bed.stack_name(), id).await;
    // The fingerprint of the deployment.
    let (deployment, mut tags): (Vec<_>, Vec<_>) = tags
        .into_iter()
        .partition(|tag| tag.starts_with("vnfm-deployment-"));
    assert_eq!(deployment.len(), 1, "{deployment:?}");
    tags.sort();
    let mut expected = vec![
        format!("vnfm-{}", bed.ownership.installation_id),
        format!("vnfm-op-{}", bed.ownership.op_id),
    ];
    expected.sort();
    assert_eq!(tags, expected);
    assert!(status.ends_with("_COMPLETE"), "{status}");
}

/// Releases the instance and asserts that nothing remains.
pub(crate) async fn assert_release(bed: &TestBed, allocation: &Allocation, allocated: Recorded) {
    bed.release(allocation, allocated.handle).await.unwrap();
    assert!(bed.owned().await.is_empty());
}

/// Replaces one worker of two; repeating the request changes nothing. Then replaces all three servers.
pub(crate) async fn one_of_several_then_all(
    bed: &mut TestBed,
    user: &CloudUser,
    allocation: &Allocation,
    allocated: Recorded,
) -> Recorded {
    assert_eq!(
        bed.observe(allocation).await,
        allocated,
        "observe returns what allocate returned"
    );
    let targets = [nth(&allocated, "workerNode", 1).id.clone()];
    bed.ownership.op_id = uuid::Uuid::new_v4().to_string();
    let healed = bed.heal(allocation, &allocated, &targets).await.unwrap();
    assert_replaced(&allocated, &healed, &targets);
    assert_tagged(bed, user, &healed).await;
    assert!(!user.has_server(&targets[0]).await);
    let again = bed.heal(allocation, &allocated, &targets).await.unwrap();
    assert_eq!(again, healed, "a replaced server is not replaced again");
    let all: Vec<String> = healed
        .inventory
        .vnfc_resource_info
        .iter()
        .map(|vnfc| vnfc.id.clone())
        .collect();
    let replaced = bed.heal(allocation, &healed, &all).await.unwrap();
    assert_replaced(&healed, &replaced, &all);
    replaced
}

/// Replaces a worker deleted behind our back and a master in ERROR; the other worker stays.
pub(crate) async fn deleted_and_in_error(
    bed: &TestBed,
    (user, admin): (&CloudUser, &CloudUser),
    allocation: &Allocation,
    allocated: Recorded,
) -> Recorded {
    let [deleted, broken] = [
        nth(&allocated, "workerNode", 0),
        nth(&allocated, "masterNode", 0),
    ];
    let targets = [deleted.id.clone(), broken.id.clone()];
    user.delete_server(&targets[0]).await;
    admin.break_server(&targets[1]).await;
    let seen = bed.observe(allocation).await;
    assert_eq!(
        seen.inventory.vnfc_resource_info.len(),
        2,
        "observe returns what remains"
    );
    assert_eq!(seen.handle, allocated.handle);
    // Only the one in ERROR is requested: the missing one is recreated with it.
    let healed = bed
        .heal(allocation, &allocated, &targets[1..])
        .await
        .unwrap();
    assert_replaced(&allocated, &healed, &targets);
    healed
}

/// Drops a heal at several moments and resumes it: each server gets one successor, and nothing else changes.
pub(crate) async fn interrupted_and_resumed(
    bed: &TestBed,
    user: &CloudUser,
    allocation: &Allocation,
    allocated: Recorded,
) -> Recorded {
    let mut current = allocated;
    for moment in ["Nova to delete", "to replace", "UPDATE_IN_PROGRESS"] {
        let targets = [nth(&current, "workerNode", 0).id.clone()];
        bed.watcher.clear();
        tokio::select! {
            healed = bed.heal(allocation, &current, &targets) => {
                // A server that is deleted at once leaves no such moment.
                assert_eq!(moment, "Nova to delete", "the heal ended before it could be interrupted: {healed:?}");
            }
            () = bed.watcher.wait_for(moment) => {}
        }
        let healed = bed.heal(allocation, &current, &targets).await.unwrap();
        assert_replaced(&current, &healed, &targets);
        assert!(!user.has_server(&targets[0]).await);
        current = healed;
    }
    current
}
