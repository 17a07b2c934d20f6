//! Rules about a change to another VNF package.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{
    Allocation, Convergence, PlannedResource, PortError, Recorded, ResourceAction, ResourceChange,
    Rolling,
};

type Shared = Arc<dyn TestBed>;

/// An instance of the first of two releases.
struct Upgraded {
    instance: TestInstance,
    old: Allocation,
    new: Allocation,
    /// What was recorded of it in the first release.
    record: Recorded,
}

/// The allocation with what the driver has found for it, as the engine keeps it.
fn resolved(what: &Allocation, now: &Recorded) -> Allocation {
    let mut what = what.clone();
    Arc::make_mut(&mut what.deployment).resolved = now.resolved.clone();
    what
}

/// Numbers of VNFCs by VDU, and of all resources that are theirs.
fn size(recorded: &Recorded) -> Vec<String> {
    let all = recorded.inventory.vnfc_resource_info.iter();
    let mut vdus: Vec<_> = all.map(|vnfc| vnfc.vdu_id.clone()).collect();
    vdus.sort();
    vdus
}

impl Upgraded {
    async fn new(stand: &Shared, [old, new]: [Allocation; 2]) -> Self {
        let instance = TestInstance::new(stand);
        let created = instance.converged(&Convergence::create(&old)).await;
        let record = created.unwrap();
        Self {
            instance,
            old: resolved(&old, &record),
            new,
            record,
        }
    }

    async fn upgrade(&self) -> Result<Recorded, PortError> {
        self.change((&self.record, &self.old), &self.new).await
    }

    /// From the record to the target, in batches of one.
    async fn change(
        &self,
        (record, other): (&Recorded, &Allocation),
        target: &Allocation,
    ) -> Result<Recorded, PortError> {
        let change = Convergence::update(record, target).coming_from(other);
        let change = change.rolling(Some(Rolling::default()));
        self.instance.converged(&change).await
    }

    /// Checks that nothing is left to do for `target`.
    async fn check_is(&self, now: &Recorded, target: &Allocation, case: &str) {
        assert_eq!(size(now), size(&self.record), "{case}");
        let target = resolved(target, now);
        let change = Convergence::update(now, &target);
        let planned = ResourceChange::Converge(&change);
        let plan = self.instance.planned(&planned).await.unwrap();
        let differs = |one: &&PlannedResource| one.action != ResourceAction::Keep;
        let left: Vec<_> = plan.resources.iter().filter(differs).collect();
        assert!(left.is_empty(), "{case}: {left:#?}");
    }

    /// Releases an instance that has become what `what` says.
    async fn release(self, (now, what): (Recorded, Allocation), before: &BTreeSet<String>) {
        let released = self.instance.released(&what, now.handle).await;
        released.unwrap();
        self.instance.check_released(before).await;
    }
}

pub(super) async fn a_change_of_package_changes_what_differs_and_back(stand: Shared) {
    let Some(releases) = stand.releases() else {
        return;
    };
    let before = resources_on_vim(&stand).await;
    let it = Upgraded::new(&stand, releases).await;
    let change = Convergence::update(&it.record, &it.new).coming_from(&it.old);
    let planned = ResourceChange::Converge(&change);
    let plan = it.instance.planned(&planned).await.unwrap();
    assert!(plan.changes(), "{plan:#?}");
    let upgraded = it.upgrade().await.unwrap();
    it.check_is(&upgraded, &it.new, "upgraded").await;
    let new = resolved(&it.new, &upgraded);
    let existing = resources_on_vim(&stand).await;
    let again = it.change((&upgraded, &it.old), &new).await.unwrap();
    assert_eq!(
        again.inventory.vnfc_resource_info, upgraded.inventory.vnfc_resource_info,
        "a repeated call"
    );
    assert_eq!(resources_on_vim(&stand).await, existing, "a repeated call");
    let back = it.change((&upgraded, &new), &it.old).await.unwrap();
    it.check_is(&back, &it.old, "back").await;
    let old = it.old.clone();
    it.release((back, old), &before).await;
}

/// The points at which to interrupt a change of package.
async fn points(stand: &Shared, releases: [Allocation; 2]) -> impl Iterator<Item = usize> {
    let before = resources_on_vim(stand).await;
    let it = Upgraded::new(stand, releases).await;
    let begun = it.instance.vim.turns.load(SeqCst);
    let upgraded = it.upgrade().await.unwrap();
    let calls = it.instance.vim.turns.load(SeqCst) - begun;
    let new = it.new.clone();
    it.release((upgraded, new), &before).await;
    interruption_points(stand, calls)
}

pub(super) async fn an_interrupted_change_of_package_is_completed(stand: Shared) {
    let Some(releases) = stand.releases() else {
        return;
    };
    let before = resources_on_vim(&stand).await;
    for number in points(&stand, releases.clone()).await {
        let it = Upgraded::new(&stand, releases.clone()).await;
        it.instance.interrupt_at(number, it.upgrade()).await;
        let upgraded = it.upgrade().await;
        let case = format!("cut off at call {number}");
        let upgraded = upgraded.unwrap_or_else(|error| panic!("{case}: {error}"));
        it.check_is(&upgraded, &it.new, &case).await;
        let new = it.new.clone();
        it.release((upgraded, new), &before).await;
    }
}

pub(super) async fn an_interrupted_change_of_package_is_reversed(stand: Shared) {
    let Some(releases) = stand.releases() else {
        return;
    };
    let before = resources_on_vim(&stand).await;
    for number in points(&stand, releases.clone()).await {
        let it = Upgraded::new(&stand, releases.clone()).await;
        it.instance.interrupt_at(number, it.upgrade()).await;
        let reversed = it.change((&it.record, &it.new), &it.old).await;
        let case = format!("cut off at call {number}");
        let reversed = reversed.unwrap_or_else(|error| panic!("{case}: {error}"));
        it.check_is(&reversed, &it.old, &case).await;
        let old = it.old.clone();
        it.release((reversed, old), &before).await;
    }
}
