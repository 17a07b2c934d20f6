//! How many pods a VDU has, as a change of the manifest's `spec.replicas`.
//!
//! The manifest's number stands for the VDU's number at the instantiation level: each VNFC more or less is one replica
//! more or less, and nothing else changes. So a number that the request sets by a variable stays the base. Any kind may
//! have a number, in `spec.replicas`.

use crate::cluster_api::machine_template;
use crate::errors::MANIFEST;
use crate::requested;
use crate::status::text;
use crate::virtual_machines::{INSTANCE, MACHINE, REPLICA_SET, machines};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{Flavour, Vdu};

/// Whether a kind has a number of replicas.
pub(crate) fn has_replicas(kind: &str) -> bool {
    matches!(
        kind,
        "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController" | REPLICA_SET
    )
}

/// `spec.replicas` of an object that states it.
pub(crate) fn stated_replicas(object: &Value) -> Option<u64> {
    object.pointer("/spec/replicas").and_then(Value::as_u64)
}

/// `spec.replicas` of a workload; 1 if it states none.
pub(crate) fn replicas(object: &Value) -> u64 {
    stated_replicas(object).unwrap_or(1)
}

/// How many pods or machines a workload is to have, as far as its kind tells.
pub(crate) fn desired_pods(workload: &Value) -> Option<u64> {
    match text(workload, "/kind") {
        kind if has_replicas(kind) => Some(replicas(workload)),
        "DaemonSet" => workload.pointer("/status/desiredNumberScheduled")?.as_u64(),
        MACHINE | INSTANCE => Some(machines(workload)),
        _ => machine_template(workload).map(|_| replicas(workload)),
    }
}

/// The VDU that a workload runs: by its declared MCIO, by `properties.name`, or by the node template's name.
pub(crate) fn vdu_of<'a>(flavour: &'a Flavour, kind: &str, name: &str) -> Option<&'a Vdu> {
    let stated = |vdu: &&Vdu| {
        vdu.mcio
            .as_ref()
            .is_some_and(|mcio| mcio.name == name && mcio.kind == kind)
    };
    let named = |vdu: &&Vdu| vdu.display_name == name;
    let vdus = || flavour.vdus.values();
    vdus()
        .find(stated)
        .or_else(|| vdus().find(named))
        .or_else(|| flavour.vdus.get(name))
}

/// Sets the replicas of the VDUs that an aspect scales, or whose number differs from that of the instantiation level. So a
/// workload that was scaled never goes back to a manifest without replicas, which would leave its number as it is. Those of
/// `sized` VDUs state their number already: it is a value of their chart.
///
/// # Errors
///
/// `Refused` if no object of such a VDU has replicas, or the VNFD does not define its number.
pub(crate) fn set_replicas<'a>(
    objects: impl Iterator<Item = &'a mut Value>,
    allocation: &Allocation,
    sized: &BTreeSet<String>,
) -> Result<(), PortError> {
    let Some(flavour) = requested::flavour(allocation) else {
        return Ok(());
    };
    let mut changes = changes(&flavour, allocation)?;
    for object in objects {
        let kind = text(object, "/kind");
        let vdu = vdu_of(&flavour, kind, text(object, "/metadata/name"));
        let has_number = has_replicas(kind) || stated_replicas(object).is_some();
        let Some(vdu) = vdu.filter(|_| has_number) else {
            continue;
        };
        if let Some(change) = changes.remove(&vdu.name) {
            let number = if sized.contains(&vdu.name) {
                allocation.deployment.instances_of(&vdu.name).into()
            } else {
                replicas(object).saturating_add_signed(change)
            };
            object["spec"]["replicas"] = number.into();
        }
    }
    let Some((vdu, _)) = changes.iter().find(|(_, change)| **change != 0) else {
        return Ok(());
    };
    let detail =
        "none of its objects has `spec.replicas`, as a Deployment, StatefulSet or ReplicaSet has";
    let action = format!("change the number of VNFCs of VDU `{vdu}`");
    let hint = "name the VDU's workload in the request, as `vdu_mapping: {VDU: {kind: Deployment, name: …}}`, or give the VDU its name";
    Err(PortError::new(&MANIFEST, action, detail).on(vdu).hint(hint))
}

