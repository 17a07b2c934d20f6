//! Copies custom labels of a worker to its successor, without which pods that select them could not be scheduled.
//!
//! They are saved in a ConfigMap of the cluster before the node is deleted, and removed from it once they are restored, or
//! once no successor can come. Labels of
//! Kubernetes' own domains are skipped: kubelets and cloud controllers set those.

use crate::api::{Api, ClusterNode, MERGE};
use crate::plan::Node;
use crate::roles::is_kubernetes;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use vnfm_plugin_sdk::prelude::*;

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const CONFIG_MAP: &str = "vnfm-node-labels";

/// Saves the labels of these nodes.
///
/// # Errors
///
/// If the ConfigMap cannot be written.
pub(crate) async fn save(api: &Api<'_>, nodes: &[ClusterNode]) -> Result<(), DriverError> {
    let labels = nodes.iter().map(|node| {
        // Also saved if empty, to overwrite what an earlier operation left.
        let labels = Value::Object(custom_labels(node.labels()));
        (node.name().to_owned(), json!(labels.to_string()))
    });
    let data: Map<_, _> = labels.collect();
    let change = json!({ "data": data });
    if patch(api, change.clone()).await?.is_none() {
        let config_map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": CONFIG_MAP, "namespace": "kube-system" } });
        api.create(CONFIG_MAPS, config_map).await?;
        patch(api, change).await?;
    }
    Ok(())
}

/// The names of the nodes whose labels are saved.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn saved(api: &Api<'_>) -> Result<BTreeSet<String>, DriverError> {
    let config_map = api.find(&path()).await?.unwrap_or_default();
    let data = config_map["data"].as_object().into_iter().flatten();
    Ok(data.map(|(name, _)| name.clone()).collect())
}

/// Deletes the labels saved under names that no node has: there will be no successor.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn delete_outdated(api: &Api<'_>) -> Result<(), DriverError> {
    let nodes = api.nodes().await?;
    let mut outdated = saved(api).await?;
    outdated.retain(|name| nodes.iter().all(|node| node.name() != name));
    if outdated.is_empty() {
        return Ok(());
    }
    let data: Map<_, _> = outdated
        .into_iter()
        .map(|name| (name, Value::Null))
        .collect();
    patch(api, json!({ "data": data })).await.map(|_| ())
}

/// Restores the labels saved under the names of these nodes, except those that a node already has.
///
/// # Errors
///
/// If the API server rejects a change.
pub(crate) async fn restore(api: &Api<'_>, new: &[&Node]) -> Result<(), DriverError> {
    let Some(config_map) = api.find(&path()).await? else {
        return Ok(());
    };
    for node in new {
        let saved = config_map["data"][&node.name].as_str();
        let Some(mut labels) = saved.and_then(|text| serde_json::from_str::<Map<_, _>>(text).ok())
        else {
            continue;
        };
        let Some(seen) = api.node(&node.name).await? else {
            continue;
        };
        labels.retain(|name, _| !seen.labels().contains_key(name));
        if !labels.is_empty() {
            let names: Vec<_> = labels.keys().map(|name| format!("`{name}`")).collect();
            api.cx.info(&format!(
                "restored labels of `{}`: {}",
                node.name,
                names.join(", ")
            ));
            let change = json!({ "metadata": { "labels": labels } });
            api.change(&seen, change).await?;
        }
        let done = json!({ "data": { &node.name: null } });
        patch(api, done).await?;
    }
    Ok(())
}

async fn patch(api: &Api<'_>, change: Value) -> Result<Option<()>, DriverError> {
    api.patch(&path(), (MERGE, change)).await
}

fn path() -> String {
    format!("{CONFIG_MAPS}/{CONFIG_MAP}")
}

/// The labels outside Kubernetes' own domains.
fn custom_labels(labels: &Map<String, Value>) -> Map<String, Value> {
    labels
        .iter()
        .filter(|(name, _)| !is_kubernetes(name))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::custom_labels;
    use serde_json::json;

    #[test]
    fn only_labels_outside_kubernetes_domains_are_copied() {
        let labels = json!({ "kubernetes.io/hostname": "w1", "node-role.kubernetes.io/worker": "",
            "beta.k8s.io/arch": "x", "disk": "fast", "example.com/rack": "7", "notkubernetes.io/a": "b" });
        let custom_labels = custom_labels(labels.as_object().unwrap());
        let names: Vec<_> = custom_labels.keys().map(String::as_str).collect();
        assert_eq!(names, ["disk", "example.com/rack", "notkubernetes.io/a"]);
    }
}
