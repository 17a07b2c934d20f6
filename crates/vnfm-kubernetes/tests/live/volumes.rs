//! VNF snapshots of claims on the real API server. Whether the cluster serves volume snapshots concerns all of it: so one
//! test has all parts, in order.

use crate::snapshots::{
    a_claim_of_a_driver_without_a_class_is_refused_by_name, a_claim_of_a_manifest_is_restored,
    a_cluster_without_volume_snapshots_is_refused_by_name, a_return_gives_the_vnf_its_size,
    a_snapshot_outlives_its_instance, a_vnf_returns_to_what_its_claims_had,
    a_vnf_without_claims_has_only_its_record,
};
use crate::stand_in::{StandIn, VolumeTexts};
use crate::support::World;

#[tokio::test]
async fn claims_are_stored_and_restored_where_the_cluster_serves_volume_snapshots() {
    let Some(world) = World::start().await else {
        return;
    };
    let mut stand_in = StandIn::start(world.client.clone()).await;
    a_vnf_without_claims_has_only_its_record(&world.neighbour()).await;
    a_cluster_without_volume_snapshots_is_refused_by_name(&world.neighbour()).await;
    stand_in.install_snapshots().await;
    a_claim_of_a_driver_without_a_class_is_refused_by_name(&world.neighbour()).await;
    let one = world.neighbour();
    a_vnf_returns_to_what_its_claims_had(&one, &VolumeTexts::for_instance(&one)).await;
    let one = world.neighbour();
    a_snapshot_outlives_its_instance(&one, &VolumeTexts::for_instance(&one)).await;
    let one = world.neighbour();
    a_return_gives_the_vnf_its_size(&one, &VolumeTexts::for_instance(&one)).await;
    let one = world.neighbour();
    a_claim_of_a_manifest_is_restored(&one, &VolumeTexts::for_instance(&one)).await;
    stand_in.remove().await;
}
