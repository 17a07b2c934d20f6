//! Scenarios for every cloud, simulated or real.

use crate::support::{OneVdu, TestBed};
use serde_json::Value;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, ErrorKind, InfraDriver, Recorded, compute_id, link_id};

/// Allocates twice (the second adopts the stack), then releases three times.
pub(crate) async fn create_and_release_sample(bed: &TestBed, sample: &str) {
    let allocation = bed.cluster(sample);
    bed.driver.validate_request(&allocation).unwrap();
    let prepared = bed.prepare(&allocation).await.unwrap();
    let first = bed.allocate(&allocation, &prepared).await.unwrap();
    assert_cluster(&first);
    assert_eq!(bed.owned().await, [bed.stack_name()]);
    let again = bed.allocate(&allocation, &prepared).await.unwrap();
    assert_eq!(again, first, "a repeated allocate adopts the stack");
    bed.release(&allocation, first.handle.clone())
        .await
        .unwrap();
    assert!(bed.owned().await.is_empty());
    bed.release(&allocation, first.handle).await.unwrap();
    bed.release(&allocation, Value::Null).await.unwrap();
}

fn assert_cluster(allocated: &Recorded) {
    let found = &allocated.inventory;
    let vdus: Vec<&str> = found
        .vnfc_resource_info
        .iter()
        .map(|vnfc| vnfc.vdu_id.as_str())
        .collect();
    assert_eq!(vdus, ["masterNode", "workerNode", "workerNode"]);
    for vnfc in &found.vnfc_resource_info {
        assert!(!vnfc.metadata["name"].as_str().unwrap().is_empty());
        assert_eq!(vnfc.metadata["flavor"], "m1.tiny");
        assert_eq!(
            vnfc.compute_resource.vim_connection_id.as_deref(),
            Some("vim1")
        );
        let cps: Vec<&str> = vnfc
            .vnfc_cp_info
            .iter()
            .map(|cp| cp.cpd_id.as_str())
            .collect();
        let expected = ["InternalCP", "ExternalCP"].map(|end| format!("{}{end}", vnfc.vdu_id));
        assert_eq!(cps, expected);
        for cp in &vnfc.vnfc_cp_info {
            let ethernet = cp.cp_protocol_info[0].ip_over_ethernet.as_ref().unwrap();
            assert!(ethernet.mac_address.is_some());
            assert_eq!(ethernet.ip_addresses[0].type_, "IPV4");
            assert_eq!(ethernet.ip_addresses[0].addresses.len(), 1);
        }
        assert!(vnfc.vnfc_cp_info[0].vnf_link_port_id.is_some());
        assert!(vnfc.vnfc_cp_info[1].vnf_ext_cp_id.is_some());
    }
    assert_eq!(found.ext_cp_info.len(), 3);
    assert_eq!(found.ext_virtual_link_info[0].ext_link_ports.len(), 3);
    assert_eq!(found.vnf_virtual_link_resource_info.len(), 1);
    assert_eq!(
        found.vnf_virtual_link_resource_info[0].vnf_virtual_link_desc_id,
        "internalVL"
    );
    assert_eq!(
        found.vnf_virtual_link_resource_info[0].vnf_link_ports.len(),
        3
    );
    assert!(allocated.handle["stackId"].is_string());
}

/// A server of Tacker's layout is where the grant says, and anywhere without a zone in the grant.
pub(crate) async fn tackers_layout_has_the_granted_zone(bed: &TestBed, granted: &str) {
    let vdu = OneVdu {
        tackers_layout: true,
        ..OneVdu::default()
    };
    for granted in [None, Some(granted)] {
        let mut allocation = vdu.allocation(bed);
        let zones = granted.map(|zone| (compute_id("server", 0), zone.to_owned()));
        let deployment = Arc::make_mut(&mut allocation.deployment);
        deployment.placement.zones.extend(zones);
        let prepared = bed.prepare(&allocation).await.unwrap();
        let created = bed.allocate(&allocation, &prepared).await.unwrap();
        let server = &created.inventory.vnfc_resource_info[0];
        assert_eq!(server.metadata["zone"], granted.unwrap_or("nova"));
        bed.release(&allocation, created.handle).await.unwrap();
    }
}

