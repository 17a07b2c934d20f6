//! A Heat template generated from the VNFD.
//!
//! | VNFD | HOT, by name |
//! |---|---|
//! | `VnfVirtualLink` | `<link>`: Net, and `<link>_subnet`: Subnet, if it has a range; nothing if externally managed |
//! | `VduCp` of each server | `<server>_<cp>`: Port; on the request's network if the CP is external |
//! | a volume of each server | `<server>_<storage>`: Volume, attached; of a retained one only its `external_id` |
//! | affinity rule on VDUs | `<rule>`: `ServerGroup` |
//! | `Vdu.Compute`, as many as the level has | `<server>`: Server, `masterNode` or `workerNode-0` |
//! | `additionalParams.ssh_public_key` | `vnfm_key_pair`: `KeyPair`, used by every server |
//!
//! The template is complete: it has no parameters, hence no secrets. Security groups and allowed address
//! pairs are the network's defaults.

use crate::blueprint::{
    Blueprint, PUBLIC_KEY_PARAM, Server, addresses, fingerprint, is_external, mac, package,
};
use crate::heat::{StackTemplate, stack_name};
use crate::resolved::Resolved;
use serde_json::{Map, Value, json};
use vnfm_core::ReusedVolume;
use vnfm_core::ports::{PortError, storage_id};
use vnfm_descriptor::{AffinityRule, Cp, VirtualLink};

/// The version of the templates we generate; Heat knows it since Rocky.
const VERSION: &str = "2018-08-31";
const KEY_PAIR: &str = "vnfm_key_pair";

/// Collects the resources of the template.
struct TemplateBuilder<'a> {
    blueprint: &'a Blueprint<'a>,
    resolved: &'a Resolved,
    resources: Map<String, Value>,
}

/// The template of an instance.
pub(crate) fn template(
    blueprint: &Blueprint<'_>,
    resolved: &Resolved,
) -> Result<StackTemplate, PortError> {
    let (flavour, vnfd) = (blueprint.flavour, blueprint.package.vnfd());
    let mut builder = TemplateBuilder {
        blueprint,
        resolved,
        resources: Map::new(),
    };
    let ours = |link: &&VirtualLink| !resolved.managed.contains_key(&link.name);
    for link in flavour.virtual_links.values().filter(ours) {
        builder.link(link);
    }
    builder.key_pair();
    for rule in &flavour.affinity_rules {
        builder.server_group(rule);
    }
    for server in blueprint.servers()? {
        builder.server(&server)?;
    }
    let template = json!({
        "heat_template_version": VERSION,
        "description": format!("{} {}, flavour {}", vnfd.provider, vnfd.product_name, flavour.id),
        "resources": builder.resources,
    });
    Ok(StackTemplate {
        template,
        files: Map::new(),
        environment: None,
        parameters: Map::new(),
        fingerprint: fingerprint(blueprint.deployment),
    })
}

