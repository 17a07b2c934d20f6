//! Values and policies on the API server: it reads values as text, and refused objects never reach it.

use crate::support::{CONFIG, World, deployment, package};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;
use vnfm_core::ports::{Convergence, InfraDriver as _, PortError};
use vnfm_types::VimPolicy;

const PAGE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {plain: $v, quoted: \"$v\", mixed: 'a${v}b'}\n";
const BINDING: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: vnfm-test-escape}\n\
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n\
    subjects: [{kind: ServiceAccount, name: default, namespace: default}]\n";

#[tokio::test]
async fn values_reach_the_api_server_as_text() {
    let Some(world) = World::start().await else {
        return;
    };
    let evil = format!("x\n---\n{BINDING}# {{{{ .x }}}} &a *a !!int $v \u{202e}é");
    let what = package(&[(1, PAGE)], "variables: {v: }", json!({"v": evil}));
    let created = world.instantiate(&what, 20).await.unwrap();
    let page = world
        .config_maps(&world.namespace())
        .get("page")
        .await
        .unwrap();
    let data = &page.data["data"];
    let expected = json!({"plain": evil, "quoted": evil, "mixed": format!("a{evil}b")});
    assert_eq!(*data, expected);
    assert!(binding(&world).await.is_none());
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

async fn binding(world: &World) -> Option<DynamicObject> {
    let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    let all: Api<DynamicObject> =
        Api::all_with(world.client.clone(), &ApiResource::from_gvk(&kind));
    all.get_opt("vnfm-test-escape").await.unwrap()
}

#[tokio::test]
async fn the_namespace_of_a_borrower_is_its_own_and_has_the_policy_label() {
    let Some(mut world) = World::start().await else {
        return;
    };
    world.vim.policy = VimPolicy::for_borrowers();
    let what = package(&[(1, CONFIG), (2, &deployment(1, ""))], "", json!({}));
    let created = world.instantiate(&what, 60).await.unwrap();
    let namespace = world.namespaces().get(&world.namespace()).await.unwrap();
    let labels = namespace.metadata.labels.unwrap();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "baseline");
    // Repeated: now the namespace is the instance's own.
    world.instantiate(&what, 60).await.unwrap();
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_refused_object_is_not_created() {
    let Some(mut world) = World::start().await else {
        return;
    };
    world.vim.policy = VimPolicy::for_borrowers();
    let what = package(&[(1, CONFIG), (2, BINDING)], "", json!({}));
    let refused = |outcome: Result<(), PortError>| {
        let error = outcome.unwrap_err();
        assert_eq!(error.name(), "kubernetes.policy");
        assert!(
            error
                .to_string()
                .contains("ClusterRoleBinding `vnfm-test-escape`"),
            "{error}"
        );
    };
    refused(world.driver.permit(&what, &world.vim.policy));
    refused(
        world
            .driver
            .preview(&world.cx(20), &Convergence::create(&what))
            .await
            .map(drop),
    );
    let prepared = json!({"namespace": world.namespace()});
    refused(
        world
            .driver
            .converge(&world.cx(20), &Convergence::create(&what), &prepared)
            .await
            .map(drop),
    );
    assert!(binding(&world).await.is_none());
    // A namespace that existed before is not used either.
    let there = package(&[(1, CONFIG)], "namespace: kube-public", json!({}));
    let error = world
        .driver
        .preview(&world.cx(20), &Convergence::create(&there))
        .await
        .unwrap_err();
    assert_eq!(error.resource(), Some("Namespace `kube-public`"), "{error}");
    world.assert_nothing_left().await;
}
