//! Heals on the simulated cloud: the scenarios shared with a real cloud, and faults that only a simulator can inject.

use crate::cloud_user::CloudUser;
use crate::heal_scenarios::{self, assert_replaced, nth};
use crate::simulated::{assert_clean, bed, connection, world};
use crate::support::{OneVdu, TestBed};
use futures::future::Either;
use serde_json::Value;
use std::time::Duration;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver, Recorded, Replacement};
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule};

pub(crate) const SAMPLES: [&str; 2] = ["vnf-a-k8s-cluster", "vnf-a-k8s-cluster-base-hot"];

pub(crate) async fn cloud_users(world: &World) -> (CloudUser, CloudUser) {
    let info = connection(world);
    let password = world.endpoints().password.clone();
    (
        CloudUser::log_in(&info, None).await,
        CloudUser::log_in(&info, Some(("admin", &password))).await,
    )
}

/// The number of updates that Heat accepted.
pub(crate) fn updates(world: &World) -> usize {
    let calls = world.ledger().calls_named("heat.stack_update");
    calls.into_iter().filter(|call| call.status == 202).count()
}

pub(crate) fn servers(world: &World) -> usize {
    world
        .ledger()
        .inventory()
        .into_iter()
        .filter(|one| one.kind == "server")
        .count()
}

/// The instantiated cluster of the first sample.
pub(crate) async fn cluster(bed: &TestBed) -> (Allocation, Recorded) {
    let allocation = bed.cluster(SAMPLES[0]);
    let allocated = bed.instantiate(&allocation).await.unwrap();
    (allocation, allocated)
}

