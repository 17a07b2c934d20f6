//! Behaviour that only a real cluster has: quotas, the scheduler, strict validation, custom resources, volumes, and
//! messages of the namespace controller.

use crate::support::{CONFIG, World, deployment, package};
use kube::api::ListParams;
use serde_json::{Value, json};
use vnfm_core::ports::ErrorKind;

#[tokio::test]
async fn an_exceeded_quota_is_reported_as_the_reason() {
    let Some(world) = World::start().await else {
        return;
    };
    let namespace = format!("small-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let quotas = world.api("v1", "ResourceQuota", "resourcequotas", Some(&namespace));
    world.make(&quotas, json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": {"pods": "1", "count/secrets": "0"}}})).await;
    let web = deployment(2, "");
    let what = package(&[(1, &web)], "", json!({"namespace": namespace}));
    let late = world.instantiate(&what, 6).await.unwrap_err();
    assert_eq!(
        (late.name(), late.kind()),
        ("kubernetes.not-ready", ErrorKind::Refused)
    );
    assert!(late.detail().contains("exceeded quota: small"), "{late}");
    assert!(
        world
            .seen
            .waits
            .lock()
            .unwrap()
            .iter()
            .any(|wait| wait.contains("exceeded quota: small"))
    );
    world.terminate(&what, Value::Null).await.unwrap();
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: page}\nstringData: {password: hunter2}\n";
    let what = package(&[(1, secret)], "", json!({"namespace": namespace}));
    let refused = world.instantiate(&what, 20).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.quota", "{refused}");
    assert!(!format!("{refused} {refused:?}").contains("hunter2"));
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
    world.clean(&world.namespaces(), &namespace).await;
}

#[tokio::test]
async fn an_unschedulable_pod_is_reported_with_the_reason() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(
        &[(1, &deployment(1, "      nodeSelector: {no: such}\n"))],
        "",
        json!({}),
    );
    let late = world.instantiate(&what, 6).await.unwrap_err();
    assert_eq!(late.name(), "kubernetes.not-ready");
    assert!(
        late.detail().contains("Unschedulable") && late.detail().contains("pod `web-"),
        "{late}"
    );
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_object_that_the_api_server_rejects_is_reported_with_its_location() {
    let Some(world) = World::start().await else {
        return;
    };
    let typo = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndta: {}\n";
    let wrong = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: []}}}\n";
    let unknown = "apiVersion: example.org/v1\nkind: Wonder\nmetadata: {name: a}\n";
    for (manifest, name, text, place) in [
        (
            typo,
            "kubernetes.rejected",
            "dta",
            "Files/kubernetes/0.yaml:2",
        ),
        (
            wrong,
            "kubernetes.rejected",
            "selector",
            "Files/kubernetes/0.yaml:1",
        ),
        (
            unknown,
            "kubernetes.kind-unknown",
            "the cluster does not serve `Wonder` of `example.org/v1`",
            "Files/kubernetes/0.yaml:1",
        ),
    ] {
        let what = package(&[(1, manifest)], "", json!({}));
        let refused = world.instantiate(&what, 20).await.unwrap_err();
        assert_eq!(
            (refused.name(), refused.kind()),
            (name, ErrorKind::Refused),
            "{refused}"
        );
        assert!(
            refused.to_string().contains(text) && refused.to_string().contains(place),
            "{refused}"
        );
        world.terminate(&what, Value::Null).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn one_package_may_contain_a_definition_and_its_objects() {
    let Some(world) = World::start().await else {
        return;
    };
    let group = format!("g{}.example.com", world.owner.instance_id);
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: 'things.{group}'}}\nspec:\n  group: {group}\n  scope: Namespaced\n  names: {{kind: Thing, plural: things, singular: thing, listKind: ThingList}}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n"
    );
    let thing =
        format!("apiVersion: {group}/v1\nkind: Thing\nmetadata: {{name: one}}\nspec: {{a: 1}}\n");
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'role-$namespace'}\nrules: []\n";
    let what = package(&[(1, &definition), (2, &thing), (1, role)], "", json!({}));
    let created = world.instantiate(&what, 30).await.unwrap();
    let things = world.api(
        &format!("{group}/v1"),
        "Thing",
        "things",
        Some(&world.namespace()),
    );
    assert_eq!(things.get("one").await.unwrap().data["spec"]["a"], 1);
    let again = world.instantiate(&what, 30).await.unwrap();
    assert_eq!(again.handle, created.handle);
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_namespace_blocked_by_foreign_objects_names_them() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, CONFIG)], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    let maps = world.config_maps(&world.namespace());
    world.make(&maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "guest", "finalizers": ["example.com/hold"]}})).await;
    let stuck = world
        .terminate_within(&what, created.handle.clone(), 8)
        .await
        .unwrap_err();
    assert_eq!(stuck.name(), "kubernetes.finalizer", "{stuck}");
    assert!(stuck.detail().contains("example.com/hold"), "{stuck}");
    world
        .change(&maps, "guest", json!({"metadata": {"finalizers": null}}))
        .await;
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

/// A `StatefulSet` with a claim for each pod.
const SET: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec:\n  serviceName: web\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: web, image: 'localhost/busybox:1', volumeMounts: [{name: data, mountPath: /data}]}]\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";

#[tokio::test]
async fn claims_of_a_stateful_set_are_deleted_from_a_shared_namespace() {
    let Some(world) = World::start().await else {
        return;
    };
    let namespace = format!("shared-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let set = SET;
    let what = package(&[(1, set)], "", json!({"namespace": namespace}));
    let late = world.instantiate(&what, 6).await.unwrap_err();
    assert_eq!(late.name(), "kubernetes.not-ready");
    let claims = world.api(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        Some(&namespace),
    );
    assert_eq!(
        claims
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    world.terminate(&what, Value::Null).await.unwrap();
    assert_eq!(
        claims
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
    world.assert_nothing_left().await;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace)
            .await
            .unwrap()
            .is_some()
    );
    world.clean(&world.namespaces(), &namespace).await;
}

/// The manifest names the namespace, and a claim there holds a volume of the package.
#[tokio::test]
async fn claims_in_a_namespace_of_a_manifest_are_deleted_with_the_volume_that_they_hold() {
    let Some(world) = World::start().await else {
        return;
    };
    let namespace = format!("elsewhere-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let volume = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {namespace}}}\nspec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: {namespace}, hostPath: {{path: /data}}}}\n"
    );
    let named = format!("metadata: {{name: web, namespace: {namespace}}}\nspec:\n  serviceName");
    let class = format!("spec: {{storageClassName: {namespace}, accessModes");
    let set = SET
        .replace("metadata: {name: web}\nspec:\n  serviceName", &named)
        .replace("spec: {accessModes", &class);
    let what = package(&[(1, volume.as_str()), (2, set.as_str())], "", json!({}));
    let created = world.instantiate(&what, 60).await.unwrap();
    world.terminate(&what, created.handle).await.unwrap();
    let claims = world.api(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        Some(&namespace),
    );
    let left = claims.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.len(), 0, "{left:?}");
    world.assert_nothing_left().await;
    world.clean(&world.namespaces(), &namespace).await;
}
