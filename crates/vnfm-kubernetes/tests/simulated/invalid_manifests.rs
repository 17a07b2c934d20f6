//! Packages with invalid or too many manifests.

use crate::faults::faulty_cluster;
use crate::support::{CONFIG, deployment, package};
use serde_json::{Value, json};
use vnfm_core::ports::{Allocation, InfraDriver as _};

/// A ConfigMap with this metadata between two valid ones.
fn with_metadata(metadata: &str) -> Allocation {
    let odd = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n");
    let last = CONFIG.replace("page", "last");
    package(&[(1, CONFIG), (2, &odd), (3, &last)], "", json!({}))
}

#[tokio::test]
async fn an_invalid_name_is_refused_before_anything_is_created() {
    let (world, cluster, _) = faulty_cluster().await;
    for (metadata, object) in [
        (
            "{name: '{{ 7 * 7 }}{% x %}'}",
            "ConfigMap `{{ 7 * 7 }}{% x %}`",
        ),
        ("{name: '../../secrets/a'}", "ConfigMap `../../secrets/a`"),
        ("{name: a, namespace: '{% x %}'}", "ConfigMap `a`"),
        ("{name: a, labels: {'{{ k }}': v}}", "ConfigMap `a`"),
    ] {
        let what = with_metadata(metadata);
        let refused = world.driver.validate_request(&what).unwrap_err();
        let planned = world.instantiate(&what, 20).await.unwrap_err();
        for refusal in [refused, planned] {
            assert_eq!(refusal.name(), "kubernetes.manifest-invalid", "{refusal}");
            assert!(
                refusal.to_string().contains("Files/kubernetes/1.yaml:1"),
                "{refusal}"
            );
            assert_eq!(refusal.resource(), Some(object), "{refusal}");
        }
    }
    assert!(
        cluster
            .object(&format!("/api/v1/namespaces/{}", world.namespace()))
            .is_none()
    );
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_instance_with_an_invalid_object_name_can_be_released() {
    for metadata in [
        "{name: '{{ 7 * 7 }}{% x %}'}",
        "{name: '{{ 7 * 7 }}'}",
        "{name: a, namespace: '{{ ns }}'}",
    ] {
        let (world, _, _) = faulty_cluster().await;
        let created = world
            .instantiate(&with_metadata("{name: odd}"), 20)
            .await
            .unwrap();
        // An earlier version was interrupted: the handle is missing, or contains the name.
        let what = with_metadata(metadata);
        world.terminate(&what, Value::Null).await.unwrap();
        let mut handle = created.handle;
        handle["objects"][1]["name"] = "{{ 7 * 7 }}{% x %}".into();
        handle["objects"][1]["namespace"] = "{{ ns }}".into();
        world
            .driver
            .observe(&world.cx(20), &what, &handle)
            .await
            .unwrap();
        world.terminate(&what, handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn resources_that_a_cluster_would_create_are_counted_before_anything_is_created() {
    let (world, cluster, _) = faulty_cluster().await;
    let many = deployment(100_000_000, "");
    let what = package(&[(1, CONFIG), (2, &many)], "", json!({}));
    let refused = world.driver.validate_request(&what).unwrap_err();
    let planned = world.instantiate(&what, 20).await.unwrap_err();
    for refusal in [refused, planned] {
        assert_eq!(refusal.name(), "plan.too-large", "{refusal}");
        assert!(
            refusal.to_string().contains("`limits.resources` is 10000"),
            "{refusal}"
        );
    }
    assert!(
        cluster
            .object(&format!("/api/v1/namespaces/{}", world.namespace()))
            .is_none()
    );
}
