//! The claims of a VNF: its `PersistentVolumeClaim`s, who mounts them, and what is needed to make one again.
//!
//! A claim is of a VNF if it carries our labels: one of the package's manifests does, and so does one that a `StatefulSet`
//! makes from `volumeClaimTemplates`. One that a Pod owns comes and goes with the Pod, and has no state to keep.

use crate::catalog::{Target, core};
use crate::client::Session;
use crate::labels;
use crate::owned::objects;
use crate::status::text;
use jiff::SignedDuration;
use kube::api::{ApiResource, DynamicObject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vnfm_core::ports::{Backoff, PortError, VimCall};

/// The interval between looks at what a controller does.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long before the deadline the last look is, so that it is answered.
const LAST_LOOK: SignedDuration = SignedDuration::from_secs(1);
/// Annotations with these prefixes are of the cluster's own.
const CLUSTER_ANNOTATIONS: &[&str] = &[
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/storage-provisioner",
    "kubectl.kubernetes.io/",
];

/// What is needed to make a claim again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimRecipe {
    pub(crate) namespace: String,
    pub(crate) name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    access_modes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    storage_class_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume_mode: Option<String>,
    /// Requested size, as a quantity.
    storage: String,
}

impl ClaimRecipe {
    /// The recipe of an existing claim.
    pub(crate) fn from_claim(claim: &DynamicObject) -> Self {
        let metadata = &claim.metadata;
        let mut annotations = metadata.annotations.clone().unwrap_or_default();
        annotations.retain(|name, _| !CLUSTER_ANNOTATIONS.iter().any(|own| name.starts_with(own)));
        let member = |pointer: &str| {
            let found = claim.data.pointer(pointer).and_then(Value::as_str);
            found.map(str::to_owned)
        };
        let modes = claim.data.pointer("/spec/accessModes");
        let modes = modes.and_then(Value::as_array).into_iter().flatten();
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations,
            access_modes: modes.filter_map(Value::as_str).map(str::to_owned).collect(),
            storage_class_name: member("/spec/storageClassName"),
            volume_mode: member("/spec/volumeMode"),
            storage: member("/spec/resources/requests/storage").unwrap_or_default(),
        }
    }

    /// Makes the requested size at least `size`, a quantity: drivers round up, and a smaller claim cannot have the data.
    pub(crate) fn grow_to(&mut self, size: &str) {
        if bytes(size) > bytes(&self.storage) {
            size.clone_into(&mut self.storage);
        }
    }

    pub(crate) fn target(&self) -> Target {
        target(&self.namespace, &self.name)
    }

    /// The claim with the data of a `VolumeSnapshot`.
    pub(crate) fn restored_from(&self, snapshot: &str, op_id: &str) -> Value {
        let mut annotations = self.annotations.clone();
        annotations.insert(labels::OPERATION.to_owned(), op_id.to_owned());
        let mut claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels,
                "annotations": annotations},
            "spec": {"accessModes": self.access_modes, "resources": {"requests": {"storage": self.storage}},
                "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}},
        });
        let optional = [
            ("storageClassName", &self.storage_class_name),
            ("volumeMode", &self.volume_mode),
        ];
        for (member, value) in optional {
            if let Some(value) = value {
                claim["spec"][member] = json!(value);
            }
        }
        claim
    }
}

/// The kind of claims.
pub(crate) fn resource() -> ApiResource {
    core("PersistentVolumeClaim", "persistentvolumeclaims")
}