impl TemplateBuilder<'_> {
    fn add(&mut self, name: &str, kind: &str, properties: &Value) {
        self.resources.insert(
            name.to_owned(),
            json!({"type": kind, "properties": properties}),
        );
    }

    fn link(&mut self, link: &VirtualLink) {
        let name = format!("{}-{}", stack_name(self.blueprint.instance), link.name);
        let mut network = json!({"name": name});
        if let Some(mtu) = link.mtu {
            network["value_specs"] = json!({"mtu": mtu});
        }
        self.add(&link.name, "OS::Neutron::Net", &network);
        let Some(cidr) = &link.cidr else { return };
        let mut subnet = json!({
            "name": name,
            "network": {"get_resource": link.name},
            "cidr": cidr,
            "ip_version": if is_ipv6(link, cidr) { 6 } else { 4 },
        });
        if let Some(gateway) = &link.gateway {
            subnet["gateway_ip"] = json!(gateway);
        }
        if let Some(dhcp) = link.dhcp {
            subnet["enable_dhcp"] = json!(dhcp);
        }
        if !link.pools.is_empty() {
            subnet["allocation_pools"] = link
                .pools
                .iter()
                .map(|pool| json!({"start": pool.start, "end": pool.end}))
                .collect();
        }
        self.add(&subnet_name(link), "OS::Neutron::Subnet", &subnet);
    }

    fn key_pair(&mut self) {
        if let Some(key) = self.public_key() {
            let properties =
                json!({"name": stack_name(self.blueprint.instance), "public_key": key.trim()});
            self.add(KEY_PAIR, "OS::Nova::KeyPair", &properties);
        }
    }

    fn public_key(&self) -> Option<String> {
        let key = self
            .blueprint
            .deployment
            .additional_params
            .get(PUBLIC_KEY_PARAM)?;
        key.as_str().map(str::to_owned)
    }

    /// Puts the servers of these VDUs on one host, or each on a different one.
    fn server_group(&mut self, rule: &AffinityRule) {
        if self.covers_vdus(rule) {
            let policy = if rule.anti {
                "anti-affinity"
            } else {
                "affinity"
            };
            let name = format!("{}-{}", stack_name(self.blueprint.instance), rule.name);
            self.add(
                &rule.name,
                "OS::Nova::ServerGroup",
                &json!({"name": name, "policies": [policy]}),
            );
        }
    }

    /// A server group can only express rules about hosts, not about zones or links.
    fn covers_vdus(&self, rule: &AffinityRule) -> bool {
        rule.scope == "nfvi_node"
            && rule
                .targets
                .iter()
                .any(|target| self.blueprint.flavour.vdus.contains_key(target))
    }

    fn server(&mut self, planned: &Server<'_>) -> Result<(), PortError> {
        let vdu = planned.vdu;
        let networks: Vec<Value> = planned
            .cps
            .iter()
            .map(|cp| self.port(planned, cp))
            .collect();
        let mut properties = json!({
            "name": planned.name,
            "flavor": self.resolved.flavors.get(&vdu.name),
            "networks": networks,
            "metadata": self.metadata(planned),
        });
        if vdu.image.is_some() {
            properties["image"] = json!(self.resolved.image(&vdu.name));
        }
        if let Some(zone) = planned.zone {
            properties["availability_zone"] = json!(zone);
        }
        self.volumes(planned, &mut properties);
        if self.resources.contains_key(KEY_PAIR) {
            properties["key_name"] = json!({"get_resource": KEY_PAIR});
        }
        if let Some(text) = self.user_data(planned)? {
            properties["user_data_format"] = json!("RAW");
            properties["user_data"] = json!(text);
        }
        let rules = &self.blueprint.flavour.affinity_rules;
        let rule = rules
            .iter()
            .find(|rule| rule.targets.contains(&vdu.name) && self.covers_vdus(rule));
        if let Some(rule) = rule {
            properties["scheduler_hints"] = json!({"group": {"get_resource": rule.name}});
        }
        self.add(&planned.name, "OS::Nova::Server", &properties);
        Ok(())
    }

    /// Adds a CP's port and returns the server's interface on it.
    fn port(&mut self, planned: &Server<'_>, cp: &Cp) -> Value {
        let external = is_external(cp)
            .then(|| self.blueprint.ext_cp_binding(&cp.name))
            .flatten();
        if let Some(existing) =
            external.and_then(|ext_cp_binding| ext_cp_binding.port(planned.index))
        {
            return json!({"port": existing});
        }
        let name = format!("{}_{}", planned.name, cp.name);
        let mut port = json!({"name": format!("{}-{}", planned.name, cp.name)});
        if let Some(ext_cp_binding) = external {
            port["network"] = json!(self.resolved.network_of(self.blueprint, &cp.name));
            if let Some((_, config)) = ext_cp_binding.config(planned.index) {
                external_addresses(&mut port, config);
            }
        } else if let Some(theirs) = cp
            .virtual_link
            .as_ref()
            .and_then(|link| self.resolved.managed.get(link))
        {
            port["network"] = json!(theirs);
        } else if let Some(link) = &cp.virtual_link {
            port["network"] = json!({"get_resource": link});
            if let Some(link) = self
                .blueprint
                .flavour
                .virtual_links
                .get(link)
                .filter(|link| link.cidr.is_some())
            {
                port["fixed_ips"] = json!([{"subnet": {"get_resource": subnet_name(link)}}]);
            }
        }
        if let Some(kind) = &cp.vnic_type {
            port["binding:vnic_type"] = json!(kind);
        }
        self.add(&name, "OS::Neutron::Port", &port);
        json!({"port": {"get_resource": name}})
    }

    /// Adds volumes. The first one filled from an image boots a server that has no image of its own.
    fn volumes(&mut self, planned: &Server<'_>, server: &mut Value) {
        let storages = &planned.volumes;
        let root = if planned.vdu.image.is_some() {
            None
        } else {
            storages.iter().find(|one| one.image.is_some())
        };
        for storage in storages {
            let name = format!("{}_{}", planned.name, storage.name);
            let mut volume = json!({"name": format!("{}-{}", planned.name, storage.name), "size": storage.size_gib});
            let deployment = self.blueprint.deployment;
            let reused = deployment.reused_volume(&storage.name, planned.index);
            if storage.image.is_some() {
                volume["image"] = json!(self.resolved.image(&storage.name));
            }
            let id = storage_id(&storage.name, &planned.vdu.name, planned.index);
            if let Some(zone) = self.blueprint.deployment.placement.zones.get(&id) {
                volume["availability_zone"] = json!(zone);
            }
            match reused {
                None => self.add(&name, "OS::Cinder::Volume", &volume),
                Some(reused) => _ = self.resources.insert(name.clone(), external(reused)),
            }
            if root.is_some_and(|root| root.name == storage.name) {
                server["block_device_mapping_v2"] =
                    json!([{"volume_id": {"get_resource": name}, "boot_index": 0}]);
            } else {
                let attachment = json!({"instance_uuid": {"get_resource": planned.name}, "volume_id": {"get_resource": name}});
                self.add(
                    &format!("{name}_attached"),
                    "OS::Cinder::VolumeAttachment",
                    &attachment,
                );
            }
        }
    }

    /// The members that the inventory reads back, and the pairs of `boot_data.kvp_data`.
    fn metadata(&self, planned: &Server<'_>) -> Value {
        let mut all = Map::new();
        let pairs = planned
            .vdu
            .boot_data
            .as_ref()
            .and_then(|boot| boot.pointer("/kvp_data/data"));
        for (key, value) in pairs.and_then(Value::as_object).into_iter().flatten() {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            all.insert(key.clone(), json!(text));
        }
        all.insert("vnfm_instance".into(), json!(self.blueprint.instance));
        all.insert("vnfm_vdu".into(), json!(planned.vdu.name));
        all.insert("vnfm_index".into(), json!(planned.index.to_string()));
        Value::Object(all)
    }

    /// `boot_data.content_or_file_data`: its text, or the package's file.
    fn user_data(&self, planned: &Server<'_>) -> Result<Option<String>, PortError> {
        let Some(boot) = planned
            .vdu
            .boot_data
            .as_ref()
            .and_then(|boot| boot.get("content_or_file_data"))
        else {
            return Ok(None);
        };
        if let Some(text) = boot.get("content").and_then(Value::as_str) {
            return Ok(Some(text.to_owned()));
        }
        let Some(path) = boot.get("source_path").and_then(Value::as_str) else {
            return Ok(None);
        };
        let unreadable = |reason: String| {
            package(format!(
                "`boot_data` of VDU `{}`: `{path}`: {reason}",
                planned.vdu.name
            ))
        };
        let bytes = self
            .blueprint
            .package
            .read(path)
            .map_err(|error| unreadable(error.to_string()))?;
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| unreadable("it is not UTF-8 text".into()))
    }
}

