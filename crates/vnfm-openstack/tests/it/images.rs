//! Images that packages bring: one for all instances of a package, whoever comes and goes meanwhile, and whatever ends in the
//! middle.

use crate::simulated::{is_clean, place, world};
use crate::stories;
use crate::support::{OneVdu, Place};
use futures::future::join_all;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule, When};

fn calls(world: &World, call: &str) -> usize {
    world.books().calls_of(call).len()
}

fn ids<'p>(places: impl IntoIterator<Item = &'p Place>) -> BTreeSet<String> {
    places
        .into_iter()
        .map(|place| place.ownership.instance_id.clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_package_share_its_image() {
    let world = world(Duration::ZERO).await;
    stories::instances_of_a_package_share_its_image(&place(&world)).await;
    assert_eq!(
        (
            calls(&world, "glance.image_create"),
            calls(&world, "glance.image_upload")
        ),
        (1, 1)
    );
    is_clean(&world);
}

/// Some come while others go, again and again: there is never more than one image, and it has its users, all of them.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_and_goes_at_once_neither_doubles_nor_misses_it() {
    let world = world(Duration::ZERO).await;
    let first = place(&world);
    let what = &stories::with_image(&first);
    let come = |places: Vec<Place>| async move {
        let made = join_all(places.iter().map(|place| place.make(what))).await;
        for one in made {
            one.unwrap();
        }
        places
    };
    let go = |places: Vec<Place>| async move {
        let gone = join_all(places.iter().map(|place| place.release(what, Value::Null))).await;
        for one in gone {
            one.unwrap();
        }
    };
    let three = || (0..3).map(|_| first.beside()).collect::<Vec<_>>();
    let mut there = come(three()).await;
    for _ in 0..4 {
        let (came, ()) = tokio::join!(come(three()), go(there));
        let images: Vec<_> = first.images().await.into_values().collect();
        assert_eq!(images, [ids(&came)], "one image, with those that are there");
        there = came;
    }
    go(there).await;
    let (created, deleted) = (
        calls(&world, "glance.image_create"),
        calls(&world, "glance.image_delete"),
    );
    assert_eq!(created, deleted);
    is_clean(&world);
}

/// A process that ends when the image is whole, or on its way, is gone on with by the next one.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_nobody_wrote_down_is_adopted() {
    for call in [
        "glance.image_create",
        "glance.image_upload",
        "heat.stack_create",
    ] {
        // Where the call was in vain it is made again; where it was not, what it did is adopted.
        goes_on(call, Fault::Hang { hang: true }, 2).await;
        goes_on(
            call,
            Fault::HangAfterEffect {
                hang_after_effect: true,
            },
            1,
        )
        .await;
    }
}

/// Of a process that ended while `call` hung the next one goes on, and the call is made so often in all.
async fn goes_on(call: &str, fault: Fault, times: usize) {
    let (world, at) = (world(Duration::ZERO).await, format!("{call} {fault:?}"));
    let place = place(&world);
    let what = stories::with_image(&place);
    let prepared = place.prepare(&what).await.unwrap();
    world.faults().arm(Rule::new(call, fault));
    // The books have it once its effect is there; the script counts it before.
    let called = async {
        while calls(&world, call) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        made = place.allocate(&what, &prepared) => panic!("{at}: it did not hang: {made:?}"),
        () = called => {}
    }
    let next = place.twin();
    let made = next.allocate(&what, &prepared).await.unwrap();
    assert_eq!(next.images().await.len(), 1, "{at}");
    assert_eq!(calls(&world, call), times, "{at}");
    next.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}

/// Each call fails once in each way: what was asked for is there all the same, or the next try makes it so.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_once_leaves_one_image_and_in_the_end_none() {
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
    let place = place(&world);
    let (what, other) = (stories::with_image(&place), place.beside());
    world
        .faults()
        .arm(Rule::new(format!("glance.{call}"), fault.clone()));
    for one in [&place, &other] {
        if one.make(&what).await.is_err() {
            one.make(&what)
                .await
                .unwrap_or_else(|error| panic!("{call} {fault:?}: {error}"));
        }
    }
    let images: Vec<_> = place.images().await.into_values().collect();
    assert_eq!(images, [ids([&place, &other])], "{call} {fault:?}");
    for one in [&place, &other] {
        if one.release(&what, Value::Null).await.is_err() {
            one.release(&what, Value::Null).await.unwrap();
        }
    }
    assert!(world.faults().script()[0].1 > 0, "{call} was never called");
    is_clean(&world);
}

/// Glance takes 128 tags of an image: who finds no room makes one more, and each goes with its last user.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_takes_no_more_tags_gets_a_sibling() {
    let world = world(Duration::ZERO).await;
    let first = place(&world);
    let (what, second, third) = (stories::with_image(&first), first.beside(), first.beside());
    first.make(&what).await.unwrap();
    world
        .faults()
        .arm(Rule::new("glance.tag_put", Fault::Status { status: 413 }).nth(1, 1));
    second.make(&what).await.unwrap();
    third.make(&what).await.unwrap();
    let images = first.images().await;
    assert_eq!(images.len(), 2, "{images:?}");
    let users: BTreeSet<_> = images.into_values().flatten().collect();
    assert_eq!(users, ids([&first, &second, &third]));
    for one in [first, second, third] {
        one.release(&what, Value::Null).await.unwrap();
    }
    is_clean(&world);
}

/// An image that another VNFM's package brought goes with its instances: it is not used by its name.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_package_of_somebody_else_brought_is_not_taken_for_the_clouds() {
    let world = world(Duration::ZERO).await;
    let (theirs, ours) = (place(&world), place(&world));
    let what = stories::with_image(&theirs);
    let made = theirs.make(&what).await.unwrap();
    let without = OneVdu {
        image: "brought-along",
        ..OneVdu::default()
    }
    .on(&ours);
    assert_eq!(
        ours.prepare(&without).await.unwrap_err().name(),
        "openstack.no-image"
    );
    let own = ours.make(&what).await.unwrap();
    assert_eq!(
        ours.images().await.into_values().collect::<Vec<_>>(),
        [ids([&ours])]
    );
    theirs.release(&what, made.handle).await.unwrap();
    assert_eq!(ours.images().await.len(), 1);
    ours.release(&what, own.handle).await.unwrap();
    is_clean(&world);
}
