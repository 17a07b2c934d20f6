//! The pods of the VNF as SOL003's VNFCs.
//!
//! ```text
//! Pod ──owner──> ReplicaSet ──owner──> Deployment `web`        the workload is found by following owners
//!                                          └─ VDU with properties.name `web` (or node template `web`)
//! ```
//! A pod whose workload belongs to no VDU is not a VNFC; if the package has no VDUs (an ASD), each workload's name serves as
//! one. Their connection points are those of `connectivity.rs`. Claims are virtual storages (`storages.rs`). The
//! machines of Cluster API are VNFCs as well (`cluster_machines.rs`).

use crate::catalog::{Catalog, Target};
use crate::client::Session;
use crate::cluster_machines::machines;
use crate::connectivity::{Connectivity, VduPod, pod_ips, without_nulls};
use crate::labels;
use crate::machine_addresses::{machine_of, with_addresses};
use crate::owned::pods;
use crate::replicas::{desired_pods, vdu_of};
use crate::requested;
use crate::services::add_services;
use crate::status::text;
use crate::storages::{Scope, add_storages};
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vnfm_core::ports::{Allocation, Inventory, PortError, VimCall};
use vnfm_descriptor::Flavour;
use vnfm_types::{ResourceHandle, VnfcResourceInfo};

/// Longest chain of owners that is followed.
const MAX_OWNERS: usize = 5;

/// Builds the VNFCs of an instance from its pods in the scope, storages from claims, and external CPs from networks and
/// Services.
///
/// # Errors
///
/// A list of objects could not be read.
pub(crate) async fn inventory(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    catalog: &Catalog<'_>,
    allocation: &Allocation,
    scope: &Scope,
) -> Result<Inventory, PortError> {
    let mut inventory = Inventory::default();
    let namespaces = &scope.namespaces;
    let Some(flavour) = requested::flavour(allocation) else {
        return Ok(inventory);
    };
    let flavour = &*flavour;
    let mut owners = OwnerLookup {
        session,
        catalog,
        known: BTreeMap::new(),
    };
    let mut vdu_pods = Vec::new();
    for namespace in namespaces {
        let pods = pods(session, namespace, &labels::selector(cx.ownership)).await?;
        for pod in pods.into_iter().filter(is_current) {
            let workload = owners.workload(namespace, &pod.metadata).await?;
            let vdu = vdu_of(flavour, &workload.0, &workload.1).map(|vdu| &vdu.name);
            // An ASD has no VDUs: each workload counts as one.
            let workload_itself = Some(&workload.1).filter(|_| flavour.vdus.is_empty());
            let Some(vdu) = vdu.or(workload_itself) else {
                let text = format!(
                    "pod `{}` is not a VNFC: no VDU is named `{}`",
                    name(&pod),
                    workload.1
                );
                cx.watcher.log("info", "kubernetes", &text);
                continue;
            };
            vdu_pods.push((vdu.clone(), with_addresses(session, pod).await?));
        }
    }
    vdu_pods.sort_by(|(a, a_pod), (b, b_pod)| {
        (a, by_ordinal(name(a_pod))).cmp(&(b, by_ordinal(name(b_pod))))
    });
    let mut connectivity = Connectivity::new(cx, allocation, flavour, &vdu_pods);
    for one in &vdu_pods {
        let mut vnfc = vnfc(cx, one);
        connectivity.connect(&mut vnfc, one);
        inventory.vnfc_resource_info.push(vnfc);
    }
    let machines = machines(cx, session, catalog, flavour, namespaces).await?;
    inventory.vnfc_resource_info.extend(machines);
    add_storages(cx, session, scope, &vdu_pods, &mut inventory).await?;
    connectivity.add_to(&mut inventory);
    add_services(
        cx,
        session,
        (allocation, flavour),
        namespaces,
        (&mut inventory, &vdu_pods),
    )
    .await?;
    Ok(inventory)
}

fn name(pod: &DynamicObject) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// A sort key: `web-10` of a `StatefulSet` after `web-9`; it removes the pod with the highest ordinal first.
fn by_ordinal(pod: &str) -> (&str, Option<u64>, &str) {
    let split = pod.rsplit_once('-');
    let ordinal = split.and_then(|(of, ordinal)| Some((of, ordinal.parse().ok()?)));
    match ordinal {
        Some((of, ordinal)) => (of, Some(ordinal), pod),
        None => (pod, None, pod),
    }
}

/// Whether a VDU has fewer VNFCs than its manifest states replicas.
pub(crate) fn is_incomplete<'a>(
    inventory: &Inventory,
    flavour: Option<&Flavour>,
    mut objects: impl Iterator<Item = (&'a Target, &'a Value)>,
) -> bool {
    let Some(flavour) = flavour else { return false };
    objects.any(|(target, object)| {
        let Some(vdu) = vdu_of(flavour, &target.resource.kind, &target.name) else {
            return false;
        };
        let desired = desired_pods(object).unwrap_or(0);
        let all = inventory.vnfc_resource_info.iter();
        (all.filter(|vnfc| vnfc.vdu_id == vdu.name).count() as u64) < desired
    })
}

/// Whether the pod runs or will run.
fn is_current(pod: &DynamicObject) -> bool {
    let ended = matches!(text(&pod.data, "/status/phase"), "Succeeded" | "Failed");
    pod.metadata.deletion_timestamp.is_none() && !ended
}

