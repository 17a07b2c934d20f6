//! Rules about replacing VNFCs, as a heal does.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim, vnfcs};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::Recorded;

type Shared = Arc<dyn TestBed>;

/// The VNFC to heal: the first one.
fn first(created: &Recorded) -> String {
    created.inventory.vnfc_resource_info[0].id.clone()
}

/// Checks that the named VNFC has a successor with another id, and that the others are unchanged.
fn check_replaced(before: &Recorded, after: &Recorded, named: &str) {
    let (old, new) = (vnfcs(before), vnfcs(after));
    assert_eq!(old.len(), new.len(), "{new:?} for {old:?}");
    let is_named = |(id, _): &&(String, String)| id == named;
    let others: BTreeSet<_> = old.iter().filter(|one| !is_named(one)).cloned().collect();
    assert!(
        others.is_subset(&new),
        "{:?} should not have been replaced",
        others.difference(&new)
    );
    assert!(
        new.iter().all(|(id, _)| id != named),
        "the successor has the id of the replaced `{named}`"
    );
}

pub(super) async fn only_the_named_vnfcs_are_replaced(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let created = instance.created().await.unwrap();
    let healed = instance
        .replaced(&created, vec![first(&created)])
        .await
        .unwrap();
    check_replaced(&created, &healed, &first(&created));
    assert_eq!(
        vnfcs(&instance.observed(&healed.handle).await.unwrap()),
        vnfcs(&healed)
    );
    instance.release(healed.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn a_repeated_replacement_replaces_nothing_more(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let created = instance.created().await.unwrap();
    let once = instance
        .replaced(&created, vec![first(&created)])
        .await
        .unwrap();
    let existing = resources_on_vim(&stand).await;
    let twice = instance
        .replaced(&created, vec![first(&created)])
        .await
        .unwrap();
    assert_eq!(vnfcs(&twice), vnfcs(&once));
    assert_eq!(resources_on_vim(&stand).await, existing);
    instance.release(twice.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn an_interrupted_replacement_is_completed(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    let instance = TestInstance::new(&stand);
    let created = instance.created().await.unwrap();
    let begun = instance.vim.turns.load(SeqCst);
    let healed = instance
        .replaced(&created, vec![first(&created)])
        .await
        .unwrap();
    let calls = instance.vim.turns.load(SeqCst) - begun;
    instance.release(healed.handle).await.unwrap();
    for number in interruption_points(&stand, calls) {
        let instance = TestInstance::new(&stand);
        let created = instance.created().await.unwrap();
        instance
            .interrupt_at(number, instance.replaced(&created, vec![first(&created)]))
            .await;
        let healed = instance.replaced(&created, vec![first(&created)]).await;
        let healed = healed.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        check_replaced(&created, &healed, &first(&created));
        instance.release(healed.handle).await.unwrap();
        instance.check_released(&before).await;
    }
}
