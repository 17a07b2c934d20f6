//! Other sizes on a real OpenStack, whose Heat decides which members of a group go.

use crate::bed::bed;
use crate::resize_scenarios::{
    a_rollback_removes_what_was_added, an_environment_holds_for_every_size, auto_scaling,
    each_vnfc_is_a_resource, farm, farm_with_environment, the_announced_servers_go,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_last_servers_of_a_generated_template_go() {
    let Some(bed) = bed() else { return };
    let what = bed.cluster("vnf-a-k8s-cluster");
    bed.with_cleanup(&what, the_announced_servers_go(&bed, &what, 4))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_members_of_a_resource_group_go() {
    let Some(bed) = bed() else { return };
    let what = bed.cluster("vnf-a-k8s-cluster-base-hot");
    bed.with_cleanup(&what, the_announced_servers_go(&bed, &what, 4))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_announced_members_of_an_auto_scaling_group_go() {
    let Some(bed) = bed() else { return };
    let what = auto_scaling(&bed);
    bed.with_cleanup(&what, the_announced_servers_go(&bed, &what, 4))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_removes_only_new_members_of_an_auto_scaling_group() {
    let Some(bed) = bed() else { return };
    let what = auto_scaling(&bed);
    bed.with_cleanup(&what, a_rollback_removes_what_was_added(&bed, &what))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vnfcs_with_resources_of_their_own_come_and_go_by_index() {
    let Some(bed) = bed() else { return };
    let what = farm(&bed);
    bed.with_cleanup(&what, each_vnfc_is_a_resource(&bed, &what))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_of_the_package_is_sent() {
    let Some(bed) = bed() else { return };
    let what = farm_with_environment(&bed);
    bed.with_cleanup(&what, an_environment_holds_for_every_size(&bed))
        .await;
}
