//! Heals on the simulated cloud: the scenarios shared with a real cloud, and faults that only a simulator can inject.

use crate::cloud_user::CloudUser;
use crate::heal_scenarios::{self, assert_replaced, nth};
use crate::simulated::{assert_clean, bed, connection, world};
use crate::support::{OneVdu, TestBed};
use futures::future::Either;
use serde_json::Value;
use std::time::Duration;
use vnfm_core::ports::{Allocated, Allocation, ErrorKind, InfraDriver, Repair};
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule, When};

const SAMPLES: [&str; 2] = ["vnf-a-k8s-cluster", "vnf-a-k8s-cluster-base-hot"];

async fn cloud_users(world: &World) -> (CloudUser, CloudUser) {
    let info = connection(world);
    let password = world.endpoints().password.clone();
    (
        CloudUser::log_in(&info, None).await,
        CloudUser::log_in(&info, Some(("admin", &password))).await,
    )
}

/// Updates that Heat accepted.
fn updates(world: &World) -> usize {
    let calls = world.ledger().calls_named("heat.stack_update");
    calls.into_iter().filter(|call| call.status == 202).count()
}

fn servers(world: &World) -> usize {
    world
        .ledger()
        .inventory()
        .into_iter()
        .filter(|one| one.kind == "server")
        .count()
}

/// The instantiated cluster of the first sample.
async fn cluster(bed: &TestBed) -> (Allocation, Allocated) {
    let allocation = bed.cluster(SAMPLES[0]);
    let allocated = bed.instantiate(&allocation).await.unwrap();
    (allocation, allocated)
}

/// A heal of VNFCs with their volumes.
async fn with_storage(
    bed: &TestBed,
    allocation: &Allocation,
    (allocated, vnfcs): (&Allocated, &[String]),
) -> Allocated {
    let repair = Repair {
        handle: allocated.handle.clone(),
        inventory: allocated.inventory.clone(),
        vnfcs: vnfcs.to_vec(),
        with_storage: true,
    };
    bed.driver
        .heal(&bed.call(), allocation, &repair)
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
    let volumes = |allocated: &Allocated, index: usize| -> Vec<String> {
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
        Allocated::default(),
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

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_heal_names_its_cause_and_succeeds_on_retry() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, allocated) = cluster(&bed).await;
    world.cloud().set_quota("instances", 2);
    let targets = [nth(&allocated, "workerNode", 0).id.clone()];
    let error = bed
        .heal(&allocation, &allocated, &targets)
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.quota", ErrorKind::Refused),
        "{error}"
    );
    assert!(error.detail().contains("UPDATE_FAILED"), "{error}");
    assert!(
        error.request_id().is_some_and(|id| id.starts_with("req-")),
        "{error:?}"
    );
    assert_eq!(error.resource(), Some("workerNode-0"));
    let seen = bed.observe(&allocation).await;
    assert_eq!(
        seen.inventory.vnfc_resource_info.len(),
        2,
        "the servers that exist of a failed stack"
    );
    world.cloud().set_quota("instances", -1);
    let healed = bed.heal(&allocation, &allocated, &targets).await.unwrap();
    assert_replaced(&allocated, &healed, &targets);
    bed.release(&allocation, healed.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_creation_is_observed_and_completed_by_a_heal() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let allocation = bed.cluster(SAMPLES[0]);
    assert_eq!(bed.observe(&allocation).await, Allocated::default());
    let prepared = bed.prepare(&allocation).await.unwrap();
    world.cloud().set_quota("instances", 1);
    bed.allocate(&allocation, &prepared).await.unwrap_err();
    let seen = bed.observe(&allocation).await;
    assert_eq!(seen.inventory.vnfc_resource_info.len(), 1);
    let links = &seen.inventory.vnf_virtual_link_resource_info;
    assert!(
        links.iter().all(|link| !link.id.is_empty()) && links.len() == 1,
        "{links:?}"
    );
    assert!(seen.handle["stackId"].is_string());
    world.cloud().set_quota("instances", -1);
    let healed = bed.heal(&allocation, &seen, &[]).await.unwrap();
    assert_eq!(healed.inventory.vnfc_resource_info.len(), 3);
    assert!(
        healed
            .inventory
            .vnfc_resource_info
            .contains(&seen.inventory.vnfc_resource_info[0])
    );
    bed.release(&allocation, healed.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_network_is_recreated_with_everything_on_it_and_leaves_no_orphans() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, allocated) = cluster(&bed).await;
    let fault = Fault::ErrorAfterEffect {
        error_after_effect: 500,
    };
    world
        .faults()
        .add(Rule::new("heat.resource_create", fault).on("internalVL"));
    let targets = [nth(&allocated, "workerNode", 0).id.clone()];
    let error = bed
        .heal(&allocation, &allocated, &targets)
        .await
        .unwrap_err();
    assert_eq!(error.resource(), Some("internalVL"), "{error}");
    let networks = || {
        world
            .ledger()
            .inventory()
            .into_iter()
            .filter(|one| one.kind == "network")
            .count()
    };
    let before = networks();
    let healed = bed.heal(&allocation, &allocated, &targets).await.unwrap();
    assert_eq!((servers(&world), networks()), (3, before));
    bed.release(&allocation, healed.handle).await.unwrap();
    assert_clean(&world);
}

