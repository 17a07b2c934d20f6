//! Networks of pods on the real API server. Whether the cluster serves networks concerns all of it: so one test has all parts,
//! in order.

use crate::multus::{self, Multus};
use crate::networks;
use crate::support::World;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

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
    multus::remove(&world).await;
}
