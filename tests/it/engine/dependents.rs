//! When a hook moves VNFCs of VNFs on the instance's VIM, their records follow.

use super::fakes::*;
use super::setup::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::Engine;
use vnfm_types::LcmOperationState::{Completed, FailedTemp};
use vnfm_types::{HealVnfRequest, VnfcResourceInfo};

/// An instance whose hooks registered a VIM, and another one on that VIM.
struct Fixture {
    world: Arc<FakeWorld>,
    engine: Engine,
    a: String,
    b: String,
}

impl Fixture {
    async fn new() -> Self {
        let world = Arc::new(FakeWorld::default());
        let engine = engine(store().await, &world);
        let a = instantiated(&engine, "cloud").await;
        let cluster = engine.vim(TENANT, &format!("cluster-{a}")).await.unwrap();
        let b = instantiated(&engine, &cluster.id).await;
        Self {
            world,
            engine,
            a,
            b,
        }
    }

    /// Replaces the VNFCs of B on the VIM.
    fn move_vnfcs(&self) {
        let mut all = self.world.inventories.lock().unwrap();
        for vnfc in &mut all.get_mut(&self.b).unwrap().vnfc_resource_info {
            vnfc.id = format!("{}-moved", vnfc.id);
        }
    }

    async fn vnfcs(&self, id: &str) -> Vec<VnfcResourceInfo> {
        let record = self.engine.store().instance(TENANT, id).await.unwrap();
        record.vnf.instantiated_vnf_info.unwrap().vnfc_resource_info
    }

    fn existing(&self) -> Vec<VnfcResourceInfo> {
        self.world.inventories.lock().unwrap()[&self.b]
            .vnfc_resource_info
            .clone()
    }

    async fn begin_heal(&self, id: &str) -> String {
        let request = HealVnfRequest::default();
        self.engine.heal(TENANT, id, request).await.unwrap()
    }
}

async fn instantiated(engine: &Engine, on_vim: &str) -> String {
    let id = instance(engine).await;
    let op = engine.instantiate(TENANT, &id, on(on_vim)).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, Completed);
    id
}

#[tokio::test]
async fn the_record_follows_a_hook() {
    let fixture = Fixture::new().await;
    let before = fixture.vnfcs(&fixture.b).await;
    fixture.move_vnfcs();
    assert_eq!(fixture.vnfcs(&fixture.b).await, before);
    let op = fixture.begin_heal(&fixture.a).await;
    fixture.engine.drive(&op).await.unwrap();
    assert_eq!(state(&fixture.engine, &op).await, Completed);
    let after = fixture.vnfcs(&fixture.b).await;
    assert_ne!(after, before);
    assert_eq!(after, fixture.existing());
}

#[tokio::test]
async fn the_record_follows_a_hook_that_fails() {
    let fixture = Fixture::new().await;
    fixture.move_vnfcs();
    let calls = fixture.world.calls().len();
    // After the login comes `heal_start`.
    fixture.world.fail_call.store(calls + 2, SeqCst);
    let op = fixture.begin_heal(&fixture.a).await;
    fixture.engine.drive(&op).await.unwrap();
    assert_eq!(state(&fixture.engine, &op).await, FailedTemp);
    assert_eq!(fixture.vnfcs(&fixture.b).await, fixture.existing());
}

#[tokio::test]
async fn an_instance_with_an_operation_is_left_to_it() {
    let fixture = Fixture::new().await;
    let before = fixture.vnfcs(&fixture.b).await;
    let of_b = fixture.begin_heal(&fixture.b).await;
    fixture.move_vnfcs();
    let of_a = fixture.begin_heal(&fixture.a).await;
    fixture.engine.drive(&of_a).await.unwrap();
    assert_eq!(state(&fixture.engine, &of_a).await, Completed);
    assert_eq!(fixture.vnfcs(&fixture.b).await, before);
    fixture.engine.drive(&of_b).await.unwrap();
    assert_eq!(state(&fixture.engine, &of_b).await, Completed);
    assert_eq!(fixture.vnfcs(&fixture.b).await, fixture.existing());
}
