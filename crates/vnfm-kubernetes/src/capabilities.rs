//! Reads what a cluster offers, and compares it with what the ASD of a package requires.
//!
//! | fact | read from |
//! |---|---|
//! | versions | `/version`; the configured helm program |
//! | nodes | Node objects |
//! | loaded kernel modules | `NodeFeature` objects of node feature discovery, if the cluster serves them |
//! | kinds | aggregated discovery |
//! | storage | `CSIDriver` and `StorageClass` objects |
//!
//! Lists are read in pages, up to a limit. A list that exceeds it, or that the login may not read, is unknown.

use crate::catalog::{Catalog, api, core};
use crate::client::Session;
use crate::errors::{ANSWER, CAPABILITIES, FORBIDDEN, REJECTED};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{
    ClusterCapabilities, Convergence, NodeCapabilities, Observed, PortError, VimCall,
};
use vnfm_core::{Verdict, match_cluster};
use vnfm_descriptor::ClusterCapabilities as Required;

/// Objects in a page. A `NodeFeature` may have 100 KiB.
const PAGE_LEN: u32 = 100;
/// Pages of a list: 10,000 objects, twice as many nodes as Kubernetes supports.
const MAX_PAGES: usize = 100;
/// Text of a list that is kept, in bytes: 5,000 nodes with 60 labels each have 20 MB.
const MAX_KEPT: usize = 32 << 20;
/// Labels of a node that are kept, resources of a node, modules of a node.
const MAX_LABELS: usize = 512;
const MAX_RESOURCES: usize = 128;
const MAX_MODULES: usize = 4_096;
/// Group versions and kinds that are kept.
const MAX_APIS: usize = 20_000;
/// Longest text that is kept: a label key with its prefix has at most 317 characters.
const MAX_TEXT_LEN: usize = 317;
/// The label that names the node of a `NodeFeature`.
const NODE_NAME_LABEL: &str = "nfd.node.kubernetes.io/node-name";
/// The feature that lists loaded kernel modules.
const LOADED_MODULES: &str = "kernel.loadedmodule";

/// What the cluster of a session offers.
///
/// # Errors
///
/// The cluster does not respond, or refuses the login.
pub(crate) async fn capabilities(session: &Session<'_>) -> Result<ClusterCapabilities, PortError> {
    let kubernetes_version = session.version().await?;
    let storage = |kind: &str, plural: &str| resource("storage.k8s.io", "v1", kind, plural);
    Ok(ClusterCapabilities {
        kubernetes_version,
        helm_version: helm_version(session).await,
        nodes: nodes(session).await?,
        apis: apis(session).await?,
        csi_drivers: names(session, &storage("CSIDriver", "csidrivers")).await?,
        storage_classes: names(session, &storage("StorageClass", "storageclasses")).await?,
    })
}

/// Refuses a change to a package whose ASD requires what the cluster certainly lacks. Returns sentences about what it
/// prefers, and about what is unknown.
///
/// # Errors
///
/// `Refused`, with every requirement that is not met; the cluster does not respond.
pub(crate) async fn require(
    session: &Session<'_>,
    change: &Convergence<'_>,
) -> Result<Vec<String>, PortError> {
    let package = &change.target.package;
    let asd = package
        .asd()
        .and_then(|asd| asd.enhanced_cluster_capabilities.as_ref());
    let Some(required) = asd.filter(|required| **required != Required::default()) else {
        return Ok(Vec::new());
    };
    if change.current.is_some() && !change.changes_vnfd() {
        return Ok(Vec::new());
    }
    let outcomes = match_cluster(required, &capabilities(session).await?);
    let missing: Vec<String> = outcomes
        .iter()
        .filter(|outcome| outcome.prevents())
        .map(ToString::to_string)
        .collect();
    if missing.is_empty() {
        let open = outcomes
            .iter()
            .filter(|outcome| outcome.verdict != Verdict::Met);
        return Ok(open.map(ToString::to_string).collect());
    }
    let action = "deploy the application on this cluster";
    Err(PortError::new(&CAPABILITIES, action, missing.join("; ")).on(session.vim()))
}

/// Logs what [`require`] returned.
pub(crate) fn log(cx: &VimCall<'_>, notes: &[String]) {
    for note in notes {
        let text = format!("VIM `{}`: {note}", cx.vim.name());
        cx.watcher.log("warn", "kubernetes", &text);
    }
}

