//! The external connection points of an ASD, as the request connects them (`extVirtualLinks[].extCps[].cpdId`: their `id`).
//!
//! | the connection point has | then |
//! |---|---|
//! | `inputParamMappings.nadName` | its networks are values of the chart, which requests them; `nadNamespace`: their namespaces |
//! | `inputParamMappings` of addresses alone | the fixed addresses of the request are values of the chart |
//! | `resourceMapping` alone | the pods of the workload with that name request the network |
//!
//! Redundant interfaces (`left` and `right`, or a bond of both) have several names in `nadName`: each link of the request that
//! names the connection point is for the next of them.

use crate::attachments::{Attachment, Binding, Pods, bindings, cp_error};
use serde_json::Value;
use vnfm_core::Deployment;
use vnfm_core::ports::PortError;
use vnfm_descriptor::{Asd, AsdExtCpd};

/// Names of `inputParamMappings` for networks, in the dialects of an ASD.
const NETWORK_NAMES: &[&str] = &["nadName", "nadNames"];
const NETWORK_NAMESPACE: &str = "nadNamespace";
/// Those for addresses, and whether their value is always a list.
const ADDRESSES: &[(&str, bool)] = &[
    ("ipAddressParameter", false),
    ("loadbalancerIP", false),
    ("externalIPs", true),
];

/// The attachments of an application.
///
/// # Errors
///
/// `Refused`, naming the connection point that the ASD does not have, or that the request connects in an impossible way.
pub(crate) fn attachments(
    asd: &Asd,
    deployment: &Deployment,
) -> Result<Vec<Attachment>, PortError> {
    check_known(asd, deployment)?;
    let mut found = Vec::new();
    for (index, cp) in asd.asd_ext_cpd.iter().enumerate() {
        let Some(id) = &cp.id else { continue };
        let position = cp.interface_order.map_or(index, |order| order as usize) + 1;
        for binding in connected(cp, id, deployment)? {
            let mut attachment = binding.attachment(id, pods(cp))?;
            attachment.position = position;
            attachment.by_chart = has_network_parameter(cp);
            if attachment.by_chart {
                attachment.ips.clear(); // values of the chart
            }
            found.push(attachment);
        }
    }
    Ok(found)
}

/// The values of charts that networks and addresses of the request are for, by the parameters that the ASD names.
///
/// # Errors
///
/// Those of [`attachments`].
pub(crate) fn values(
    asd: &Asd,
    deployment: &Deployment,
) -> Result<Vec<(String, Value)>, PortError> {
    let mut values = Vec::new();
    for cp in &asd.asd_ext_cpd {
        let Some(id) = &cp.id else { continue };
        let bindings = bindings(deployment, id)?;
        let namespaces = names(cp, &[NETWORK_NAMESPACE]);
        for (binding, parameter) in bindings.iter().zip(names(cp, NETWORK_NAMES)) {
            let network = binding.network()?;
            let name = if namespaces.is_empty() {
                network.to_string()
            } else {
                network.name
            };
            values.push((parameter.clone(), name.into()));
            if let (Some(parameter), Some(namespace)) = (namespaces.first(), network.namespace) {
                values.push(((*parameter).clone(), namespace.into()));
            }
        }
        let ips: Vec<&String> = bindings.iter().flat_map(|binding| &binding.ips).collect();
        let Some(first) = ips.first() else { continue };
        for (name, is_list) in ADDRESSES {
            for parameter in names(cp, &[name]) {
                let is_one = ips.len() == 1 && !is_list;
                let value = if is_one {
                    first.as_str().into()
                } else {
                    ips.iter().map(|ip| ip.as_str()).collect::<Value>()
                };
                values.push((parameter.clone(), value));
            }
        }
    }
    Ok(values)
}

