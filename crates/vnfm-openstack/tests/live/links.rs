//! Shared virtual links on a real cloud.

use crate::bed::bed;
use crate::link_scenarios;

#[tokio::test(flavor = "multi_thread")]
async fn a_network_with_a_port_is_kept() {
    let Some(bed) = bed() else { return };
    link_scenarios::a_network_with_a_port_is_kept(&bed).await;
}
