//! The claims of the VNF as SOL003's virtual storages.
//!
//! ```text
//! PersistentVolumeClaim `data-store-0` ── storage `data-store-0`, of every VNFC whose pod mounts it
//!          └─ volume `data` of the pod ── storage node `data` of the VNFD
//! ```
//! A claim stays a storage of the VNF while no pod mounts it, such as that of a stopped VNFC.

use crate::catalog::Target;
use crate::claims::{claims_of, mounts};
use crate::client::Session;
use crate::connectivity::without_nulls;
use crate::status::text;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Inventory, PortError, VimCall};
use vnfm_types::{ResourceHandle, VirtualStorageResourceInfo};

/// Where an object describes a pod; the first is the object itself.
const POD_TEMPLATES: &[&str] = &["", "/spec/template", "/spec/jobTemplate/spec/template"];
/// Pods of one set whose claims are considered: an instance has at most so many retained volumes.
const MAX_REPLICAS: u64 = 1_000;

/// Where the objects of the VNF are, and whether claims can be among them.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) namespaces: BTreeSet<String>,
    has_claims: bool,
}

impl Scope {
    /// The scope of these objects. A `StatefulSet` can make claims.
    pub(crate) fn from_targets<'a>(targets: impl Iterator<Item = &'a Target>) -> Self {
        let mut scope = Self::default();
        for target in targets {
            scope.namespaces.extend(target.namespace.clone());
            let kind = target.resource.kind.as_str();
            scope.has_claims |= ["StatefulSet", "PersistentVolumeClaim"].contains(&kind);
        }
        scope
    }
}

/// Adds the claims in the scope, and to each VNFC those that its pod mounts.
///
/// # Errors
///
/// A list of claims could not be read.
pub(crate) async fn add_storages(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    scope: &Scope,
    pods: &[(String, DynamicObject)],
    inventory: &mut Inventory,
) -> Result<(), PortError> {
    if !scope.has_claims {
        return Ok(());
    }
    let claims = claims_of(cx, session, &scope.namespaces).await?;
    let names: BTreeSet<_> = claims.iter().map(key).collect();
    let mut volumes = BTreeMap::new();
    for (_, pod) in pods {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let mut own = Vec::new();
        for (volume, claim) in mounts(&pod.data) {
            let mounted = (namespace.clone(), claim.to_owned());
            if names.contains(&mounted) {
                own.push(claim.to_owned());
                volumes.insert(mounted, volume.to_owned());
            }
        }
        let id = pod.metadata.uid.as_deref().unwrap_or_default();
        let mut vnfcs = inventory.vnfc_resource_info.iter_mut();
        if let Some(vnfc) = vnfcs.find(|vnfc| vnfc.id == id) {
            vnfc.storage_resource_ids = own;
        }
    }
    let storages = claims
        .iter()
        .map(|claim| storage(cx, claim, volumes.get(&key(claim))));
    inventory.virtual_storage_resource_info = storages.collect();
    Ok(())
}

/// The names of the claims of a storage that these objects will have, in the order of their pods: of claims that they mount as a
/// volume of its name, and of the templates of that name in a `StatefulSet`; else the claim of its name.
pub(crate) fn planned_claims<'o>(
    mut objects: impl Iterator<Item = &'o Value> + Clone,
    storage: &str,
) -> Vec<String> {
    let mut names = Vec::new();
    for object in objects.clone() {
        let mounted = POD_TEMPLATES
            .iter()
            .filter_map(|pointer| object.pointer(pointer))
            .flat_map(mounts)
            .filter(|(volume, _)| *volume == storage)
            .map(|(_, claim)| claim.to_owned());
        for name in mounted.chain(claims_of_template(object, storage)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let is_it = |object: &Value| {
        text(object, "/kind") == "PersistentVolumeClaim"
            && text(object, "/metadata/name") == storage
    };
    if names.is_empty() && objects.any(is_it) {
        names.push(storage.to_owned());
    }
    names
}

/// The claims that a `StatefulSet` makes from the template `storage`, in the order of its pods.
fn claims_of_template(object: &Value, storage: &str) -> Vec<String> {
    let templates = object.pointer("/spec/volumeClaimTemplates");
    let mut templates = templates.and_then(Value::as_array).into_iter().flatten();
    if !templates.any(|template| text(template, "/metadata/name") == storage) {
        return Vec::new();
    }
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    let first = number("/spec/ordinals/start").unwrap_or(0);
    let replicas = number("/spec/replicas").unwrap_or(1).min(MAX_REPLICAS);
    let set = text(object, "/metadata/name");
    let pods = first..first.saturating_add(replicas);
    pods.map(|pod| format!("{storage}-{set}-{pod}")).collect()
}

/// What no two claims have in common: namespace and name.
fn key(claim: &DynamicObject) -> (String, String) {
    let metadata = &claim.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The storage of a claim, which a pod mounts as `volume`.
fn storage(
    cx: &VimCall<'_>,
    claim: &DynamicObject,
    volume: Option<&String>,
) -> VirtualStorageResourceInfo {
    let (namespace, name) = key(claim);
    let member = |pointer: &str| claim.data.pointer(pointer).and_then(Value::as_str);
    let metadata = json!({
        "namespace": namespace,
        "uid": claim.metadata.uid,
        "size": member("/status/capacity/storage").or(member("/spec/resources/requests/storage")),
        "storageClassName": member("/spec/storageClassName"),
        "volumeName": member("/spec/volumeName"),
    });
    VirtualStorageResourceInfo {
        id: name.clone(),
        virtual_storage_desc_id: volume.unwrap_or(&name).clone(),
        storage_resource: ResourceHandle {
            vim_connection_id: Some(cx.vim.connection_id().to_owned()),
            resource_id: name,
            vim_level_resource_type: Some("PersistentVolumeClaim".to_owned()),
            ..ResourceHandle::default()
        },
        metadata: without_nulls(metadata),
        ..VirtualStorageResourceInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::planned_claims;
    use serde_json::{Value, json};

    fn names(objects: &[Value], storage: &str) -> Vec<String> {
        planned_claims(objects.iter(), storage)
    }

    #[test]
    fn the_claims_of_a_storage_are_those_that_pods_mount_by_its_name() {
        let set = json!({"kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {"replicas": 2, "ordinals": {"start": 3},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}], "template": {"spec": {}}}});
        let mounts = |claim: &str| json!({"volumes": [{"name": "logs", "persistentVolumeClaim": {"claimName": claim}}, {"name": "data", "emptyDir": {}}]});
        let deployment =
            json!({"kind": "Deployment", "spec": {"template": {"spec": mounts("one")}}});
        let job = json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": mounts("one")}}}}});
        let pod = json!({"kind": "Pod", "spec": mounts("two")});
        let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "spare"}});
        let all = [set, deployment, job, pod, claim];
        assert_eq!(names(&all, "data"), ["data-web-3", "data-web-4"]);
        assert_eq!(names(&all, "logs"), ["one", "two"]);
        assert_eq!(names(&all, "spare"), ["spare"]);
        assert_eq!(names(&all, "none"), Vec::<String>::new());
    }

    #[test]
    fn a_set_of_hostile_size_has_a_limited_number_of_claims() {
        let set = json!({"kind": "StatefulSet", "metadata": {"name": "w"}, "spec": {"replicas": u64::MAX,
            "ordinals": {"start": u64::MAX - 1}, "volumeClaimTemplates": [{"metadata": {"name": "d"}}]}});
        assert_eq!(names(&[set], "d").len(), 1);
    }
}
