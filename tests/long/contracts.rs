//! The OpenStack driver meets the contract of infrastructure drivers on a real cloud, with the rules that take minutes there.

use vnfm_tests::cloud_contract::check_on_cloud;
use vnfm_tests::live::neighbour;

#[tokio::test(flavor = "multi_thread")]
async fn openstack_driver_meets_the_contract_on_a_real_cloud() {
    let Some(clouds) = neighbour("VNFM_LIVE_OPENSTACK") else {
        return;
    };
    check_on_cloud(&clouds, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn openstack_driver_meets_the_long_rules_of_the_contract_on_a_real_cloud() {
    let Some(clouds) = neighbour("VNFM_LIVE_OPENSTACK") else {
        return;
    };
    check_on_cloud(&clouds, true).await.unwrap();
}
