//! Rules about another number of VNFCs.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{Allocation, Convergence, PortError, Recorded};

type Shared = Arc<dyn TestBed>;

/// VNFCs by id, each with its resource and its addresses.
fn members(recorded: &Recorded) -> BTreeSet<String> {
    let all = recorded.inventory.vnfc_resource_info.iter();
    let member = |vnfc: &vnfm_types::VnfcResourceInfo| {
        let cps = vnfc.vnfc_cp_info.iter();
        let cps: Vec<_> = cps.map(|cp| (&cp.id, &cp.cp_protocol_info)).collect();
        let resource = &vnfc.compute_resource.resource_id;
        format!("{} {} {resource} {cps:?}", vnfc.vdu_id, vnfc.id)
    };
    all.map(member).collect()
}

/// An instance that has the smaller of two sizes.
struct Resized {
    instance: TestInstance,
    small: Allocation,
    large: Allocation,
    /// What was recorded of it in that size.
    record: Recorded,
}

impl Resized {
    async fn new(stand: &Shared, [small, large]: [Allocation; 2]) -> Self {
        let instance = TestInstance::new(stand);
        let created = instance.converged(&Convergence::create(&small)).await;
        Self {
            instance,
            small,
            large,
            record: created.unwrap(),
        }
    }

    async fn grow(&self) -> Result<Recorded, PortError> {
        let change = Convergence::update(&self.record, &self.large);
        self.instance.converged(&change).await
    }

    /// Checks that `grown` has the same VNFCs and one more.
    fn check_grown(&self, grown: &Recorded) {
        let (few, many) = (members(&self.record), members(grown));
        let added = many.difference(&few).count();
        assert!(few.is_subset(&many), "{many:#?} should contain {few:#?}");
        assert_eq!(added, 1, "{many:#?} for {few:#?}");
    }

    async fn release(self, now: Recorded, before: &BTreeSet<String>) {
        let released = self.instance.released(&self.small, now.handle).await;
        released.unwrap();
        self.instance.check_released(before).await;
    }
}

/// Ids of the VNFCs in the order of the inventory, those of a VDU together.
fn in_order(recorded: &Recorded) -> Vec<&str> {
    let all = recorded.inventory.vnfc_resource_info.iter();
    all.map(|vnfc| vnfc.id.as_str()).collect()
}

/// Checks that `few` are the first VNFCs of each VDU of `many`: the engine announces that the last ones go.
fn check_last_are_removed(many: &Recorded, few: &Recorded) {
    let vdus = many.inventory.vnfc_resource_info.iter();
    let vdus: BTreeSet<_> = vdus.map(|vnfc| &vnfc.vdu_id).collect();
    for vdu in vdus {
        let of_vdu = |recorded: &Recorded| {
            let mut part = recorded.clone();
            part.inventory
                .vnfc_resource_info
                .retain(|vnfc| &vnfc.vdu_id == vdu);
            part
        };
        let (many, few) = (of_vdu(many), of_vdu(few));
        let (many, few) = (in_order(&many), in_order(&few));
        assert_eq!(many[..few.len()], few[..], "the last ones of `{vdu}` go");
    }
}

pub(super) async fn a_change_of_size_keeps_the_other_vnfcs(stand: Shared) {
    let Some(sizes) = stand.sizes() else {
        return;
    };
    let before = resources_on_vim(&stand).await;
    let it = Resized::new(&stand, sizes).await;
    let at_first = resources_on_vim(&stand).await;
    let grown = it.grow().await.unwrap();
    it.check_grown(&grown);
    let existing = resources_on_vim(&stand).await;
    let again = it.grow().await.unwrap();
    assert_eq!(members(&again), members(&grown), "a repeated call");
    assert_eq!(resources_on_vim(&stand).await, existing, "a repeated call");
    let change = Convergence::update(&grown, &it.small);
    let shrunk = it.instance.converged(&change).await.unwrap();
    let (many, few) = (members(&grown), members(&shrunk));
    assert!(few.is_subset(&many), "{few:#?} should be among {many:#?}");
    assert_eq!(few.len(), members(&it.record).len(), "{few:#?}");
    if stand.removes_last_vnfcs() {
        check_last_are_removed(&grown, &shrunk);
    }
    let existing = resources_on_vim(&stand).await;
    assert_eq!(existing.len(), at_first.len(), "{existing:#?}");
    it.release(shrunk, &before).await;
}

/// The points at which to interrupt a change of size.
async fn points(stand: &Shared, sizes: [Allocation; 2]) -> impl Iterator<Item = usize> {
    let before = resources_on_vim(stand).await;
    let it = Resized::new(stand, sizes).await;
    let begun = it.instance.vim.turns.load(SeqCst);
    let grown = it.grow().await.unwrap();
    let calls = it.instance.vim.turns.load(SeqCst) - begun;
    it.release(grown, &before).await;
    interruption_points(stand, calls)
}

pub(super) async fn an_interrupted_change_of_size_is_completed(stand: Shared) {
    let Some(sizes) = stand.sizes() else {
        return;
    };
    let before = resources_on_vim(&stand).await;
    for number in points(&stand, sizes.clone()).await {
        let it = Resized::new(&stand, sizes.clone()).await;
        it.instance.interrupt_at(number, it.grow()).await;
        let grown = it.grow().await;
        let grown = grown.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        it.check_grown(&grown);
        it.release(grown, &before).await;
    }
}

pub(super) async fn an_interrupted_change_of_size_is_reversed(stand: Shared) {
    let Some(sizes) = stand.sizes() else {
        return;
    };
    let before = resources_on_vim(&stand).await;
    for number in points(&stand, sizes.clone()).await {
        let it = Resized::new(&stand, sizes.clone()).await;
        let at_first = resources_on_vim(&stand).await;
        it.instance.interrupt_at(number, it.grow()).await;
        let change = Convergence::update(&it.record, &it.small);
        let reversed = it.instance.converged(&change).await;
        let reversed = reversed.unwrap_or_else(|error| panic!("cut off at call {number}: {error}"));
        assert_eq!(members(&reversed), members(&it.record), "at call {number}");
        assert_eq!(resources_on_vim(&stand).await, at_first, "at call {number}");
        it.release(reversed, &before).await;
    }
}
