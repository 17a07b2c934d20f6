//! The Services of the VNF as SOL003's external connection points.
//!
//! A `VirtualCp` of the VNFD represents our Service of the same name; without one, our Services that select the
//! pods of its target VDU. The address is the load balancer's if there is one, else the cluster IP; type, ports
//! and other addresses are in the metadata. SOL003 V3.7.1 has no virtual CP: the external CP is associated with the
//! first VNFC CP behind it. A connection point of an ASD represents the Service that its `resourceMapping` names.

use crate::asd_networks;
use crate::catalog::{api, core};
use crate::client::Session;
use crate::connectivity::{VduPod, pod_ips, protocol_info, without_nulls};
use crate::labels;
use crate::status::text;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{Allocation, Inventory, PortError, VimCall};
use vnfm_descriptor::{Asd, Cp, CpKind, Flavour};
use vnfm_types::{VnfExtCpInfo, VnfcCpInfo};

/// Adds the external CPs that Services in `namespaces` implement; for an ASD also the VNFC CPs of the pods behind them.
///
/// # Errors
///
/// The Services of a namespace could not be listed.
pub(crate) async fn add_services(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (allocation, flavour): (&Allocation, &Flavour),
    namespaces: &BTreeSet<String>,
    (inventory, pods): (&mut Inventory, &[VduPod]),
) -> Result<(), PortError> {
    let virtual_cps = flavour.cps.values();
    let virtual_cps: Vec<&Cp> = virtual_cps
        .filter(|cp| cp.kind == CpKind::VirtualCp)
        .collect();
    let asd = allocation.package.asd();
    let mapped = asd.map(mapped_cps).unwrap_or_default();
    if virtual_cps.is_empty() && mapped.is_empty() {
        return Ok(());
    }
    let mut services = Vec::new();
    for namespace in namespaces {
        services.extend(list(session, namespace, &labels::selector(cx.ownership)).await?);
    }
    for cp in virtual_cps {
        add_virtual_cp(cp, &services, (inventory, pods));
    }
    for (cpd, name) in mapped {
        if let Some(service) = services.iter().find(|one| is_named(one, name)) {
            add_mapped_cp(cpd, service, (inventory, pods));
        }
    }
    Ok(())
}

/// The connection points of an ASD that an object implements, with its name.
fn mapped_cps(asd: &Asd) -> Vec<(&str, &str)> {
    let cps = asd.asd_ext_cpd.iter();
    let mapped = cps.filter_map(|cp| Some((cp.id.as_deref()?, asd_networks::resource(cp)?)));
    mapped.collect()
}

fn add_virtual_cp(
    cp: &Cp,
    services: &[DynamicObject],
    (inventory, pods): (&mut Inventory, &[VduPod]),
) {
    let vdu = cp.vdu.as_deref().unwrap_or_default();
    let behind: Vec<&DynamicObject> = pods
        .iter()
        .filter(|(of, _)| of == vdu)
        .map(|(_, pod)| pod)
        .collect();
    let vnfcs = inventory.vnfc_resource_info.iter();
    let vnfcs = vnfcs.filter(|vnfc| vnfc.vdu_id == vdu);
    let vnfc_cp = vnfcs.flat_map(|vnfc| &vnfc.vnfc_cp_info).next();
    for service in services_of_cp(services, &cp.name, &behind) {
        let mut info = external_cp(&cp.name, service);
        info.associated_vnfc_cp_id = vnfc_cp.map(|cp| cp.id.clone());
        inventory.ext_cp_info.push(info);
    }
}

/// The connection point of an ASD that a Service implements: its pods have it at their own addresses.
fn add_mapped_cp(
    cpd: &str,
    service: &DynamicObject,
    (inventory, pods): (&mut Inventory, &[VduPod]),
) {
    let mut info = external_cp(cpd, service);
    let behind = |id: &str| {
        let is_it = |pod: &&DynamicObject| pod.metadata.uid.as_deref() == Some(id);
        let pod = pods.iter().map(|(_, pod)| pod).find(is_it);
        pod.filter(|pod| selects(service, pod))
    };
    for vnfc in &mut inventory.vnfc_resource_info {
        let Some(pod) = behind(&vnfc.id) else {
            continue;
        };
        let cp = VnfcCpInfo {
            id: format!("{}-{cpd}", vnfc.id),
            cpd_id: cpd.to_owned(),
            vnf_ext_cp_id: Some(info.id.clone()),
            cp_protocol_info: vec![protocol_info(&pod_ips(&pod.data))],
            ..VnfcCpInfo::default()
        };
        info.associated_vnfc_cp_id
            .get_or_insert_with(|| cp.id.clone());
        vnfc.vnfc_cp_info.push(cp);
    }
    inventory.ext_cp_info.push(info);
}

fn is_named(service: &DynamicObject, name: &str) -> bool {
    service.metadata.name.as_deref() == Some(name)
}

