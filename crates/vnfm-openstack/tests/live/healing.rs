//! Heals on a real OpenStack. An administrator `admin` is in the clouds.yaml, too.

use crate::hands::Hands;
use crate::heals;
use crate::real::{connection, login, place};
use crate::support::Place;
use vnfm_core::ports::Allocation;

/// The user's hands and the administrator's.
async fn hands() -> (Hands, Hands) {
    let info = connection().unwrap();
    let (name, password) = login("admin");
    (Hands::of(&info, None).await, Hands::of(&info, Some((&name, &password))).await)
}

fn cluster(place: &Place, sample: &str) -> Allocation {
    place.cluster(sample)
}

async fn one_of_several_then_all(sample: &str) {
    let Some(mut place) = place() else { return };
    let what = cluster(&place, sample);
    let (hands, _) = hands().await;
    let cleaner = place.twin();
    cleaner.cleaned(&what, heals::one_of_several_then_all(&mut place, &hands, &what)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_then_all_of_the_vnfd_are_replaced() {
    one_of_several_then_all("vnf-a-k8s-cluster").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_then_all_of_a_base_hot_are_replaced() {
    one_of_several_then_all("vnf-a-k8s-cluster-base-hot").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_or_in_error_comes_back() {
    let Some(place) = place() else { return };
    let what = cluster(&place, "vnf-a-k8s-cluster-base-hot");
    let (hands, admin) = hands().await;
    place.cleaned(&what, heals::gone_and_in_error(&place, (&hands, &admin), &what)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_heal_is_gone_on_with() {
    let Some(place) = place() else { return };
    let what = cluster(&place, "vnf-a-k8s-cluster");
    let (hands, _) = hands().await;
    place.cleaned(&what, heals::interrupted_and_gone_on_with(&place, &hands, &what)).await;
}
