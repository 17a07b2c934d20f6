//! Other zones where no host has room, on the simulated cloud.

use crate::simulated::{assert_clean, bed, creations, updates, world};
use crate::support::{OneVdu, TestBed};
use crate::zone_scenarios::{in_another_package, made_of, places, servers_stay_where_they_are};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver, Recorded, ResourceChange, ResourcePlan, compute_id,
};

/// Servers that no host of the granted zone has room for are created in another one, and stay there; the zone `full` is full.
async fn assert_that_another_zone_is_tried(
    bed: &TestBed,
    (full, other): (&str, &str),
    tackers_layout: bool,
) {
    let vdu = OneVdu {
        count: 2,
        tackers_layout,
        ..OneVdu::default()
    };
    let mut allocation = vdu.allocation(bed);
    let zones = &mut Arc::make_mut(&mut allocation.deployment).placement.zones;
    zones.insert(compute_id("server", 0), full.to_owned());
    let second = if tackers_layout { full } else { other };
    zones.insert(compute_id("server", 1), second.to_owned());
    let error = bed.instantiate(&allocation).await.unwrap_err();
    assert!(error.to_string().contains("No valid host"), "{error}");
    bed.release(&allocation, Value::Null).await.unwrap();

    bed.vim.set_extra("reselectZones", true.into());
    let created = bed.instantiate_with_resolved(&allocation).await;
    let zones = |recorded: &Recorded| -> Vec<(String, Value)> {
        let vnfcs = recorded.inventory.vnfc_resource_info.iter();
        vnfcs
            .map(|vnfc| (vnfc.id.clone(), vnfc.metadata["zone"].clone()))
            .collect()
    };
    let before = zones(&created);
    assert!(before.iter().all(|(_, zone)| zone == other), "{before:?}");
    let text = format!("`compute/server/0`: trying zone `{other}` instead of the granted `{full}`");
    let messages = bed.watcher.messages();
    assert!(
        messages.iter().any(|one| one.contains(&text)),
        "{messages:#?}"
    );

    // A later call finds the stack as it should be, and a new server changes no other.
    Arc::make_mut(&mut allocation.deployment).resolved = created.resolved.clone();
    let same = bed.heal(&allocation, &created, &[]).await.unwrap();
    assert_eq!(
        zones(&same),
        before,
        "{tackers_layout} {:#?}",
        bed.watcher.messages()
    );
    let target = Arc::make_mut(&mut allocation.deployment);
    target.vdu_instances.insert("server".into(), 3);
    target
        .placement
        .zones
        .insert(compute_id("server", 2), other.to_owned());
    if !tackers_layout {
        let scaled = bed.heal(&allocation, &created, &[]).await.unwrap();
        let after = zones(&scaled);
        assert_eq!(after.len(), 3);
        assert!(
            before.iter().all(|one| after.contains(one)),
            "{before:?} {after:?}"
        );
    }
    bed.release(&allocation, created.handle).await.unwrap();
    assert!(bed.owned().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_zone_is_tried_where_the_operator_allows_it() {
    for tackers_layout in [false, true] {
        let world = world(Duration::ZERO).await;
        world.cloud().fill_zone("edge");
        let bed = bed(&world);
        assert_that_another_zone_is_tried(&bed, ("edge", "nova"), tackers_layout).await;
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_zone_is_tried_once_and_the_failure_stays_if_all_are_full() {
    let world = world(Duration::ZERO).await;
    world.cloud().fill_zone("edge");
    world.cloud().fill_zone("nova");
    let bed = bed(&world);
    bed.vim.set_extra("reselectZones", json!(true));
    let mut allocation = OneVdu::default().allocation(&bed);
    let placement = &mut Arc::make_mut(&mut allocation.deployment).placement;
    placement
        .zones
        .insert(compute_id("server", 0), "edge".into());
    let error = bed.instantiate(&allocation).await.unwrap_err();
    assert!(error.to_string().contains("No valid host"), "{error}");
    assert_eq!((creations(&world), updates(&world)), (1, 1));
    bed.release(&allocation, Value::Null).await.unwrap();
    assert_clean(&world);
}

/// Two servers that were granted the zone `edge`, which is full.
fn granted_a_full_zone(bed: &TestBed, tackers_layout: bool) -> Allocation {
    let vdu = OneVdu {
        count: 2,
        tackers_layout,
        ..OneVdu::default()
    };
    let mut allocation = vdu.allocation(bed);
    let zones = &mut Arc::make_mut(&mut allocation.deployment).placement.zones;
    zones.extend([0, 1].map(|index| (compute_id("server", index), "edge".to_owned())));
    allocation
}

#[tokio::test(flavor = "multi_thread")]
async fn another_flavour_or_package_keeps_the_zones() {
    for tackers_layout in [false, true] {
        let world = world(Duration::ZERO).await;
        world.cloud().fill_zone("edge");
        let bed = bed(&world);
        bed.vim.set_extra("reselectZones", json!(true));
        let allocation = granted_a_full_zone(&bed, tackers_layout);
        let created = bed.instantiate_with_resolved(&allocation).await;
        let before = made_of(&allocation, &created.resolved);
        let mut target = in_another_package(&allocation);
        if !tackers_layout {
            // A new server tries the granted zone, too.
            let deployment = Arc::make_mut(&mut target.deployment);
            deployment.vdu_instances.insert("server".into(), 3);
            let zones = &mut deployment.placement.zones;
            zones.insert(compute_id("server", 2), "edge".to_owned());
        }
        let undone = servers_stay_where_they_are(&bed, (&created, &before), &target).await;
        assert!(places(&undone).iter().all(|(_, zone)| *zone == "nova"));
        bed.release(&before, undone.handle).await.unwrap();
        assert_clean(&world);
    }
}

/// A new grant for a server decides again.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_of_another_grant_replaces_the_chosen_one() {
    let world = world(Duration::ZERO).await;
    world.cloud().fill_zone("edge");
    let bed = bed(&world);
    bed.vim.set_extra("reselectZones", json!(true));
    let allocation = granted_a_full_zone(&bed, false);
    let created = bed.instantiate_with_resolved(&allocation).await;
    let before = made_of(&allocation, &created.resolved);
    let mut target = in_another_package(&allocation);
    let zones = &mut Arc::make_mut(&mut target.deployment).placement.zones;
    zones.insert(compute_id("server", 0), "nova".to_owned());
    let change = Convergence::update(&created, &target).coming_from(&before);
    let preview = bed.driver.preview(&bed.call(), &change).await.unwrap();
    let chosen = preview["zones"].as_object().unwrap();
    assert_eq!(chosen.keys().collect::<Vec<_>>(), ["compute/server/1"]);
    bed.release(&before, created.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_names_the_zones_of_new_servers() {
    for tackers_layout in [false, true] {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let allocation = granted_a_full_zone(&bed, tackers_layout);
        let creation = Convergence::create(&allocation);
        let plan = async |change: &Convergence<'_>| {
            let change = ResourceChange::Converge(change);
            bed.driver.plan(&bed.call(), &change).await.unwrap()
        };
        assert_eq!(zones(&plan(&creation).await), ["edge", "edge"]);
        let may_move = |plan: &ResourcePlan| {
            let mut all = plan.unknown.iter();
            all.any(|one| one.contains("`extra.reselectZones`"))
        };
        assert!(!may_move(&plan(&creation).await));
        bed.vim.set_extra("reselectZones", json!(true));
        assert!(may_move(&plan(&creation).await));

        // Of an instance whose servers are elsewhere, a replaced server stays there.
        world.cloud().fill_zone("edge");
        let created = bed.instantiate_with_resolved(&allocation).await;
        let known = made_of(&allocation, &created.resolved);
        let replace = vnfm_core::ports::Replacement {
            vnfcs: vec![created.inventory.vnfc_resource_info[0].id.clone()],
            with_storage: false,
        };
        let healing = Convergence::update(&created, &known).replacing(replace);
        assert_eq!(zones(&plan(&healing).await), ["nova"]);
        bed.release(&known, created.handle).await.unwrap();
        assert_clean(&world);
    }
}

/// The zones that a plan names.
fn zones(plan: &ResourcePlan) -> Vec<&str> {
    let rows = plan.resources.iter();
    rows.filter_map(|row| row.zone.as_deref()).collect()
}