/// A heal of VNFCs with their volumes.
pub(crate) async fn with_storage(
    bed: &TestBed,
    allocation: &Allocation,
    (allocated, vnfcs): (&Recorded, &[String]),
) -> Recorded {
    let replace = Replacement {
        vnfcs: vnfcs.to_vec(),
        with_storage: true,
    };
    let change = Convergence::update(allocated, allocation).replacing(replace);
    bed.driver
        .converge(&bed.call(), &change, &Value::Null)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_vnfc_then_all_are_replaced() {
    for sample in SAMPLES {
        let world = world(Duration::ZERO).await;
        let mut bed = bed(&world);
        let allocation = bed.cluster(sample);
        let (user, _) = cloud_users(&world).await;
        let allocated = bed.instantiate(&allocation).await.unwrap();
        let healed =
            heal_scenarios::one_of_several_then_all(&mut bed, &user, &allocation, allocated).await;
        heal_scenarios::assert_release(&bed, &allocation, healed).await;
        assert_eq!(updates(&world), 2);
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_servers_and_servers_in_error_are_replaced() {
    for sample in SAMPLES {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let (user, admin) = cloud_users(&world).await;
        let allocation = bed.cluster(sample);
        let allocated = bed.instantiate(&allocation).await.unwrap();
        let healed =
            heal_scenarios::deleted_and_in_error(&bed, (&user, &admin), &allocation, allocated)
                .await;
        heal_scenarios::assert_release(&bed, &allocation, healed).await;
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_heal_is_resumed() {
    for sample in SAMPLES {
        let world = world(Duration::from_millis(600)).await;
        let bed = bed(&world);
        let (user, _) = cloud_users(&world).await;
        let allocation = bed.cluster(sample);
        let allocated = bed.instantiate(&allocation).await.unwrap();
        let healed =
            heal_scenarios::interrupted_and_resumed(&bed, &user, &allocation, allocated).await;
        heal_scenarios::assert_release(&bed, &allocation, healed).await;
        assert_clean(&world);
    }
}

/// The host has lost power, but Nova still reports the server as ACTIVE.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_replaced_though_nova_calls_it_active() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, allocated) = cluster(&bed).await;
    let targets = [nth(&allocated, "workerNode", 0).id.clone()];
    assert!(world.cloud().power_off(&targets[0]));
    let healed = bed.heal(&allocation, &allocated, &targets).await.unwrap();
    assert_replaced(&allocated, &healed, &targets);
    bed.release(&allocation, healed.handle).await.unwrap();
    assert_clean(&world);
}

/// The quota allows exactly the servers that exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_heal_needs_no_quota_for_old_and_new_servers_at_once() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, allocated) = cluster(&bed).await;
    world.cloud().set_quota("instances", 3);
    let targets = [nth(&allocated, "workerNode", 1).id.clone()];
    let healed = bed.heal(&allocation, &allocated, &targets).await.unwrap();
    assert_replaced(&allocated, &healed, &targets);
    bed.release(&allocation, healed.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_reattached_unless_their_replacement_is_requested() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let allocation = OneVdu {
        volumes: true,
        count: 2,
        ..OneVdu::default()
    }
    .allocation(&bed);
    let allocated = bed.instantiate(&allocation).await.unwrap();
    let volumes = |allocated: &Recorded, index: usize| -> Vec<String> {
        let mut ids = nth(allocated, "server", index).storage_resource_ids.clone();
        ids.sort();
        ids
    };
    assert_eq!(
        (volumes(&allocated, 0).len(), volumes(&allocated, 1).len()),
        (2, 2)
    );
    let targets = [nth(&allocated, "server", 0).id.clone()];
    let healed = bed.heal(&allocation, &allocated, &targets).await.unwrap();
    assert_ne!(nth(&healed, "server", 0).id, targets[0]);
    assert_eq!(
        volumes(&healed, 0),
        volumes(&allocated, 0),
        "the same volumes, attached again"
    );
    assert_eq!(nth(&healed, "server", 1), nth(&allocated, "server", 1));
    assert_eq!(
        healed.inventory.virtual_storage_resource_info,
        allocated.inventory.virtual_storage_resource_info
    );
    let targets = [nth(&healed, "server", 0).id.clone()];
    let replaced = with_storage(&bed, &allocation, (&healed, &targets)).await;
    let (old, new) = (volumes(&healed, 0), volumes(&replaced, 0));
    assert!(
        new.len() == 2 && new.iter().all(|id| !old.contains(id)),
        "{old:?} {new:?}"
    );
    assert_eq!(nth(&replaced, "server", 1), nth(&allocated, "server", 1));
    assert_eq!(
        with_storage(&bed, &allocation, (&healed, &targets)).await,
        replaced
    );
    bed.release(&allocation, replaced.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_port_is_recreated_with_its_server() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, allocated) = cluster(&bed).await;
    let worker = nth(&allocated, "workerNode", 0).clone();
    assert!(world.cloud().delete_port(&worker.vnfc_cp_info[0].id));
    let healed = bed
        .heal(&allocation, &allocated, std::slice::from_ref(&worker.id))
        .await
        .unwrap();
    let successor = nth(&healed, "workerNode", 0);
    assert_ne!(successor.vnfc_cp_info[0].id, worker.vnfc_cp_info[0].id);
    assert_eq!(successor.vnfc_cp_info[1].id, worker.vnfc_cp_info[1].id);
    assert_eq!(
        nth(&healed, "workerNode", 1),
        nth(&allocated, "workerNode", 1)
    );
    bed.release(&allocation, healed.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_stack_is_recreated_by_a_heal() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, allocated) = cluster(&bed).await;
    assert!(world.cloud().delete_stack(&bed.stack_name()));
    let targets = [nth(&allocated, "workerNode", 0).id.clone()];
    let healed = bed.heal(&allocation, &allocated, &targets).await.unwrap();
    assert_eq!(bed.owned().await, [bed.stack_name()]);
    assert_ne!(healed.handle, allocated.handle);
    assert_eq!(servers(&world), 3);
    assert_eq!(
        bed.heal(&allocation, &allocated, &targets).await.unwrap(),
        healed
    );
    assert!(world.cloud().delete_stack(&bed.stack_name()));
    let deleted = async { while !bed.owned().await.is_empty() {} };
    tokio::time::timeout(Duration::from_secs(20), deleted)
        .await
        .unwrap();
    assert_eq!(
        bed.observe(&allocation).await,
        Recorded::default(),
        "without a stack nothing is observed"
    );
    assert_clean(&world);
}

/// Heat's engine dies: the stack stays in progress until the update is requested again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_update_is_requested_again() {
    let world = world(Duration::ZERO).await;
    let mut bed = bed(&world);
    let (allocation, allocated) = cluster(&bed).await;
    bed.seconds = 20;
    world
        .faults()
        .add(Rule::new("heat.resource_create", Fault::Hang { hang: true }).on("workerNode-0"));
    let targets = [nth(&allocated, "workerNode", 0).id.clone()];
    let healed = bed.heal(&allocation, &allocated, &targets).await.unwrap();
    assert_replaced(&allocated, &healed, &targets);
    assert_eq!(updates(&world), 2);
    let messages = bed.watcher.messages();
    assert!(
        messages
            .iter()
            .any(|text| text.contains("updating it again")),
        "{messages:?}"
    );
    assert_eq!(servers(&world), 3);
    bed.release(&allocation, healed.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_heat_accepted_but_has_not_begun_is_not_repeated() {
    let world = world(Duration::ZERO).await;
    let mut bed = bed(&world);
    // The stopped clock keeps a slow machine from reaching a timeout.
    bed.clock.stopped = Some(jiff::Timestamp::now());
    let (allocation, allocated) = cluster(&bed).await;
    world
        .faults()
        .add(Rule::new("heat.stack_begin", Fault::Hang { hang: true }));
    bed.watcher.clear();
    let targets = vec![nth(&allocated, "workerNode", 0).id.clone()];
    let heal = Box::pin(bed.heal(&allocation, &allocated, &targets));
    let wait_for = Box::pin(bed.watcher.wait_for("Heat to begin with stack"));
    let heal = match futures::future::select(heal, wait_for).await {
        Either::Left((ended, _)) => panic!("it did not wait for Heat: {ended:?}"),
        Either::Right(((), heal)) => heal,
    };
    assert_eq!(updates(&world), 1);
    world.faults().clear();
    let healed = heal.await;
    assert_eq!(updates(&world), 1);
    assert_replaced(&allocated, &healed.unwrap(), &targets);
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}
