//! Zones chosen instead of granted ones, on a cloud, simulated or real: another flavour or package keeps them.

use crate::support::TestBed;
use serde_json::Value;
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver, Recorded, ResourceAction, ResourceChange,
};

/// Id and zone of each VNFC.
pub(crate) fn places(recorded: &Recorded) -> Vec<(&str, &str)> {
    let vnfcs = recorded.inventory.vnfc_resource_info.iter();
    vnfcs
        .map(|vnfc| {
            let zone = vnfc.metadata["zone"].as_str();
            (vnfc.id.as_str(), zone.unwrap_or_default())
        })
        .collect()
}

/// The instance `created` is of `before`, of which it has `resolved`, and `target` is another deployment of the same servers, and more
/// of them. Those that exist stay in their zones, also in a plan, in a repetition, after a failure, and in a rollback. Returns
/// the instance as it was.
pub(crate) async fn servers_stay_where_they_are(
    bed: &TestBed,
    (created, before): (&Recorded, &Allocation),
    target: &Allocation,
) -> Recorded {
    assert!(target.deployment.resolved.is_null());
    let there = Convergence::update(created, target).coming_from(before);
    let planned = ResourceChange::Converge(&there);
    let plan = bed.driver.plan(&bed.call(), &planned).await.unwrap();
    let goes = |action| matches!(action, ResourceAction::Replace | ResourceAction::Delete);
    let removed: Vec<_> = plan
        .resources
        .iter()
        .filter(|one| goes(one.action))
        .collect();
    assert!(removed.is_empty(), "{removed:#?}");

    let preview = bed.driver.preview(&bed.call(), &there).await.unwrap();
    let changed = bed.driver.converge(&bed.call(), &there, &preview).await;
    let changed = changed.unwrap();
    assert_all_among(&places(created), &places(&changed));
    let changed = bed.driver.converge(&bed.call(), &there, &preview).await;
    let changed = changed.unwrap();
    assert_all_among(&places(created), &places(&changed));

    // Of a change that failed, the record has no `resolved`.
    let observed = bed
        .driver
        .observe(&bed.call(), target, &created.handle)
        .await;
    let observed = observed.unwrap();
    assert_eq!(observed.resolved["zones"], changed.resolved["zones"]);
    let repaired = bed.heal(target, &changed, &[]).await.unwrap();
    assert_eq!(places(&repaired), places(&changed));

    let undo = Convergence::update(created, before).coming_from(target);
    let undone = bed.driver.converge(&bed.call(), &undo, &Value::Null).await;
    let undone = undone.unwrap();
    assert_eq!(places(&undone), places(created));
    undone
}

fn assert_all_among(few: &[(&str, &str)], many: &[(&str, &str)]) {
    assert!(few.iter().all(|one| many.contains(one)), "{few:?} {many:?}");
}

/// The same instance in another package of the same contents, whose record does not know what it was made of.
pub(crate) fn in_another_package(allocation: &Allocation) -> Allocation {
    let mut other = allocation.clone();
    let deployment = Arc::make_mut(&mut other.deployment);
    deployment.vnf_pkg_id = "other".into();
    deployment.resolved = Value::Null;
    other
}

/// The same instance, which knows what it was made of.
pub(crate) fn made_of(allocation: &Allocation, resolved: &Value) -> Allocation {
    let mut known = allocation.clone();
    Arc::make_mut(&mut known.deployment).resolved = resolved.clone();
    known
}
