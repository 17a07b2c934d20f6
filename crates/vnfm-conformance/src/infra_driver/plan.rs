//! Rules about plans: they change nothing, and what they say happens.

use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{
    Convergence, Recorded, Release, Replacement, ResourceAction, ResourceChange, ResourcePlan,
};

type Shared = Arc<dyn TestBed>;

pub(super) async fn a_plan_changes_nothing(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let what = stand.what();
    let create = Convergence::create(&what);
    let create = ResourceChange::Converge(&create);
    let turns = instance.vim.turns.load(SeqCst);
    let plan = instance.planned(&create).await.unwrap();
    assert!(plan.changes(), "{plan:#?}");
    let queried = instance.vim.turns.load(SeqCst) > turns;
    assert!(
        queried || plan.resources.is_empty(),
        "it did not ask the VIM, or without a slot"
    );
    assert_eq!(resources_on_vim(&stand).await, before);
    let created = instance.created().await.unwrap();
    let existing = resources_on_vim(&stand).await;
    let release = release_of(&created);
    let change = ResourceChange::Release {
        what: &what,
        current: &created,
        how: &release,
    };
    let plan = instance.planned(&change).await.unwrap();
    assert!(plan.changes(), "{plan:#?}");
    let replace = first_of(&created);
    let change = Convergence::update(&created, &what).replacing(replace);
    let change = ResourceChange::Converge(&change);
    instance.planned(&change).await.unwrap();
    assert_eq!(resources_on_vim(&stand).await, existing);
    instance.release(created.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn a_plan_of_what_exists_keeps_everything(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let created = instance.created().await.unwrap();
    let existing = resources_on_vim(&stand).await;
    let what = stand.what();
    let change = Convergence::update(&created, &what);
    let planned = ResourceChange::Converge(&change);
    let plan = instance.planned(&planned).await.unwrap();
    let changed = plan.resources.iter();
    let changed: Vec<_> = changed
        .filter(|one| one.action != ResourceAction::Keep)
        .collect();
    assert!(changed.is_empty(), "nothing differs: {changed:#?}");
    let again = instance.converged(&change).await.unwrap();
    check(&plan, &created, &again);
    assert_eq!(resources_on_vim(&stand).await, existing);
    instance.release(again.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn what_a_plan_says_happens(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let what = stand.what();
    let create = Convergence::create(&what);
    let planned = ResourceChange::Converge(&create);
    let plan = instance.planned(&planned).await.unwrap();
    let created = instance.created().await.unwrap();
    check(&plan, &Recorded::default(), &created);
    let replace = first_of(&created);
    let change = Convergence::update(&created, &what).replacing(replace.clone());
    let planned = ResourceChange::Converge(&change);
    let plan = instance.planned(&planned).await.unwrap();
    let healed = instance.replaced(&created, replace.vnfcs).await.unwrap();
    check(&plan, &created, &healed);
    let release = release_of(&healed);
    let change = ResourceChange::Release {
        what: &what,
        current: &healed,
        how: &release,
    };
    let plan = instance.planned(&change).await.unwrap();
    instance.release(healed.handle.clone()).await.unwrap();
    check(&plan, &healed, &Recorded::default());
    instance.check_released(&before).await;
    let plan = instance.planned(&change).await.unwrap();
    assert_eq!(plan.resources, [], "a release of nothing");
}

pub(super) async fn what_a_plan_says_of_another_size_happens(stand: Shared) {
    let Some([small, large]) = stand.sizes() else {
        return;
    };
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let mut now = instance.converged(&Convergence::create(&small)).await;
    for size in [&large, &small] {
        let current = now.unwrap();
        let change = Convergence::update(&current, size);
        let planned = ResourceChange::Converge(&change);
        let plan = instance.planned(&planned).await.unwrap();
        assert!(plan.changes(), "{plan:#?}");
        now = instance.converged(&change).await;
        check(&plan, &current, now.as_ref().unwrap());
    }
    let released = instance.released(&small, now.unwrap().handle).await;
    released.unwrap();
    instance.check_released(&before).await;
}

fn release_of(created: &Recorded) -> Release {
    Release {
        handle: created.handle.clone(),
        grace_seconds: Some(0),
        retained: Vec::new(),
    }
}

/// The first VNFC of the inventory, to be replaced.
fn first_of(created: &Recorded) -> Replacement {
    Replacement {
        vnfcs: vec![created.inventory.vnfc_resource_info[0].id.clone()],
        with_storage: false,
    }
}

/// VNFCs by id, with their VDU.
fn vnfcs(recorded: &Recorded) -> BTreeMap<String, String> {
    let all = recorded.inventory.vnfc_resource_info.iter();
    all.map(|vnfc| (vnfc.id.clone(), vnfc.vdu_id.clone()))
        .collect()
}

/// The number of VNFCs of each VDU.
fn count<'a>(vdus: impl Iterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for vdu in vdus {
        *counts.entry(vdu.clone()).or_default() += 1;
    }
    counts
}

/// Checks that the VNFCs which went, stayed and came are those of the plan. A plan that leaves something open must be right
/// about the rest.
fn check(plan: &ResourcePlan, before: &Recorded, after: &Recorded) {
    use ResourceAction::{Create, Delete, Keep, Replace, Update};
    let (old, new) = (vnfcs(before), vnfcs(after));
    let rows = |actions: &'static [ResourceAction]| {
        let all = plan.resources.iter();
        all.filter(|one| one.vdu.is_some() && actions.contains(&one.action))
    };
    let ids = |actions| -> BTreeSet<String> {
        rows(actions).filter_map(|one| one.vnfc.clone()).collect()
    };
    let deleted: BTreeSet<_> = old.keys().filter(|id| !new.contains_key(*id)).collect();
    let planned = ids(&[Delete, Replace]);
    let wrong: Vec<_> = planned.iter().filter(|id| !deleted.contains(id)).collect();
    assert!(wrong.is_empty(), "{wrong:?} should have deleted: {plan:#?}");
    let kept = ids(&[Keep, Update]);
    let wrong: Vec<_> = kept.iter().filter(|id| !new.contains_key(*id)).collect();
    assert!(wrong.is_empty(), "{wrong:?} should have stayed: {plan:#?}");
    if plan.unknown.is_empty() {
        assert_eq!(planned.len(), deleted.len(), "{deleted:?} went: {plan:#?}");
        assert_eq!(planned.len() + kept.len(), old.len(), "{old:?}: {plan:#?}");
        let came = new.iter().filter(|(id, _)| !old.contains_key(*id));
        let planned = rows(&[Create, Replace]).filter_map(|one| one.vdu.as_ref());
        assert_eq!(count(planned), count(came.map(|(_, vdu)| vdu)), "{plan:#?}");
    }
}