async fn helm_version(session: &Session<'_>) -> Observed<String> {
    let Ok(helm) = session.helm() else {
        return Observed::unknown("this server has no helm");
    };
    match helm.version().await {
        Ok(version) => Observed::Known(version.to_string()),
        Err(_) => Observed::unknown(
            "the configured helm cannot be used; `vnfm-server check-config` tests it",
        ),
    }
}

async fn nodes(session: &Session<'_>) -> Result<Observed<Vec<NodeCapabilities>>, PortError> {
    let nodes = list(session, &core("Node", "nodes"), node).await?;
    let Observed::Known(mut nodes) = nodes else {
        return Ok(nodes);
    };
    let features = resource("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature", "nodefeatures");
    let mut modules = BTreeMap::<String, BTreeSet<String>>::new();
    if let Observed::Known(found) = list(session, &features, loaded_modules).await? {
        for (node, names) in found {
            modules.entry(node).or_default().extend(names);
        }
    }
    for node in &mut nodes {
        node.kernel_modules = modules.remove(&node.name);
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Observed::Known(nodes))
}

async fn apis(session: &Session<'_>) -> Result<Observed<BTreeSet<String>>, PortError> {
    let apis = match Catalog::new(session, std::iter::empty()).apis().await {
        Err(error) if is_unreadable(&error) => {
            return Ok(Observed::unknown(error.to_string()));
        }
        apis => apis?,
    };
    if apis.len() > MAX_APIS {
        return Ok(Observed::unknown(format!(
            "the cluster serves more than {MAX_APIS} kinds"
        )));
    }
    Ok(Observed::Known(apis.into_iter().collect()))
}

async fn names(
    session: &Session<'_>,
    resource: &ApiResource,
) -> Result<Observed<BTreeSet<String>>, PortError> {
    let names = list(session, resource, |object| object.metadata.name.clone()).await?;
    Ok(match names {
        Observed::Known(names) => Observed::Known(names.into_iter().collect()),
        Observed::Unknown { unknown } => Observed::Unknown { unknown },
    })
}

/// What `keep` makes of each object of a kind, in all namespaces; nothing if the cluster does not serve the kind.
async fn list<T: Retained>(
    session: &Session<'_>,
    resource: &ApiResource,
    keep: impl Fn(&DynamicObject) -> Option<T>,
) -> Result<Observed<Vec<T>>, PortError> {
    let action = format!("list the objects of kind `{}`", resource.kind);
    let (mut kept, mut params) = (Vec::new(), ListParams::default().limit(PAGE_LEN));
    let mut bytes = 0_usize;
    for _ in 0..MAX_PAGES {
        let how = &params;
        let page = session.find(&action, |client| async move {
            api::<DynamicObject>(client, resource, None).list(how).await
        });
        let page = match page.await {
            Err(error) if is_unreadable(&error) => {
                return Ok(Observed::unknown(error.to_string()));
            }
            page => page?,
        };
        let Some(page) = page else {
            return Ok(Observed::Known(kept));
        };
        let objects = page.items.iter().take(PAGE_LEN as usize);
        for one in objects.filter_map(&keep) {
            bytes = bytes.saturating_add(one.bytes());
            kept.push(one);
        }
        if bytes > MAX_KEPT {
            break;
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(Observed::Known(kept)),
            Some(token) => params = ListParams::default().limit(PAGE_LEN).continue_token(&token),
        }
    }
    Ok(Observed::unknown(format!(
        "the list of the objects of kind `{}` is too long to be read",
        resource.kind
    )))
}

/// What is retained of an object.
trait Retained {
    /// Length of its texts.
    fn bytes(&self) -> usize;
}

impl Retained for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Retained for NodeCapabilities {
    fn bytes(&self) -> usize {
        let texts = self.labels.iter().chain(&self.allocatable);
        let texts = texts.map(|(key, value)| key.len() + value.len());
        self.name.len() + texts.sum::<usize>()
    }
}

impl Retained for (String, BTreeSet<String>) {
    fn bytes(&self) -> usize {
        self.0.len() + self.1.iter().map(String::len).sum::<usize>()
    }
}

