//! Rules about starting and stopping VNFCs. They hold trivially for a driver that cannot.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim, vnfcs};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use vnfm_core::ports::{
    Allocation, Convergence, PortError, Power, PowerChange, Recorded, Replacement, Stop,
};
use vnfm_types::VnfOperationalState::{self, Stopped};

type Shared = Arc<dyn TestBed>;

/// The same instance in another state.
fn in_state(what: &Allocation, state: VnfOperationalState) -> Allocation {
    let mut other = what.clone();
    Arc::make_mut(&mut other.deployment).vnf_state = state;
    other
}

/// An instance on a VIM that can stop VNFCs.
struct Powered<'s> {
    power: &'s dyn Power,
    instance: TestInstance,
    what: Allocation,
    /// As it was created.
    created: Recorded,
}

impl<'s> Powered<'s> {
    async fn new(stand: &'s Shared, what: Allocation) -> Option<Self> {
        let power = stand.driver().power()?;
        let instance = TestInstance::new(stand);
        let created = instance.converged(&Convergence::create(&what)).await;
        Some(Self {
            power,
            instance,
            what,
            created: created.unwrap(),
        })
    }

    async fn operate(
        &self,
        current: &Recorded,
        target: &Allocation,
        stop: Stop,
    ) -> Result<Recorded, PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        let change = PowerChange {
            current,
            target,
            stop,
        };
        let cx = self.instance.cx(&*clock, &deadline);
        self.power.operate(&cx, &change).await
    }

    async fn stop(&self) -> Recorded {
        let stopped = in_state(&self.what, Stopped);
        let stop = self.operate(&self.created, &stopped, Stop::Forceful);
        stop.await.unwrap()
    }

    /// The recorded VNFCs that run, by the id of their resource, according to the VIM itself.
    async fn running(&self, recorded: &Recorded) -> BTreeSet<String> {
        let running = self.instance.stand.running().await;
        let ids = recorded.inventory.vnfc_resource_info.iter();
        let ids: BTreeSet<_> = ids
            .map(|one| one.compute_resource.resource_id.clone())
            .collect();
        running.into_iter().filter(|id| ids.contains(id)).collect()
    }

    async fn check_stopped(&self, now: &Recorded) {
        for recorded in [&self.created, now] {
            let none = BTreeSet::new();
            assert_eq!(self.running(recorded).await, none, "run although stopped");
        }
        if self.power.is_per_vnfc() {
            assert_eq!(vnfcs(now), vnfcs(&self.created), "stopped ones stay");
        } else {
            assert_eq!(
                vnfcs(now),
                BTreeSet::new(),
                "stopped ones are no longer listed"
            );
        }
    }

    async fn check_started(&self, now: &Recorded) {
        let (vnfcs_then, vnfcs_now) = (vnfcs(&self.created), vnfcs(now));
        assert_eq!(
            self.running(now).await.len(),
            vnfcs_then.len(),
            "not all run"
        );
        assert_eq!(vnfcs_now.len(), vnfcs_then.len());
        if self.power.is_per_vnfc() {
            assert_eq!(
                now.inventory, self.created.inventory,
                "ids and addresses stay"
            );
        }
    }

    async fn release(self, now: &Recorded, before: &BTreeSet<String>) {
        let released = self.instance.released(&self.what, now.handle.clone()).await;
        released.unwrap();
        self.instance.check_released(before).await;
    }
}

pub(super) async fn a_stopped_instance_is_started_again(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    let Some(it) = Powered::new(&stand, stand.what()).await else {
        return;
    };
    it.check_started(&it.created).await;
    let stopped = in_state(&it.what, Stopped);
    let mut now = it.created.clone();
    for stop in [
        Stop::Forceful,
        Stop::Graceful(Some(Duration::from_secs(30))),
    ] {
        let off = it.operate(&now, &stopped, stop).await.unwrap();
        it.check_stopped(&off).await;
        now = it.operate(&off, &it.what, Stop::Forceful).await.unwrap();
        it.check_started(&now).await;
    }
    it.release(&now, &before).await;
}