/// The links of the request that attach pods to networks.
fn connected<'a>(
    cp: &AsdExtCpd,
    id: &str,
    deployment: &'a Deployment,
) -> Result<Vec<Binding<'a>>, PortError> {
    let bindings = bindings(deployment, id)?;
    let parameters = names(cp, NETWORK_NAMES).len();
    let is_service = ADDRESSES
        .iter()
        .any(|(name, _)| !names(cp, &[name]).is_empty());
    let refused = |what: &str| Err(cp_error(id, what));
    match bindings.as_slice() {
        [] => {}
        all if parameters > 0 => {
            if all.len() > parameters {
                return refused("more links name it than `inputParamMappings.nadName` has names");
            }
            if all.iter().any(|one| one.mac.is_some()) {
                return refused("`inputParamMappings` has no parameter for a MAC address");
            }
        }
        _ if is_service => return Ok(Vec::new()),
        _ if cp.resource_mapping.is_none() => {
            return refused(
                "the ASD has neither `inputParamMappings.nadName` nor `resourceMapping` for it",
            );
        }
        [_] => {}
        _ => return refused("several links name it, and its pods have one interface for it"),
    }
    Ok(bindings)
}

fn has_network_parameter(cp: &AsdExtCpd) -> bool {
    !names(cp, NETWORK_NAMES).is_empty()
}

/// The pods that have the connection point.
fn pods(cp: &AsdExtCpd) -> Pods {
    match resource(cp) {
        Some(name) if !has_network_parameter(cp) => Pods::Workload(name.to_owned()),
        _ => Pods::Any,
    }
}

/// The name of the object that implements a connection point: `resourceMapping` is `[CHART:]NAME`.
pub(crate) fn resource(cp: &AsdExtCpd) -> Option<&str> {
    let mapped = cp.resource_mapping.as_deref()?;
    Some(mapped.rsplit_once(':').map_or(mapped, |(_, name)| name))
}

/// The parameters under the first of these names that the connection point has.
fn names<'a>(cp: &'a AsdExtCpd, known: &[&str]) -> Vec<&'a String> {
    let found = known
        .iter()
        .find_map(|name| cp.input_param_mappings.get(*name));
    found.into_iter().flatten().collect()
}

