//! A cluster, with kube as the client: workloads, namespaces, nodes, faults.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use vnfm_sim::faults::{Fault, Rule};
use vnfm_sim::{Options, World};

use crate::support::until;

pub(crate) async fn world() -> World {
    World::start(Options {
        cluster: Some("c1".into()),
        ..Options::default()
    })
    .await
    .unwrap()
}

pub(crate) async fn client(world: &World) -> Client {
    let config = Kubeconfig::from_yaml(&world.cluster().unwrap().kubeconfig()).unwrap();
    client_of(config).await
}

async fn client_of(config: Kubeconfig) -> Client {
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(config, &options)
        .await
        .unwrap();
    // The tests expect errors, so the client must not retry.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// A client with another token.
pub(crate) async fn client_with(world: &World, token: &str) -> Client {
    let cluster = world.cluster().unwrap();
    let text = cluster.kubeconfig().replace(&cluster.admin_token(), token);
    client_of(Kubeconfig::from_yaml(&text).unwrap()).await
}

pub(crate) fn web(image: &str, replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "web", "image": image }] } } } })
}

pub(crate) fn vnfm() -> PatchParams {
    PatchParams::apply("vnfm")
}

async fn namespace(client: &Client, name: &str) {
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    Api::<Namespace>::all(client.clone())
        .patch(name, &vnfm(), &Patch::Apply(body))
        .await
        .unwrap();
}

pub(crate) fn refused(error: kube::Error) -> (u16, String, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_deployment_creates_ready_pods_and_is_deleted_with_its_namespace() {
    let world = world().await;
    let client = client(&world).await;
    namespace(&client, "vnf-b").await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "vnf-b");
    deployments
        .patch("web", &vnfm(), &Patch::Apply(web("web:1", 2)))
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "vnf-b");
    let ready = until("two replicas are ready", || async {
        let status = deployments.get("web").await.unwrap().status?;
        (status.ready_replicas == Some(2) && status.observed_generation == Some(1)).then_some(())
    });
    ready.await;
    let listed = pods
        .list(&ListParams::default().labels("app=web"))
        .await
        .unwrap();
    assert!(
        listed
            .iter()
            .all(|pod| pod.status.as_ref().unwrap().pod_ip.is_some()
                && pod.name_any().starts_with("web-"))
    );
    assert_eq!(listed.items.len(), 2);

    deployments
        .patch("web", &vnfm(), &Patch::Apply(web("web:1", 3)))
        .await
        .unwrap();
    until("three pods", || async {
        (pods.list(&ListParams::default()).await.unwrap().items.len() == 3).then_some(())
    })
    .await;

    expose_web(&client).await;

    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .delete("vnf-b", &DeleteParams::default())
        .await
        .unwrap();
    until("the namespace is deleted", || async {
        namespaces
            .get_opt("vnf-b")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    assert_eq!(world.ledger().left_behind(), []);
    assert_eq!(world.ledger().violations(), Vec::<String>::new());
}

/// Applies a service in front of the pods and checks that it gets a cluster address.
async fn expose_web(client: &Client) {
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" }, "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    let service = Api::<Service>::namespaced(client.clone(), "vnf-b")
        .patch("web", &vnfm(), &Patch::Apply(service))
        .await
        .unwrap();
    assert!(
        service
            .spec
            .unwrap()
            .cluster_ip
            .unwrap()
            .starts_with("10.96.")
    );
}

#[tokio::test]
async fn a_pod_with_a_missing_image_waits_with_err_image_pull() {
    let world = world().await;
    let client = client(&world).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments
        .create(
            &PostParams::default(),
            &serde_json::from_value(web("no-such:1", 1)).unwrap(),
        )
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let reason = until("the pod waits with a reason", || async {
        let pod = pods
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .pop()?;
        pod.status?
            .container_statuses?
            .pop()?
            .state?
            .waiting?
            .reason
    });
    assert_eq!(reason.await, "ErrImagePull");
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(client);
    let listed = events
        .list(&ListParams::default().fields("type=Warning"))
        .await
        .unwrap();
    assert!(
        listed.items[0]
            .message
            .as_ref()
            .unwrap()
            .contains("Failed to pull image \"no-such:1\"")
    );
}

#[tokio::test]
async fn deleting_an_owner_deletes_its_dependents_unless_orphaned() {
    let world = world().await;
    let client = client(&world).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let count = || async { pods.list(&ListParams::default()).await.unwrap().items.len() };
    for parameters in [DeleteParams::background(), DeleteParams::foreground()] {
        deployments
            .patch("web", &vnfm(), &Patch::Apply(web("web:1", 2)))
            .await
            .unwrap();
        until("two pods", || async { (count().await == 2).then_some(()) }).await;
        deployments.delete("web", &parameters).await.unwrap();
        until("the pods and the deployment are deleted", || async {
            (count().await == 0 && deployments.get_opt("web").await.unwrap().is_none())
                .then_some(())
        })
        .await;
    }
    deployments
        .patch("web", &vnfm(), &Patch::Apply(web("web:1", 1)))
        .await
        .unwrap();
    until("one pod", || async { (count().await == 1).then_some(()) }).await;
    deployments
        .delete(
            "web",
            &DeleteParams {
                propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
                ..DeleteParams::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(count().await, 1);
}

#[tokio::test]
async fn jobs_stateful_sets_daemon_sets_and_claims_become_ready() {
    let world = world().await;
    let client = client(&world).await;
    let template = json!({ "metadata": { "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "job" }, "spec": { "template": template } });
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let workload = |kind: &str| json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": kind.to_lowercase() }, "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "x" } }, "template": template } });
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "claim" }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let cluster = world.cluster().unwrap();
    for body in [
        &job,
        &workload("StatefulSet"),
        &workload("DaemonSet"),
        &claim,
    ] {
        cluster.apply(&body.to_string()).unwrap();
    }
    let at = |path: &str, pointer: &str| {
        cluster
            .object(path)
            .and_then(|body| body.pointer(pointer).cloned())
            .unwrap_or_default()
    };
    until("all workloads are ready", || async {
        let done = at(
            "/apis/batch/v1/namespaces/default/jobs/job",
            "/status/conditions/0/type",
        ) == "Complete"
            && at(
                "/apis/apps/v1/namespaces/default/statefulsets/statefulset",
                "/status/readyReplicas",
            ) == 2
            && at(
                "/apis/apps/v1/namespaces/default/daemonsets/daemonset",
                "/status/numberReady",
            ) == 1
            && at(
                "/api/v1/namespaces/default/persistentvolumeclaims/claim",
                "/status/phase",
            ) == "Bound";
        done.then_some(())
    })
    .await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    assert!(pods.get_opt("statefulset-1").await.unwrap().is_some());
}

