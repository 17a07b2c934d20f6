//! The kubeconfigs of an instance's clusters, as Cluster API stores them: Secret `CLUSTER-kubeconfig`, type
//! `cluster.x-k8s.io/secret`, key `value`. They are the outputs of the instance, by the name of the Secret; clusters of the same
//! name in two namespaces by `NAMESPACE.CLUSTER-kubeconfig`.
//!
//! Only Secrets of `Cluster` objects with the labels of the instance are read, each by its name.

use crate::catalog::{Catalog, Target, core};
use crate::client::Session;
use crate::cluster_api::{API_VERSION, CLUSTER};
use crate::errors::{FORBIDDEN, UNEXPECTED};
use crate::labels::{self, label_of};
use crate::object::find;
use crate::owned::objects;
use crate::status::text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::DynamicObject;
use vnfm_core::ports::{PortError, VimCall};
use vnfm_types::KeyValuePairs;

/// How many clusters an instance may have.
const MAX_CLUSTERS: usize = 16;
/// Largest kubeconfig, in bytes of base64; those of Cluster API have less than 8 KiB.
const MAX_BASE64: usize = 64 * 1024;
/// How the name of the Secret ends.
const SUFFIX: &str = "-kubeconfig";
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// The kubeconfigs that exist; empty if the cluster does not serve Cluster API.
///
/// # Errors
///
/// `Broken` if there are more than 16 clusters; the API server's error, such as a missing permission.
pub(crate) async fn kubeconfigs(
    cx: &VimCall<'_>,
    session: &Session<'_>,
) -> Result<KeyValuePairs, PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    let Some(kind) = catalog.find(API_VERSION, CLUSTER).await? else {
        return Ok(KeyValuePairs::new());
    };
    let selector = labels::selector(cx.ownership);
    let clusters = match objects(session, &kind.resource, None, &selector).await {
        Err(error) if error.code() == &FORBIDDEN => {
            let own = format!("vnf-{}", cx.ownership.instance_id);
            let namespace = session.namespace().await?.unwrap_or(own);
            objects(session, &kind.resource, Some(&namespace), &selector).await?
        }
        clusters => clusters?,
    };
    if clusters.len() > MAX_CLUSTERS {
        let detail = format!("the instance has more than {MAX_CLUSTERS} clusters");
        return Err(PortError::new(&UNEXPECTED, "read the kubeconfigs", detail));
    }
    let mut found = KeyValuePairs::new();
    for cluster in &clusters {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let target = Target {
            resource: core("Secret", "secrets"),
            namespace: cluster.metadata.namespace.clone(),
            name: format!("{name}{SUFFIX}"),
        };
        let Some(secret) = find(session, &target).await? else {
            continue;
        };
        if let Some(kubeconfig) = kubeconfig_of(&name, &secret) {
            found.insert(output_name(&clusters, cluster), kubeconfig.into());
        } else {
            let text = format!("{target} is not used: it is not a kubeconfig of Cluster API");
            cx.watcher.log("warn", "kubernetes", &text);
        }
    }
    Ok(found)
}

/// The name of the output of one of these clusters.
fn output_name(clusters: &[DynamicObject], cluster: &DynamicObject) -> String {
    let own = &cluster.metadata;
    let name = own.name.as_deref().unwrap_or_default();
    let namesakes = clusters
        .iter()
        .filter(|other| other.metadata.name == own.name);
    match own.namespace.as_deref() {
        Some(namespace) if namesakes.count() > 1 => format!("{namespace}.{name}{SUFFIX}"),
        _ => format!("{name}{SUFFIX}"),
    }
}

/// The kubeconfig in a Secret that Cluster API made for this cluster.
fn kubeconfig_of(cluster: &str, secret: &DynamicObject) -> Option<String> {
    let encoded = text(&secret.data, "/data/value");
    let is_of_cluster = text(&secret.data, "/type") == SECRET_TYPE
        && label_of(&secret.metadata, CLUSTER_NAME).is_some_and(|name| name == cluster);
    if !is_of_cluster || encoded.is_empty() || encoded.len() > MAX_BASE64 {
        return None;
    }
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn clusters_of_one_name_are_told_apart_by_their_namespaces() {
        let clusters = [("a", "edge"), ("b", "edge"), ("b", "core")].map(|(namespace, name)| {
            let cluster = json!({"metadata": {"namespace": namespace, "name": name}});
            serde_json::from_value::<DynamicObject>(cluster).unwrap()
        });
        let names = clusters
            .each_ref()
            .map(|cluster| output_name(&clusters, cluster));
        assert_eq!(
            names,
            ["a.edge-kubeconfig", "b.edge-kubeconfig", "core-kubeconfig"]
        );
    }

    #[test]
    fn only_the_kubeconfig_of_this_cluster_is_read() {
        let secret = |kind: &str, cluster: &str, value: &str| -> DynamicObject {
            let secret = json!({"metadata": {"labels": {CLUSTER_NAME: cluster}}, "type": kind, "data": {"value": value}});
            serde_json::from_value(secret).unwrap()
        };
        let text = STANDARD.encode("apiVersion: v1");
        let read = |secret: &DynamicObject| kubeconfig_of("edge", secret);
        let right = secret(SECRET_TYPE, "edge", &text);
        assert_eq!(read(&right).as_deref(), Some("apiVersion: v1"));
        for wrong in [
            secret("Opaque", "edge", &text),
            secret(SECRET_TYPE, "other", &text),
            secret(SECRET_TYPE, "edge", "*"),
            secret(SECRET_TYPE, "edge", ""),
            secret(SECRET_TYPE, "edge", &STANDARD.encode([0xff])),
            secret(SECRET_TYPE, "edge", &"A".repeat(MAX_BASE64 + 4)),
        ] {
            assert_eq!(read(&wrong), None);
        }
    }
}
