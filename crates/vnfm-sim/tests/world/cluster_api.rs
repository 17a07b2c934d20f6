//! A cluster's API server, with kube as the client: watch, apply, conflicts, refusals, RBAC, discovery.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Discovery, ResourceExt};
use serde_json::json;

use crate::cluster::{client, client_with, refused, vnfm, web, world};
use crate::support::until;

#[tokio::test]
async fn a_watch_reports_each_change_and_a_compacted_version_gets_410() {
    let world = world().await;
    let client = client(&world).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let begin = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let stream = maps
        .watch(&WatchParams::default().labels("mine=yes"), &begin)
        .await
        .unwrap();
    let mut stream = std::pin::pin!(stream);
    let body = |value: &str, mine: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "labels": { "mine": mine } }, "data": { "k": value } });
    for (value, mine) in [("1", "yes"), ("2", "yes"), ("3", "no")] {
        maps.patch("m", &vnfm(), &Patch::Apply(body(value, mine)))
            .await
            .unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match stream.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);

    world.cluster().unwrap().compact();
    let late = maps.watch(&WatchParams::default(), &begin).await.unwrap();
    match std::pin::pin!(late).try_next().await.unwrap().unwrap() {
        WatchEvent::Error(status) => assert_eq!(status.code, 410),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn list_watch_and_streaming_list_watchers_see_new_objects() {
    let world = world().await;
    let client = client(&world).await;
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let stream = watcher(maps.clone(), config).applied_objects();
        let mut stream = std::pin::pin!(stream);
        let name = format!("m-{}", uuid::Uuid::new_v4().simple());
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        assert_eq!(
            stream
                .next()
                .await
                .unwrap()
                .unwrap()
                .metadata
                .namespace
                .unwrap(),
            "default"
        );
        maps.create(
            &PostParams::default(),
            &serde_json::from_value(body).unwrap(),
        )
        .await
        .unwrap();
        let found = async { while stream.next().await.unwrap().unwrap().name_any() != name {} };
        tokio::time::timeout(Duration::from_secs(10), found)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn an_apply_conflict_names_the_other_field_manager() {
    let world = world().await;
    let client = client(&world).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    deployments
        .patch("web", &vnfm(), &Patch::Apply(web("web:1", 1)))
        .await
        .unwrap();
    let scaled = json!({ "spec": { "replicas": 4 } });
    deployments
        .patch(
            "web",
            &PatchParams {
                field_manager: Some("kubectl".into()),
                ..PatchParams::default()
            },
            &Patch::Merge(scaled),
        )
        .await
        .unwrap();
    let (code, reason, message) = refused(
        deployments
            .patch("web", &vnfm(), &Patch::Apply(web("web:1", 2)))
            .await
            .unwrap_err(),
    );
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message.contains("conflict with \"kubectl\" using apps/v1: .spec.replicas"),
        "{message}"
    );
    let forced = deployments
        .patch("web", &vnfm().force(), &Patch::Apply(web("web:1", 2)))
        .await
        .unwrap();
    assert_eq!(forced.spec.replicas, Some(2));
    let version = deployments
        .get("web")
        .await
        .unwrap()
        .metadata
        .managed_fields;
    assert!(
        version
            .unwrap()
            .iter()
            .any(|m| m.manager.as_deref() == Some("vnfm"))
    );
}

#[tokio::test]
async fn errors_match_the_real_api_server() {
    let world = world().await;
    let client = client(&world).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let (code, reason, message) = refused(deployments.get("none").await.unwrap_err());
    assert_eq!(
        (code, reason.as_str(), message.as_str()),
        (404, "NotFound", "deployments.apps \"none\" not found")
    );
    let elsewhere: Api<Deployment> = Api::namespaced(client.clone(), "none");
    let created: Deployment = serde_json::from_value(web("web:1", 1)).unwrap();
    assert_eq!(
        refused(
            elsewhere
                .create(&PostParams::default(), &created)
                .await
                .unwrap_err()
        )
        .2,
        "namespaces \"none\" not found"
    );
    deployments
        .create(&PostParams::default(), &created)
        .await
        .unwrap();
    assert_eq!(
        refused(
            deployments
                .create(&PostParams::default(), &created)
                .await
                .unwrap_err()
        )
        .1,
        "AlreadyExists"
    );
    let mut wrong = web("web:1", 1);
    (
        wrong["metadata"]["name"],
        wrong["spec"]["selector"]["matchLabels"]["app"],
    ) = (json!("other"), json!("other"));
    let (code, _, message) = refused(
        deployments
            .patch("other", &vnfm(), &Patch::Apply(wrong))
            .await
            .unwrap_err(),
    );
    assert!(
        code == 422 && message.contains("`selector` does not match template `labels`"),
        "{message}"
    );
    let stranger = client_with(&world, "not-a-token").await;
    assert_eq!(
        refused(
            Api::<Pod>::default_namespaced(stranger)
                .list(&ListParams::default())
                .await
                .unwrap_err()
        )
        .0,
        401
    );
}

#[tokio::test]
async fn a_service_account_is_limited_to_its_role_bindings() {
    let world = world().await;
    let client = client(&world).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "kube-system");
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "vnfm" } });
    accounts
        .patch("vnfm", &vnfm(), &Patch::Apply(account))
        .await
        .unwrap();
    let request =
        serde_json::from_value(json!({ "spec": { "audiences": [], "expirationSeconds": 3600 } }))
            .unwrap();
    let issued = accounts
        .create_token_request("vnfm", &PostParams::default(), &request)
        .await
        .unwrap();
    let token = issued.status.unwrap().token.unwrap();
    let own = client_with(&world, &token).await;
    let pods: Api<Pod> = Api::default_namespaced(own.clone());
    let (code, _, message) = refused(pods.list(&ListParams::default()).await.unwrap_err());
    assert_eq!(code, 403);
    assert_eq!(
        message,
        "pods is forbidden: User \"system:serviceaccount:kube-system:vnfm\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "vnfm" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "vnfm", "namespace": "kube-system" }] });
    Api::<ClusterRoleBinding>::all(client.clone())
        .patch("vnfm", &vnfm(), &Patch::Apply(binding))
        .await
        .unwrap();
    assert!(pods.list(&ListParams::default()).await.is_ok());
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": { "name": "vnfm-token", "annotations": { "kubernetes.io/service-account.name": "vnfm" } } });
    let secrets: Api<Secret> = Api::namespaced(client, "kube-system");
    secrets
        .patch("vnfm-token", &vnfm(), &Patch::Apply(secret))
        .await
        .unwrap();
    until("the secret has its token", || async {
        secrets
            .get("vnfm-token")
            .await
            .unwrap()
            .data?
            .remove("token")
    })
    .await;
    accounts
        .delete("vnfm", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(
        refused(pods.list(&ListParams::default()).await.unwrap_err()).0,
        401
    );
}

#[tokio::test]
async fn discovery_finds_built_in_and_custom_kinds() {
    let world = world().await;
    let client = client(&world).await;
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "cars.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "kind": "Car", "plural": "cars" }, "versions": [{ "name": "v1", "served": true, "storage": true }] } });
    world
        .cluster()
        .unwrap()
        .apply(&definition.to_string())
        .unwrap();
    for discovery in [
        Discovery::new(client.clone()).run().await.unwrap(),
        Discovery::new(client.clone())
            .run_aggregated()
            .await
            .unwrap(),
    ] {
        let (resource, _) = discovery
            .get("example.com")
            .unwrap()
            .recommended_kind("Car")
            .unwrap();
        assert_eq!(
            (resource.plural.as_str(), resource.api_version.as_str()),
            ("cars", "example.com/v1")
        );
        assert!(
            discovery
                .get("apps")
                .unwrap()
                .recommended_kind("StatefulSet")
                .is_some()
        );
    }
    let gvk = kube::core::GroupVersionKind::gvk("example.com", "v1", "Car");
    let resource = kube::discovery::pinned_kind(&client, &gvk).await.unwrap().0;
    let cars: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let car = json!({ "apiVersion": "example.com/v1", "kind": "Car", "metadata": { "name": "c" }, "spec": { "doors": 3 } });
    cars.patch("c", &vnfm(), &Patch::Apply(car)).await.unwrap();
    assert_eq!(cars.get("c").await.unwrap().data["spec"]["doors"], 3);
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
}
