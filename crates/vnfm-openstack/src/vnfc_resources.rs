//! A resource of the top-level template for each VNFC, as Tacker's `StandardUserData` makes them.
//!
//! ```text
//! resources: {VDU1: {type: VDU1.yaml, properties: {flavor: {get_param: [nfv, VDU, VDU1, computeFlavourId]}}}}
//!      │ two VNFCs
//!      ▼
//! resources: {VDU1-0: {… [nfv, VDU, VDU1-0, computeFlavourId] …}, VDU1-1: {… [nfv, VDU, VDU1-1, computeFlavourId] …}}
//! ```
//! The index is that of the VNFC within its VDU: a new VNFC has the next one, and those with the highest ones go first.
//!
//! | `lcm-operation-user-data-class` of the request | resources |
//! |---|---|
//! | `StandardUserData` | one for each VNFC; a template that does not allow it is refused, with the VDU |
//! | `DefaultUserData` | as the template has them |
//! | another or none | one for each VNFC if each VDU is a resource of its name with a nested template of one server, a VDU may grow, and no parameter carries a number of VNFCs; else as the template has them |
//!
//! An instance keeps what it was created with, so that no server is replaced because this decision changes.

use crate::base_hot_sizes::carries;
use crate::blueprint::{Blueprint, PLANNING, package};
use crate::hot_text::{nfv_parameters, yaml};
use crate::user_data::{self, CLASS, DEFAULT};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use vnfm_core::Deployment;
use vnfm_core::ports::PortError;
use vnfm_descriptor::BaseHot;

/// The member of the recorded resolution that keeps the decision.
const RECORDED: &str = "perVnfc";
const SERVER: &str = "OS::Nova::Server";
/// Types of resources that two servers cannot share.
const EXCLUSIVE: &[&str] = &[
    "OS::Neutron::Port",
    "OS::Cinder::Volume",
    "OS::Neutron::FloatingIP",
];

/// Whether the instance has a resource for each VNFC.
pub(crate) fn is_per_vnfc(
    blueprint: &Blueprint<'_>,
    hot: &BaseHot,
    top: &Value,
) -> Result<bool, PortError> {
    if !blueprint.deployment.resolved.is_null() {
        return Ok(is_recorded(blueprint.deployment));
    }
    match user_data::class(blueprint.deployment) {
        Some(user_data::STANDARD) => Ok(true),
        Some(user_data::DEFAULT) => Ok(false),
        _ => is_shaped(blueprint, hot, top),
    }
}

/// Whether the instance was created with a resource for each VNFC.
pub(crate) fn is_recorded(deployment: &Deployment) -> bool {
    deployment.resolved[RECORDED] == true
}

