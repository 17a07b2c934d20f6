//! Networks of pods on the real API server. Whether the cluster serves networks concerns all of it: so one test has all parts,
//! in order.

use crate::charts::{list, packed, row, worlds};
use crate::multus::{self, Multus};
use crate::networks::{self, Networks, assert_on, change};
use crate::support::{VNF, World, deployment, package_of};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, InfraDriver as _};

/// An extended resource that no device plug-in of the cluster offers.
const RESOURCE: &str = "vnfm.example.com/virtual-function";

/// Makes all nodes offer devices, as a device plug-in does.
async fn offer_devices(world: &World) {
    let nodes = world.api("v1", "Node", "nodes", None);
    let all = nodes.list(&ListParams::default()).await.unwrap();
    let change = json!({"status": {"capacity": {RESOURCE: "4"}, "allocatable": {RESOURCE: "4"}}});
    for node in all.items {
        let (name, how) = (node.metadata.name.unwrap(), PatchParams::default());
        let patch = Patch::Merge(&change);
        nodes.patch_status(&name, &how, &patch).await.unwrap();
    }
}

#[tokio::test]
async fn pods_are_attached_to_networks_where_the_cluster_serves_them() {
    let Some(world) = World::start().await else {
        return;
    };
    multus::install(&world).await;
    let one = world.neighbour();
    let attaching = Multus::attaches_pods_of(&one);
    networks::pods_are_connected_and_change_their_network_there_and_back(&one).await;
    drop(attaching);
    let one = world.neighbour();
    let attaching = Multus::attaches_pods_of(&one);
    networks::a_network_that_does_not_exist_is_refused_by_name(&one).await;
    drop(attaching);
    networks::a_network_of_an_excluded_namespace_is_refused(&mut world.neighbour()).await;
    let one = world.neighbour();
    let attaching = Multus::attaches_pods_of(&one);
    networks::a_fixed_address_is_for_one_pod(&one).await;
    drop(attaching);
    offer_devices(&world).await;
    let one = world.neighbour();
    let attaching = Multus::attaches_pods_of(&one);
    networks::pods_request_the_devices_of_their_networks(&one, RESOURCE).await;
    drop(attaching);
    let one = world.neighbour();
    let attaching = Multus::attaches_pods_of(&one);
    networks::connection_points_of_an_asd_are_attached_and_read_back(&one).await;
    drop(attaching);
    for (program, world) in worlds().await {
        let attaching = Multus::attaches_pods_of(&world);
        pods_of_a_chart_change_their_network(&world, &program).await;
        drop(attaching);
    }
    for (_, world) in worlds().await {
        let attaching = Multus::attaches_pods_of(&world);
        values_of_a_chart_name_the_network(&world).await;
        drop(attaching);
    }
    multus::remove(&world).await;
}

const CONNECTED: &str = "    WebServer:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: web, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}}
    Chart:
      type: tosca.nodes.nfv.Mciop
      requirements: [associatedVdu: WebServer]
      artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Files/web.tgz}}
    podCP: {type: tosca.nodes.nfv.VduCp, properties: {layer_protocols: [ipv4], order: 0}, requirements: [virtual_binding: WebServer]}
    spareCP: {type: tosca.nodes.nfv.VduCp, properties: {layer_protocols: [ipv4], order: 1}, requirements: [virtual_binding: WebServer]}
    dataCP: {type: tosca.nodes.nfv.VduCp, properties: {layer_protocols: [ipv4], order: 2}, requirements: [virtual_binding: WebServer]}
";
const ASD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [oran_asd_types_v02.00.00.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd.Asd
      properties: {asdId: a8, asdInvariantId: i8, asdVersion: '1', asdProvider: Us, asdApplicationName: Web, asdApplicationSwVersion: '1',
        asdExtCpd: [{id: dataCP, virtualLinkRequirement: [core], inputParamMappings: {nadName: ['web:net.name']}}]}
      artifacts:
        web: {type: tosca.artifacts.asd.DeploymentItem, file: Files/web.tgz, properties: {deploymentItemId: '1', artifactType: helm_chart}}
";

/// A package with this descriptor and a chart, whose external link is on a network.
fn chart(descriptor: &str, template: String, network: &str) -> Allocation {
    let chart = packed("web", &[("templates/web.yaml", template)]);
    let mut what = package_of((descriptor, vec![("Files/web.tgz", &*chart)]), &json!({}));
    let link = json!({"id": "data", "resourceId": network, "extCps": [{"cpdId": "dataCP", "cpConfig": {"any": {}}}]});
    let deployment = Arc::make_mut(&mut what.deployment);
    deployment.ext_virtual_links = vec![serde_json::from_value(link).unwrap()];
    what
}

/// What helm renders gets the networks, and another network is another revision.
async fn pods_of_a_chart_change_their_network(world: &World, program: &std::path::PathBuf) {
    let networks = Networks::make(world).await;
    let vnfd = format!("{VNF}{CONNECTED}");
    let on = |network: &str| chart(&vnfd, deployment(1, ""), &networks.name(network));
    let (what, other) = (on("data-1"), on("data-2"));
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_on(&created, &networks.name("data-1"), 1);
    let again = change(world, &created, (&what, &what)).await.unwrap();
    assert_eq!(again.inventory, created.inventory);
    let moved = change(world, &again, (&what, &other)).await.unwrap();
    assert_on(&moved, &networks.name("data-2"), 1);
    let releases = list(program, &world.namespace());
    assert_eq!(releases, [row("web", "2", "deployed")]);
    networks.end(&other, moved.handle).await;
}

/// The chart of an ASD requests the network that is a value of it.
async fn values_of_a_chart_name_the_network(world: &World) {
    let networks = Networks::make(world).await;
    let annotated = deployment(1, "").replace(
        "metadata: {labels: {app: web}}",
        "metadata: {labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: {{ .Values.net.name | quote }}}}",
    );
    let on = |network: &str| chart(ASD, annotated.clone(), &networks.name(network));
    let (what, other) = (on("data-1"), on("data-2"));
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    let network = |recorded: &vnfm_core::ports::Recorded| {
        let cp = &recorded.inventory.ext_cp_info[0];
        let link = &recorded.inventory.ext_virtual_link_info[0];
        assert_eq!(
            (cp.cpd_id.as_str(), link.ext_link_ports.len()),
            ("dataCP", 1)
        );
        assert_eq!(
            cp.metadata["network"],
            link.resource_handle.resource_id.as_str()
        );
        link.resource_handle.resource_id.clone()
    };
    assert_eq!(network(&created), networks.name("data-1"));
    let moved = change(world, &created, (&what, &other)).await.unwrap();
    assert_eq!(network(&moved), networks.name("data-2"));
    networks.end(&other, moved.handle).await;
}
