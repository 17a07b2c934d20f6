//! The machines of Cluster API's clusters as VNFCs: each `Machine` belongs to the `MachineDeployment` or the control plane
//! that made it, whose template gave it our labels.

use crate::catalog::Catalog;
use crate::client::Session;
use crate::cluster_api::{API_VERSION, GROUP, MACHINE, MACHINE_DEPLOYMENT, has_machines};
use crate::connectivity::without_nulls;
use crate::diagnostics::controller;
use crate::labels::{self, label_of};
use crate::owned::objects;
use crate::ready::text;
use crate::replicas::vdu_of;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{PortError, VimCall};
use vnfm_descriptor::Flavour;
use vnfm_types::{ResourceHandle, VnfcResourceInfo};

/// The label with the name of a machine's `MachineDeployment`.
const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";

/// The kind of a machine, without a look at the cluster.
pub(crate) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1beta2", MACHINE);
    ApiResource::from_gvk_with_plural(&kind, "machines")
}

/// The machines of an instance, by VDU and name. VDUs without `mcio_identification_data` of such a kind have none, and
/// then nothing is read.
///
/// # Errors
///
/// A list of machines could not be read.
pub(crate) async fn machines(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    catalog: &Catalog<'_>,
    flavour: &Flavour,
    namespaces: &BTreeSet<String>,
) -> Result<Vec<VnfcResourceInfo>, PortError> {
    let mut mcios = flavour.vdus.values().filter_map(|vdu| vdu.mcio.as_ref());
    let is_used = mcios.any(|mcio| has_machines(&mcio.kind));
    if !is_used || catalog.find(API_VERSION, MACHINE).await?.is_none() {
        return Ok(Vec::new());
    }
    let (kind, selector) = (resource(), labels::selector(cx.ownership));
    let mut found = Vec::new();
    for namespace in namespaces {
        for machine in objects(session, &kind, Some(namespace), &selector).await? {
            let workload = workload(&machine);
            let vdu = workload.and_then(|(kind, name)| vdu_of(flavour, &kind, &name));
            if let Some(vdu) = vdu.filter(|_| machine.metadata.deletion_timestamp.is_none()) {
                found.push(vnfc(cx, &vdu.name, &machine));
            }
        }
    }
    found.sort_by(|a, b| {
        (&a.vdu_id, &a.compute_resource.resource_id)
            .cmp(&(&b.vdu_id, &b.compute_resource.resource_id))
    });
    Ok(found)
}

/// Kind and name of what a machine belongs to.
fn workload(machine: &DynamicObject) -> Option<(String, String)> {
    if let Some(name) = label_of(&machine.metadata, DEPLOYMENT_NAME) {
        return Some((MACHINE_DEPLOYMENT.to_owned(), name.clone()));
    }
    let metadata = json!({"metadata": {"ownerReferences": machine.metadata.owner_references}});
    let (kind, name) = controller(&metadata)?;
    Some((kind.to_owned(), name.to_owned()))
}

fn vnfc(cx: &VimCall<'_>, vdu: &str, machine: &DynamicObject) -> VnfcResourceInfo {
    let name = machine.metadata.name.clone().unwrap_or_default();
    let stated = |path: &str| Some(text(&machine.data, path)).filter(|text| !text.is_empty());
    let addresses = machine.data.pointer("/status/addresses");
    let addresses = addresses.and_then(Value::as_array).into_iter().flatten();
    let addresses: Vec<&str> = addresses.map(|one| text(one, "/address")).collect();
    let metadata = json!({
        "name": name,
        "namespace": machine.metadata.namespace,
        "uid": machine.metadata.uid,
        "node": stated("/status/nodeRef/name"),
        "providerId": stated("/spec/providerID"),
        "addresses": addresses,
    });
    VnfcResourceInfo {
        id: machine.metadata.uid.clone().unwrap_or_else(|| name.clone()),
        vdu_id: vdu.to_owned(),
        compute_resource: ResourceHandle {
            vim_connection_id: Some(cx.vim.connection_id().to_owned()),
            resource_id: name,
            vim_level_resource_type: Some(MACHINE.to_owned()),
            ..ResourceHandle::default()
        },
        metadata: without_nulls(metadata),
        ..VnfcResourceInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_belongs_to_its_deployment_or_its_control_plane() {
        let owner = |kind: &str, name: &str| json!([{"apiVersion": "x/v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        for (metadata, expected) in [
            (
                json!({"labels": {DEPLOYMENT_NAME: "md"}, "ownerReferences": owner("MachineSet", "md-abcde")}),
                Some(("MachineDeployment", "md")),
            ),
            (
                json!({"ownerReferences": owner("KubeadmControlPlane", "cp")}),
                Some(("KubeadmControlPlane", "cp")),
            ),
            (json!({}), None),
        ] {
            let machine: DynamicObject =
                serde_json::from_value(json!({"metadata": metadata})).unwrap();
            let expected = expected.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
            assert_eq!(workload(&machine), expected);
        }
    }
}
