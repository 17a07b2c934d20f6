//! Heals on the simulated cloud: the stories of every cloud, and what only a cloud that obeys can show.

use crate::hands::Hands;
use crate::heals::{self, nth, replaced_are};
use crate::simulated::{connection, is_clean, place, world};
use crate::support::{OneVdu, Place};
use futures::future::Either;
use serde_json::Value;
use std::time::Duration;
use vnfm_core::ports::{Allocated, Allocation, ErrorKind, InfraDriver, Repair};
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule, When};

const SAMPLES: [&str; 2] = ["vnf-a-k8s-cluster", "vnf-a-k8s-cluster-base-hot"];

async fn hands(world: &World) -> (Hands, Hands) {
    let info = connection(world);
    let password = world.endpoints().password.clone();
    (
        Hands::of(&info, None).await,
        Hands::of(&info, Some(("admin", &password))).await,
    )
}

/// How many updates Heat was asked for and accepted.
fn updates(world: &World) -> usize {
    let calls = world.books().calls_of("heat.stack_update");
    calls.into_iter().filter(|call| call.status == 202).count()
}

/// How many servers there are.
fn servers(world: &World) -> usize {
    world
        .books()
        .stock()
        .into_iter()
        .filter(|one| one.kind == "server")
        .count()
}

/// The cluster of the first sample, made.
async fn cluster(place: &Place) -> (Allocation, Allocated) {
    let what = place.cluster(SAMPLES[0]);
    let made = place.make(&what).await.unwrap();
    (what, made)
}

