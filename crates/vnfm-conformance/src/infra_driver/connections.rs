//! Rules about a change of external virtual links.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{Allocation, Convergence, PortError, Recorded};

type Shared = Arc<dyn TestBed>;

/// An instance with one of two sets of links.
struct Connected {
    instance: TestInstance,
    targets: [Allocation; 2],
    /// What was recorded of it with the first links.
    record: Recorded,
}

/// The links with their networks and numbers of ports.
fn connections(recorded: &Recorded) -> Vec<(String, String, usize)> {
    let links = recorded.inventory.ext_virtual_link_info.iter();
    let links = links.map(|link| {
        let network = link.resource_handle.resource_id.clone();
        (link.id.clone(), network, link.ext_link_ports.len())
    });
    links.collect()
}

impl Connected {
    async fn new(stand: &Shared, targets: [Allocation; 2]) -> Self {
        let instance = TestInstance::new(stand);
        let created = instance.converged(&Convergence::create(&targets[0])).await;
        Self {
            instance,
            targets,
            record: created.unwrap(),
        }
    }

    /// From the record to the links of a target.
    async fn change(
        &self,
        record: &Recorded,
        (from, to): (usize, usize),
    ) -> Result<Recorded, PortError> {
        let change = Convergence::update(record, &self.targets[to]);
        let change = change.coming_from(&self.targets[from]);
        self.instance.converged(&change).await
    }

    /// Checks that the instance has the links that it was created with, or others in equal number.
    fn check(&self, now: &Recorded, is_first: bool, case: &str) {
        let (first, now) = (connections(&self.record), connections(now));
        assert_eq!(first == now, is_first, "{case}: {now:?}");
        let ports = |all: &[(String, String, usize)]| all.iter().map(|link| link.2).sum::<usize>();
        assert_eq!(ports(&first), ports(&now), "{case}: {now:?}");
    }
}

pub(super) async fn a_change_of_links_connects_vnfcs_to_others_and_back(stand: Shared) {
    let Some(links) = stand.links() else { return };
    let before = resources_on_vim(&stand).await;
    let it = Connected::new(&stand, links).await;
    let changed = it.change(&it.record, (0, 1)).await.unwrap();
    it.check(&changed, false, "changed");
    let again = it.change(&changed, (0, 1)).await.unwrap();
    assert_eq!(again.inventory, changed.inventory, "a repeated call");
    let back = it.change(&changed, (1, 0)).await.unwrap();
    it.check(&back, true, "back");
    let released = it.instance.released(&it.targets[0], back.handle).await;
    released.unwrap();
    it.instance.check_released(&before).await;
}

pub(super) async fn an_interrupted_change_of_links_is_completed_or_reversed(stand: Shared) {
    let Some(links) = stand.links() else { return };
    let before = resources_on_vim(&stand).await;
    let it = Connected::new(&stand, links.clone()).await;
    let begun = it.instance.vim.turns.load(SeqCst);
    let mut now = it.change(&it.record, (0, 1)).await.unwrap();
    let calls = it.instance.vim.turns.load(SeqCst) - begun;
    now = it.change(&now, (1, 0)).await.unwrap();
    for number in interruption_points(&stand, calls) {
        let case = format!("cut off at call {number}");
        let changing = it.change(&now, (0, 1));
        it.instance.interrupt_at(number, changing).await;
        let target = number % 2;
        let ended = it.change(&now, (1 - target, target)).await;
        let ended = ended.unwrap_or_else(|error| panic!("{case}: {error}"));
        it.check(&ended, target == 0, &case);
        now = match target {
            0 => ended,
            _ => it.change(&ended, (1, 0)).await.unwrap(),
        };
    }
    let released = it.instance.released(&it.targets[0], now.handle).await;
    released.unwrap();
    it.instance.check_released(&before).await;
}
