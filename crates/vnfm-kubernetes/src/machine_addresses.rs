//! The addresses of KubeVirt's machines: those that their `VirtualMachineInstance` reports, in place of their pods'.

use crate::catalog::Target;
use crate::client::Session;
use crate::errors::FORBIDDEN;
use crate::network_annotations::{NETWORKS, NetworkName, STATUS, selections};
use crate::object::find;
use crate::status::text;
use crate::virtual_machines::{GROUP, INSTANCE};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use vnfm_core::ports::PortError;

/// The machine that a pod runs: the name of its `VirtualMachineInstance`.
pub(crate) fn machine_of(pod: &DynamicObject) -> Option<&str> {
    let owners = pod.metadata.owner_references.as_ref()?.iter();
    let mut owners = owners.filter(|owner| owner.api_version.starts_with(GROUP));
    let owner = owners.find(|owner| owner.kind == INSTANCE)?;
    Some(&owner.name)
}

/// Gives a pod that runs a machine the addresses that the machine reports, in place of its own.
///
/// # Errors
///
/// The instance of the machine could not be read, unless the login lacks the permission.
pub(crate) async fn with_addresses(
    session: &Session<'_>,
    mut pod: DynamicObject,
) -> Result<DynamicObject, PortError> {
    let Some(name) = machine_of(&pod) else {
        return Ok(pod);
    };
    let kind = GroupVersionKind::gvk(GROUP, "v1", INSTANCE);
    let target = Target {
        resource: ApiResource::from_gvk_with_plural(&kind, "virtualmachineinstances"),
        namespace: pod.metadata.namespace.clone(),
        name: name.to_owned(),
    };
    match find(session, &target).await {
        Err(error) if error.code() == &FORBIDDEN => {}
        found => {
            if let Some(instance) = found? {
                copy_addresses(&mut pod, &instance.data);
            }
        }
    }
    Ok(pod)
}

/// An interface that a machine reports has the name of its network in the specification.
fn copy_addresses(pod: &mut DynamicObject, instance: &Value) {
    let list = |path: &str| {
        instance
            .pointer(path)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let report =
        |network: &str| list("/status/interfaces").find(|one| text(one, "/name") == network);
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let annotations = pod.metadata.annotations.get_or_insert_default();
    let requested = annotations.get(NETWORKS).map_or("", String::as_str);
    let requested = selections(requested, &namespace).unwrap_or_default();
    let mut interfaces = Vec::new();
    for network in list("/spec/networks") {
        let Some(report) = report(text(network, "/name")) else {
            continue;
        };
        let ips = ips(report);
        if network.get("pod").is_some() && !ips.is_empty() {
            let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            pod.data["status"]["podIPs"] = ips.into();
        }
        let name = NetworkName::parse(text(network, "/multus/networkName"));
        let name = name.map(|name| name.seen_from(&namespace));
        let mut own = requested.iter();
        if let Some(selection) = own.find(|own| Some(&own.network) == name.as_ref()) {
            interfaces.push(json!({"name": selection.network.to_string(),
                "interface": selection.interface, "ips": ips, "mac": text(report, "/mac")}));
        }
    }
    if !interfaces.is_empty() {
        annotations.insert(STATUS.to_owned(), Value::from(interfaces).to_string());
    }
}

fn ips(report: &Value) -> Vec<&str> {
    let all = report.pointer("/ipAddresses").and_then(Value::as_array);
    let all: Vec<&str> = all
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let one = Some(text(report, "/ipAddress")).filter(|ip| !ip.is_empty());
    if all.is_empty() {
        one.into_iter().collect()
    } else {
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gets_the_addresses_of_its_machine() {
        let pod = json!({"metadata": {"namespace": "mine", "annotations": {NETWORKS: "[{\"name\": \"data\", \"interface\": \"pod16367aacb67\"}]"}},
            "status": {"podIP": "10.244.0.9", "podIPs": [{"ip": "10.244.0.9"}]}});
        let mut pod: DynamicObject = serde_json::from_value(pod).unwrap();
        let instance = json!({
            "spec": {"networks": [{"name": "default", "pod": {}}, {"name": "second", "multus": {"networkName": "data"}}, {"name": "third", "multus": {"networkName": "none"}}]},
            "status": {"interfaces": [
                {"name": "default", "ipAddress": "10.0.2.2", "ipAddresses": ["10.0.2.2", "fd00::2"]},
                {"name": "second", "ipAddress": "10.91.0.4", "mac": "02:00:00:00:00:04"}]}});
        copy_addresses(&mut pod, &instance);
        assert_eq!(
            pod.data["status"]["podIPs"],
            json!([{"ip": "10.0.2.2"}, {"ip": "fd00::2"}])
        );
        let status: Value =
            serde_json::from_str(&pod.metadata.annotations.unwrap()[STATUS]).unwrap();
        let expected = json!([{"name": "mine/data", "interface": "pod16367aacb67", "ips": ["10.91.0.4"], "mac": "02:00:00:00:00:04"}]);
        assert_eq!(status, expected);
    }
}
