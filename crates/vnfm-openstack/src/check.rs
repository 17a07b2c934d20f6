//! Checks a request against the VNFD, without calling the cloud: `validate_request`.

use crate::base_hot;
use crate::blueprint::{
    Blueprint, PUBLIC_KEY_PARAM, boot_image, is_external, package, request, vdu_storages,
};
use std::collections::BTreeMap;
use vnfm_core::Deployment;
use vnfm_core::ports::{PortError, REUSE_PARAM};
use vnfm_descriptor::{ConnectivityKind, CpKind, Flavour, StorageKind, Vdu, VduKind};
use vnfm_types::{ExtVirtualLinkData, VnfExtCpConfig};

/// Checks a request as far as package and request allow.
pub(crate) fn check(blueprint: &Blueprint<'_>) -> Result<(), PortError> {
    let flavour = blueprint.flavour;
    check_links(blueprint)?;
    check_public_key(blueprint.deployment)?;
    if blueprint.base_hot.is_some() && !blueprint.deployment.reused_volumes.is_empty() {
        return Err(request(format!(
            "`additionalParams.{REUSE_PARAM}` needs a generated template, and the package has its own"
        )));
    }
    if blueprint.base_hot.is_some() {
        return base_hot::expected(blueprint).map(drop);
    }
    if flavour.vdus.is_empty() {
        let detail = format!(
            "flavour `{}` in `{}` has no VDU, and the package has no `BaseHOT/{}/`",
            flavour.id, flavour.file, flavour.id
        );
        return Err(package(detail));
    }
    for vdu in flavour.vdus.values() {
        check_vdu(flavour, vdu)?;
    }
    check_topology(blueprint)
}

/// Checks that every CP that the request binds exists, is external, and is bound once.
fn check_links(blueprint: &Blueprint<'_>) -> Result<(), PortError> {
    let flavour = blueprint.flavour;
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for link in &blueprint.deployment.ext_virtual_links {
        if link.resource_id.is_empty() {
            return Err(request(format!(
                "`extVirtualLinks` `{}` has no `resourceId`",
                link.id
            )));
        }
        for data in &link.ext_cps {
            let known = flavour
                .external_cps
                .iter()
                .any(|cp| cp.cpd_id == data.cpd_id)
                || flavour.cps.contains_key(&data.cpd_id);
            if !known && !flavour.cps.is_empty() {
                let names: Vec<&str> = flavour
                    .external_cps
                    .iter()
                    .map(|cp| cp.cpd_id.as_str())
                    .collect();
                return Err(request(format!(
                    "`extVirtualLinks` `{}` binds `{}`, which is not an external CP of flavour `{}`; there are {}",
                    link.id,
                    data.cpd_id,
                    flavour.id,
                    names.join(", ")
                )));
            }
            if let Some(other) = seen.insert(&data.cpd_id, &link.id) {
                return Err(request(format!(
                    "CP `{}` is bound twice, to `{other}` and to `{}`",
                    data.cpd_id, link.id
                ))
                .hint("bind each CP once; to move one in `change_ext_conn`, use the key that its `cpConfig` has, or set that key to null"));
            }
            for config in data.cp_config.values().flatten() {
                check_port(link, config)?;
            }
        }
    }
    Ok(())
}

fn check_port(link: &ExtVirtualLinkData, config: &VnfExtCpConfig) -> Result<(), PortError> {
    let Some(port_id) = &config.link_port_id else {
        return Ok(());
    };
    if link.ext_link_ports.iter().any(|port| &port.id == port_id) {
        return Ok(());
    }
    Err(request(format!(
        "`extVirtualLinks` `{}` has no port `{port_id}` in `extLinkPorts`",
        link.id
    )))
}

fn check_public_key(deployment: &Deployment) -> Result<(), PortError> {
    let Some(key) = deployment.additional_params.get(PUBLIC_KEY_PARAM) else {
        return Ok(());
    };
    let is_key = key.as_str().is_some_and(|key| {
        let key = key.trim();
        !key.contains('\n')
            && ["ssh-", "ecdsa-sha2-", "sk-"]
                .iter()
                .any(|kind| key.starts_with(kind))
    });
    if is_key {
        return Ok(());
    }
    Err(request(format!(
        "`additionalParams.{PUBLIC_KEY_PARAM}` is not a public key: expected one line that begins with `ssh-ed25519`, `ssh-rsa` or `ecdsa-sha2-`"
    )))
}

fn check_vdu(flavour: &Flavour, vdu: &Vdu) -> Result<(), PortError> {
    let problem = if vdu.kind == VduKind::OsContainer {
        "is a container; OpenStack makes servers. Instantiate it on a Kubernetes VIM".to_owned()
    } else if boot_image(flavour, vdu).is_none() {
        "names no image: add `sw_image_data`, with the name of an image that the cloud has or an artifact that brings it".to_owned()
    } else if let Some(other) =
        vdu_storages(flavour, vdu).find(|one| one.kind != StorageKind::Block)
    {
        format!(
            "wants storage `{}`, which is not a volume; add a Base HOT for it",
            other.name
        )
    } else if let Some(unsized_one) = vdu_storages(flavour, vdu).find(|one| one.size_gib.is_none())
    {
        format!(
            "wants storage `{}`, which says no `size_of_storage`",
            unsized_one.name
        )
    } else {
        return Ok(());
    };
    Err(package(format!(
        "VDU `{}` in `{}` {problem}",
        vdu.name, flavour.file
    )))
}