/// How many VNFCs a VDU has more or fewer than at the instantiation level, if an aspect scales it or the number differs.
fn changes(flavour: &Flavour, allocation: &Allocation) -> Result<BTreeMap<String, i64>, PortError> {
    let deployment = &allocation.deployment;
    let level = deployment.instantiation_level_id.as_deref();
    let mut changes = BTreeMap::new();
    for vdu in flavour.vdus.keys() {
        let Some(desired) = deployment.vdu_instances.get(vdu.as_str()) else {
            continue;
        };
        let base = flavour.instances_of(vdu, level).map_err(|error| {
            PortError::new(&MANIFEST, "count the VNFCs", error.to_string()).on(vdu)
        })?;
        let change = i64::from(*desired) - i64::from(base);
        let mut aspects = flavour.scaling_aspects.values();
        if change != 0 || aspects.any(|aspect| aspect.deltas.contains_key(vdu)) {
            changes.insert(vdu.clone(), change);
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn web(replicas: u64) -> Value {
        json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas}})
    }

    fn others() -> [Value; 2] {
        [
            json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {}}),
            json!({"kind": "Deployment", "metadata": {"name": "other"}, "spec": {"replicas": 4}}),
        ]
    }

    /// The allocation of the sample, with `change` VNFCs more of its only VDU.
    fn allocation(change: i32) -> Allocation {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples/vnf-b-cnf").as_ref();
        let package = vnfm_descriptor::Package::open(sample, &vnfm_descriptor::Limits::default());
        let request = serde_json::from_value(json!({"flavourId": "simple"})).unwrap();
        let package = Arc::new(package.unwrap());
        let mut allocation = Allocation::requested("package", package, request).unwrap();
        let deployment = Arc::make_mut(&mut allocation.deployment);
        for count in deployment.vdu_instances.values_mut() {
            *count = count.saturating_add_signed(change);
        }
        allocation
    }

    #[test]
    fn another_number_of_vnfcs_changes_the_replicas_of_the_vdu_and_nothing_else() {
        for (change, given, expected) in [(0, 2, 2), (1, 2, 3), (-1, 2, 1), (2, 5, 7), (-2, 1, 0)] {
            let mut objects = others().to_vec();
            objects.push(web(given));
            set_replicas(objects.iter_mut(), &allocation(change), &BTreeSet::new()).unwrap();
            assert_eq!(objects.pop(), Some(web(expected)), "{change:+}");
            assert_eq!(objects, others());
        }
        let mut unstated = json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {}});
        set_replicas(
            [&mut unstated].into_iter(),
            &allocation(1),
            &BTreeSet::new(),
        )
        .unwrap();
        assert_eq!(unstated, web(2));
        set_replicas(
            [&mut unstated].into_iter(),
            &allocation(-1),
            &BTreeSet::new(),
        )
        .unwrap();
        assert_eq!(unstated, web(1));
        unstated["spec"] = json!({});
        set_replicas(
            [&mut unstated].into_iter(),
            &allocation(0),
            &BTreeSet::new(),
        )
        .unwrap();
        assert_eq!(unstated, web(1), "an aspect scales it");
    }

    #[test]
    fn a_custom_resource_with_replicas_is_scaled() {
        let rollout = |replicas: u64| {
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
            "metadata": {"name": "web"}, "spec": {"replicas": replicas}})
        };
        let mut objects = [rollout(2)];
        set_replicas(objects.iter_mut(), &allocation(2), &BTreeSet::new()).unwrap();
        assert_eq!(objects, [rollout(4)]);
    }

    #[test]
    fn a_vdu_without_replicas_keeps_its_size() {
        let mut objects = others();
        set_replicas(objects.iter_mut(), &allocation(0), &BTreeSet::new()).unwrap();
        let error = set_replicas(objects.iter_mut(), &allocation(1), &BTreeSet::new()).unwrap_err();
        assert_eq!(error.name(), "kubernetes.manifest-invalid");
        assert!(error.detail().contains("replicas"), "{error}");
        assert_eq!(objects, others());
    }
}