/// Services that fail for a while, a connection cut after the update took effect, an expired token.
#[tokio::test(flavor = "multi_thread")]
async fn transient_failures_during_a_heal_are_retried() {
    let rules = [
        Rule::new("heat.stack_update", Fault::Status { status: 503 }).nth(1, 2),
        Rule::new("heat.stack_update", Fault::Status { status: 500 }),
        Rule::new(
            "heat.stack_update",
            Fault::ErrorAfterEffect {
                error_after_effect: 500,
            },
        ),
        Rule::new("heat.stack_update", Fault::Drop { drop: When::After }),
        Rule::new("heat.resource_mark", Fault::Status { status: 503 }).nth(1, 2),
        Rule::new("heat.resource_mark", Fault::Status { status: 409 }),
        Rule::new("nova.server_delete", Fault::Drop { drop: When::After }),
        Rule::new("nova.server_show", Fault::Status { status: 500 }).nth(1, 2),
        Rule::new("neutron.port_list", Fault::Status { status: 503 }).nth(1, 2),
        Rule::new("heat.resource_list", Fault::Status { status: 401 }),
    ];
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, mut current) = cluster(&bed).await;
    for rule in rules {
        world.faults().add(rule.clone());
        let targets = [nth(&current, "workerNode", 1).id.clone()];
        let healed = bed.heal(&allocation, &current, &targets).await;
        let healed = healed.unwrap_or_else(|error| panic!("{rule:?}: {error}"));
        assert!(
            world.faults().rules().iter().all(|(_, seen)| *seen > 0),
            "{rule:?}"
        );
        assert_replaced(&current, &healed, &targets);
        assert_eq!(servers(&world), 3);
        world.faults().clear();
        current = healed;
    }
    let tokens = world.ledger().calls_named("keystone.token_create").len();
    let targets = [nth(&current, "workerNode", 1).id.clone()];
    world.faults().add(Rule::new(
        "heat.stack_update",
        Fault::Delay { delay_ms: 200 },
    ));
    let (healed, ()) = tokio::join!(bed.heal(&allocation, &current, &targets), async {
        let called = async {
            while world.faults().rules()[0].1 == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), called)
            .await
            .unwrap();
        world.cloud().revoke_tokens();
    });
    assert_replaced(&current, healed.as_ref().unwrap(), &targets);
    assert!(
        world.ledger().calls_named("keystone.token_create").len() > tokens,
        "the token was renewed"
    );
    bed.release(&allocation, healed.unwrap().handle)
        .await
        .unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_stack_or_one_in_deletion_is_not_healed() {
    let world = world(Duration::ZERO).await;
    let (bed, mut other) = (bed(&world), bed(&world));
    other
        .ownership
        .instance_id
        .clone_from(&bed.ownership.instance_id);
    let (allocation, allocated) = cluster(&bed).await;
    let targets = [nth(&allocated, "workerNode", 0).id.clone()];
    let unknown = Allocated {
        handle: Value::Null,
        ..allocated.clone()
    };
    let error = other
        .heal(&allocation, &unknown, &targets)
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.stack-foreign", ErrorKind::Refused),
        "{error}"
    );
    assert_eq!(other.observe(&allocation).await, Allocated::default());
    assert_eq!(
        bed.observe(&allocation).await,
        allocated,
        "the stack is unchanged"
    );
    assert_eq!(updates(&world), 0);
    world
        .faults()
        .add(Rule::new("heat.resource_delete", Fault::Status { status: 500 }).nth(1, 40));
    let error = bed
        .release(&allocation, allocated.handle.clone())
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.delete-failed", ErrorKind::Refused),
        "{error}"
    );
    let error = bed
        .heal(&allocation, &allocated, &targets)
        .await
        .unwrap_err();
    assert_eq!(error.name(), "heat.delete-failed", "{error}");
    assert!(
        error.next().contains("terminate the instance"),
        "{}",
        error.next()
    );
    world.faults().clear();
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}