fn check_topology(blueprint: &Blueprint<'_>) -> Result<(), PortError> {
    let flavour = blueprint.flavour;
    for cp in flavour.cps.values() {
        if cp.kind == CpKind::VipCp || cp.trunk_mode {
            return Err(package(format!(
                "CP `{}` in `{}` is a VIP or a trunk, which cannot be generated from the VNFD; add a Base HOT for it",
                cp.name, flavour.file
            )));
        }
        if is_external(cp) && blueprint.ext_cp_binding(&cp.name).is_none() {
            return Err(request(format!(
                "external CP `{}` is connected to nothing; bind it: `extVirtualLinks: [{{\"id\": \"…\", \"resourceId\": \"<network>\", \"extCps\": [{{\"cpdId\": \"{}\"}}]}}]`",
                cp.name, cp.name
            )));
        }
    }
    let granted = &blueprint.deployment.placement;
    let outside = flavour.virtual_links.values().find(|link| {
        let has_a_network =
            blueprint.awaits_grant || granted.managed_links.contains_key(&link.name);
        link.externally_managed == ConnectivityKind::Required && !has_a_network
    });
    match outside {
        None => Ok(()),
        Some(link) => Err(request(format!(
            "virtual link `{}` in `{}` is managed from outside (`externally_managed: required`), and nothing names its network; name it: `extManagedVirtualLinks: [{{\"id\": \"…\", \"vnfVirtualLinkDescId\": \"{}\", \"resourceId\": \"<network>\"}}]`, or let the NFVO's grant do so",
            link.name, flavour.file, link.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cluster_request, new_allocation, package, sample, vnfd, vnfd_with};
    use serde_json::json;
    use std::sync::Arc;
    use vnfm_core::ports::Allocation;

    fn check_request(allocation: &Allocation) -> Result<(), PortError> {
        check(&Blueprint::read(allocation, "i")?)
    }

    #[test]
    fn the_samples_requests_are_accepted() {
        for name in ["vnf-a-k8s-cluster", "vnf-a-k8s-cluster-base-hot"] {
            check_request(&new_allocation(sample(name), cluster_request())).unwrap();
        }
    }

    #[test]
    fn what_the_request_gets_wrong_is_named() {
        let cps = "/extVirtualLinks/0/extCps";
        let private = json!({"ssh_public_key": "-----BEGIN OPENSSH PRIVATE KEY-----"});
        let table = [
            (
                "/flavourId".to_owned(),
                json!("tiny"),
                "no flavour `tiny`, only cluster_install",
            ),
            (
                "/extVirtualLinks".to_owned(),
                json!([]),
                "CP `masterNodeExternalCP` is connected to nothing",
            ),
            (
                format!("{cps}/0/cpdId"),
                json!("masterCP"),
                "`masterCP`, which is not an external CP",
            ),
            (
                format!("{cps}/1/cpdId"),
                json!("masterNodeExternalCP"),
                "bound twice",
            ),
            (
                "/extVirtualLinks/0/resourceId".to_owned(),
                json!(""),
                "has no `resourceId`",
            ),
            (
                format!("{cps}/0/cpConfig/master"),
                json!({"linkPortId": "p9"}),
                "no port `p9`",
            ),
            (
                "/additionalParams".to_owned(),
                private,
                "is not a public key",
            ),
        ];
        for (place, value, says) in table {
            let mut request = cluster_request();
            request["instantiationLevelId"] = json!("small");
            request["additionalParams"] = json!({});
            *request.pointer_mut(&place).unwrap() = value;
            let error =
                check_request(&new_allocation(sample("vnf-a-k8s-cluster"), request)).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!(error.name(), "openstack.request-incomplete");
        }
    }

    #[test]
    fn a_link_that_others_have_to_manage_needs_a_network_from_them() {
        const LAN: &str = "    lan:
      type: tosca.nodes.nfv.VnfVirtualLink
      properties: {connectivity_type: {layer_protocols: [ipv4]}, externally_managed: required, vl_profile: {max_bitrate_requirements: {root: 1}, min_bitrate_requirements: {root: 1}}}
";
        let text = vnfd(1, "1 GiB", "1 GiB") + LAN;
        let mut allocation = new_allocation(package(&text), json!({"flavourId": "simple"}));
        let error = check_request(&allocation).unwrap_err();
        assert_eq!(error.name(), "openstack.request-incomplete", "{error}");
        for part in ["`lan` in `vnfd.yaml`", "extManagedVirtualLinks", "grant"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        allocation.awaits_grant = true;
        check_request(&allocation).unwrap(); // the NFVO may bring it
        allocation.awaits_grant = false;
        Arc::make_mut(&mut allocation.deployment)
            .placement
            .managed_links
            .insert("lan".into(), "their-network".into());
        check_request(&allocation).unwrap();
    }

    #[test]
    fn what_cannot_be_made_on_openstack_is_refused_with_its_place() {
        let request = || json!({"flavourId": "simple"});
        check_request(&new_allocation(
            package(&vnfd(1, "1 GiB", "1 GiB")),
            request(),
        ))
        .unwrap();
        let without_image = vnfd_with(
            "    server:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: server, description: one, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}}
",
        );
        let error = check_request(&new_allocation(package(&without_image), request())).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("VDU `server` in `vnfd.yaml` names no image"),
            "{error}"
        );
        let container = sample("vnf-b-cnf");
        let flavour = container.vnfd().flavours.keys().next().unwrap().clone();
        let error =
            check_request(&new_allocation(container, json!({"flavourId": flavour}))).unwrap_err();
        assert_eq!(error.name(), "openstack.package");
    }
}
