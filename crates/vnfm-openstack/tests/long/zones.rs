//! Other zones where no host has room, on a real OpenStack with two compute hosts, of which one is put into a zone of its own. The
//! clouds.yaml also needs an administrator `admin`.

use crate::bed::{bed, connection, login};
use crate::cloud_user::CloudUser;
use crate::support::{OneVdu, TestBed};
use crate::zone_scenarios::{in_another_package, made_of, servers_stay_where_they_are};
use futures::FutureExt;
use reqwest::Method;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use vnfm_core::ports::{Allocation, compute_id};

const ZONE: &str = "vnfm-test";

/// The zone has one host, so there is no room in it for the second of two servers that are kept apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_host_in_its_zone_is_created_in_another_one() {
    let Some(bed) = bed() else { return };
    let (name, password) = login("admin");
    let info = connection().unwrap();
    let admin = CloudUser::log_in(&info, Some((&name, &password))).await;
    remove_zone(&admin).await;
    add_zone(&admin).await;
    let vdu = OneVdu {
        count: 2,
        apart: true,
        ..OneVdu::default()
    };
    let mut allocation = vdu.allocation(&bed);
    let zones = &mut Arc::make_mut(&mut allocation.deployment).placement.zones;
    zones.extend([0, 1].map(|index| (compute_id("server", index), ZONE.to_owned())));
    let scenario = bed.with_cleanup(&allocation, places_both(&bed, &allocation));
    let outcome = AssertUnwindSafe(scenario).catch_unwind().await;
    remove_zone(&admin).await;
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
}

async fn places_both(bed: &TestBed, allocation: &Allocation) {
    bed.vim.set_extra("reselectZones", true.into());
    let created = bed.instantiate_with_resolved(allocation).await;
    let vnfcs = created.inventory.vnfc_resource_info.iter();
    let mut zones: Vec<&str> = vnfcs
        .filter_map(|vnfc| vnfc.metadata["zone"].as_str())
        .collect();
    zones.sort_unstable();
    assert_eq!(zones, ["nova", ZONE]);
    let kept = made_of(allocation, &created.resolved);
    let same = bed.heal(&kept, &created, &[]).await.unwrap();
    assert_eq!(
        same.inventory, created.inventory,
        "a later call moves nothing"
    );
    let target = in_another_package(allocation);
    let undone = servers_stay_where_they_are(bed, (&created, &kept), &target).await;
    bed.release(&kept, undone.handle).await.unwrap();
    assert!(bed.owned().await.is_empty());
}

/// Puts the last compute host into the zone.
async fn add_zone(admin: &CloudUser) {
    let listed = admin
        .call(
            Method::GET,
            ("compute", "/os-services?binary=nova-compute"),
            Value::Null,
        )
        .await;
    let services = listed["services"].as_array().unwrap();
    let mut hosts: Vec<&str> = services
        .iter()
        .filter_map(|one| one["host"].as_str())
        .collect();
    hosts.sort_unstable();
    assert!(
        hosts.len() > 1,
        "the test needs two compute hosts: {hosts:?}"
    );
    let aggregate = json!({"aggregate": {"name": ZONE, "availability_zone": ZONE}});
    let made = admin
        .call(Method::POST, ("compute", "/os-aggregates"), aggregate)
        .await;
    let action = format!("/os-aggregates/{}/action", made["aggregate"]["id"]);
    let add = json!({"add_host": {"host": hosts.last()}});
    admin.call(Method::POST, ("compute", &action), add).await;
}

/// Removes the zone, also one that an earlier run has left.
async fn remove_zone(admin: &CloudUser) {
    let listed = admin
        .call(Method::GET, ("compute", "/os-aggregates"), Value::Null)
        .await;
    for aggregate in listed["aggregates"].as_array().unwrap() {
        if aggregate["name"] != ZONE {
            continue;
        }
        let path = format!("/os-aggregates/{}", aggregate["id"]);
        for host in aggregate["hosts"].as_array().unwrap() {
            let action = format!("{path}/action");
            let remove = json!({"remove_host": {"host": host}});
            admin.call(Method::POST, ("compute", &action), remove).await;
        }
        admin
            .call(Method::DELETE, ("compute", &path), Value::Null)
            .await;
    }
}