/// A volume that Heat uses and never deletes.
fn external(reused: &ReusedVolume) -> Value {
    json!({"type": "OS::Cinder::Volume", "external_id": reused.resource_id})
}

fn external_addresses(port: &mut Value, config: &vnfm_types::VnfExtCpConfig) {
    let fixed_ips: Vec<Value> = addresses(config)
        .into_iter()
        .map(|one| {
            let mut entry = Map::new();
            entry.extend(
                one.address
                    .map(|address| ("ip_address".to_owned(), json!(address))),
            );
            entry.extend(
                one.subnet
                    .map(|subnet| ("subnet".to_owned(), json!(subnet))),
            );
            Value::Object(entry)
        })
        .collect();
    if !fixed_ips.is_empty() {
        port["fixed_ips"] = Value::Array(fixed_ips);
    }
    if let Some(mac) = mac(config) {
        port["mac_address"] = json!(mac);
    }
}

fn subnet_name(link: &VirtualLink) -> String {
    format!("{}_subnet", link.name)
}

fn is_ipv6(link: &VirtualLink, cidr: &str) -> bool {
    link.ip_version
        .as_deref()
        .map_or_else(|| cidr.contains(':'), |version| version == "ipv6")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolved::FoundImage;
    use crate::testing::{cluster_request, new_allocation, package_of, sample, vnfd_with};
    use std::path::PathBuf;

    fn prepared() -> Resolved {
        let image = || FoundImage {
            name: "nfv-image".into(),
            id: Some("image-id".into()),
        };
        let mut prepared = Resolved::default();
        for vdu in ["masterNode", "workerNode", "server"] {
            prepared.flavors.insert(vdu.into(), "m1.tiny".into());
            prepared.images.insert(vdu.into(), image());
        }
        prepared.images.insert("root".into(), image());
        prepared
            .networks
            .insert("external".into(), "network-id".into());
        prepared
    }

    /// Compares with a reviewed file; to renew it, delete it and run the test twice.
    fn is_golden(name: &str, template: &Value) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(name);
        let text = format!("{}\n", serde_json::to_string_pretty(template).unwrap());
        if let Ok(golden) = std::fs::read_to_string(&path) {
            assert_eq!(text, golden, "differs from {}", path.display());
        } else {
            std::fs::write(&path, text).unwrap();
            panic!(
                "{} was not there: it is written now, read it",
                path.display()
            );
        }
    }

    #[test]
    fn the_cluster_sample_becomes_the_golden_template() {
        let mut request = cluster_request();
        request["additionalParams"] = json!({"ssh_public_key": "ssh-ed25519 AAAA us\n"});
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), request);
        let result = template(&Blueprint::read(&allocation, "i-1").unwrap(), &prepared()).unwrap();
        assert!(result.parameters.is_empty() && result.files.is_empty());
        is_golden("vnf-a.json", &result.template);
    }

    #[test]
    fn volumes_user_data_rules_and_fixed_addresses_become_the_golden_template() {
        let vnfd = vnfd_with(include_str!("../tests/golden/volumes.nodes.yaml"));
        let package = package_of(&[
            ("vnfd.yaml", &vnfd),
            ("Scripts/boot.sh", "#!/bin/sh\necho up\n"),
        ]);
        let request = json!({
            "flavourId": "simple",
            "extVirtualLinks": [{
                "id": "external",
                "resourceId": "provider",
                "extCps": [{"cpdId": "out", "cpConfig": {
                    "a": {"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {
                        "ipAddresses": [{"type": "IPV4", "fixedAddresses": ["10.77.0.9"]}]}}]},
                    "b": {"linkPortId": "p"},
                }}],
                "extLinkPorts": [{"id": "p", "resourceHandle": {"resourceId": "port-id"}}],
            }],
        });
        let allocation = new_allocation(package, request);
        crate::check::check(&Blueprint::read(&allocation, "i-1").unwrap()).unwrap();
        is_golden(
            "volumes.json",
            &template(&Blueprint::read(&allocation, "i-1").unwrap(), &prepared())
                .unwrap()
                .template,
        );
    }
}
