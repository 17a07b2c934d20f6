//! Labels that somebody gave a worker: its successor gets them, or pods that ask for them find no node any more.
//!
//! They are noted in the cluster itself before the node goes, and the note goes when they are back. Labels of Kubernetes'
//! own domains are no affair of ours: kubelets and clouds set those.

use crate::api::{Api, MERGE, NodeSeen};
use crate::plan::Node;
use serde_json::{Map, Value, json};
use vnfm_plugin_sdk::prelude::*;

const NOTES: &str = "/api/v1/namespaces/kube-system/configmaps";
const NOTE: &str = "vnfm-node-labels";
/// Labels whose names end so before the `/` are Kubernetes' own.
const OWN: &[&str] = &["kubernetes.io", "k8s.io"];

/// Notes the labels of these nodes.
///
/// # Errors
///
/// Where the cluster does not take the note.
pub(crate) async fn remember(api: &Api<'_>, nodes: &[&NodeSeen]) -> Result<(), DriverError> {
    let labels = nodes.iter().map(|node| {
        // Of a heal before this one nothing may be left, so that none is noted as well.
        let labels = Value::Object(given(node.labels()));
        (node.name().to_owned(), json!(labels.to_string()))
    });
    let data: Map<_, _> = labels.collect();
    let note = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": NOTE, "namespace": "kube-system" }, "data": data });
    let path = format!("{NOTES}/{NOTE}");
    if api
        .write("PATCH", &path, (MERGE, json!({ "data": data })))
        .await?
        .is_none()
    {
        api.write("POST", NOTES, ("application/json", note)).await?;
    }
    Ok(())
}

/// Gives nodes that are new the labels that were noted under their names, as far as they have none of that name.
///
/// # Errors
///
/// Where the cluster does not take them.
pub(crate) async fn restore(api: &Api<'_>, new: &[&Node]) -> Result<(), DriverError> {
    let path = format!("{NOTES}/{NOTE}");
    let Some(note) = api.find(&path).await? else {
        return Ok(());
    };
    for node in new {
        let noted = note["data"][&node.name].as_str();
        let Some(mut labels) = noted.and_then(|text| serde_json::from_str::<Map<_, _>>(text).ok())
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
                "`{}` gets its labels back: {}",
                node.name,
                names.join(", ")
            ));
            let change = json!({ "metadata": { "labels": labels } });
            api.change(&seen, change).await?;
        }
        let done = json!({ "data": { &node.name: null } });
        api.write("PATCH", &path, (MERGE, done)).await?;
    }
    Ok(())
}

/// Those that are not Kubernetes' own.
fn given(labels: &Map<String, Value>) -> Map<String, Value> {
    let is_own = |name: &str| {
        let domain = name.split_once('/').map_or("", |(domain, _)| domain);
        OWN.iter().any(|own| {
            domain
                .strip_suffix(own)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    };
    labels
        .iter()
        .filter(|(name, _)| !is_own(name))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::given;
    use serde_json::json;

    #[test]
    fn labels_of_kubernetes_stay_where_they_are() {
        let labels = json!({ "kubernetes.io/hostname": "w1", "node-role.kubernetes.io/worker": "",
            "beta.k8s.io/arch": "x", "disk": "fast", "example.com/rack": "7", "notkubernetes.io/a": "b" });
        let given = given(labels.as_object().unwrap());
        let names: Vec<_> = given.keys().map(String::as_str).collect();
        assert_eq!(names, ["disk", "example.com/rack", "notkubernetes.io/a"]);
    }
}