/// The claim of that name.
pub(crate) fn target(namespace: &str, name: &str) -> Target {
    Target {
        resource: resource(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// The claims of the VNF in these namespaces, sorted by namespace and name.
///
/// # Errors
///
/// A list could not be read.
pub(crate) async fn claims_of(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespaces: &BTreeSet<String>,
) -> Result<Vec<DynamicObject>, PortError> {
    let selector = labels::selector(cx.ownership);
    let mut found = Vec::new();
    for namespace in namespaces {
        found.extend(objects(session, &resource(), Some(namespace), &selector).await?);
    }
    found.retain(|claim| !is_owned_by_pod(claim));
    found.sort_by(|a, b| {
        let key = |one: &DynamicObject| (one.metadata.namespace.clone(), one.metadata.name.clone());
        key(a).cmp(&key(b))
    });
    Ok(found)
}

fn is_owned_by_pod(claim: &DynamicObject) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Pod")
}

/// The pauses between looks at what a controller does.
pub(crate) fn pauses<'a>(cx: &VimCall<'a>) -> Backoff<'a> {
    let until = cx.deadline.saturating_sub(LAST_LOOK);
    Backoff::new(cx.clock, cx.watcher, until.unwrap_or(cx.deadline), INTERVAL)
}

/// Names of the claims that a pod mounts.
pub(crate) fn mounted(pod: &Value) -> impl Iterator<Item = &str> {
    mounts(pod).map(|(_, claim)| claim)
}

/// Names of a pod's volumes that are claims, each with that of the claim.
pub(crate) fn mounts(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let named = |volume| {
        (
            text(volume, "/name"),
            text(volume, "/persistentVolumeClaim/claimName"),
        )
    };
    let all = volumes.into_iter().flatten().map(named);
    all.filter(|(_, claim)| !claim.is_empty())
}

/// A quantity in GiB, rounded up; `None` if it cannot be parsed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size is positive, and below 2^64 GiB"
)]
pub(crate) fn gib(quantity: &str) -> Option<u64> {
    let gib = (bytes(quantity) / bytes("1Gi")).ceil();
    (gib > 0.0).then_some(gib as u64)
}

/// The value of a Kubernetes quantity in its base unit; 0 if it cannot be parsed.
#[expect(clippy::cast_precision_loss, reason = "sizes are only compared")]
fn bytes(quantity: &str) -> f64 {
    const SUFFIXES: &[(&str, u64)] = &[
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
        ("", 1),
    ];
    let mut known = SUFFIXES.iter();
    let parsed = known.find_map(|(suffix, factor)| {
        let number: f64 = quantity.strip_suffix(suffix)?.parse().ok()?;
        Some(number * *factor as f64)
    });
    parsed.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> DynamicObject {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-db-0", "namespace": "a", "uid": "u", "labels": {"app": "db"},
                "annotations": {"pv.kubernetes.io/bind-completed": "yes", "mine": "1",
                    "volume.kubernetes.io/storage-provisioner": "csi.example.com"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Mi"}},
                "storageClassName": "fast", "volumeMode": "Filesystem", "volumeName": "pvc-u",
                "dataSource": {"kind": "VolumeSnapshot", "name": "of-an-earlier-return"}},
            "status": {"phase": "Bound"}});
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn a_claim_is_made_again_without_what_the_cluster_wrote() {
        let recipe = ClaimRecipe::from_claim(&claim());
        let written = serde_json::to_value(&recipe).unwrap();
        let recipe: ClaimRecipe = serde_json::from_value(written).unwrap();
        let expected = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-db-0", "namespace": "a", "labels": {"app": "db"},
                "annotations": {"mine": "1", "vnfm.dev/operation": "op-1"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Mi"}},
                "storageClassName": "fast", "volumeMode": "Filesystem",
                "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}}});
        assert_eq!(recipe.restored_from("s", "op-1"), expected);
    }

    #[test]
    fn a_claim_becomes_as_large_as_the_snapshot_needs() {
        for (needed, size) in [
            ("1Gi", "1Gi"),
            ("50Mi", "100Mi"),
            ("104857600", "100Mi"),
            ("0.5G", "0.5G"),
            ("", "100Mi"),
        ] {
            let mut recipe = ClaimRecipe::from_claim(&claim());
            recipe.grow_to(needed);
            assert_eq!(recipe.storage, size, "{needed}");
        }
    }
}
