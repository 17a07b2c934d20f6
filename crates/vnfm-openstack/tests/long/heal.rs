//! Heals on a real OpenStack. The clouds.yaml also needs an administrator `admin`.

use crate::bed::{bed, connection, login};
use crate::cloud_user::CloudUser;
use crate::failed_change_scenarios;
use crate::heal_scenarios;

async fn cloud_users() -> (CloudUser, CloudUser) {
    let info = connection().unwrap();
    let (name, password) = login("admin");
    (
        CloudUser::log_in(&info, None).await,
        CloudUser::log_in(&info, Some((&name, &password))).await,
    )
}

/// The samples differ only in how their template is written, so each test covers a part of the scenarios.
#[tokio::test(flavor = "multi_thread")]
async fn servers_are_replaced_and_an_interrupted_heal_is_resumed() {
    let Some(mut bed) = bed() else { return };
    let allocation = bed.cluster("vnf-a-k8s-cluster");
    let (user, _) = cloud_users().await;
    let cleaner = bed.restarted();
    let scenario = async {
        let allocated = bed.instantiate(&allocation).await.unwrap();
        let replaced =
            heal_scenarios::one_of_several_then_all(&mut bed, &user, &allocation, allocated).await;
        let healed =
            heal_scenarios::interrupted_and_resumed(&bed, &user, &allocation, replaced).await;
        heal_scenarios::assert_release(&bed, &allocation, healed).await;
    };
    cleaner.with_cleanup(&allocation, scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_a_base_hot_are_replaced_deleted_or_in_error() {
    let Some(mut bed) = bed() else { return };
    let allocation = bed.cluster("vnf-a-k8s-cluster-base-hot");
    let (user, admin) = cloud_users().await;
    let cleaner = bed.restarted();
    let scenario = async {
        let allocated = bed.instantiate(&allocation).await.unwrap();
        let replaced =
            heal_scenarios::one_of_several_then_all(&mut bed, &user, &allocation, allocated).await;
        let healed =
            heal_scenarios::deleted_and_in_error(&bed, (&user, &admin), &allocation, replaced)
                .await;
        heal_scenarios::assert_release(&bed, &allocation, healed).await;
    };
    cleaner.with_cleanup(&allocation, scenario).await;
}

/// The pair has both hosts of the cloud, so its servers cannot be replaced before they are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_replacement_leaves_the_ports() {
    let Some(bed) = bed() else { return };
    let pair = failed_change_scenarios::pair(&bed);
    let scenario =
        failed_change_scenarios::a_failed_replacement_leaves_the_ports(&bed, &pair, || ());
    bed.with_cleanup(&pair, scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_batch_is_reversed() {
    let Some(bed) = bed() else { return };
    let what = crate::support::OneVdu::default().allocation(&bed);
    bed.with_cleanup(
        &what,
        failed_change_scenarios::a_failed_batch_is_reversed(&bed),
    )
    .await;
}
