//! Shared virtual links on the simulated cloud, with what only a simulation can inject.

use crate::link_scenarios::{self, link, links, owned};
use crate::simulated::{assert_clean, bed, world};
use std::time::Duration;
use vnfm_core::ports::ErrorKind;
use vnfm_sim::faults::{Fault, Rule, When};
use vnfm_types::{LinkSpec, LinkSubnet};

#[tokio::test(flavor = "multi_thread")]
async fn a_network_with_a_port_is_kept() {
    let world = world(Duration::ZERO).await;
    link_scenarios::a_network_with_a_port_is_kept(&bed(&world)).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_leaves_no_second_network() {
    for call in ["network_create", "network_tags", "subnet_create"] {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let lost = Fault::Drop { drop: When::After };
        world
            .faults()
            .add(Rule::new(format!("neutron.{call}"), lost).nth(1, 1));
        let link = link("lan", "10.71.0.0/24");
        let first = links(&bed).create_link(&bed.call(), &link).await;
        if let Err(error) = &first {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error}");
        }
        links(&bed).create_link(&bed.call(), &link).await.unwrap();
        assert_eq!(owned(&bed).await, std::slice::from_ref(&link.id), "{call}");
        links(&bed).delete_link(&bed.call(), &link).await.unwrap();
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_of_the_cloud_is_named() {
    let world = world(Duration::ZERO).await;
    world.cloud().set_quota("network", 0);
    let bed = bed(&world);
    let refused = links(&bed)
        .create_link(&bed.call(), &link("lan", "10.71.0.0/24"))
        .await;
    assert_eq!(refused.unwrap_err().name(), "openstack.quota");
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_no_cloud_can_have_is_refused_by_member() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let subnet = |cidr: &str, gateway: Option<&str>| LinkSubnet {
        cidr: cidr.into(),
        gateway_ip: gateway.map(Into::into),
        ..LinkSubnet::default()
    };
    let on = |subnets: &[LinkSubnet]| LinkSpec {
        name: "lan".into(),
        subnets: subnets.to_vec(),
        ..LinkSpec::default()
    };
    let fine = on(&[
        subnet("10.0.0.0/24", Some("10.0.0.9")),
        subnet("fd00::/64", None),
    ]);
    links(&bed).validate_link(&fine).unwrap();
    let twice = subnet("10.0.0.0/24", None);
    for (spec, member) in [
        (on(&[]), "subnets"),
        (on(&[subnet("10.0.0.7/24", None)]), "subnets[0].cidr"),
        (on(&[subnet("anything", None)]), "subnets[0].cidr"),
        (
            on(&[subnet("10.0.0.0/24", Some("10.1.0.1"))]),
            "subnets[0].gatewayIp",
        ),
        (on(&[twice.clone(), twice]), "subnets[1].cidr"),
        (
            LinkSpec {
                namespace: Some("x".into()),
                ..fine.clone()
            },
            "namespace",
        ),
        (
            LinkSpec {
                cni_config: Some(<_>::default()),
                ..fine.clone()
            },
            "cniConfig",
        ),
    ] {
        let refused = links(&bed).validate_link(&spec).unwrap_err();
        assert_eq!(
            (refused.name(), refused.resource()),
            ("openstack.link", Some(member)),
            "{refused}"
        );
    }
}