fn check_known(asd: &Asd, deployment: &Deployment) -> Result<(), PortError> {
    let ids = || asd.asd_ext_cpd.iter().filter_map(|cp| cp.id.as_deref());
    let links = deployment.ext_virtual_links.iter();
    let mut named = links.flat_map(|link| &link.ext_cps);
    match named.find(|data| !ids().any(|id| id == data.cpd_id)) {
        None => Ok(()),
        Some(data) => {
            let known: Vec<&str> = ids().collect();
            let hint = format!("those with an `id` are: {}", known.join(", "));
            Err(cp_error(
                &data.cpd_id,
                "the ASD has no connection point with this `id`",
            )
            .hint(hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vnfm_descriptor::{Limits, Package};

    const HEAD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [oran_asd_types_v02.00.00.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd.Asd
      properties: {asdId: a9, asdInvariantId: i9, asdVersion: '1', asdProvider: Us, asdApplicationName: Web, asdApplicationSwVersion: '1', asdExtCpd: [";
    const TAIL: &str = "]}
      artifacts:
        web: {type: tosca.artifacts.asd.DeploymentItem, file: web.yaml, properties: {deploymentItemId: '1', artifactType: kubernetes_manifest}}
";

    /// A package whose ASD has these connection points.
    fn package(cps: &str) -> Package {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let meta = "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: Definitions/asd.yaml\n";
        write("TOSCA-Metadata/TOSCA.meta", meta);
        write("Definitions/asd.yaml", &format!("{HEAD}{cps}{TAIL}"));
        write("web.yaml", "{}\n");
        Package::open(folder.path(), &Limits::default()).unwrap()
    }

    /// A deployment whose links, by their ids, name networks and have this connection point.
    fn connected(cpd: &str, networks: &[&str], config: &Value) -> Deployment {
        let link = |(index, network): (usize, &&str)| {
            let link = json!({"id": format!("l{index}"), "resourceId": network,
                "extCps": [{"cpdId": cpd, "cpConfig": {"c": config}}]});
            serde_json::from_value(link).unwrap()
        };
        Deployment {
            ext_virtual_links: networks.iter().enumerate().map(link).collect(),
            ..Deployment::default()
        }
    }

    fn fixed(ips: &[&str]) -> Value {
        json!({"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {
            "ipAddresses": [{"type": "IPV4", "fixedAddresses": ips}]}}]})
    }

    #[test]
    fn networks_and_addresses_become_values_of_the_chart() {
        let package = package(
            "{id: n6, virtualLinkRequirement: [core], inputParamMappings: {nadName: ['web:left.nad', 'web:right.nad'], nadNamespace: 'web:nadNamespace', ipAddressParameter: 'web:ip'}}, {id: oam, virtualLinkRequirement: [oam], inputParamMappings: {nadName: ['web:oam.nad']}}, {id: front, virtualLinkRequirement: [oam], inputParamMappings: {externalIPs: ['web:external']}}",
        );
        let asd = package.asd().unwrap();
        let found = |cpd: &str, networks: &[&str], ips: &[&str]| {
            values(asd, &connected(cpd, networks, &fixed(ips))).unwrap()
        };
        let named = |all: &[(&str, Value)]| -> Vec<(String, Value)> {
            let all = all.iter();
            all.map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect()
        };
        assert_eq!(
            found("n6", &["nets/a", "nets/b"], &["10.0.0.1"]),
            named(&[
                ("web:left.nad", json!("a")),
                ("web:nadNamespace", json!("nets")),
                ("web:right.nad", json!("b")),
                ("web:nadNamespace", json!("nets")),
                ("web:ip", json!(["10.0.0.1", "10.0.0.1"])),
            ])
        );
        assert_eq!(
            found("oam", &["nets/oam"], &[]),
            named(&[("web:oam.nad", json!("nets/oam"))]),
            "without a parameter for the namespace"
        );
        assert_eq!(
            found("front", &["any"], &["192.0.2.1"]),
            named(&[("web:external", json!(["192.0.2.1"]))])
        );
        let attached =
            attachments(asd, &connected("n6", &["nets/a", "nets/b"], &json!({}))).unwrap();
        let attached: Vec<_> = attached
            .iter()
            .map(|one| (one.network.to_string(), one.by_chart))
            .collect();
        assert_eq!(
            attached,
            [("nets/a".to_owned(), true), ("nets/b".to_owned(), true)]
        );
        assert_eq!(
            attachments(asd, &connected("front", &["any"], &json!({}))).unwrap(),
            []
        );
    }

    #[test]
    fn what_an_application_cannot_have_is_refused_by_name() {
        let package = package(
            "{id: oam, virtualLinkRequirement: [oam], inputParamMappings: {nadName: ['web:oam.nad']}}, {id: web, virtualLinkRequirement: [oam], resourceMapping: 'web:web'}, {id: bare, virtualLinkRequirement: [oam]}",
        );
        let asd = package.asd().unwrap();
        let mac = json!({"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {"macAddress": "02:00:00:00:00:01"}}]});
        for (cpd, networks, config, expected) in [
            ("oam", &["a", "b"][..], json!({}), "more links name it"),
            ("oam", &["a"][..], mac, "no parameter for a MAC address"),
            (
                "oam",
                &["Not/A/Network"][..],
                json!({}),
                "cannot be a NetworkAttachmentDefinition",
            ),
            ("web", &["a", "b"][..], json!({}), "several links name it"),
            (
                "bare",
                &["a"][..],
                json!({}),
                "neither `inputParamMappings.nadName` nor `resourceMapping`",
            ),
            (
                "other",
                &["a"][..],
                json!({}),
                "no connection point with this `id`",
            ),
            (
                "web",
                &["a"][..],
                json!({"linkPortId": "p"}),
                "pods use no existing ports",
            ),
            (
                "web",
                &["a"][..],
                fixed(&["10.0.0.300"][..]),
                "is no IP address",
            ),
        ] {
            let error = attachments(asd, &connected(cpd, networks, &config)).unwrap_err();
            assert_eq!(error.name(), "kubernetes.link-invalid");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
