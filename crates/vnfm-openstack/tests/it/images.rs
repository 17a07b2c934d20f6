//! Package images: the instances of a package share one image, also under concurrency, failures and crashes.

use crate::scenarios;
use crate::simulated::{assert_clean, bed, world};
use crate::support::{OneVdu, TestBed};
use futures::future::join_all;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule, When};

fn calls(world: &World, call: &str) -> usize {
    world.ledger().calls_named(call).len()
}

fn ids<'p>(beds: impl IntoIterator<Item = &'p TestBed>) -> BTreeSet<String> {
    beds.into_iter()
        .map(|bed| bed.ownership.instance_id.clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_package_share_its_image() {
    let world = world(Duration::ZERO).await;
    scenarios::instances_of_a_package_share_its_image(&bed(&world)).await;
    assert_eq!(
        (
            calls(&world, "glance.image_create"),
            calls(&world, "glance.image_upload")
        ),
        (1, 1)
    );
    assert_clean(&world);
}

/// Instances are created while others are released: there is never more than one image, and it lists all its users.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_instances_share_one_package_image() {
    let world = world(Duration::ZERO).await;
    let first = bed(&world);
    let allocation = &scenarios::with_image(&first);
    let create = |beds: Vec<TestBed>| async move {
        let allocated = join_all(beds.iter().map(|bed| bed.instantiate(allocation))).await;
        for one in allocated {
            one.unwrap();
        }
        beds
    };
    let release = |beds: Vec<TestBed>| async move {
        let deleted = join_all(beds.iter().map(|bed| bed.release(allocation, Value::Null))).await;
        for one in deleted {
            one.unwrap();
        }
    };
    let three = || (0..3).map(|_| first.other_instance()).collect::<Vec<_>>();
    let mut current = create(three()).await;
    for _ in 0..4 {
        let (created, ()) = tokio::join!(create(three()), release(current));
        let images: Vec<_> = first.images().await.into_values().collect();
        assert_eq!(
            images,
            [ids(&created)],
            "one image, with the current instances"
        );
        current = created;
    }
    release(current).await;
    let (created, deleted) = (
        calls(&world, "glance.image_create"),
        calls(&world, "glance.image_delete"),
    );
    assert_eq!(created, deleted);
    assert_clean(&world);
}

/// The next process takes over from one that ended during the upload or after it.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_upload_is_adopted() {
    for call in [
        "glance.image_create",
        "glance.image_upload",
        "heat.stack_create",
    ] {
        // A call without effect is repeated; the result of one that took effect is adopted.
        resumes_after(call, Fault::Hang { hang: true }, 2).await;
        resumes_after(
            call,
            Fault::HangAfterEffect {
                hang_after_effect: true,
            },
            1,
        )
        .await;
    }
}

/// A process ends while `call` hangs; the next one continues, and the call is made `times` times in total.
async fn resumes_after(call: &str, fault: Fault, times: usize) {
    let (world, at) = (world(Duration::ZERO).await, format!("{call} {fault:?}"));
    let bed = bed(&world);
    let allocation = scenarios::with_image(&bed);
    let prepared = bed.prepare(&allocation).await.unwrap();
    world.faults().add(Rule::new(call, fault));
    // The call log has the call after its effect; the fault script counts it before.
    let called = async {
        while calls(&world, call) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        allocated = bed.allocate(&allocation, &prepared) => panic!("{at}: the call did not hang: {allocated:?}"),
        () = called => {}
    }
    let next = bed.restarted();
    let allocated = next.allocate(&allocation, &prepared).await.unwrap();
    assert_eq!(next.images().await.len(), 1, "{at}");
    assert_eq!(calls(&world, call), times, "{at}");
    next.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}

/// Each call fails once in each way; the operation succeeds at once or on the next attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_failure_leaves_one_image_and_none_after_release() {
    let faults = [
        Fault::Status { status: 503 },
        Fault::ErrorAfterEffect {
            error_after_effect: 500,
        },
        Fault::Drop { drop: When::Before },
        Fault::Drop { drop: When::After },
    ];
    let calls = [
        "image_list",
        "image_create",
        "image_upload",
        "tag_put",
        "tag_delete",
        "image_delete",
    ];
    let all = calls
        .iter()
        .flat_map(|call| faults.iter().map(move |fault| fails_once(call, fault)));
    join_all(all).await;
}

async fn fails_once(call: &str, fault: &Fault) {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let (allocation, other) = (scenarios::with_image(&bed), bed.other_instance());
    world
        .faults()
        .add(Rule::new(format!("glance.{call}"), fault.clone()));
    for one in [&bed, &other] {
        if one.instantiate(&allocation).await.is_err() {
            one.instantiate(&allocation)
                .await
                .unwrap_or_else(|error| panic!("{call} {fault:?}: {error}"));
        }
    }
    let images: Vec<_> = bed.images().await.into_values().collect();
    assert_eq!(images, [ids([&bed, &other])], "{call} {fault:?}");
    for one in [&bed, &other] {
        if one.release(&allocation, Value::Null).await.is_err() {
            one.release(&allocation, Value::Null).await.unwrap();
        }
    }
    assert!(world.faults().rules()[0].1 > 0, "{call} was never called");
    assert_clean(&world);
}

/// Glance allows 128 tags per image: the next user creates another image. Each is deleted with its last user.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_image_is_created_when_the_first_is_full_of_tags() {
    let world = world(Duration::ZERO).await;
    let first = bed(&world);
    let (allocation, second, third) = (
        scenarios::with_image(&first),
        first.other_instance(),
        first.other_instance(),
    );
    first.instantiate(&allocation).await.unwrap();
    world
        .faults()
        .add(Rule::new("glance.tag_put", Fault::Status { status: 413 }).nth(1, 1));
    second.instantiate(&allocation).await.unwrap();
    third.instantiate(&allocation).await.unwrap();
    let images = first.images().await;
    assert_eq!(images.len(), 2, "{images:?}");
    let users: BTreeSet<_> = images.into_values().flatten().collect();
    assert_eq!(users, ids([&first, &second, &third]));
    for one in [first, second, third] {
        one.release(&allocation, Value::Null).await.unwrap();
    }
    assert_clean(&world);
}

/// An image uploaded by another VNFM is deleted with its instances, so it is not used by name.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_uploaded_by_another_vnfm_is_not_used_by_name() {
    let world = world(Duration::ZERO).await;
    let (theirs, ours) = (bed(&world), bed(&world));
    let allocation = scenarios::with_image(&theirs);
    let allocated = theirs.instantiate(&allocation).await.unwrap();
    let without = OneVdu {
        image: "brought-along",
        ..OneVdu::default()
    }
    .allocation(&ours);
    assert_eq!(
        ours.prepare(&without).await.unwrap_err().name(),
        "openstack.no-image"
    );
    let own = ours.instantiate(&allocation).await.unwrap();
    assert_eq!(
        ours.images().await.into_values().collect::<Vec<_>>(),
        [ids([&ours])]
    );
    theirs.release(&allocation, allocated.handle).await.unwrap();
    assert_eq!(ours.images().await.len(), 1);
    ours.release(&allocation, own.handle).await.unwrap();
    assert_clean(&world);
}