/// Whether the template looks like one for `StandardUserData`.
fn is_shaped(blueprint: &Blueprint<'_>, hot: &BaseHot, top: &Value) -> Result<bool, PortError> {
    let flavour = blueprint.flavour;
    if !flavour.vdus.values().any(|vdu| flavour.may_grow(vdu)) {
        return Ok(false);
    }
    for vdu in flavour.vdus.keys() {
        let is_suitable = !carries(hot, top, vdu)
            && obstacle(blueprint, top, vdu).is_none()
            && is_one_server(blueprint, hot, &top["resources"][vdu])?;
        if !is_suitable {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a resource is a nested template of the package with one server.
fn is_one_server(
    blueprint: &Blueprint<'_>,
    hot: &BaseHot,
    definition: &Value,
) -> Result<bool, PortError> {
    let kind = definition["type"].as_str().unwrap_or_default();
    let environment = hot.environment.as_ref();
    let mapped = environment.and_then(|all| all.content["resource_registry"][kind].as_str());
    let Some(path) = hot.files.get(mapped.unwrap_or(kind)) else {
        return Ok(false);
    };
    let nested = yaml(blueprint, path)?;
    let resources = nested["resources"].as_object().into_iter().flatten();
    let servers = resources.filter(|(_, one)| one["type"] == SERVER);
    Ok(servers.count() == 1)
}

/// Puts a resource for each VNFC in the place of that of its VDU.
pub(crate) fn expand(
    blueprint: &Blueprint<'_>,
    hot: &BaseHot,
    top: &mut Value,
) -> Result<(), PortError> {
    for vdu in blueprint.flavour.vdus.keys() {
        if let Some(reason) = obstacle(blueprint, top, vdu) {
            return Err(not_expandable(hot, vdu, &reason));
        }
    }
    let layouts = nfv_parameters(hot);
    let Some(resources) = top["resources"].as_object_mut() else {
        return Ok(());
    };
    for vdu in blueprint.flavour.vdus.keys() {
        let Some(definition) = resources.remove(vdu) else {
            continue;
        };
        let count = blueprint.deployment.instances_of(vdu);
        let bytes = definition.to_string().len() as u64;
        let count_of_all = u64::from(count);
        let bytes_of_all = bytes.saturating_mul(count_of_all);
        blueprint
            .budget
            .allows(PLANNING, count_of_all, bytes_of_all)?;
        for index in 0..count {
            let name = format!("{vdu}-{index}");
            let own = indexed(&definition, &layouts, index);
            if resources.insert(name.clone(), own).is_some() {
                let reason = format!("it has a resource `{name}`, too");
                return Err(not_expandable(hot, vdu, &reason));
            }
        }
    }
    Ok(())
}

fn not_expandable(hot: &BaseHot, vdu: &str, reason: &str) -> PortError {
    let detail = format!(
        "`{}` cannot have a resource for each VNFC of VDU `{vdu}`: {reason}",
        hot.template
    );
    let hint = format!(
        "describe a VNFC as a resource `{vdu}` with a nested template of its server, ports and volumes, to which nothing else refers; or send `{CLASS}: {DEFAULT}`"
    );
    package(detail).on(vdu).hint(hint)
}

/// Why the template cannot have a resource for each VNFC of the VDU.
fn obstacle(blueprint: &Blueprint<'_>, top: &Value, vdu: &str) -> Option<String> {
    let resources = top["resources"].as_object()?;
    let Some(definition) = resources.get(vdu) else {
        return Some("it has no resource of that name".to_owned());
    };
    let outputs = top["outputs"].as_object().into_iter().flatten();
    let mut others = resources.iter().chain(outputs);
    if let Some((name, _)) = others.find(|(_, one)| refers(one, vdu)) {
        return Some(format!("`{name}` refers to the resource of that name"));
    }
    let flavour = blueprint.flavour;
    let may_grow = flavour
        .vdus
        .get(vdu)
        .is_some_and(|vdu| flavour.may_grow(vdu));
    if !may_grow && blueprint.deployment.instances_of(vdu) < 2 {
        return None;
    }
    let exclusive = |(name, one): &(&String, &Value)| {
        let kind = one["type"].as_str().unwrap_or_default();
        EXCLUSIVE.contains(&kind) && refers(definition, name)
    };
    let (name, one) = resources.iter().find(exclusive)?;
    let kind = one["type"].as_str().unwrap_or_default();
    Some(format!(
        "its VNFCs would share `{name}`, which is an {kind}"
    ))
}

/// Whether a definition refers to a resource.
pub(crate) fn refers(value: &Value, name: &str) -> bool {
    let names = |value: &Value| match value {
        Value::Array(items) => items.iter().any(|item| item == name),
        one => one == name,
    };
    match value {
        Value::Object(members) => members.iter().any(|(key, value)| match key.as_str() {
            "get_resource" => value == name,
            "get_attr" => value[0] == name || refers(value, name),
            "depends_on" => names(value),
            _ => refers(value, name),
        }),
        Value::Array(items) => items.iter().any(|item| refers(item, name)),
        _ => false,
    }
}

/// The definition with the entries of the VNFC of this index: `[nfv, VDU, web, flavor]` becomes `[nfv, VDU, web-0, flavor]`.
fn indexed(definition: &Value, layouts: &BTreeSet<&str>, index: u32) -> Value {
    match definition {
        Value::Object(members) => {
            let own = members.iter().map(|(key, value)| {
                let path = value.as_array().filter(|_| key == "get_param");
                let own = path.and_then(|path| indexed_path(path, layouts, index));
                let own = own.unwrap_or_else(|| indexed(value, layouts, index));
                (key.clone(), own)
            });
            Value::Object(own.collect::<Map<_, _>>())
        }
        Value::Array(items) => items
            .iter()
            .map(|item| indexed(item, layouts, index))
            .collect(),
        other => other.clone(),
    }
}

/// A path to a member of an entry, with the index of the VNFC; `None` for other paths.
fn indexed_path(path: &[Value], layouts: &BTreeSet<&str>, index: u32) -> Option<Value> {
    let first = path.first()?.as_str()?;
    if path.len() < 4 || !layouts.contains(first) {
        return None;
    }
    let entry = path.get(2)?.as_str()?;
    let mut own = path.to_vec();
    own[2] = format!("{entry}-{index}").into();
    Some(Value::Array(own))
}

#[cfg(test)]
mod tests {
    use crate::base_hot::{expected, template};
    use crate::blueprint::Blueprint;
    use crate::heat::StackTemplate;
    use crate::resolved::{FoundImage, Resolved};
    use crate::testing::{farm_request, new_allocation, package_of, sample, vnfd};
    use serde_json::{Value, json};
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use vnfm_core::ports::{Allocation, PortError};

    fn farm(change: impl FnOnce(&mut Value)) -> Allocation {
        let mut request = farm_request();
        change(&mut request);
        new_allocation(sample("vnf-per-vnfc"), request)
    }

    fn filled(allocation: &Allocation) -> Result<StackTemplate, PortError> {
        let blueprint = Blueprint::read(allocation, "i")?;
        let mut resolved = Resolved::default();
        for vdu in ["web", "database"] {
            let image = FoundImage {
                name: "nfv-image".into(),
                id: None,
            };
            resolved.flavors.insert(vdu.into(), "m1.tiny".into());
            resolved.images.insert(vdu.into(), image);
        }
        let network = ("external".to_owned(), "network-id".to_owned());
        resolved.networks.extend([network]);
        template(&blueprint, blueprint.base_hot.unwrap(), &resolved)
    }

    /// The names of the resources, sorted.
    fn names(template: &StackTemplate) -> BTreeSet<&str> {
        let resources = template.template["resources"].as_object().unwrap();
        resources.keys().map(String::as_str).collect()
    }

    #[test]
    fn each_vnfc_has_a_resource_and_entries_of_its_own() {
        let mut allocation = farm(|_| ());
        let deployment = Arc::make_mut(&mut allocation.deployment);
        deployment.placement.zones = [("compute/web/1".to_owned(), "far".to_owned())].into();
        let stack = filled(&allocation).unwrap();
        let all = ["database-0", "inside", "inside_subnet", "web-0", "web-1"];
        assert_eq!(names(&stack), all.into());
        assert_eq!(
            stack.template["resources"]["web-1"],
            json!({"type": "web.yaml", "depends_on": "inside_subnet", "properties": {
                "name": {"get_param": ["nfv", "VDU", "web-1", "name"]},
                "flavor": {"get_param": ["nfv", "VDU", "web-1", "computeFlavourId"]},
                "image": {"get_param": ["nfv", "VDU", "web-1", "vcImageId"]},
                "zone": {"get_param": ["nfv", "VDU", "web-1", "locationConstraints"]},
                "clients": {"get_param": ["nfv", "CP", "webClients-1", "network"]},
                "inside": {"get_resource": "inside"},
            }})
        );
        let nfv = &stack.parameters["nfv"];
        let vnfc = |name: &str, zone: Option<&str>| {
            json!({"name": name, "flavor": "m1.tiny", "computeFlavourId": "m1.tiny",
                "image": "nfv-image", "vcImageId": "nfv-image", "locationConstraints": zone})
        };
        assert_eq!(nfv["VDU"]["web-0"], vnfc("first-web", None));
        assert_eq!(nfv["VDU"]["web-1"], vnfc("web", Some("far")));
        assert_eq!(nfv["CP"]["webClients-1"], json!({"network": "network-id"}));
        assert!(nfv["VDU"].get("web-2").is_none(), "{nfv:#}");
    }

    #[test]
    fn each_vnfc_has_its_own_addresses() {
        let fixed = |address: &str| {
            json!({"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {
                "ipAddresses": [{"type": "IPV4", "fixedAddresses": [address]}]}}]})
        };
        let allocation = farm(|request| {
            request["extVirtualLinks"][0]["extCps"][0]["cpConfig"] =
                json!({"a": fixed("10.0.0.5"), "b": fixed("10.0.0.6")});
        });
        let nfv = &filled(&allocation).unwrap().parameters["nfv"];
        for (name, address) in [("webClients-0", "10.0.0.5"), ("webClients-1", "10.0.0.6")] {
            let cp = &nfv["CP"][name];
            assert_eq!(cp["fixed_ips"], json!([{"ip_address": address}]), "{name}");
        }
    }

    #[test]
    fn an_instance_keeps_the_resources_that_it_was_created_with() {
        let with = |recorded: Value| {
            let mut allocation = farm(|_| ());
            let deployment = Arc::make_mut(&mut allocation.deployment);
            deployment.vdu_instances.insert("web".into(), 1);
            deployment.resolved = recorded;
            allocation
        };
        let per_vnfc = filled(&with(json!({"perVnfc": true}))).unwrap();
        assert!(names(&per_vnfc).contains("web-0"));
        // An earlier release has no such member: it left the resources as they are, for as many VNFCs as they make.
        let error = filled(&with(json!({"flavors": {}}))).err().unwrap();
        assert!(error.to_string().contains("it cannot be 1"), "{error}");
    }

    #[test]
    fn the_default_class_leaves_the_resources_as_they_are() {
        let allocation = farm(|request| {
            request["additionalParams"]["lcm-operation-user-data-class"] = "DefaultUserData".into();
        });
        let stack = filled(&allocation).unwrap();
        let all = ["database", "inside", "inside_subnet", "web"];
        assert_eq!(names(&stack), all.into());
    }

    const TOP: &str = "heat_template_version: 2018-08-31
parameters: {nfv: {type: json}}
resources:
  server:
    type: server.yaml
    properties: {flavor: {get_param: [nfv, VDU, server, flavor]}}
outputs: {}
";
    const NESTED: &str = "heat_template_version: 2018-08-31
parameters: {flavor: {type: string}}
resources:
  server: {type: OS::Nova::Server, properties: {flavor: {get_param: flavor}}}
";

    /// A package of one VDU that may have three VNFCs.
    fn small(top: &str, nested: &str, class: Option<&str>) -> Allocation {
        let vnfd = vnfd(1, "512 MiB", "1 GiB");
        let vnfd = vnfd.replace("max_number_of_instances: 1", "max_number_of_instances: 3");
        let files = [
            ("vnfd.yaml", vnfd.as_str()),
            ("BaseHOT/simple/top.yaml", top),
            ("BaseHOT/simple/nested/server.yaml", nested),
        ];
        let class = json!({"lcm-operation-user-data-class": class});
        let request = json!({"flavourId": "simple", "additionalParams": class});
        new_allocation(package_of(&files), request)
    }

    fn names_of_small(
        top: &str,
        nested: &str,
        class: Option<&str>,
    ) -> Result<Vec<String>, PortError> {
        let allocation = small(top, nested, class);
        let blueprint = Blueprint::read(&allocation, "i").unwrap();
        let stack = expected(&blueprint)?;
        Ok(names(&stack).into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn other_templates_stay_as_they_are_unless_the_class_requires_more() {
        assert_eq!(names_of_small(TOP, NESTED, None).unwrap(), ["server-0"]);
        let output = "outputs: {it: {value: {get_attr: [server, flavor]}}}\n";
        let group = NESTED.replace("OS::Nova::Server", "OS::Heat::ResourceGroup");
        let port = TOP
            .replace("properties: {", "properties: {port: {get_resource: out}, ")
            .replace("outputs", "  out: {type: OS::Neutron::Port}\noutputs");
        let table = [
            (
                TOP.replace("outputs: {}\n", output),
                NESTED,
                "`it` refers to",
            ),
            (
                port,
                NESTED,
                "would share `out`, which is an OS::Neutron::Port",
            ),
            (
                TOP.replace("  server:\n", "  other:\n"),
                NESTED,
                "no resource of that name",
            ),
            (TOP.to_owned(), group.as_str(), ""),
        ];
        for (top, nested, reason) in table {
            let kept = names_of_small(&top, nested, None).unwrap();
            assert!(!kept.contains(&"server-0".to_owned()), "{kept:?}");
            let required = names_of_small(&top, nested, Some("StandardUserData"));
            let Some(error) = required.err() else {
                assert_eq!(reason, "", "{top}");
                continue;
            };
            assert_eq!(error.resource(), Some("server"));
            assert!(error.to_string().contains(reason), "{error}");
            let hint = error.next();
            assert!(hint.contains("DefaultUserData"), "{hint}");
        }
    }

    #[test]
    fn a_new_vnfc_without_a_name_gets_one_of_heat() {
        let mut allocation = farm(|request| {
            let names = json!({"web-0": {"name": "a"}, "web-1": {"name": "b"}});
            request["additionalParams"]["nfv"]["VDU"] = names;
        });
        let nfv = filled(&allocation).unwrap().parameters["nfv"].clone();
        assert_eq!(nfv["VDU"]["web-1"]["name"], "b");
        let deployment = Arc::make_mut(&mut allocation.deployment);
        deployment.vdu_instances.insert("web".into(), 3);
        let nfv = filled(&allocation).unwrap().parameters["nfv"].clone();
        assert_eq!(nfv["VDU"]["web-2"]["name"], "");
    }

    #[test]
    fn a_value_that_only_a_new_vnfc_lacks_is_named() {
        let coloured = TOP.replace("server, flavor]", "server, colour]");
        let mut allocation = small(&coloured, NESTED, None);
        let deployment = Arc::make_mut(&mut allocation.deployment);
        let colours = json!({"VDU": {"server-0": {"colour": "red"}}});
        deployment
            .additional_params
            .insert("nfv".to_owned(), colours);
        let check =
            |allocation: &Allocation| expected(&Blueprint::read(allocation, "i")?).map(drop);
        check(&allocation).unwrap();
        let deployment = Arc::make_mut(&mut allocation.deployment);
        deployment.vdu_instances.insert("server".into(), 2);
        let error = check(&allocation).unwrap_err();
        assert_eq!(error.resource(), Some("nfv.VDU.server-1.colour"));
        let hint = error.next();
        assert!(
            hint.contains("give `additionalParams.nfv.VDU.server-1.colour`"),
            "{hint}"
        );
    }

    #[test]
    fn a_vnfc_can_have_an_existing_port_and_an_externally_managed_link() {
        let allocation = farm(|request| {
            let link = &mut request["extVirtualLinks"][0];
            link["extCps"][0]["cpConfig"] = json!({"a": {"linkPortId": "own"}});
            link["extLinkPorts"] =
                json!([{"id": "own", "resourceHandle": {"resourceId": "port-id"}}]);
            request["extManagedVirtualLinks"] =
                json!([{"id": "m", "vnfVirtualLinkDescId": "inside", "resourceId": "theirs"}]);
        });
        let stack = expected(&Blueprint::read(&allocation, "i").unwrap()).unwrap();
        assert_eq!(names(&stack), ["database-0", "web-0", "web-1"].into());
        let web = &stack.template["resources"]["web-0"];
        assert_eq!(web["properties"]["inside"], "theirs", "{web:#}");
        assert_eq!(web.get("depends_on"), None, "{web:#}");
        let port = &stack.parameters["nfv"]["CP"]["webClients-0"]["port"];
        assert_eq!(port, "port-id");
    }
}
