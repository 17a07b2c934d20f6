//! Rules about calls that were interrupted: the process died, or the call was dropped.

use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim, vnfcs};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

type Shared = Arc<dyn TestBed>;

/// The numbers of the calls, out of `all`, at which to interrupt: evenly spread, as many as the stand allows.
pub(super) fn interruption_points(
    stand: &Shared,
    all: usize,
) -> impl Iterator<Item = usize> + use<> {
    let step = all.div_ceil(stand.max_interruptions().max(1)).max(1);
    (1..=all).step_by(step)
}

/// Number of VIM calls of one creation, and of one release.
async fn count_calls(stand: &Shared) -> (usize, usize) {
    let instance = TestInstance::new(stand);
    let created = instance.created().await.unwrap();
    let lifecycle = instance.vim.turns.load(SeqCst);
    instance.release(created.handle).await.unwrap();
    (lifecycle, instance.vim.turns.load(SeqCst) - lifecycle)
}

pub(super) async fn an_interrupted_creation_is_adopted(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    for number in interruption_points(&stand, count_calls(&stand).await.0) {
        let instance = TestInstance::new(&stand);
        instance.interrupt_at(number, instance.created()).await;
        let created = instance
            .created()
            .await
            .unwrap_or_else(|error| panic!("at call {number}: {error}"));
        let existing = resources_on_vim(&stand).await;
        let again = instance.created().await.unwrap();
        assert_eq!(vnfcs(&again), vnfcs(&created), "cut off at call {number}");
        assert_eq!(
            resources_on_vim(&stand).await,
            existing,
            "cut off at call {number}"
        );
        instance.release(again.handle).await.unwrap();
        instance.check_released(&before).await;
    }
}

pub(super) async fn a_partial_creation_is_released_without_a_handle(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    for number in interruption_points(&stand, count_calls(&stand).await.0) {
        let instance = TestInstance::new(&stand);
        instance.interrupt_at(number, instance.created()).await;
        let released = instance.release(Value::Null).await;
        released.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        instance.check_released(&before).await;
    }
}

pub(super) async fn an_interrupted_release_is_completed(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    for number in interruption_points(&stand, count_calls(&stand).await.1) {
        let instance = TestInstance::new(&stand);
        let created = instance.created().await.unwrap();
        instance
            .interrupt_at(number, instance.release(created.handle.clone()))
            .await;
        let released = instance.release(created.handle).await;
        released.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        instance.check_released(&before).await;
    }
}
