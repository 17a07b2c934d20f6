//! Affinity rules of the VNFD: in which zones VNFCs are placed, added and replaced, and which rules no host can hold.

use crate::bmc::{self, Bmc};
use crate::support::{SimulatedHosts, Site, hosts_of, owner, resized, ruled, sample};
use serde_json::json;
use std::sync::Arc;
use vnfm_core::ports::{ErrorKind, InfraDriver as _, PortError, Recorded};

/// A simulated host in each of these zones, from `node-1` on; `-` is no zone.
async fn hosts_in(zones: &[&str]) -> (SimulatedHosts, Site) {
    let hosts = SimulatedHosts::start(u8::try_from(zones.len()).unwrap()).await;
    let info = hosts.inventory(|name| {
        let position = hosts.names.iter().position(|one| one == name).unwrap();
        match zones[position] {
            "-" => json!({}),
            zone => json!({"zone": zone}),
        }
    });
    (hosts, Site::new(info))
}

/// The id of the VNFC at this position of the record; the controller is the first.
fn vnfc(record: &Recorded, position: usize) -> &str {
    &record.inventory.vnfc_resource_info[position].id
}

fn assert_none_free(error: &PortError) {
    let found = (error.kind(), error.name());
    assert_eq!(found, (ErrorKind::Refused, "hosts.none-free"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn anti_affinity_puts_vnfcs_into_different_zones() {
    let (hosts, site) = hosts_in(&["west", "west", "east"]).await;
    let first = owner();
    let record = site.create(&first, &sample()).await.unwrap();
    assert_eq!(
        hosts_of(&record),
        ["node-1", "node-2"],
        "the sample has no rule about zones"
    );
    site.release(&first, record.handle).await.unwrap();
    let what = ruled("AntiAffinityRule", "zone", &["control", "forwarder"]);
    let record = site.create(&owner(), &what).await.unwrap();
    assert_eq!(hosts_of(&record), ["node-1", "node-3"]);
    assert_eq!(hosts.leased(), ["node-1", "node-3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn anti_affinity_without_enough_zones_leases_nothing() {
    let (hosts, site) = hosts_in(&["west", "west", "-"]).await;
    let what = ruled("AntiAffinityRule", "zone", &["control", "forwarder"]);
    let previewed = site.preview(&owner(), &what).await.unwrap_err();
    let error = site.create(&owner(), &what).await.unwrap_err();
    assert_none_free(&error);
    assert_eq!(previewed.to_string(), error.to_string());
    let reasons = "2 VNFCs of `control`, `forwarder` need hosts of their own that suit the VDUs and the affinity rules; \
                   `node-1`: it is free, in zone `west`; `node-2`: it is free, in zone `west`; `node-3`: it is free, in no zone";
    assert!(error.to_string().contains(reasons), "{error}");
    assert!(hosts.leased().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn affinity_keeps_vnfcs_in_one_zone() {
    let (hosts, site) = hosts_in(&["west", "east", "east", "south"]).await;
    let what = ruled("AffinityRule", "zone", &["control", "forwarder"]);
    let record = site.create(&owner(), &what).await.unwrap();
    assert_eq!(hosts_of(&record), ["node-2", "node-3"]);
    // Two hosts are free, each in a zone of its own.
    let error = site.create(&owner(), &what).await.unwrap_err();
    assert_none_free(&error);
    assert_eq!(hosts.leased(), ["node-2", "node-3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn affinity_of_several_vnfcs_to_one_host_is_refused_before_any_lease() {
    let (hosts, site) = hosts_in(&["west", "west", "west"]).await;
    let what = ruled("AffinityRule", "nfvi_node", &["control", "forwarder"]);
    let refused = |error: PortError| {
        let found = (error.kind(), error.name(), error.resource());
        let expected = (ErrorKind::Refused, "hosts.unsupported", Some("apart"));
        assert_eq!(found, expected, "{error}");
        let why = "the affinity rule `apart` of scope `nfvi_node` cannot hold: each VNFC has a host of its own";
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(site.driver.validate_request(&what).unwrap_err());
    refused(site.preview(&owner(), &what).await.unwrap_err());
    refused(site.create(&owner(), &what).await.unwrap_err());
    assert!(hosts.leased().is_empty());
    // One VNFC is together with itself, until a second one is requested.
    let what = ruled("AffinityRule", "nfvi_node", &["forwarder"]);
    let owner = owner();
    let record = site.create(&owner, &what).await.unwrap();
    assert_eq!(hosts_of(&record), ["node-1", "node-2"]);
    let error = site.update(&owner, (&resized(&what, 2), &record)).await;
    refused(error.unwrap_err());
    assert_eq!(hosts.leased(), ["node-1", "node-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_out_keeps_anti_affinity() {
    let (hosts, site) = hosts_in(&["west", "west", "west", "east"]).await;
    let (owner, what) = (owner(), ruled("AntiAffinityRule", "zone", &["forwarder"]));
    let small = site.create(&owner, &what).await.unwrap();
    assert_eq!(hosts_of(&small), ["node-1", "node-2"]);
    let large = site.update(&owner, (&resized(&what, 2), &small)).await;
    let large = large.unwrap();
    assert_eq!(hosts_of(&large), ["node-1", "node-2", "node-4"]);
    let error = site.update(&owner, (&resized(&what, 3), &large)).await;
    let error = error.unwrap_err();
    assert_none_free(&error);
    let reason = "`node-3`: it is free, in zone `west`";
    assert!(error.to_string().contains(reason), "{error}");
    let observed = site.observe(&owner, &large).await.unwrap();
    assert_eq!(observed.handle, large.handle);
    assert_eq!(hosts.leased(), ["node-1", "node-2", "node-4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heal_keeps_anti_affinity_with_those_that_stay() {
    let (hosts, site) = hosts_in(&["west", "west", "east", "east"]).await;
    let what = ruled("AntiAffinityRule", "zone", &["control", "forwarder"]);
    let owner = owner();
    let record = site.create(&owner, &what).await.unwrap();
    assert_eq!(hosts_of(&record), ["node-1", "node-3"]);
    let healed = site.heal(&owner, (&what, &record), vnfc(&record, 1)).await;
    let healed = healed.unwrap();
    assert_eq!(
        hosts_of(&healed),
        ["node-1", "node-4"],
        "`node-2` is free, in the controller's zone"
    );
    assert_eq!(vnfc(&healed, 0), vnfc(&record, 0), "the controller stays");
    // No other host of the zone: the same one is wiped and leased again.
    hosts.world.hosts().power_off("node-3");
    let again = site.heal(&owner, (&what, &healed), vnfc(&healed, 1)).await;
    let again = again.unwrap();
    assert_eq!(hosts_of(&again), hosts_of(&healed));
    assert_ne!(vnfc(&again, 1), vnfc(&healed, 1), "a new VNFC");
    // All of the zone are silent: `node-2` does not serve instead, even if the controller's zone has room.
    hosts.world.hosts().power_off("node-4");
    let error = site.heal(&owner, (&what, &again), vnfc(&again, 1)).await;
    let error = error.unwrap_err();
    let found = (error.kind(), error.name());
    assert_eq!(
        found,
        (ErrorKind::Unavailable, "hosts.unresponsive"),
        "{error}"
    );
    assert!(!hosts.leased().contains(&"node-2".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_out_and_a_heal_keep_affinity() {
    let (hosts, site) = hosts_in(&["west", "east", "west", "west"]).await;
    let what = ruled("AffinityRule", "zone", &["control", "forwarder"]);
    let (owner, large) = (owner(), resized(&what, 2));
    let record = site.create(&owner, &what).await.unwrap();
    assert_eq!(hosts_of(&record), ["node-1", "node-3"]);
    let scaled = site.update(&owner, (&large, &record)).await.unwrap();
    assert_eq!(hosts_of(&scaled), ["node-1", "node-3", "node-4"]);
    // Only `node-2` is free, in another zone: the healed VNFC returns to its host.
    let healed = site.heal(&owner, (&large, &scaled), vnfc(&scaled, 1)).await;
    let healed = healed.unwrap();
    assert_eq!(hosts_of(&healed), hosts_of(&scaled));
    assert_ne!(vnfc(&healed, 1), vnfc(&scaled, 1), "a new VNFC");
    assert_eq!(hosts.leased(), ["node-1", "node-3", "node-4"]);
}

/// Gives each host a power switch.
async fn add_switches(hosts: SimulatedHosts, site: &Site) -> Arc<SimulatedHosts> {
    let hosts = Arc::new(hosts);
    let bmc = Bmc::start(hosts.clone()).await;
    let mut info = site.info.lock().unwrap();
    let mut entries = info.interface_info["hosts"].clone();
    for (entry, name) in entries.as_array_mut().unwrap().iter_mut().zip(&hosts.names) {
        entry["redfish"] = json!(bmc.system(name));
    }
    *info = info
        .clone()
        .interface("hosts", entries)
        .access("redfishUsername", bmc::USER)
        .access("redfishPassword", bmc::PASSWORD);
    drop(info);
    hosts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_off_in_a_zone_that_no_rule_permits_stays_off() {
    let (hosts, site) = hosts_in(&["west", "west", "west", "east"]).await;
    let hosts = add_switches(hosts, &site).await;
    let (owner, what) = (owner(), ruled("AntiAffinityRule", "zone", &["forwarder"]));
    let small = site.create(&owner, &what).await.unwrap();
    assert_eq!(hosts_of(&small), ["node-1", "node-2"]);
    let machines = hosts.world.hosts();
    machines.power_off("node-3");
    machines.power_off("node-4");
    let large = site.update(&owner, (&resized(&what, 2), &small)).await;
    let large = large.unwrap();
    assert_eq!(hosts_of(&large), ["node-1", "node-2", "node-4"]);
    // It would not help: the error is that of hosts that do not suit, and no reason to wait for an answer.
    let error = site.update(&owner, (&resized(&what, 3), &large)).await;
    assert_none_free(&error.unwrap_err());
    assert!(!machines.running().contains(&"node-3".to_owned()));
}