pub(super) async fn a_repeated_stop_and_start_changes_nothing(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    let Some(it) = Powered::new(&stand, stand.what()).await else {
        return;
    };
    let off = it.stop().await;
    let existing = resources_on_vim(&stand).await;
    let again = it.stop().await;
    assert_eq!(vnfcs(&again), vnfcs(&off));
    assert_eq!(resources_on_vim(&stand).await, existing);
    let on = it.operate(&off, &it.what, Stop::Forceful).await.unwrap();
    let again = it.operate(&off, &it.what, Stop::Forceful).await.unwrap();
    assert_eq!(vnfcs(&again), vnfcs(&on));
    it.check_started(&again).await;
    it.release(&again, &before).await;
}

pub(super) async fn an_interrupted_stop_is_completed_or_reversed(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    let Some(it) = Powered::new(&stand, stand.what()).await else {
        return;
    };
    let stopped = in_state(&it.what, Stopped);
    let calls = it.instance.vim.turns.load(SeqCst);
    let off = it.stop().await;
    let calls = it.instance.vim.turns.load(SeqCst) - calls;
    let mut now = it.operate(&off, &it.what, Stop::Forceful).await.unwrap();
    for (number, point) in interruption_points(&stand, calls).enumerate() {
        let work = it.operate(&now, &stopped, Stop::Forceful);
        if !it.instance.interrupt_at(point, work).await {
            break;
        }
        if number % 2 == 0 {
            let off = it.operate(&now, &stopped, Stop::Forceful).await.unwrap();
            assert_eq!(it.running(&now).await, BTreeSet::new(), "call {point}");
            now = it.operate(&off, &it.what, Stop::Forceful).await.unwrap();
        } else {
            now = it.operate(&now, &it.what, Stop::Forceful).await.unwrap();
        }
        it.check_started(&now).await;
    }
    it.release(&now, &before).await;
}

pub(super) async fn a_single_vnfc_is_stopped(stand: Shared) {
    let before = resources_on_vim(&stand).await;
    let power = stand.driver().power();
    if !power.is_some_and(Power::is_per_vnfc) {
        return;
    }
    let Some(it) = Powered::new(&stand, stand.what()).await else {
        return;
    };
    let one = it.created.inventory.vnfc_resource_info[0].clone();
    let mut target = it.what.clone();
    Arc::make_mut(&mut target.deployment).stopped_vnfcs = [one.id.clone()].into();
    let off = it
        .operate(&it.created, &target, Stop::Forceful)
        .await
        .unwrap();
    assert_eq!(vnfcs(&off), vnfcs(&it.created));
    let running = it.running(&off).await;
    assert!(!running.contains(&one.compute_resource.resource_id));
    assert_eq!(running.len() + 1, vnfcs(&off).len(), "the others run");
    it.release(&off, &before).await;
}

pub(super) async fn a_change_leaves_a_stopped_instance_stopped(stand: Shared) {
    let Some([small, large]) = stand.sizes() else {
        return;
    };
    let before = resources_on_vim(&stand).await;
    let Some(it) = Powered::new(&stand, small).await else {
        return;
    };
    let off = it.stop().await;
    let larger = in_state(&large, Stopped);
    let grown = Convergence::update(&off, &larger);
    let grown = it.instance.converged(&grown).await.unwrap();
    assert_eq!(
        it.running(&grown).await,
        BTreeSet::new(),
        "an added one runs"
    );
    let first = grown.inventory.vnfc_resource_info.first();
    let replace = Replacement {
        vnfcs: first.iter().map(|vnfc| vnfc.id.clone()).collect(),
        with_storage: false,
    };
    let healed = Convergence::update(&grown, &larger).replacing(replace);
    let healed = it.instance.converged(&healed).await.unwrap();
    assert_eq!(
        it.running(&healed).await,
        BTreeSet::new(),
        "a replaced one runs"
    );
    let on = it.operate(&healed, &large, Stop::Forceful).await.unwrap();
    let count = large.deployment.vdu_instances.values().sum::<u32>();
    assert_eq!(it.running(&on).await.len(), count as usize, "not all run");
    let shrunk = Convergence::update(&on, &it.what);
    let shrunk = it.instance.converged(&shrunk).await.unwrap();
    it.release(&shrunk, &before).await;
}
