//! Networks of pods on the simulated cluster, with the faults that only a simulation can inject.

use crate::faults::faulty_cluster;
use crate::heal::ids;
use crate::networks::{self, Networks, assert_on};
use crate::support::{VNF, World, package_of};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _};
use vnfm_kubernetes::render;

async fn world() -> World {
    let (world, cluster, _) = faulty_cluster().await;
    cluster.install_networks().unwrap();
    world
}

#[tokio::test]
async fn pods_are_connected_and_change_their_network_there_and_back() {
    networks::pods_are_connected_and_change_their_network_there_and_back(&world().await).await;
}

#[tokio::test]
async fn a_network_that_does_not_exist_is_refused_by_name() {
    networks::a_network_that_does_not_exist_is_refused_by_name(&world().await).await;
}

#[tokio::test]
async fn a_network_of_an_excluded_namespace_is_refused() {
    networks::a_network_of_an_excluded_namespace_is_refused(&mut world().await).await;
}

#[tokio::test]
async fn a_fixed_address_is_for_one_pod() {
    networks::a_fixed_address_is_for_one_pod(&world().await).await;
}

#[tokio::test]
async fn pods_request_the_devices_of_their_networks() {
    networks::pods_request_the_devices_of_their_networks(&world().await, "intel.com/sriov").await;
}

#[tokio::test]
async fn connection_points_of_an_asd_are_attached_and_read_back() {
    networks::connection_points_of_an_asd_are_attached_and_read_back(&world().await).await;
}

/// A change that cannot be completed is reversed: pods that were not replaced yet stay as they are.
#[tokio::test]
async fn a_change_that_fails_is_reversed() {
    let world = world().await;
    let networks = Networks::make(&world).await;
    let what = networks.router("data-1", 1);
    let other = networks.router("data-2", 1);
    let created = world.instantiate(&what, 60).await.unwrap();
    // As if the network had been deleted after the look at it.
    let plural = "network-attachment-definitions";
    let all = world.api(
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        plural,
        Some(&networks.namespace),
    );
    world.clean(&all, "data-2").await;
    let convergence = Convergence::update(&created, &other).coming_from(&what);
    let failed = world
        .driver
        .converge(&world.cx(4), &convergence, &Value::Null)
        .await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.name(), "kubernetes.not-ready", "{failed}");
    let convergence = Convergence::update(&created, &what).coming_from(&other);
    let back = world
        .driver
        .converge(&world.cx(60), &convergence, &Value::Null)
        .await
        .unwrap();
    assert_on(&back, &networks.name("data-1"), 1);
    assert_eq!(ids(&back), ids(&created));
    networks.end(&what, back.handle).await;
}

#[tokio::test]
async fn a_cluster_without_multus_is_refused() {
    let (world, ..) = faulty_cluster().await;
    let error = world.instantiate(&translated(), 20).await.unwrap_err();
    assert_eq!(error.name(), "kubernetes.no-network");
    assert!(error.to_string().contains("it has no Multus"), "{error}");
}

#[tokio::test]
async fn a_connection_point_without_a_network_is_named() {
    let disconnected = |mut what: Allocation| {
        Arc::make_mut(&mut what.deployment)
            .ext_virtual_links
            .clear();
        what
    };
    // Only the descriptor says what is deployed.
    let error = render(&disconnected(translated())).unwrap_err();
    assert_eq!(error.name(), "kubernetes.link-invalid");
    assert!(error.to_string().contains("`dataCP`"), "{error}");
    // Manifests may attach the pods on their own.
    let world = world().await;
    let networks = Networks::make(&world).await;
    let what = disconnected(networks.router("data-1", 1));
    let created = world.instantiate(&what, 20).await.unwrap();
    let logs = world.seen.logs.lock().unwrap().join("\n");
    let expected = "warn: connection point `dataCP` gets no interface";
    assert!(logs.contains(expected), "{logs}");
    networks.end(&what, created.handle).await;
}

#[tokio::test]
async fn a_pod_without_a_report_of_multus_is_named_at_the_deadline() {
    let world = world().await;
    let networks = Networks::make(&world).await;
    networks.add("silent", json!({"simulated": "never"})).await;
    let what = networks.router("silent", 1);
    let error = world.instantiate(&what, 3).await.unwrap_err();
    assert_eq!(error.name(), "kubernetes.not-ready", "{error}");
    let text = error.to_string();
    assert!(
        text.contains("Multus reports no interface `net2` of pod `router-"),
        "{text}"
    );
    assert!(text.contains(&networks.name("silent")), "{text}");
    networks.end(&what, Value::Null).await;
}

#[test]
fn an_object_of_a_descriptor_without_manifests_requests_the_network() {
    let objects = render(&translated()).unwrap().objects;
    let template = &objects[0]["spec"]["template"];
    let list = template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as_str();
    let list: Value = serde_json::from_str(list.unwrap()).unwrap();
    let expected = json!([{"name": "data", "namespace": "networks", "interface": "net1"}]);
    assert_eq!(list, expected);
}

/// A VNFD of containers alone, whose second connection point is external.
fn translated() -> Allocation {
    let vnfd = format!(
        "{VNF}    web:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {{name: web, description: it, vdu_profile: {{min_number_of_instances: 1, max_number_of_instances: 1}}, mcio_identification_data: {{name: web, type: Deployment}}}}
      requirements: [container: httpd]
    httpd:
      type: tosca.nodes.nfv.Vdu.OsContainer
      properties: {{name: httpd, description: it}}
      artifacts: {{image: {{type: tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {{name: busybox, version: '1', container_format: docker}}}}}}
    podCP: {{type: tosca.nodes.nfv.VduCp, properties: {{layer_protocols: [ipv4], order: 0}}, requirements: [virtual_binding: web]}}
    dataCP: {{type: tosca.nodes.nfv.VduCp, properties: {{layer_protocols: [ipv4], order: 1}}, requirements: [virtual_binding: web]}}
"
    );
    let mut what = package_of((&vnfd, Vec::new()), &json!({}));
    let link = json!({"id": "l", "resourceId": "networks/data", "extCps": [{"cpdId": "dataCP"}]});
    let deployment = Arc::make_mut(&mut what.deployment);
    deployment.ext_virtual_links = vec![serde_json::from_value(link).unwrap()];
    what
}