#[tokio::test]
async fn nodes_wait_for_a_network_and_bootstrap_tokens_can_be_revoked() {
    let world = world().await;
    let address = world
        .endpoints()
        .address_block
        .replace("0/24", "77")
        .parse()
        .unwrap();
    let spec = vnfm_sim::kubernetes::ClusterSpec {
        name: "joined".into(),
        address,
        port: 0,
    };
    let cluster = world.clusters().start(spec.clone()).await.unwrap();
    cluster.add_node("master", "127.1.1.1");
    cluster.add_node("worker", "127.1.1.2");
    cluster.bootstrap_token_add("abcdef.0123456789abcdef");
    assert!(
        cluster.bootstrap_token_valid("abcdef.0123456789abcdef")
            && !cluster.bootstrap_token_valid("abcdef.wrong")
    );
    cluster.bootstrap_token_remove("abcdef");
    assert!(!cluster.bootstrap_token_valid("abcdef.0123456789abcdef"));
    assert!(!cluster.node_ready("worker"));
    let mut network = web("cni:1", 1);
    (network["kind"], network["metadata"]["namespace"]) =
        (json!("DaemonSet"), json!("kube-system"));
    cluster.apply(&network.to_string()).unwrap();
    until("both nodes are ready", || async {
        (cluster.node_ready("master") && cluster.node_ready("worker")).then_some(())
    })
    .await;
    assert!(
        !cluster.uid().is_empty()
            && cluster
                .token_for("kube-system", "default")
                .split('.')
                .count()
                == 3
    );
    assert!(world.clusters().start(spec).await.is_err());
    world.clusters().stop("joined").await;
    assert_eq!(world.ledger().left_behind(), []);
}

#[tokio::test]
async fn faults_apply_to_the_api_server() {
    let world = world().await;
    let client = client(&world).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    world.faults().add(
        Rule::new(
            "kubernetes.apply",
            Fault::ErrorAfterEffect {
                error_after_effect: 500,
            },
        )
        .on("configmaps/default/m"),
    );
    assert_eq!(
        refused(
            maps.patch("m", &vnfm(), &Patch::Apply(&body))
                .await
                .unwrap_err()
        )
        .0,
        500
    );
    assert!(maps.get_opt("m").await.unwrap().is_some());
    world.faults().add(Rule::new(
        "kubernetes.delete",
        Fault::Drop {
            drop: vnfm_sim::faults::When::After,
        },
    ));
    assert!(maps.delete("m", &DeleteParams::default()).await.is_err());
    assert!(maps.get_opt("m").await.unwrap().is_none());
}