/// A zone that no parameter of the package's template accepts is refused, or logged once for each VDU.
pub(crate) async fn an_unplaced_zone_is_refused_or_logged(bed: &TestBed, zone: &str) {
    let mut allocation = bed.cluster("vnf-a-k8s-cluster-base-hot");
    let placement = &mut Arc::make_mut(&mut allocation.deployment).placement;
    let granted = [
        compute_id("masterNode", 0),
        compute_id("workerNode", 0),
        compute_id("workerNode", 1),
        link_id("internalVL"),
    ];
    let granted = granted.map(|resource| (resource, zone.to_owned()));
    placement.zones.extend(granted);
    let error = bed.prepare(&allocation).await.unwrap_err();
    assert_eq!(error.name(), "openstack.grant");
    assert_eq!(error.resource(), Some("vl/internalVL"));
    let placement = &mut Arc::make_mut(&mut allocation.deployment).placement;
    placement.zones.remove("vl/internalVL");
    let error = bed.prepare(&allocation).await.unwrap_err();
    assert_eq!(error.resource(), Some("masterNode"));
    let unplaced = format!("zone `{zone}` for VDU `masterNode`, which no parameter of");
    assert!(error.to_string().contains(&unplaced), "{error}");
    assert!(error.next().contains("`grants.unplaced: warn`"), "{error}");
    assert!(bed.owned().await.is_empty());

    let bed = bed.warning_of_unplaced_zones();
    let created = bed.instantiate(&allocation).await.unwrap();
    assert_eq!(created.inventory.vnfc_resource_info.len(), 3);
    let messages = bed.watcher.messages();
    for vdu in ["masterNode", "workerNode"] {
        let text = format!("zone `{zone}` for VDU `{vdu}`");
        let is_warning = |one: &&String| one.starts_with("warn ") && one.contains(&text);
        assert_eq!(
            messages.iter().filter(is_warning).count(),
            1,
            "{messages:#?}"
        );
    }
    bed.release(&allocation, created.handle).await.unwrap();
}

/// If the cloud lacks something, nothing is created and the error names it.
pub(crate) async fn missing_cloud_resources_are_refused_by_name(bed: &TestBed) {
    let table = [
        (
            OneVdu {
                image: "no-such-image",
                ..OneVdu::default()
            },
            "openstack.no-image",
            "no-such-image",
        ),
        (
            OneVdu {
                memory: "900 GiB",
                ..OneVdu::default()
            },
            "openstack.no-flavor",
            "921600 MiB",
        ),
        (
            OneVdu {
                count: 4000,
                ..OneVdu::default()
            },
            "openstack.quota",
            "4000 are needed",
        ),
    ];
    for (vdu, code, text) in table {
        let error = bed.prepare(&vdu.allocation(bed)).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            (code, ErrorKind::Refused),
            "{error}"
        );
        assert!(error.to_string().contains(text), "{error}");
    }
    let mut unknown_network = OneVdu::default().allocation(bed);
    Arc::make_mut(&mut unknown_network.deployment).ext_virtual_links[0].resource_id =
        "no-such-network".into();
    let error = bed.prepare(&unknown_network).await.unwrap_err();
    assert_eq!(
        (error.name(), error.resource()),
        ("openstack.no-network", Some("no-such-network"))
    );
    assert!(bed.owned().await.is_empty());
}

/// Neither allocate nor release touches another installation's stack.
pub(crate) async fn a_foreign_stack_is_not_touched(bed: &TestBed, other: &mut TestBed) {
    other
        .ownership
        .instance_id
        .clone_from(&bed.ownership.instance_id);
    let allocation = OneVdu::default().allocation(bed);
    let allocated = bed.instantiate(&allocation).await.unwrap();
    let error = other.instantiate(&allocation).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.stack-foreign", ErrorKind::Refused),
        "{error}"
    );
    other.release(&allocation, Value::Null).await.unwrap();
    assert!(
        other
            .watcher
            .messages()
            .iter()
            .any(|text| text.contains("left alone"))
    );
    let error = other
        .release(&allocation, allocated.handle.clone())
        .await
        .unwrap_err();
    assert_eq!(error.name(), "heat.stack-foreign");
    assert_eq!(bed.instantiate(&allocation).await.unwrap(), allocated);
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert!(bed.owned().await.is_empty());
}

