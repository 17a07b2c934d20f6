//! What must hold on every cloud, simulated or real.

use crate::support::{OneVdu, Place};
use serde_json::Value;
use std::sync::Arc;
use vnfm_core::ports::{Allocated, Allocation, ErrorKind, InfraDriver};

/// Made, made again (adopted), read back, released, released again.
pub(crate) async fn the_sample_comes_and_goes(place: &Place, sample: &str) {
    let what = place.cluster(sample);
    place.driver.validate_request(&what).unwrap();
    let prepared = place.prepare(&what).await.unwrap();
    let first = place.allocate(&what, &prepared).await.unwrap();
    is_a_cluster(&first);
    assert_eq!(place.owned().await, [place.stack_name()]);
    let again = place.allocate(&what, &prepared).await.unwrap();
    assert_eq!(
        again, first,
        "an allocate that is repeated adopts what is there"
    );
    place.release(&what, first.handle.clone()).await.unwrap();
    assert!(place.owned().await.is_empty());
    place.release(&what, first.handle).await.unwrap();
    place.release(&what, Value::Null).await.unwrap();
}

fn is_a_cluster(made: &Allocated) {
    let found = &made.inventory;
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
    assert!(made.handle["stackId"].is_string());
}

/// Nothing is made where the cloud lacks something, and the error names it.
pub(crate) async fn what_the_cloud_lacks_is_refused_by_name(place: &Place) {
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
    for (vdu, code, says) in table {
        let error = place.prepare(&vdu.on(place)).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            (code, ErrorKind::Refused),
            "{error}"
        );
        assert!(error.to_string().contains(says), "{error}");
    }
    let mut nowhere = OneVdu::default().on(place);
    Arc::make_mut(&mut nowhere.deployment).ext_virtual_links[0].resource_id =
        "no-such-network".into();
    let error = place.prepare(&nowhere).await.unwrap_err();
    assert_eq!(
        (error.name(), error.resource()),
        ("openstack.no-network", Some("no-such-network"))
    );
    assert!(place.owned().await.is_empty());
}

/// A stack of another installation is left alone, also by a release.
pub(crate) async fn a_foreign_stack_is_not_touched(place: &Place, other: &mut Place) {
    other
        .ownership
        .instance_id
        .clone_from(&place.ownership.instance_id);
    let what = OneVdu::default().on(place);
    let made = place.make(&what).await.unwrap();
    let error = other.make(&what).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.stack-foreign", ErrorKind::Refused),
        "{error}"
    );
    other.release(&what, Value::Null).await.unwrap();
    assert!(
        other
            .ear
            .all()
            .iter()
            .any(|text| text.contains("left alone"))
    );
    let error = other.release(&what, made.handle.clone()).await.unwrap_err();
    assert_eq!(error.name(), "heat.stack-foreign");
    assert_eq!(place.make(&what).await.unwrap(), made);
    place.release(&what, made.handle).await.unwrap();
    assert!(place.owned().await.is_empty());
}

/// The network of an internal link is of others: it is used, told, and neither made nor deleted.
pub(crate) async fn an_internal_link_that_others_manage_is_used_and_told(place: &Place) {
    let mut what = place.cluster("vnf-a-k8s-cluster");
    let placement = &mut Arc::make_mut(&mut what.deployment).placement;
    placement
        .managed_links
        .insert("internalVL".into(), place.network.clone());
    placement
        .managed_link_ids
        .insert("internalVL".into(), "their-link".into());
    let made = place.make(&what).await.unwrap();
    let found = &made.inventory;
    assert!(
        found.vnf_virtual_link_resource_info.is_empty(),
        "{found:#?}"
    );
    let [link] = found.ext_managed_virtual_link_info.as_slice() else {
        panic!("{found:#?}")
    };
    let told = (link.id.as_str(), link.vnf_virtual_link_desc_id.as_str());
    assert_eq!(told, ("their-link", "internalVL"));
    let network = &found.ext_virtual_link_info[0].resource_handle;
    assert_eq!(link.network_resource, *network, "by its id on the cloud");
    let ports: Vec<_> = link
        .vnf_link_ports
        .iter()
        .map(|port| Some(port.id.as_str()))
        .collect();
    let vnfcs = found.vnfc_resource_info.iter();
    let on_it = vnfcs.map(|vnfc| vnfc.vnfc_cp_info[0].vnf_link_port_id.as_deref());
    assert_eq!((ports.len(), &ports), (3, &on_it.collect()));
    place.release(&what, made.handle).await.unwrap();
    assert!(place.owned().await.is_empty());
    place.prepare(&what).await.unwrap(); // the network is still there
}

/// An image that the package brings comes with the instance and goes with it.
pub(crate) async fn an_image_of_the_package_comes_and_goes(place: &Place) {
    let what = with_image(place);
    let made = place.make(&what).await.unwrap();
    let mut owned = place.owned().await;
    owned.sort();
    assert_eq!(owned, ["brought-along".to_owned(), place.stack_name()]);
    place.release(&what, made.handle).await.unwrap();
    assert!(place.owned().await.is_empty());
}

/// Instances of one package use one image, which goes with the last of them, in whichever order they end.
pub(crate) async fn instances_of_a_package_share_its_image(place: &Place) {
    let (what, other) = (with_image(place), place.beside());
    let made = place.make(&what).await.unwrap();
    let first = place.images().await;
    let made_too = other.make(&what).await.unwrap();
    let both = place.images().await;
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        both.keys().collect::<Vec<_>>(),
        "the same image"
    );
    let of = |place: &Place| place.ownership.instance_id.clone();
    let users: Vec<_> = both.values().cloned().collect();
    assert_eq!(users, [[of(place), of(&other)].into()]);
    place.release(&what, made.handle).await.unwrap();
    let left: Vec<_> = place.images().await.into_values().collect();
    assert_eq!(left, [[of(&other)].into()], "the other one uses it");
    other.release(&what, made_too.handle).await.unwrap();
    assert!(place.images().await.is_empty());
}

/// One VDU whose image the package brings.
pub(crate) fn with_image(place: &Place) -> Allocation {
    OneVdu {
        image: "brought-along",
        brings_image: true,
        ..OneVdu::default()
    }
    .on(place)
}

/// A wrong password is said at once where nothing has begun, and shown nowhere.
pub(crate) async fn a_wrong_login_is_refused(place: &Place) {
    place.vim.set_access("password", "planted-wrong-password");
    let error = place.driver.check(&place.vim).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.login-refused", ErrorKind::Refused)
    );
    assert!(
        error.next().contains("vnfmctl vim update cloud"),
        "{}",
        error.next()
    );
    let error = place
        .prepare(&OneVdu::default().on(place))
        .await
        .unwrap_err();
    assert_eq!(error.name(), "openstack.login-refused");
    assert!(!format!("{error:?}{:?}", place.ear.all()).contains("planted-wrong-password"));
}

/// `check` tells who answers.
pub(crate) async fn a_check_logs_in_and_tells_what_is_there(place: &Place) {
    let report = place.driver.check(&place.vim).await.unwrap();
    let services = report.detail["services"].as_array().unwrap();
    assert!(services.iter().any(|service| service == "orchestration"));
    assert!(
        report.detail["projectId"]
            .as_str()
            .is_some_and(|id| !id.is_empty())
    );
}