fn vnfc(cx: &VimCall<'_>, (vdu, pod): &VduPod) -> VnfcResourceInfo {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let id = pod.metadata.uid.clone().unwrap_or_else(|| name.clone());
    let metadata = json!({
        "name": name,
        "namespace": pod.metadata.namespace,
        "node": text(&pod.data, "/spec/nodeName"),
        "uid": pod.metadata.uid,
        "podIps": pod_ips(&pod.data),
        "virtualMachineInstance": machine_of(pod),
    });
    VnfcResourceInfo {
        id,
        vdu_id: vdu.clone(),
        compute_resource: ResourceHandle {
            vim_connection_id: Some(cx.vim.connection_id().to_owned()),
            resource_id: name,
            vim_level_resource_type: Some("Pod".to_owned()),
            ..ResourceHandle::default()
        },
        metadata: without_nulls(metadata),
        ..VnfcResourceInfo::default()
    }
}

/// Looks up owners; reads each at most once.
struct OwnerLookup<'a, 's> {
    session: &'a Session<'s>,
    catalog: &'a Catalog<'s>,
    known: BTreeMap<String, Option<ObjectMeta>>,
}

impl OwnerLookup<'_, '_> {
    /// Kind and name of the last object in the chain of owners.
    async fn workload(
        &mut self,
        namespace: &str,
        pod: &ObjectMeta,
    ) -> Result<(String, String), PortError> {
        let mut at = ("Pod".to_owned(), pod.name.clone().unwrap_or_default());
        let mut owners = pod.owner_references.clone();
        for _ in 0..MAX_OWNERS {
            let Some(owner) = owners
                .unwrap_or_default()
                .into_iter()
                .find(|owner| owner.controller == Some(true))
            else {
                break;
            };
            at = (owner.kind.clone(), owner.name.clone());
            if !self.known.contains_key(&owner.uid) {
                let found = self
                    .find_owner(namespace, &owner.api_version, &owner.kind, &owner.name)
                    .await?;
                self.known.insert(owner.uid.clone(), found);
            }
            owners = self
                .known
                .get(&owner.uid)
                .cloned()
                .flatten()
                .and_then(|metadata| metadata.owner_references);
        }
        Ok(at)
    }

    async fn find_owner(
        &self,
        namespace: &str,
        api_version: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<ObjectMeta>, PortError> {
        let Some(kind) = self.catalog.find(api_version, kind).await? else {
            return Ok(None);
        };
        let namespace = kind.namespaced.then(|| namespace.to_owned());
        crate::object::find_metadata(
            self.session,
            &Target {
                resource: kind.resource,
                namespace,
                name: name.to_owned(),
            },
        )
        .await
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn pods_of_a_stateful_set_are_sorted_by_their_ordinal() {
        let mut pods = ["web-10", "web-9", "web-0", "db-7d4f-x2x4z", "db-7d4f-b5v2k"];
        pods.sort_by_key(|pod| super::by_ordinal(pod));
        let sorted = ["db-7d4f-b5v2k", "db-7d4f-x2x4z", "web-0", "web-9", "web-10"];
        assert_eq!(pods, sorted);
    }

    use super::*;
    use crate::catalog::core;

    #[test]
    fn an_inventory_is_incomplete_if_a_vdu_has_fewer_pods_than_replicas() {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples/vnf-b-cnf").as_ref();
        let package = vnfm_descriptor::Package::open(sample, &vnfm_descriptor::Limits::default());
        let package = package.unwrap();
        let flavour = package.vnfd().flavours.values().next();
        let vdu = flavour.unwrap().vdus.values().next().unwrap();
        let resource = |kind: &str| core(kind, "any");
        let target = |kind: &str, name: &str| Target {
            resource: resource(kind),
            namespace: None,
            name: name.to_owned(),
        };
        let (two, one) = (json!({"replicas": 2}), json!({}));
        let (runs, halted) = (json!({"running": true}), json!({"running": false}));
        let with_pods = |pods: usize| Inventory {
            vnfc_resource_info: vec![
                VnfcResourceInfo {
                    vdu_id: vdu.name.clone(),
                    ..VnfcResourceInfo::default()
                };
                pods
            ],
            ..Inventory::default()
        };
        for (kind, name, spec, pods, short) in [
            ("Deployment", vdu.name.as_str(), &two, 1, true),
            ("Deployment", vdu.name.as_str(), &two, 2, false),
            ("Deployment", vdu.name.as_str(), &one, 0, true),
            ("Deployment", vdu.name.as_str(), &one, 1, false),
            ("ConfigMap", vdu.name.as_str(), &one, 0, false),
            ("Deployment", "no-vdu", &two, 0, false),
            ("VirtualMachine", vdu.name.as_str(), &halted, 0, false),
            ("VirtualMachine", vdu.name.as_str(), &runs, 0, true),
        ] {
            let object = &json!({"kind": kind, "spec": spec});
            let target = target(kind, name);
            let found = is_incomplete(
                &with_pods(pods),
                flavour,
                std::iter::once((&target, object)),
            );
            assert_eq!(found, short, "{kind} {name} {object} with {pods}");
        }
    }
}
