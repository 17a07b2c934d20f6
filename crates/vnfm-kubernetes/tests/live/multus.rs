//! A stand-in for Multus on a real API server: the kind `NetworkAttachmentDefinition`, and the report that Multus would write
//! about each pod of an instance that requests networks. It makes no interfaces: its pods run on simulated nodes.

use crate::support::World;
use futures::StreamExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, Error};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const DEFINITION: &str = "network-attachment-definitions.k8s.cni.cncf.io";
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {kind: NetworkAttachmentDefinition, plural: network-attachment-definitions, singular: network-attachment-definition, shortNames: [net-attach-def]}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {config: {type: string}}}}
";

fn definitions(world: &World) -> Api<DynamicObject> {
    let plural = "customresourcedefinitions";
    world.api(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        plural,
        None,
    )
}

/// Makes the cluster serve networks, and returns once it does.
pub(crate) async fn install(world: &World) {
    let document = serde_yaml::Deserializer::from_str(CRD);
    let definition = Value::deserialize(document).expect("it is YAML");
    let definition: DynamicObject = serde_json::from_value(definition).expect("an object");
    match definitions(world)
        .create(&PostParams::default(), &definition)
        .await
    {
        Err(Error::Api(status)) if status.code == 409 => {}
        made => drop(made.expect("the cluster takes it")),
    }
    until_served(world, true).await;
}

/// Removes what [`install`] installed.
pub(crate) async fn remove(world: &World) {
    let deleted = definitions(world)
        .delete(DEFINITION, &DeleteParams::default())
        .await;
    deleted.expect("the cluster deletes it");
    until_served(world, false).await;
}

async fn until_served(world: &World, served: bool) {
    let changes = watcher::watcher(definitions(world), watcher::Config::default());
    let mut changes = std::pin::pin!(changes);
    let plural = "network-attachment-definitions";
    let all = world.api(
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        plural,
        None,
    );
    loop {
        let group = world
            .client
            .list_api_group_resources("k8s.cni.cncf.io/v1")
            .await;
        let listed = all.list(&ListParams::default()).await;
        let is_done = if served {
            group.is_ok() && listed.is_ok()
        } else {
            group.is_err()
        };
        if is_done {
            return;
        }
        // A definition changes when it is established; what follows within a second is looked for then.
        let change = changes.next();
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), change).await;
    }
}

/// Writes the reports about the pods of one instance, until it is dropped.
pub(crate) struct Multus(JoinHandle<()>);

impl Drop for Multus {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Multus {
    pub(crate) fn attaches_pods_of(world: &World) -> Self {
        let selector = format!("vnfm.dev/instance={}", world.owner.instance_id);
        Self(tokio::spawn(attach(
            world.client.clone(),
            selector,
            world.api("v1", "Pod", "pods", None),
        )))
    }
}

async fn attach(client: Client, selector: String, pods: Api<DynamicObject>) {
    let config = watcher::Config::default().labels(&selector);
    let changes = watcher::watcher(pods.clone(), config);
    let mut changes = std::pin::pin!(changes);
    let mut number = 10;
    while changes.next().await.is_some() {
        let list = pods.list(&ListParams::default().labels(&selector)).await;
        for pod in list.map(|list| list.items).unwrap_or_default() {
            let annotations = pod.metadata.annotations.clone().unwrap_or_default();
            let runs = pod.data["status"]["podIP"].is_string();
            let (Some(list), false, true) = (
                annotations.get(NETWORKS),
                annotations.contains_key(STATUS),
                runs,
            ) else {
                continue;
            };
            number += 1;
            let report = report(&pod, list, number);
            let change = json!({"metadata": {"annotations": {STATUS: report.to_string()}}});
            let (namespace, name) = (pod.metadata.namespace.unwrap(), pod.metadata.name.unwrap());
            let resource = kube::api::ApiResource::from_gvk_with_plural(
                &kube::api::GroupVersionKind::gvk("", "v1", "Pod"),
                "pods",
            );
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), &namespace, &resource);
            match api
                .patch(&name, &PatchParams::default(), &Patch::Merge(change))
                .await
            {
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                changed => drop(changed.expect("the cluster takes the report")),
            }
        }
    }
}

/// What Multus writes: the pod's own interface, and one for each entry.
fn report(pod: &DynamicObject, list: &str, number: u32) -> Value {
    let namespace = pod.metadata.namespace.as_deref().expect("pods have one");
    let short = |item: &str| {
        let (namespace, name) = item.split_once('/').unwrap_or((namespace, item));
        json!({"namespace": namespace, "name": name})
    };
    let entries: Vec<Value> = serde_json::from_str(list)
        .unwrap_or_else(|_| list.split(',').map(|item| short(item.trim())).collect());
    let own = json!({"name": "cluster", "interface": "eth0", "ips": [pod.data["status"]["podIP"]], "default": true, "dns": {}});
    let needs_device = pod.data["spec"]["containers"][0]["resources"]["limits"].as_object();
    let needs_device =
        needs_device.is_some_and(|limits| limits.keys().any(|name| name.contains('/')));
    let others = entries.iter().enumerate().map(|(index, entry)| {
        let text = |member: &str| entry[member].as_str();
        let ips = entry["ips"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut ips: Vec<String> = ips.filter_map(|ip| Some(ip.split('/').next()?.to_owned())).collect();
        if ips.is_empty() {
            ips.push(format!("10.{}.0.{number}", 100 + index));
        }
        let default = format!("net{}", index + 1);
        let mac = format!("02:00:00:00:{index:02x}:{:02x}", number % 256);
        let mut one = json!({"name": format!("{}/{}", text("namespace").unwrap(), text("name").unwrap()),
            "interface": text("interface").unwrap_or(&default), "ips": ips, "mac": text("mac").unwrap_or(&mac), "dns": {}});
        if needs_device {
            one["device-info"] = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": format!("0000:18:02.{}", index % 8)}});
        }
        one
    });
    std::iter::once(own).chain(others).collect()
}