/// A heal of VNFCs with their volumes.
async fn with_storage(
    place: &Place,
    what: &Allocation,
    (made, vnfcs): (&Allocated, &[String]),
) -> Allocated {
    let how = Repair {
        handle: made.handle.clone(),
        inventory: made.inventory.clone(),
        vnfcs: vnfcs.to_vec(),
        with_storage: true,
    };
    place.driver.heal(&place.call(), what, &how).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_then_all_are_replaced() {
    for sample in SAMPLES {
        let world = world(Duration::ZERO).await;
        let mut place = place(&world);
        let what = place.cluster(sample);
        let (hands, _) = hands(&world).await;
        let made = place.make(&what).await.unwrap();
        let healed = heals::one_of_several_then_all(&mut place, &hands, &what, made).await;
        heals::released(&place, &what, healed).await;
        assert_eq!(updates(&world), 2);
        is_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_or_in_error_comes_back() {
    for sample in SAMPLES {
        let world = world(Duration::ZERO).await;
        let place = place(&world);
        let (hands, admin) = hands(&world).await;
        let what = place.cluster(sample);
        let made = place.make(&what).await.unwrap();
        let healed = heals::gone_and_in_error(&place, (&hands, &admin), &what, made).await;
        heals::released(&place, &what, healed).await;
        is_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_heal_is_gone_on_with() {
    for sample in SAMPLES {
        let world = world(Duration::from_millis(600)).await;
        let place = place(&world);
        let (hands, _) = hands(&world).await;
        let what = place.cluster(sample);
        let made = place.make(&what).await.unwrap();
        let healed = heals::interrupted_and_gone_on_with(&place, &hands, &what, made).await;
        heals::released(&place, &what, healed).await;
        is_clean(&world);
    }
}

/// A host without power behind a server that Nova calls ACTIVE.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_replaced_though_nova_calls_it_active() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let (what, made) = cluster(&place).await;
    let meant = [nth(&made, "workerNode", 0).id.clone()];
    assert!(world.cloud().power_off(&meant[0]));
    let healed = place.heal(&what, &made, &meant).await.unwrap();
    replaced_are(&made, &healed, &meant);
    place.release(&what, healed.handle).await.unwrap();
    is_clean(&world);
}

/// Where there is room for the servers and for none beside them.
#[tokio::test(flavor = "multi_thread")]
async fn a_heal_needs_no_room_for_old_and_new_at_once() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let (what, made) = cluster(&place).await;
    world.cloud().set_quota("instances", 3);
    let meant = [nth(&made, "workerNode", 1).id.clone()];
    let healed = place.heal(&what, &made, &meant).await.unwrap();
    replaced_are(&made, &healed, &meant);
    place.release(&what, healed.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_stay_and_are_attached_again_unless_they_are_meant() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let what = OneVdu {
        volumes: true,
        count: 2,
        ..OneVdu::default()
    }
    .on(&place);
    let made = place.make(&what).await.unwrap();
    let volumes = |made: &Allocated, index: usize| -> Vec<String> {
        let mut ids = nth(made, "server", index).storage_resource_ids.clone();
        ids.sort();
        ids
    };
    assert_eq!((volumes(&made, 0).len(), volumes(&made, 1).len()), (2, 2));
    let meant = [nth(&made, "server", 0).id.clone()];
    let healed = place.heal(&what, &made, &meant).await.unwrap();
    assert_ne!(nth(&healed, "server", 0).id, meant[0]);
    assert_eq!(
        volumes(&healed, 0),
        volumes(&made, 0),
        "the same volumes, attached again"
    );
    assert_eq!(nth(&healed, "server", 1), nth(&made, "server", 1));
    assert_eq!(
        healed.inventory.virtual_storage_resource_info,
        made.inventory.virtual_storage_resource_info
    );
    let meant = [nth(&healed, "server", 0).id.clone()];
    let renewed = with_storage(&place, &what, (&healed, &meant)).await;
    let (old, new) = (volumes(&healed, 0), volumes(&renewed, 0));
    assert!(
        new.len() == 2 && new.iter().all(|id| !old.contains(id)),
        "{old:?} {new:?}"
    );
    assert_eq!(nth(&renewed, "server", 1), nth(&made, "server", 1));
    assert_eq!(
        with_storage(&place, &what, (&healed, &meant)).await,
        renewed
    );
    place.release(&what, renewed.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_somebody_deleted_comes_back_with_its_server() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let (what, made) = cluster(&place).await;
    let worker = nth(&made, "workerNode", 0).clone();
    assert!(world.cloud().delete_port(&worker.vnfc_cp_info[0].id));
    let healed = place
        .heal(&what, &made, std::slice::from_ref(&worker.id))
        .await
        .unwrap();
    let successor = nth(&healed, "workerNode", 0);
    assert_ne!(successor.vnfc_cp_info[0].id, worker.vnfc_cp_info[0].id);
    assert_eq!(successor.vnfc_cp_info[1].id, worker.vnfc_cp_info[1].id);
    assert_eq!(nth(&healed, "workerNode", 1), nth(&made, "workerNode", 1));
    place.release(&what, healed.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_somebody_deleted_is_made_again() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let (what, made) = cluster(&place).await;
    assert!(world.cloud().delete_stack(&place.stack_name()));
    let meant = [nth(&made, "workerNode", 0).id.clone()];
    let healed = place.heal(&what, &made, &meant).await.unwrap();
    assert_eq!(place.owned().await, [place.stack_name()]);
    assert_ne!(healed.handle, made.handle);
    assert_eq!(servers(&world), 3);
    assert_eq!(place.heal(&what, &made, &meant).await.unwrap(), healed);
    assert!(world.cloud().delete_stack(&place.stack_name()));
    let gone = async { while !place.owned().await.is_empty() {} };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .unwrap();
    assert_eq!(
        place.observe(&what).await,
        Allocated::default(),
        "no stack, nothing seen"
    );
    is_clean(&world);
}

/// The engine of Heat dies: the stack stays in progress until somebody asks for an update again.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_nobody_works_on_is_asked_for_again() {
    let world = world(Duration::ZERO).await;
    let mut place = place(&world);
    let (what, made) = cluster(&place).await;
    place.seconds = 20;
    world
        .faults()
        .arm(Rule::new("heat.resource_create", Fault::Hang { hang: true }).on("workerNode-0"));
    let meant = [nth(&made, "workerNode", 0).id.clone()];
    let healed = place.heal(&what, &made, &meant).await.unwrap();
    replaced_are(&made, &healed, &meant);
    assert_eq!(updates(&world), 2);
    let heard = place.ear.all();
    assert!(
        heard
            .iter()
            .any(|text| text.contains("asking for its update again")),
        "{heard:?}"
    );
    assert_eq!(servers(&world), 3);
    place.release(&what, healed.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_heat_has_taken_and_not_begun_is_not_asked_for_again() {
    let world = world(Duration::ZERO).await;
    let mut place = place(&world);
    // However slow this machine is, no second passes.
    place.clock.stopped = Some(jiff::Timestamp::now());
    let (what, made) = cluster(&place).await;
    world
        .faults()
        .arm(Rule::new("heat.stack_begin", Fault::Hang { hang: true }));
    place.ear.forget();
    let meant = vec![nth(&made, "workerNode", 0).id.clone()];
    let heal = Box::pin(place.heal(&what, &made, &meant));
    let hears = Box::pin(place.ear.hears("Heat to begin with stack"));
    let heal = match futures::future::select(heal, hears).await {
        Either::Left((ended, _)) => panic!("it did not wait for Heat: {ended:?}"),
        Either::Right(((), heal)) => heal,
    };
    assert_eq!(updates(&world), 1);
    world.faults().disarm();
    let healed = heal.await;
    assert_eq!(updates(&world), 1);
    replaced_are(&made, &healed.unwrap(), &meant);
    place.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heal_that_fails_says_why_and_goes_on_once_the_cause_is_gone() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let (what, made) = cluster(&place).await;
    world.cloud().set_quota("instances", 2);
    let meant = [nth(&made, "workerNode", 0).id.clone()];
    let error = place.heal(&what, &made, &meant).await.unwrap_err();
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
    let seen = place.observe(&what).await;
    assert_eq!(
        seen.inventory.vnfc_resource_info.len(),
        2,
        "what exists of a failed stack"
    );
    world.cloud().set_quota("instances", -1);
    let healed = place.heal(&what, &made, &meant).await.unwrap();
    replaced_are(&made, &healed, &meant);
    place.release(&what, healed.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_creation_is_seen_as_it_is_and_healed_to_its_end() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let what = place.cluster(SAMPLES[0]);
    assert_eq!(place.observe(&what).await, Allocated::default());
    let prepared = place.prepare(&what).await.unwrap();
    world.cloud().set_quota("instances", 1);
    place.allocate(&what, &prepared).await.unwrap_err();
    let seen = place.observe(&what).await;
    assert_eq!(seen.inventory.vnfc_resource_info.len(), 1);
    let links = &seen.inventory.vnf_virtual_link_resource_info;
    assert!(
        links.iter().all(|link| !link.id.is_empty()) && links.len() == 1,
        "{links:?}"
    );
    assert!(seen.handle["stackId"].is_string());
    world.cloud().set_quota("instances", -1);
    let healed = place.heal(&what, &seen, &[]).await.unwrap();
    assert_eq!(healed.inventory.vnfc_resource_info.len(), 3);
    assert!(
        healed
            .inventory
            .vnfc_resource_info
            .contains(&seen.inventory.vnfc_resource_info[0])
    );
    place.release(&what, healed.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_failed_comes_anew_with_everything_on_it_and_leaves_nothing() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let (what, made) = cluster(&place).await;
    let fault = Fault::ErrorAfterEffect {
        error_after_effect: 500,
    };
    world
        .faults()
        .arm(Rule::new("heat.resource_create", fault).on("internalVL"));
    let meant = [nth(&made, "workerNode", 0).id.clone()];
    let error = place.heal(&what, &made, &meant).await.unwrap_err();
    assert_eq!(error.resource(), Some("internalVL"), "{error}");
    let networks = || {
        world
            .books()
            .stock()
            .into_iter()
            .filter(|one| one.kind == "network")
            .count()
    };
    let before = networks();
    let healed = place.heal(&what, &made, &meant).await.unwrap();
    assert_eq!((servers(&world), networks()), (3, before));
    place.release(&what, healed.handle).await.unwrap();
    is_clean(&world);
}

/// Services that fail for a while, a connection that is cut after the update took effect, a token that ends.
#[tokio::test(flavor = "multi_thread")]
async fn what_passes_by_itself_is_waited_out() {
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
    let place = place(&world);
    let (what, mut shown) = cluster(&place).await;
    for rule in rules {
        world.faults().arm(rule.clone());
        let meant = [nth(&shown, "workerNode", 1).id.clone()];
        let healed = place.heal(&what, &shown, &meant).await;
        let healed = healed.unwrap_or_else(|error| panic!("{rule:?}: {error}"));
        assert!(
            world.faults().script().iter().all(|(_, seen)| *seen > 0),
            "{rule:?}"
        );
        replaced_are(&shown, &healed, &meant);
        assert_eq!(servers(&world), 3);
        world.faults().disarm();
        shown = healed;
    }
    let tokens = world.books().calls_of("keystone.token_create").len();
    let meant = [nth(&shown, "workerNode", 1).id.clone()];
    world.faults().arm(Rule::new(
        "heat.stack_update",
        Fault::Delay { delay_ms: 200 },
    ));
    let (healed, ()) = tokio::join!(place.heal(&what, &shown, &meant), async {
        let called = async {
            while world.faults().script()[0].1 == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), called)
            .await
            .unwrap();
        world.cloud().revoke_tokens();
    });
    replaced_are(&shown, healed.as_ref().unwrap(), &meant);
    assert!(
        world.books().calls_of("keystone.token_create").len() > tokens,
        "renewed"
    );
    place.release(&what, healed.unwrap().handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_of_somebody_else_or_one_being_deleted_is_not_healed() {
    let world = world(Duration::ZERO).await;
    let (place, mut other) = (place(&world), place(&world));
    other
        .ownership
        .instance_id
        .clone_from(&place.ownership.instance_id);
    let (what, made) = cluster(&place).await;
    let meant = [nth(&made, "workerNode", 0).id.clone()];
    let nobody = Allocated {
        handle: Value::Null,
        ..made.clone()
    };
    let error = other.heal(&what, &nobody, &meant).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.stack-foreign", ErrorKind::Refused),
        "{error}"
    );
    assert_eq!(other.observe(&what).await, Allocated::default());
    assert_eq!(place.observe(&what).await, made, "not touched");
    assert_eq!(updates(&world), 0);
    world
        .faults()
        .arm(Rule::new("heat.resource_delete", Fault::Status { status: 500 }).nth(1, 40));
    let error = place.release(&what, made.handle.clone()).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.delete-failed", ErrorKind::Refused),
        "{error}"
    );
    let error = place.heal(&what, &made, &meant).await.unwrap_err();
    assert_eq!(error.name(), "heat.delete-failed", "{error}");
    assert!(
        error.next().contains("terminate the instance"),
        "{}",
        error.next()
    );
    world.faults().disarm();
    place.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}
