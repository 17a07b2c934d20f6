//! Heals that fail: in the middle, for a while, or because a stack is another's.

use crate::failed_change_scenarios;
use crate::heal::{SAMPLES, cluster, servers, updates};
use crate::heal_scenarios::{assert_replaced, nth};
use crate::simulated::{assert_clean, bed, world};
use serde_json::Value;
use std::time::Duration;
use vnfm_core::ports::{ErrorKind, Recorded};
use vnfm_sim::faults::{Fault, Rule, When};

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
    assert_eq!(bed.observe(&allocation).await, Recorded::default());
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
    let unknown = Recorded {
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
    assert_eq!(other.observe(&allocation).await, Recorded::default());
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

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_replacement_leaves_the_ports() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let pair = failed_change_scenarios::pair(&bed);
    let fill = || world.cloud().fill_zone("nova");
    failed_change_scenarios::a_failed_replacement_leaves_the_ports(&bed, &pair, fill).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_batch_is_reversed() {
    let world = world(Duration::ZERO).await;
    failed_change_scenarios::a_failed_batch_is_reversed(&bed(&world)).await;
    assert_clean(&world);
}