/// The network of an externally managed link is used and reported, but neither created nor deleted.
pub(crate) async fn an_externally_managed_link_is_used_and_reported(bed: &TestBed) {
    let mut allocation = bed.cluster("vnf-a-k8s-cluster");
    let placement = &mut Arc::make_mut(&mut allocation.deployment).placement;
    placement
        .managed_links
        .insert("internalVL".into(), bed.network.clone());
    placement
        .managed_link_ids
        .insert("internalVL".into(), "their-link".into());
    let allocated = bed.instantiate(&allocation).await.unwrap();
    let found = &allocated.inventory;
    assert!(
        found.vnf_virtual_link_resource_info.is_empty(),
        "{found:#?}"
    );
    let [link] = found.ext_managed_virtual_link_info.as_slice() else {
        panic!("{found:#?}")
    };
    let reported = (link.id.as_str(), link.vnf_virtual_link_desc_id.as_str());
    assert_eq!(reported, ("their-link", "internalVL"));
    let network = &found.ext_virtual_link_info[0].resource_handle;
    assert_eq!(
        link.network_resource, *network,
        "the link has the network's id on the cloud"
    );
    let ports: Vec<_> = link
        .vnf_link_ports
        .iter()
        .map(|port| Some(port.id.as_str()))
        .collect();
    let vnfcs = found.vnfc_resource_info.iter();
    let link_ports = vnfcs.map(|vnfc| vnfc.vnfc_cp_info[0].vnf_link_port_id.as_deref());
    assert_eq!((ports.len(), &ports), (3, &link_ports.collect()));
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert!(bed.owned().await.is_empty());
    bed.prepare(&allocation).await.unwrap(); // the network still exists
}

/// The package's image is uploaded with its only instance and deleted with it.
pub(crate) async fn a_package_image_is_uploaded_and_deleted_with_its_instance(bed: &TestBed) {
    let allocation = with_image(bed);
    let allocated = bed.instantiate(&allocation).await.unwrap();
    let mut owned = bed.owned().await;
    owned.sort();
    assert_eq!(owned, ["brought-along".to_owned(), bed.stack_name()]);
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert!(bed.owned().await.is_empty());
}

/// Instances of a package share one image, which is deleted with the last of them.
pub(crate) async fn instances_of_a_package_share_its_image(bed: &TestBed) {
    let (allocation, other) = (with_image(bed), bed.other_instance());
    let allocated = bed.instantiate(&allocation).await.unwrap();
    let first = bed.images().await;
    let other_allocated = other.instantiate(&allocation).await.unwrap();
    let both = bed.images().await;
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        both.keys().collect::<Vec<_>>(),
        "the same image"
    );
    let id_of = |bed: &TestBed| bed.ownership.instance_id.clone();
    let users: Vec<_> = both.values().cloned().collect();
    assert_eq!(users, [[id_of(bed), id_of(&other)].into()]);
    bed.release(&allocation, allocated.handle).await.unwrap();
    let remaining: Vec<_> = bed.images().await.into_values().collect();
    assert_eq!(
        remaining,
        [[id_of(&other)].into()],
        "the other instance still uses it"
    );
    other
        .release(&allocation, other_allocated.handle)
        .await
        .unwrap();
    assert!(bed.images().await.is_empty());
}

/// One VDU whose image the package contains.
pub(crate) fn with_image(bed: &TestBed) -> Allocation {
    OneVdu {
        image: "brought-along",
        brings_image: true,
        ..OneVdu::default()
    }
    .allocation(bed)
}

/// Before anything has begun a wrong password is an error at once; no message contains the password.
pub(crate) async fn a_wrong_login_is_refused(bed: &TestBed) {
    bed.vim.set_access("password", "planted-wrong-password");
    let error = bed.driver.check(&bed.vim).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.login-refused", ErrorKind::Refused)
    );
    assert!(
        error.next().contains("vnfmctl vim update cloud"),
        "{}",
        error.next()
    );
    let error = bed
        .prepare(&OneVdu::default().allocation(bed))
        .await
        .unwrap_err();
    assert_eq!(error.name(), "openstack.login-refused");
    assert!(!format!("{error:?}{:?}", bed.watcher.messages()).contains("planted-wrong-password"));
}

pub(crate) async fn a_check_logs_in_and_lists_the_services(bed: &TestBed) {
    let report = bed.driver.check(&bed.vim).await.unwrap();
    let services = report.detail["services"].as_array().unwrap();
    assert!(services.iter().any(|service| service == "orchestration"));
    assert!(
        report.detail["projectId"]
            .as_str()
            .is_some_and(|id| !id.is_empty())
    );
}