async fn list(
    session: &Session<'_>,
    namespace: &str,
    selector: &str,
) -> Result<Vec<DynamicObject>, PortError> {
    let (resource, params) = (
        &core("Service", "services"),
        &ListParams::default().labels(selector),
    );
    let listed = session
        .call(
            &format!("list the services in namespace `{namespace}`"),
            |client| {
                let all = api::<DynamicObject>(client, resource, Some(namespace));
                async move { all.list(params).await }
            },
        )
        .await?;
    let is_kept = |service: &DynamicObject| service.metadata.deletion_timestamp.is_none();
    Ok(listed.items.into_iter().filter(is_kept).collect())
}

/// The Services that a virtual CP represents.
fn services_of_cp<'a>(
    services: &'a [DynamicObject],
    name: &str,
    pods: &[&DynamicObject],
) -> Vec<&'a DynamicObject> {
    if let Some(named) = services.iter().find(|service| is_named(service, name)) {
        return vec![named];
    }
    let selects = |service: &&DynamicObject| pods.iter().any(|pod| selects(service, pod));
    services.iter().filter(selects).collect()
}

fn selects(service: &DynamicObject, pod: &DynamicObject) -> bool {
    let selector = service
        .data
        .pointer("/spec/selector")
        .and_then(Value::as_object);
    let label = |name: &str| pod.metadata.labels.as_ref()?.get(name);
    service.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector| {
            !selector.is_empty()
                && selector.iter().all(|(name, value)| {
                    label(name).is_some_and(|has| Some(has.as_str()) == value.as_str())
                })
        })
}

fn external_cp(cpd: &str, service: &DynamicObject) -> VnfExtCpInfo {
    let data = &service.data;
    let outside = texts(data, "/status/loadBalancer/ingress", "/ip");
    let hosts = texts(data, "/status/loadBalancer/ingress", "/hostname");
    let mut inside = texts(data, "/spec/clusterIPs", "");
    inside.retain(|address| address != "None");
    let metadata = json!({
        "name": service.metadata.name,
        "namespace": service.metadata.namespace,
        "type": data.pointer("/spec/type"),
        "ports": data.pointer("/spec/ports"),
        "clusterIps": inside,
        "hostnames": (!hosts.is_empty()).then_some(hosts),
    });
    let addresses = if outside.is_empty() { inside } else { outside };
    VnfExtCpInfo {
        id: service.metadata.uid.clone().unwrap_or_default(),
        cpd_id: cpd.to_owned(),
        cp_config_id: cpd.to_owned(),
        cp_protocol_info: vec![protocol_info(&addresses)],
        metadata: without_nulls(metadata),
        ..VnfExtCpInfo::default()
    }
}

fn texts(object: &Value, list: &str, member: &str) -> Vec<String> {
    let all = object
        .pointer(list)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let texts = all.map(|one| text(one, member).to_owned());
    texts.filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).expect("an object")
    }

    fn service(name: &str, selector: &Value) -> DynamicObject {
        object(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "a", "uid": format!("u-{name}")},
            "spec": {"type": "ClusterIP", "selector": selector, "clusterIPs": ["10.96.0.7"], "ports": [{"port": 80}]}}),
        )
    }

    #[test]
    fn a_virtual_cp_represents_the_service_of_its_name_or_those_that_select_its_pods() {
        let services = [
            service("front", &json!({"app": "web"})),
            service("other", &json!({"app": "db"})),
            service("none", &json!({})),
        ];
        let pod = object(
            json!({"metadata": {"name": "p", "namespace": "a", "labels": {"app": "web", "x": "y"}}}),
        );
        let names = |cp: &str| -> Vec<String> {
            let selected = services_of_cp(&services, cp, &[&pod]);
            selected
                .into_iter()
                .filter_map(|service| service.metadata.name.clone())
                .collect()
        };
        assert_eq!(names("webService"), ["front"]);
        assert_eq!(
            names("other"),
            ["other"],
            "a name takes precedence over a selector"
        );
    }

    #[test]
    fn the_load_balancer_address_takes_precedence_over_the_cluster_ip() {
        let mut service = service("front", &json!({}));
        let cp_of = |service: &DynamicObject| {
            let info = external_cp("webService", service);
            let ethernet = info.cp_protocol_info[0].ip_over_ethernet.clone().unwrap();
            (
                info.id,
                ethernet.ip_addresses[0].addresses.clone(),
                info.metadata,
            )
        };
        let (id, addresses, metadata) = cp_of(&service);
        assert_eq!(
            (id.as_str(), addresses),
            ("u-front", vec!["10.96.0.7".to_owned()])
        );
        assert_eq!(metadata["ports"], json!([{"port": 80}]));
        service.data["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}});
        let (_, addresses, metadata) = cp_of(&service);
        assert_eq!(addresses, ["192.0.2.9"]);
        assert_eq!(metadata["clusterIps"], json!(["10.96.0.7"]));
        service.data["spec"]["clusterIPs"] = json!(["None"]);
        service.data["status"] = json!({});
        let info = external_cp("webService", &service);
        assert!(
            info.cp_protocol_info[0]
                .ip_over_ethernet
                .as_ref()
                .unwrap()
                .ip_addresses
                .is_empty()
        );
    }
}
