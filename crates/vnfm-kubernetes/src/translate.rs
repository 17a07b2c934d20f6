//! TOSCA to Kubernetes: the objects of a package that has only a descriptor of containers.
//!
//! | descriptor | object | file |
//! |---|---|---|
//! | deployable unit | Deployment or `StatefulSet` | `translate_workload` |
//! | its containers and storages | pod template, claims or their templates | `translate_workload` |
//! | its configuration | `ConfigMap`, as environment of its containers | `translate_workload` |
//! | `tosca.policies.Scaling` | `HorizontalPodAutoscaler` | `translate_workload` |
//! | `VirtualCp` | Service, of type `LoadBalancer` if it is reachable from outside | `translate_network` |
//! | its hosts and paths | Ingress | `translate_network` |
//!
//! The descriptor has refused what no object can express ([`Workloads`]), so nothing here fails but values of the request. The
//! objects then take the path of all others: names, policy, labels, replicas, waits.

use crate::item::Item;
use crate::member::Member;
use crate::requested;
use crate::reserved::RESERVED;
use crate::translate_network;
use crate::translate_workload;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{Span, Workload, Workloads, text_of};

/// The label by which Services and rules select the pods of a workload.
pub(crate) const NAME: &str = "app.kubernetes.io/name";

/// The objects of a package that has only a descriptor of containers, and the VDUs whose numbers they state.
#[derive(Default)]
pub(crate) struct Translation {
    pub(crate) objects: Vec<Item>,
    pub(crate) sized: BTreeSet<String>,
}

/// Translates the flavour of the request; nothing if its package has manifests, charts or servers.
///
/// # Errors
///
/// `Refused`: a value of the request is not one text.
pub(crate) fn translate(allocation: &Allocation) -> Result<Translation, PortError> {
    let Some(flavour) = requested::flavour(allocation) else {
        return Ok(Translation::default());
    };
    let Some(workloads) = &flavour.workloads else {
        return Ok(Translation::default());
    };
    let mut objects = Vec::new();
    for unit in &workloads.units {
        let configuration = configuration(allocation, unit)?;
        let number = allocation.deployment.instances_of(&unit.vdu);
        let of_unit = translate_workload::objects(&flavour, unit, (&configuration, number));
        objects.extend(of_unit.into_iter().map(|object| item(object, &unit.span)));
    }
    objects.extend(shared_claims(workloads));
    for service in &workloads.services {
        let of_service = translate_network::objects(service).into_iter();
        objects.extend(of_service.map(|object| item(object, &service.span)));
    }
    let sized = workloads
        .units
        .iter()
        .map(|unit| unit.vdu.clone())
        .collect();
    Ok(Translation { objects, sized })
}

/// The environment of a unit: the descriptor's values, or those that the request gives under the same names.
fn configuration(
    allocation: &Allocation,
    unit: &Workload,
) -> Result<BTreeMap<String, String>, PortError> {
    let params = &allocation.deployment.additional_params;
    let mut values = unit.configuration.clone();
    let own = values
        .iter_mut()
        .filter(|(name, _)| !RESERVED.contains(&name.as_str()));
    for (name, value) in own {
        let Some(given) = Member::of_request(params, name) else {
            continue;
        };
        if given.value().is_array() || given.value().is_object() {
            return Err(given.refused("an environment variable is one text, number or boolean"));
        }
        *value = text_of(given.value()).into_owned();
    }
    Ok(values)
}

/// A claim for each storage that pods share, once.
fn shared_claims(workloads: &Workloads) -> Vec<Item> {
    let mut claims: BTreeMap<&str, Item> = BTreeMap::new();
    for unit in &workloads.units {
        for volume in unit
            .volumes
            .iter()
            .filter(|volume| !volume.per_vnfc_instance)
        {
            let claim = || item(translate_workload::shared_claim(volume), &unit.span);
            claims.entry(&volume.storage).or_insert_with(claim);
        }
    }
    claims.into_values().collect()
}

/// The beginning of an object.
pub(crate) fn named(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

/// An object with the position of the node template that it stands for.
fn item(object: Value, span: &Span) -> Item {
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    Item {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        name: text("/metadata/name"),
        namespace: None,
        location: format!("{}:{}", span.file, span.line),
        object,
    }
}
