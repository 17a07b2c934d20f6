//! Heals on a real OpenStack. An administrator `admin` is in the clouds.yaml, too.

use crate::hands::Hands;
use crate::heals;
use crate::real::{connection, login, place};

/// The user's hands and the administrator's.
async fn hands() -> (Hands, Hands) {
    let info = connection().unwrap();
    let (name, password) = login("admin");
    (
        Hands::of(&info, None).await,
        Hands::of(&info, Some((&name, &password))).await,
    )
}

/// What of the two samples differs is how Heat was told; all that is healed of one is one stack's life.
#[tokio::test(flavor = "multi_thread")]
async fn of_the_vnfd_one_then_all_are_replaced_and_an_interrupted_heal_is_gone_on_with() {
    let Some(mut place) = place() else { return };
    let what = place.cluster("vnf-a-k8s-cluster");
    let (hands, _) = hands().await;
    let cleaner = place.twin();
    let story = async {
        let made = place.make(&what).await.unwrap();
        let renewed = heals::one_of_several_then_all(&mut place, &hands, &what, made).await;
        let healed = heals::interrupted_and_gone_on_with(&place, &hands, &what, renewed).await;
        heals::released(&place, &what, healed).await;
    };
    cleaner.cleaned(&what, story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_base_hot_one_then_all_are_replaced_and_what_is_gone_or_in_error_comes_back() {
    let Some(mut place) = place() else { return };
    let what = place.cluster("vnf-a-k8s-cluster-base-hot");
    let (hands, admin) = hands().await;
    let cleaner = place.twin();
    let story = async {
        let made = place.make(&what).await.unwrap();
        let renewed = heals::one_of_several_then_all(&mut place, &hands, &what, made).await;
        let healed = heals::gone_and_in_error(&place, (&hands, &admin), &what, renewed).await;
        heals::released(&place, &what, healed).await;
    };
    cleaner.cleaned(&what, story).await;
}
