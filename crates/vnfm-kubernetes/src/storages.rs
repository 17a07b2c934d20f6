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
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Inventory, PortError, VimCall};
use vnfm_types::{ResourceHandle, VirtualStorageResourceInfo};

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
