//! Retained volumes on a real cloud: what Heat does with policies and external resources, and Cinder with what is left.

use crate::bed::bed;
use crate::volume_scenarios;

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_outlives_its_instances() {
    let Some(bed) = bed() else { return };
    volume_scenarios::a_volume_outlives_its_instances(&bed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reversed_retention_leaves_nothing() {
    let Some(bed) = bed() else { return };
    volume_scenarios::a_reversed_retention_leaves_nothing(&bed).await;
}
