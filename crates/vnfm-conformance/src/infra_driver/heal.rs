//! Rules of healing.

use super::Stand;
use super::interrupted::places;
use super::place::{Place, things, vnfcs};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::Allocated;

type Shared = Arc<dyn Stand>;

/// The VNFC that is healed: the first.
fn first(made: &Allocated) -> String {
    made.inventory.vnfc_resource_info[0].id.clone()
}

/// The one that was named has successors of other ids; the others are what they were.
fn replaced(before: &Allocated, after: &Allocated, named: &str) {
    let (old, new) = (vnfcs(before), vnfcs(after));
    assert_eq!(old.len(), new.len(), "{new:?} for {old:?}");
    let is_named = |(id, _): &&(String, String)| id == named;
    let others: BTreeSet<_> = old.iter().filter(|one| !is_named(one)).cloned().collect();
    assert!(
        others.is_subset(&new),
        "{:?} was not to be replaced",
        others.difference(&new)
    );
    assert!(
        new.iter().all(|(id, _)| id != named),
        "`{named}` keeps the id of what is gone"
    );
}

pub(super) async fn a_heal_replaces_what_it_names_alone(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let made = place.made().await.unwrap();
    let healed = place.healed(&made, vec![first(&made)]).await.unwrap();
    replaced(&made, &healed, &first(&made));
    assert_eq!(
        vnfcs(&place.seen(&healed.handle).await.unwrap()),
        vnfcs(&healed)
    );
    place.released(healed.handle).await.unwrap();
    place.is_gone(&before).await;
}

pub(super) async fn a_heal_that_is_repeated_replaces_nothing_more(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let made = place.made().await.unwrap();
    let once = place.healed(&made, vec![first(&made)]).await.unwrap();
    let there = things(&stand).await;
    let twice = place.healed(&made, vec![first(&made)]).await.unwrap();
    assert_eq!(vnfcs(&twice), vnfcs(&once));
    assert_eq!(things(&stand).await, there);
    place.released(twice.handle).await.unwrap();
    place.is_gone(&before).await;
}

pub(super) async fn a_heal_that_was_interrupted_goes_on(stand: Shared) {
    let before = things(&stand).await;
    let place = Place::new(&stand);
    let made = place.made().await.unwrap();
    let begun = place.vim.turns.load(SeqCst);
    let healed = place.healed(&made, vec![first(&made)]).await.unwrap();
    let calls = place.vim.turns.load(SeqCst) - begun;
    place.released(healed.handle).await.unwrap();
    for number in places(&stand, calls) {
        let place = Place::new(&stand);
        let made = place.made().await.unwrap();
        place
            .cut_off(number, place.healed(&made, vec![first(&made)]))
            .await;
        let healed = place.healed(&made, vec![first(&made)]).await;
        let healed = healed.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        replaced(&made, &healed, &first(&made));
        place.released(healed.handle).await.unwrap();
        place.is_gone(&before).await;
    }
}
