//! Rules of calls that ended on their way: the process died, or nobody wanted them any more.

use super::Stand;
use super::place::{Place, things, vnfcs};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

type Shared = Arc<dyn Stand>;

/// Numbers of calls, of `all`, at which work is cut off: as many as the stand says, evenly.
pub(super) fn places(stand: &Shared, all: usize) -> impl Iterator<Item = usize> + use<> {
    let step = all.div_ceil(stand.places().max(1)).max(1);
    (1..=all).step_by(step)
}

/// How many calls one allocation makes, and one release.
async fn counted(stand: &Shared) -> (usize, usize) {
    let place = Place::new(stand);
    let made = place.made().await.unwrap();
    let making = place.vim.turns.load(SeqCst);
    place.released(made.handle).await.unwrap();
    (making, place.vim.turns.load(SeqCst) - making)
}

pub(super) async fn an_allocation_that_was_interrupted_is_adopted(stand: Shared) {
    let before = things(&stand).await;
    for number in places(&stand, counted(&stand).await.0) {
        let place = Place::new(&stand);
        place.cut_off(number, place.made()).await;
        let made = place
            .made()
            .await
            .unwrap_or_else(|error| panic!("at call {number}: {error}"));
        let there = things(&stand).await;
        let again = place.made().await.unwrap();
        assert_eq!(vnfcs(&again), vnfcs(&made), "cut off at call {number}");
        assert_eq!(things(&stand).await, there, "cut off at call {number}");
        place.released(again.handle).await.unwrap();
        place.is_gone(&before).await;
    }
}

pub(super) async fn what_was_half_made_is_released_without_a_handle(stand: Shared) {
    let before = things(&stand).await;
    for number in places(&stand, counted(&stand).await.0) {
        let place = Place::new(&stand);
        place.cut_off(number, place.made()).await;
        let released = place.released(Value::Null).await;
        released.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        place.is_gone(&before).await;
    }
}

pub(super) async fn a_release_that_was_interrupted_goes_on(stand: Shared) {
    let before = things(&stand).await;
    for number in places(&stand, counted(&stand).await.1) {
        let place = Place::new(&stand);
        let made = place.made().await.unwrap();
        place
            .cut_off(number, place.released(made.handle.clone()))
            .await;
        let released = place.released(made.handle).await;
        released.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        place.is_gone(&before).await;
    }
}
