//! Shared virtual links on a cloud, simulated or real: a server's port keeps a network, and tags find it.

use crate::support::{TestBed, allocation, sample, sample_folder};
use serde_json::Value;
use vnfm_core::ports::{ErrorKind, InfraDriver, Links};
use vnfm_types::{LinkSpec, LinkSubnet, SharedLink};

pub(crate) fn link(name: &str, cidr: &str) -> SharedLink {
    let subnet = LinkSubnet {
        cidr: cidr.into(),
        ..LinkSubnet::default()
    };
    SharedLink {
        id: uuid::Uuid::new_v4().to_string(),
        spec: LinkSpec {
            name: name.into(),
            subnets: vec![subnet],
            ..LinkSpec::default()
        },
        ..SharedLink::default()
    }
}

pub(crate) fn links(bed: &TestBed) -> &dyn Links {
    bed.driver.links().unwrap()
}

/// The ids of the links that the driver lists as ours.
pub(crate) async fn owned(bed: &TestBed) -> Vec<String> {
    let call = bed.call();
    let owned = bed
        .driver
        .owned(call.vim, &call.ownership.installation_id)
        .await
        .unwrap();
    owned.into_iter().filter_map(|one| one.link_id).collect()
}

/// A firewall on two links, of which none goes while its ports are there.
pub(crate) async fn a_network_with_a_port_is_kept(bed: &TestBed) {
    let both = [
        link(&format!("left-{}", bed.stack_name()), "10.71.0.0/24"),
        link(&format!("right-{}", bed.stack_name()), "10.72.0.0/24"),
    ];
    let mut request =
        std::fs::read_to_string(sample_folder("vnf-shared-link").join("requests/instantiate.json"))
            .unwrap();
    for (link, name) in both.iter().zip(["lan-left", "lan-right"]) {
        let id = links(bed).create_link(&bed.call(), link).await.unwrap();
        assert_eq!(links(bed).create_link(&bed.call(), link).await.unwrap(), id);
        request = request.replace(name, &id);
    }
    let mut listed = owned(bed).await;
    listed.sort();
    let mut ids: Vec<_> = both.iter().map(|link| link.id.clone()).collect();
    ids.sort();
    assert_eq!(listed, ids);
    let request: Value = serde_json::from_str(&request).unwrap();
    let what = allocation(sample("vnf-shared-link"), request);
    let created = bed.instantiate(&what).await.unwrap();
    assert_eq!(created.inventory.ext_cp_info.len(), 2);
    let kept = links(bed)
        .delete_link(&bed.call(), &both[0])
        .await
        .unwrap_err();
    assert_eq!(kept.kind(), ErrorKind::Refused, "{kept}");
    assert!(kept.to_string().contains("in use"), "{kept}");
    bed.release(&what, created.handle).await.unwrap();
    for link in &both {
        links(bed).delete_link(&bed.call(), link).await.unwrap();
        links(bed).delete_link(&bed.call(), link).await.unwrap();
    }
    assert_eq!(owned(bed).await, Vec::<String>::new());
}
