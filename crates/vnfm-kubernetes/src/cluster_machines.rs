//! The machines of Cluster API's clusters as VNFCs: each `Machine` belongs to the `MachineDeployment` or the control plane
//! that made it, whose template gave it our labels.

use crate::catalog::Catalog;
use crate::client::Session;
use crate::cluster_api::{API_VERSION, MACHINE, machine_resource, may_have_machines, workload};
use crate::connectivity::without_nulls;
use crate::labels;
use crate::owned::objects;
use crate::replicas::vdu_of;
use crate::status::text;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{PortError, VimCall};
use vnfm_descriptor::Flavour;
use vnfm_types::{ResourceHandle, VnfcResourceInfo};

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
    let is_used = mcios.any(|mcio| may_have_machines(&mcio.kind));
    if !is_used || catalog.find(API_VERSION, MACHINE).await?.is_none() {
        return Ok(Vec::new());
    }
    let (kind, selector) = (machine_resource(), labels::selector(cx.ownership));
    let mut found = Vec::new();
    for namespace in namespaces {
        for machine in objects(session, &kind, Some(namespace), &selector).await? {
            let json = serde_json::to_value(&machine).unwrap_or_default();
            let vdu = workload(&json).and_then(|(kind, name)| vdu_of(flavour, kind, name));
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