/// Whether a list stays unknown: the login may not read it, it is too large, or the API server refuses to continue it.
fn is_unreadable(error: &PortError) -> bool {
    [&FORBIDDEN, &ANSWER, &REJECTED].contains(&error.code())
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn node(object: &DynamicObject) -> Option<NodeCapabilities> {
    let info = |name: &str| {
        let text = object.data.pointer(&format!("/status/nodeInfo/{name}"));
        let text = text.and_then(Value::as_str).filter(|text| is_short(text));
        text.unwrap_or_default().to_owned()
    };
    let labels = object.metadata.labels.iter().flatten();
    let labels = labels.filter(|(key, value)| is_short(key) && is_short(value));
    let allocatable = object
        .data
        .pointer("/status/allocatable")
        .and_then(Value::as_object);
    Some(NodeCapabilities {
        name: object.metadata.name.clone().filter(|name| is_short(name))?,
        schedulable: is_schedulable(object),
        kernel_version: info("kernelVersion"),
        operating_system: info("operatingSystem"),
        architecture: info("architecture"),
        container_runtime_version: info("containerRuntimeVersion"),
        labels: labels
            .take(MAX_LABELS)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        allocatable: allocatable.map(quantities).unwrap_or_default(),
        kernel_modules: None,
    })
}

fn is_short(text: &str) -> bool {
    text.len() <= MAX_TEXT_LEN
}

fn is_schedulable(object: &DynamicObject) -> bool {
    let is_cordoned = object.data.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    !is_cordoned && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn quantities(allocatable: &Map<String, Value>) -> BTreeMap<String, String> {
    let texts = allocatable.iter().filter_map(|(name, amount)| {
        let amount = amount
            .as_str()
            .map_or_else(|| amount.to_string(), str::to_owned);
        (is_short(name) && is_short(&amount)).then(|| (name.clone(), amount))
    });
    texts.take(MAX_RESOURCES).collect()
}

/// The node of a `NodeFeature`, and the modules that it lists; `None` if it lists no modules at all.
fn loaded_modules(object: &DynamicObject) -> Option<(String, BTreeSet<String>)> {
    let node = object.metadata.labels.as_ref()?.get(NODE_NAME_LABEL)?;
    let path = format!("/spec/features/flags/{LOADED_MODULES}/elements");
    let elements = object.data.pointer(&path)?.as_object()?;
    let names = elements.keys().filter(|name| is_short(name));
    Some((node.clone(), names.take(MAX_MODULES).cloned().collect()))
}

#[cfg(test)]
mod tests {
    use super::{is_schedulable, loaded_modules, node};
    use kube::api::DynamicObject;
    use serde_json::{Value, json};

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_node_without_ready_or_cordoned_takes_no_pods() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let silent = json!([{"type": "Ready", "status": "Unknown"}]);
        for (cordoned, conditions, expected) in [
            (false, &ready, true),
            (true, &ready, false),
            (false, &silent, false),
        ] {
            let one = json!({"metadata": {"name": "a"}, "spec": {"unschedulable": cordoned}, "status": {"conditions": conditions}});
            assert_eq!(is_schedulable(&object(one.clone())), expected, "{one}");
        }
    }

    #[test]
    fn labels_beyond_what_kubernetes_allows_are_dropped() {
        let labels: serde_json::Map<String, Value> = (0..5_000)
            .map(|at| (format!("label-{at:04}"), json!("x")))
            .collect();
        let mut one = json!({"metadata": {"name": "a", "labels": labels}});
        one["metadata"]["labels"]["huge"] = json!("x".repeat(1 << 20));
        let read = node(&object(one)).unwrap();
        assert_eq!(read.labels.len(), super::MAX_LABELS);
        assert!(!read.labels.contains_key("huge"));
    }

    #[test]
    fn modules_are_read_from_the_features_of_a_node() {
        let flags = json!({"kernel.loadedmodule": {"elements": {"sctp": {}, "nf_nat": {}}}});
        let labels = json!({"nfd.node.kubernetes.io/node-name": "worker-1"});
        let one = json!({"metadata": {"name": "x", "labels": labels}, "spec": {"features": {"flags": flags}}});
        let (node, modules) = loaded_modules(&object(one)).unwrap();
        assert_eq!(node, "worker-1");
        assert_eq!(modules.into_iter().collect::<Vec<_>>(), ["nf_nat", "sctp"]);
        let other = json!({"metadata": {"name": "x", "labels": labels}, "spec": {"features": {}}});
        assert!(
            loaded_modules(&object(other)).is_none(),
            "unknown, not without modules"
        );
    }
}
