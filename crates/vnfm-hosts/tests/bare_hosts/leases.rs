//! Leases on simulated hosts: concurrent instances, silent hosts, wiping, and what the record shows.

use crate::support::{PASSWORD, SimulatedHosts, Site, hosts_of, owner, sample, with_forwarders};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{ErrorKind, InfraDriver as _};

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_never_lease_the_same_host() {
    let hosts = SimulatedHosts::start(6).await;
    let (one, other) = (hosts.site(), hosts.site());
    let (first, second, what) = (owner(), owner(), with_forwarders(2));
    let (first, second) = tokio::join!(one.create(&first, &what), other.create(&second, &what));
    let (first, second) = (hosts_of(&first.unwrap()), hosts_of(&second.unwrap()));
    let all: BTreeSet<_> = first.iter().chain(&second).collect();
    assert_eq!((first.len(), second.len(), all.len()), (3, 3, 6));
    let third = one.preview(&owner(), &what).await.unwrap_err();
    assert_eq!(
        (third.kind(), third.name()),
        (ErrorKind::Refused, "hosts.none-free")
    );
    assert!(
        third.to_string().contains("`node-1`: it is leased"),
        "{third}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_has_addresses_facts_and_external_connection_points() {
    let hosts = SimulatedHosts::start(2).await;
    let info = hosts.inventory(|name| {
        let address = if name == "node-1" {
            "198.51.100.1"
        } else {
            "2001:db8::2"
        };
        json!({"zone": "rack-1", "labels": {"rack": "1"}, "addresses": {"@NETWORK_ID@": address}})
    });
    let site = Site::new(info);
    let record = site.create(&owner(), &sample()).await.unwrap();
    let inventory = json!(record.inventory);
    let vnfc = &inventory["vnfcResourceInfo"][0];
    assert_eq!(vnfc["vduId"], "control");
    assert_eq!(
        vnfc["computeResource"]["vimLevelResourceType"],
        "VNFM::Hosts::Host"
    );
    assert_eq!(vnfc["metadata"]["memoryMib"], 8192);
    assert_eq!(vnfc["metadata"]["nics"][0]["sriovVfs"], 8);
    let address = "/vnfcCpInfo/0/cpProtocolInfo/0/ipOverEthernet/ipAddresses/0";
    assert_eq!(
        vnfc.pointer(address).unwrap()["addresses"],
        json!(["198.51.100.1"])
    );
    let other = &inventory["vnfcResourceInfo"][1];
    assert_eq!(other.pointer(address).unwrap()["type"], "IPV6");
    assert_eq!(inventory["extCpInfo"][0]["cpConfigId"], "any");
    let ports = inventory["extVirtualLinkInfo"][0]["extLinkPorts"]
        .as_array()
        .unwrap();
    assert_eq!(ports.len(), 2, "{inventory:#}");
    let network = "another network";
    let mut what = sample();
    let deployment = std::sync::Arc::make_mut(&mut what.deployment);
    network.clone_into(&mut deployment.ext_virtual_links[0].resource_id);
    let error = site.preview(&owner(), &what).await.unwrap_err();
    assert_eq!(error.name(), "hosts.none-free", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_host_is_replaced_and_returned_when_it_is_back() {
    let hosts = SimulatedHosts::start(3).await;
    let (site, owner, what) = (hosts.site(), owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    let dead = hosts_of(&record)[1].clone();
    hosts.world.hosts().power_off(&dead);
    let vnfc = record.inventory.vnfc_resource_info[1].id.clone();
    let observed = site.observe(&owner, &record).await.unwrap();
    assert_eq!(
        hosts_of(&observed),
        hosts_of(&record),
        "a silent host stays in the record"
    );
    let error = site
        .release(&owner, record.handle.clone())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.resource()),
        (ErrorKind::Unavailable, Some(dead.as_str()))
    );
    let healed = site.heal(&owner, (&what, &record), &vnfc).await.unwrap();
    assert_eq!(hosts_of(&healed)[0], hosts_of(&record)[0]);
    assert!(!hosts_of(&healed).contains(&dead));
    let again = site.heal(&owner, (&what, &record), &vnfc).await.unwrap();
    assert_eq!(
        again.handle, healed.handle,
        "a repeated call replaces nothing more"
    );
    assert_eq!(healed.handle["lost"][0]["host"], json!(dead));
    hosts.world.hosts().power_on(&dead).await.unwrap();
    let settled = site.update(&owner, (&what, &healed)).await.unwrap();
    assert_eq!(hosts_of(&settled), hosts_of(&healed));
    assert!(!hosts.leased().contains(&dead), "its lease was removed");
    site.release(&owner, settled.handle).await.unwrap();
    assert!(hosts.leased().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_instance_leaves_a_lost_host_to_the_list_of_orphans() {
    let hosts = SimulatedHosts::start(3).await;
    let (site, owner, what) = (hosts.site(), owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    let dead = hosts_of(&record)[1].clone();
    hosts.world.hosts().power_off(&dead);
    let vnfc = record.inventory.vnfc_resource_info[1].id.clone();
    let healed = site.heal(&owner, (&what, &record), &vnfc).await.unwrap();
    site.release(&owner, healed.handle).await.unwrap();
    hosts.world.hosts().power_on(&dead).await.unwrap();
    let owned = site.driver.owned(&site, "installation").await.unwrap();
    assert_eq!((owned.len(), &owned[0].name), (1, &dead));
    assert_eq!(owned[0].instance_id.as_ref(), Some(&owner.instance_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_be_wiped_keeps_its_lease_and_is_no_vnfc_again() {
    let hosts = SimulatedHosts::start(3).await;
    let (site, owner) = (hosts.site(), owner());
    let (large, small) = (with_forwarders(2), sample());
    let record = site.create(&owner, &large).await.unwrap();
    let right = site.info.lock().unwrap().clone();
    let broken = right.clone().interface("wipeCommand", "no-such-program");
    *site.info.lock().unwrap() = broken;
    let error = site.update(&owner, (&small, &record)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "hosts.wipe"),
        "{error}"
    );
    assert_eq!(hosts.leased().len(), 3);
    let leaving = &hosts_of(&record)[2];
    assert_eq!(hosts.lease(leaving)["returning"], Value::Bool(true));
    *site.info.lock().unwrap() = right;
    // A rollback to the larger size takes a host again only after it was wiped.
    let back = site.update(&owner, (&large, &record)).await.unwrap();
    assert_eq!(hosts_of(&back).len(), 3);
    let ids =
        |record: &vnfm_core::ports::Recorded| record.inventory.vnfc_resource_info[2].id.clone();
    assert_ne!(
        ids(&back),
        ids(&record),
        "the host was wiped: its VNFC is another one"
    );
    site.release(&owner, back.handle).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_of_grants_decide_about_hosts() {
    let hosts = SimulatedHosts::start(4).await;
    let zone = |name: &str| {
        if name.ends_with(['1', '2']) {
            "west"
        } else {
            "east"
        }
    };
    let site = Site::new(hosts.inventory(|name| json!({"zone": zone(name)})));
    let mut what = with_forwarders(1);
    let deployment = std::sync::Arc::make_mut(&mut what.deployment);
    for vdu in ["control", "forwarder"] {
        let id = vnfm_core::ports::compute_id(vdu, 0);
        deployment.placement.zones.insert(id, "east".into());
    }
    let record = site.create(&owner(), &what).await.unwrap();
    let mut used = hosts_of(&record);
    used.sort();
    assert_eq!(used, ["node-3", "node-4"]);
    let error = site.preview(&owner(), &what).await.unwrap_err();
    assert!(
        error.to_string().contains("it is not in zone `east`"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_reports_hosts_that_are_free_or_silent() {
    let hosts = SimulatedHosts::start(3).await;
    let site = hosts.site();
    hosts.world.hosts().power_off("node-2");
    let report = site.driver.check(&site).await.unwrap();
    assert_eq!(
        json!(report.detail),
        json!({"hosts": 3, "free": 2, "unresponsive": ["node-2"]})
    );
    let wrong = hosts.inventory(|_| json!({}));
    *site.info.lock().unwrap() = wrong.access("password", "wrong-password");
    let error = site.driver.check(&site).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert_eq!(error.kind(), ErrorKind::Refused, "{text}");
    assert!(!text.contains("wrong-password") && !text.contains(PASSWORD));
}
