//! Retained volumes on a real cloud: what Heat does with policies and external resources, and Cinder with what is left.

use crate::bed::{bed, connection, login};
use crate::cloud_user::CloudUser;
use crate::volume_scenarios;
use reqwest::Method;
use serde_json::{Value, json};

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

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_volume_serves_one_instance_after_another() {
    let Some(bed) = bed() else { return };
    volume_scenarios::an_empty_volume_serves_one_instance_after_another(&bed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cinder_refuses_is_reported_in_its_words() {
    let (Some(bed), Some(info)) = (bed(), connection()) else {
        return;
    };
    let (name, password) = login("admin");
    let admin = CloudUser::log_in(&info, Some((&name, &password))).await;
    let full = format!("full-{}", uuid::Uuid::new_v4());
    let kind =
        json!({"volume_type": {"name": full, "extra_specs": {"volume_backend_name": "none"}}});
    let kind = admin.call(Method::POST, ("volumev3", "/types"), kind).await;
    volume_scenarios::what_cinder_refuses_is_reported_in_its_words(&bed, &full).await;
    let path = format!("/types/{}", kind["volume_type"]["id"].as_str().unwrap());
    admin
        .call(Method::DELETE, ("volumev3", &path), Value::Null)
        .await;
}
