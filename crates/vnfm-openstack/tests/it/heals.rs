//! What must hold of a heal on every cloud, simulated or real: what is meant is replaced, all else keeps its ids.

use crate::hands::Hands;
use crate::support::Place;
use std::collections::BTreeMap;
use vnfm_core::ports::{Allocated, Allocation};
use vnfm_types::VnfcResourceInfo;

/// The VNFC of a VDU with this index.
pub(crate) fn nth<'a>(made: &'a Allocated, vdu: &str, index: usize) -> &'a VnfcResourceInfo {
    let mut all = made
        .inventory
        .vnfc_resource_info
        .iter()
        .filter(|vnfc| vnfc.vdu_id == vdu);
    all.nth(index).unwrap()
}

/// Every VNFC's ports with their addresses, by port: what stays when a server is replaced.
fn ports(made: &Allocated) -> BTreeMap<String, String> {
    let cps = made
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

/// Exactly the VNFCs with these ids have others now; everything else is as it was.
pub(crate) fn replaced_are(before: &Allocated, after: &Allocated, meant: &[String]) {
    let (old, new) = (
        &before.inventory.vnfc_resource_info,
        &after.inventory.vnfc_resource_info,
    );
    assert_eq!(old.len(), new.len());
    let stays = |vnfc: &&VnfcResourceInfo| !meant.contains(&vnfc.id);
    let kept: Vec<_> = old.iter().filter(stays).collect();
    let found: Vec<_> = new
        .iter()
        .filter(|vnfc| old.iter().any(|was| was.id == vnfc.id))
        .collect();
    assert_eq!(
        kept, found,
        "who was not meant is as before, to the last member"
    );
    assert_eq!(found.len(), old.len() - meant.len());
    let vdus = |all: &[VnfcResourceInfo]| -> Vec<String> {
        all.iter().map(|vnfc| vnfc.vdu_id.clone()).collect()
    };
    assert_eq!(vdus(old), vdus(new));
    assert_eq!(ports(before), ports(after), "ports and addresses stay");
    assert_eq!(before.handle, after.handle, "the stack stays");
    let networks = |made: &Allocated| -> Vec<String> {
        let links = &made.inventory.vnf_virtual_link_resource_info;
        links.iter().map(|link| link.id.clone()).collect()
    };
    assert_eq!(networks(before), networks(after));
}

/// The stack carries both tags, the operation's as it is now, and works.
async fn is_tagged(place: &Place, hands: &Hands, made: &Allocated) {
    let id = made.handle["stackId"].as_str().unwrap();
    let (mut tags, status) = hands.stack(&place.stack_name(), id).await;
    tags.sort();
    let mut expected = vec![
        format!("vnfm-{}", place.ownership.installation_id),
        format!("vnfm-op-{}", place.ownership.op_id),
    ];
    expected.sort();
    assert_eq!(tags, expected);
    assert!(status.ends_with("_COMPLETE"), "{status}");
}

/// What was made goes, and nothing of it is left.
pub(crate) async fn released(place: &Place, what: &Allocation, made: Allocated) {
    place.release(what, made.handle).await.unwrap();
    assert!(place.owned().await.is_empty());
}

/// One worker of two is replaced; the same request again finds nothing left to do. Then all three are replaced.
pub(crate) async fn one_of_several_then_all(
    place: &mut Place,
    hands: &Hands,
    what: &Allocation,
    made: Allocated,
) -> Allocated {
    assert_eq!(
        place.observe(what).await,
        made,
        "an observer sees what was made"
    );
    let meant = [nth(&made, "workerNode", 1).id.clone()];
    place.ownership.op_id = uuid::Uuid::new_v4().to_string();
    let healed = place.heal(what, &made, &meant).await.unwrap();
    replaced_are(&made, &healed, &meant);
    is_tagged(place, hands, &healed).await;
    assert!(!hands.has_server(&meant[0]).await);
    let again = place.heal(what, &made, &meant).await.unwrap();
    assert_eq!(again, healed, "who was replaced is not replaced again");
    let all: Vec<String> = healed
        .inventory
        .vnfc_resource_info
        .iter()
        .map(|vnfc| vnfc.id.clone())
        .collect();
    let renewed = place.heal(what, &healed, &all).await.unwrap();
    replaced_are(&healed, &renewed, &all);
    renewed
}

/// A worker that somebody deleted and a master in ERROR: both come back, the other worker stays.
pub(crate) async fn gone_and_in_error(
    place: &Place,
    (hands, admin): (&Hands, &Hands),
    what: &Allocation,
    made: Allocated,
) -> Allocated {
    let [gone, broken] = [nth(&made, "workerNode", 0), nth(&made, "masterNode", 0)];
    let meant = [gone.id.clone(), broken.id.clone()];
    hands.delete_server(&meant[0]).await;
    admin.break_server(&meant[1]).await;
    let seen = place.observe(what).await;
    assert_eq!(
        seen.inventory.vnfc_resource_info.len(),
        2,
        "an observer sees what is left"
    );
    assert_eq!(seen.handle, made.handle);
    // Only the one in ERROR is named: the other one is missing, and comes back with it.
    let healed = place.heal(what, &made, &meant[1..]).await.unwrap();
    replaced_are(&made, &healed, &meant);
    healed
}

/// A heal that is dropped in its middle is gone on with: one successor each, and nothing else touched.
pub(crate) async fn interrupted_and_gone_on_with(
    place: &Place,
    hands: &Hands,
    what: &Allocation,
    made: Allocated,
) -> Allocated {
    let mut shown = made;
    for moment in ["Nova to delete", "to replace", "UPDATE_IN_PROGRESS"] {
        let meant = [nth(&shown, "workerNode", 0).id.clone()];
        place.ear.forget();
        tokio::select! {
            healed = place.heal(what, &shown, &meant) => {
                // A server that is gone at once leaves no such moment.
                assert_eq!(moment, "Nova to delete", "faster than it could be seen: {healed:?}");
            }
            () = place.ear.hears(moment) => {}
        }
        let healed = place.heal(what, &shown, &meant).await.unwrap();
        replaced_are(&shown, &healed, &meant);
        assert!(!hands.has_server(&meant[0]).await);
        shown = healed;
    }
    shown
}
