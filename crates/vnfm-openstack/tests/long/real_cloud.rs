//! Samples and images on a real OpenStack.

use crate::bed::bed;
use crate::scenarios;

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_with_a_base_hot_is_created_and_released() {
    let Some(bed) = bed() else { return };
    let scenario = scenarios::create_and_release_sample(&bed, "vnf-a-k8s-cluster-base-hot");
    bed.with_cleanup(&bed.cluster("vnf-a-k8s-cluster-base-hot"), scenario)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tackers_layout_has_the_granted_zone() {
    let Some(bed) = bed() else { return };
    scenarios::tackers_layout_has_the_granted_zone(&bed, "nova").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_package_share_its_image() {
    let Some(bed) = bed() else { return };
    let allocation = scenarios::with_image(&bed);
    bed.with_cleanup(
        &allocation,
        scenarios::instances_of_a_package_share_its_image(&bed),
    )
    .await;
}
