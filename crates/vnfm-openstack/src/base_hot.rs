//! The template that a package brings (`BaseHOT/<flavour>/`); the package's mapping fills its parameters.
//!
//! ```text
//! parameters.yaml ─ HotParameters ─┐
//! request ─ resolved ─ VNFD ───────┴─ value ─┬─ found
//!                                            ├─ the binding's default
//!                                            ├─ the template's default: left to Heat
//!                                            └─ nothing: refused, with the line to write
//! ```
//! `nfv` is the layout of Tacker's user data ([`nfv_layout`]). The top-level template may get a resource for each VNFC
//! ([`vnfc_resources`]). Parameters filled from `additionalParams` whose name is a secret's become `hidden`, so that Heat
//! does not show them.

use crate::blueprint::{Blueprint, additional, fingerprint, package};
use crate::errors::PARAMETER;
use crate::get_param::paths_exist;
use crate::heat::StackTemplate;
use crate::hot_text::yaml;
use crate::nfv_layout::Sources;
use crate::package_templates::Templates;
use crate::resolved::{FoundImage, Needs, Resolved};
use crate::{base_hot_sizes, heat_files, managed_links, nfv_layout, user_data, vnfc_resources};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use vnfm_core::is_secret_name;
use vnfm_core::ports::PortError;
use vnfm_descriptor::{BaseHot, Flavour, HotExpression, PARAMETERS_FILE};

/// The template of an instance, with its parameters.
pub(crate) fn template(
    blueprint: &Blueprint<'_>,
    hot: &BaseHot,
    resolved: &Resolved,
) -> Result<StackTemplate, PortError> {
    let templates = Templates::read(blueprint, hot)?;
    if !templates.per_vnfc {
        base_hot_sizes::check(blueprint, hot, &templates.top)?;
    }
    let sources = Sources {
        blueprint,
        resolved,
        templates: &templates,
    };
    let parameters = parameters(hot, &sources)?;
    let mut template = templates.top;
    managed_links::apply(&mut template, &resolved.managed, &hot.template)?;
    paths_exist(&template, &parameters, &hot.template)?;
    hide(&mut template, hot);
    let files = heat_files::files(blueprint, hot, &template)?;
    let environment = hot.environment.as_ref();
    Ok(StackTemplate {
        template,
        files,
        environment: environment.map(|environment| environment.content.clone()),
        parameters,
        fingerprint: fingerprint(blueprint.deployment),
    })
}

/// The template as far as it is known before the cloud is called.
pub(crate) fn expected(blueprint: &Blueprint<'_>) -> Result<StackTemplate, PortError> {
    let flavour = &blueprint.flavour.id;
    let hot = blueprint.base_hot;
    let hot = hot.ok_or_else(|| package(format!("there is no `BaseHOT/{flavour}/`")))?;
    template(blueprint, hot, &assumed(blueprint, hot))
}

/// Whether the instance's template has a resource for each VNFC.
pub(crate) fn is_per_vnfc(blueprint: &Blueprint<'_>) -> Result<bool, PortError> {
    let Some(hot) = blueprint.base_hot else {
        return Ok(false);
    };
    let top = yaml(blueprint, &hot.template)?;
    vnfc_resources::is_per_vnfc(blueprint, hot, &top)
}

/// What to look up on the cloud for the parameters.
pub(crate) fn needs(hot: &BaseHot, flavour: &Flavour) -> Needs {
    let mut needs = Needs::default();
    for binding in hot.parameters.0.values() {
        match &binding.from {
            HotExpression::VduFlavor(vdu) => drop(needs.flavors.insert(vdu.clone())),
            HotExpression::VduImage(vdu) => drop(needs.images.insert(vdu.clone())),
            HotExpression::Nfv => {
                for (name, vdu) in &flavour.vdus {
                    // Where the VNFD leaves them to the template, the template names them itself.
                    let sized = vdu.compute.is_some() || vdu.requested_flavor.is_some();
                    needs.flavors.extend(sized.then(|| name.clone()));
                    needs
                        .images
                        .extend(vdu.image.is_some().then(|| name.clone()));
                }
                let storages = flavour.storages.values();
                let storages = storages.filter(|storage| storage.image.is_some());
                needs.images.extend(storages.map(|one| one.name.clone()));
            }
            _ => {}
        }
    }
    needs
}

/// Placeholders for what the cloud would answer, so that everything else can be checked.
fn assumed(blueprint: &Blueprint<'_>, hot: &BaseHot) -> Resolved {
    let flavour = blueprint.flavour;
    let needs = needs(hot, flavour);
    let name = |name: &String| (name.clone(), name.clone());
    let image = |name: &String| {
        (
            name.clone(),
            FoundImage {
                name: name.clone(),
                id: None,
            },
        )
    };
    let links = &blueprint.deployment.ext_virtual_links;
    let mut images: BTreeMap<String, FoundImage> = needs.images.iter().map(image).collect();
    images.retain(|owner, _| flavour.images().any(|(known, _)| known == owner));
    Resolved {
        flavors: needs.flavors.iter().map(name).collect(),
        images,
        networks: links.iter().map(|link| name(&link.id)).collect(),
        managed: blueprint.deployment.placement.managed_links.clone(),
        ..Resolved::default()
    }
}

fn parameters(hot: &BaseHot, from: &Sources<'_>) -> Result<Map<String, Value>, PortError> {
    let mut filled = Map::new();
    for declared in &hot.declared {
        let binding = hot.parameters.0.get(&declared.name);
        let value = match binding {
            Some(binding) => from
                .value(&binding.from, hot)?
                .or_else(|| binding.default.clone()),
            None => None,
        };
        if let Some(value) = value {
            filled.insert(declared.name.clone(), value);
        } else if !declared.has_default {
            return Err(missing(from.blueprint, hot, &declared.name));
        }
    }
    Ok(filled)
}

fn missing(blueprint: &Blueprint<'_>, hot: &BaseHot, name: &str) -> PortError {
    let action = format!("fill parameter `{name}` of `{}`", hot.template);
    let Some(binding) = hot.parameters.0.get(name) else {
        let detail = match user_data::own(blueprint) {
            Some(user_data) => format!(
                "nothing fills it; {user_data} may compute it, but Python of a package is not run"
            ),
            None => "nothing fills it".to_owned(),
        };
        return PortError::new(&PARAMETER, action, detail).on(name).hint(format!(
            "`vnfmctl package mapping PACKAGE` writes a first version of `{PARAMETERS_FILE}`; there, add the line `{name}: additionalParams.{name}` (or another expression) to `parameters`"
        ));
    };
    let from = &binding.from;
    let detail = format!(
        "its mapping is `{}`, which has no value here",
        expression_text(from)
    );
    PortError::new(&PARAMETER, action, detail)
        .on(name)
        .hint(hint_for(from, name))
}

fn hint_for(from: &HotExpression, name: &str) -> String {
    match from {
        HotExpression::AdditionalParam(path) => {
            format!("give `additionalParams.{}` in the request", path.join("."))
        }
        HotExpression::ExtCpNetwork(cp) => {
            format!("bind CP `{cp}` in the request: `extVirtualLinks[].extCps[].cpdId`")
        }
        HotExpression::ExtCpAddress(cp) | HotExpression::ExtCpSubnet(cp) => format!(
            "give CP `{cp}` an address in the request: `extVirtualLinks[].extCps[].cpConfig.*.cpProtocolData[].ipOverEthernet.ipAddresses[]`"
        ),
        other => format!(
            "write a default: `{name}: {{from: {}, default: …}}` in `{PARAMETERS_FILE}`",
            expression_text(other)
        ),
    }
}

/// An expression as the mapping writes it.
fn expression_text(from: &HotExpression) -> String {
    match from {
        HotExpression::VduFlavor(vdu) => format!("vdu.{vdu}.flavor"),
        HotExpression::VduImage(vdu) => format!("vdu.{vdu}.image"),
        HotExpression::VduCount(vdu) => format!("vdu.{vdu}.count"),
        HotExpression::VduZone(vdu) => format!("vdu.{vdu}.zone"),
        HotExpression::ExtCpNetwork(cp) => format!("extCp.{cp}.network"),
        HotExpression::ExtCpSubnet(cp) => format!("extCp.{cp}.subnet"),
        HotExpression::ExtCpAddress(cp) => format!("extCp.{cp}.address"),
        HotExpression::VirtualLinkCidr(link) => format!("virtualLink.{link}.cidr"),
        HotExpression::StorageSize(storage) => format!("storage.{storage}.size"),
        HotExpression::AdditionalParam(path) => format!("additionalParams.{}", path.join(".")),
        HotExpression::InstanceId => "instance.id".into(),
        HotExpression::InstanceName => "instance.name".into(),
        HotExpression::FlavourId => "instance.flavour".into(),
        HotExpression::Nfv => "nfv".into(),
        _ => "a literal".into(),
    }
}

impl Sources<'_> {
    /// The value of an expression; `None` if it has none.
    fn value(&self, from: &HotExpression, hot: &BaseHot) -> Result<Option<Value>, PortError> {
        let flavour = self.blueprint.flavour;
        Ok(match from {
            HotExpression::VduFlavor(vdu) => self.resolved.flavors.get(vdu).map(|name| json!(name)),
            HotExpression::VduImage(vdu) => self.resolved.image(vdu).map(|image| json!(image)),
            HotExpression::VduCount(vdu) => {
                Some(json!(self.blueprint.deployment.instances_of(vdu)))
            }
            HotExpression::VduZone(vdu) => self.blueprint.zone_of(vdu)?.map(|zone| json!(zone)),
            HotExpression::ExtCpNetwork(cp) => self
                .resolved
                .network_of(self.blueprint, cp)
                .map(|network| json!(network)),
            HotExpression::ExtCpSubnet(cp) => self.fixed(cp, "subnet"),
            HotExpression::ExtCpAddress(cp) => self.fixed(cp, "ip_address"),
            HotExpression::VirtualLinkCidr(link) => flavour
                .virtual_links
                .get(link)
                .and_then(|link| link.cidr.as_ref())
                .map(|cidr| json!(cidr)),
            HotExpression::StorageSize(storage) => flavour
                .storages
                .get(storage)
                .and_then(|one| one.size_gib)
                .map(|size| json!(size)),
            HotExpression::AdditionalParam(path) => {
                additional(self.blueprint.deployment, path).cloned()
            }
            HotExpression::InstanceId => Some(json!(self.blueprint.instance)),
            HotExpression::InstanceName => self.blueprint.instance_name.map(|name| json!(name)),
            HotExpression::FlavourId => Some(json!(flavour.id)),
            HotExpression::Nfv => Some(nfv_layout::values(self, hot)?),
            HotExpression::Literal(value) => Some(value.clone()),
            other => {
                let detail = format!("the mapping has an expression that is not known: {other:?}");
                return Err(package(detail));
            }
        })
    }

    /// One member of the first address that the request gives a CP.
    fn fixed(&self, cp: &str, member: &str) -> Option<Value> {
        nfv_layout::fixed_ips(self.blueprint, cp, 0)
            .into_iter()
            .find_map(|entry| entry.get(member).cloned())
    }
}

/// Hides the parameters that carry secrets of the request.
fn hide(template: &mut Value, hot: &BaseHot) {
    for (name, binding) in &hot.parameters.0 {
        let HotExpression::AdditionalParam(path) = &binding.from else {
            continue;
        };
        let secret = is_secret_name(name) || path.iter().any(|part| is_secret_name(part));
        let declared = template
            .pointer_mut("/parameters")
            .and_then(|all| all.get_mut(name));
        if let (true, Some(Value::Object(declared))) = (secret, declared) {
            declared.insert("hidden".into(), Value::Bool(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cluster_request, new_allocation, package_of, sample, vnfd};
    use vnfm_core::ports::Allocation;

    fn prepared() -> Resolved {
        let mut prepared = Resolved::default();
        for vdu in ["masterNode", "workerNode", "server"] {
            prepared.flavors.insert(vdu.into(), "m1.tiny".into());
            prepared.images.insert(
                vdu.into(),
                FoundImage {
                    name: "nfv-image".into(),
                    id: Some("image-id".into()),
                },
            );
        }
        prepared
            .networks
            .insert("external".into(), "network-id".into());
        prepared
    }

    fn filled_template(
        allocation: &Allocation,
        resolved: &Resolved,
        instance: &str,
    ) -> Result<StackTemplate, PortError> {
        let blueprint = Blueprint::read(allocation, instance)?;
        template(&blueprint, blueprint.base_hot.unwrap(), resolved)
    }

    fn check_request(allocation: &Allocation) -> Result<(), PortError> {
        expected(&Blueprint::read(allocation, "instance")?).map(drop)
    }

    fn with(template: &str, mapping: Option<&str>, request: Value) -> Allocation {
        let vnfd = vnfd(1, "512 MiB", "1 GiB");
        let mut files = vec![
            ("vnfd.yaml", vnfd.as_str()),
            ("BaseHOT/simple/top.yaml", template),
        ];
        files.extend(mapping.map(|mapping| ("Files/openstack/parameters.yaml", mapping)));
        new_allocation(package_of(&files), request)
    }

    #[test]
    fn the_sample_is_filled_from_request_vnfd_and_cloud() {
        let allocation = new_allocation(sample("vnf-a-k8s-cluster-base-hot"), cluster_request());
        let result = filled_template(&allocation, &prepared(), "i-1").unwrap();
        assert_eq!(
            Value::Object(result.parameters),
            json!({
                "master_flavor": "m1.tiny",
                "master_image": "image-id",
                "worker_flavor": "m1.tiny",
                "worker_image": "image-id",
                "worker_count": 2,
                "external_network": "network-id",
                "internal_range": "10.10.0.0/24",
            })
        );
        let nested = result
            .files
            .get("worker.yaml")
            .and_then(Value::as_str)
            .unwrap();
        assert!(nested.contains("workerNodeExternalCP"));
        assert_eq!(result.template["heat_template_version"], "2018-08-31");
    }

    #[test]
    fn the_layout_of_tackers_user_data_is_filled() {
        let template = "heat_template_version: 2018-08-31
parameters: {nfv: {type: json}}
resources:
  server:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: [nfv, VDU, server, computeFlavourId]}
      image: {get_param: [nfv, VDU, server, vcImageId]}
";
        let allocation = with(template, None, json!({"flavourId": "simple"}));
        check_request(&allocation).unwrap();
        let result = filled_template(&allocation, &prepared(), "i-1").unwrap();
        assert_eq!(
            result.parameters["nfv"]["VDU"]["server"],
            json!({"desired_capacity": 1, "flavor": "m1.tiny", "computeFlavourId": "m1.tiny", "image": "image-id", "vcImageId": "image-id",
                "locationConstraints": null})
        );
        let mut overridden = json!({"flavourId": "simple"});
        overridden["additionalParams"] =
            json!({"nfv": {"VDU": {"server": {"computeName": "one", "flavor": null}}}});
        let overridden = with(template, None, overridden);
        let result = filled_template(&overridden, &prepared(), "i-1").unwrap();
        assert_eq!(
            result.parameters["nfv"]["VDU"]["server"],
            json!({"desired_capacity": 1, "computeName": "one", "computeFlavourId": "m1.tiny", "image": "image-id", "vcImageId": "image-id",
                "locationConstraints": null})
        );
        let old = template.replace("VDU, server, vcImageId", "vdu, server, zone");
        let allocation = with(&old, None, json!({"flavourId": "simple"}));
        let result = filled_template(&allocation, &prepared(), "i-1").unwrap();
        assert_eq!(
            result.parameters["nfv"]["vdu"],
            json!({"server": {"zone": null}})
        );
        let asks_more = template.replace("vcImageId", "bootSpeed");
        let error =
            check_request(&with(&asks_more, None, json!({"flavourId": "simple"}))).unwrap_err();
        assert_eq!(error.name(), "base-hot.parameter-missing");
        assert!(
            error.to_string().contains("`nfv.VDU.server.bootSpeed`"),
            "{error}"
        );
    }

    #[test]
    fn a_parameter_that_nothing_fills_is_refused_by_name_with_what_to_do() {
        let template = "heat_template_version: 2018-08-31
parameters: {speed: {type: string}, colour: {type: string, default: red}}
resources: {r: {type: OS::Heat::Value, properties: {value: {get_param: speed}}}}
";
        let mapped = "parameters: {speed: additionalParams.speed}\n";
        let request = || json!({"flavourId": "simple"});
        let error = check_request(&with(template, Some(mapped), request())).unwrap_err();
        assert_eq!(error.resource(), Some("speed"));
        assert!(
            error.next().contains("give `additionalParams.speed`"),
            "{}",
            error.next()
        );
        let mut filled = request();
        filled["additionalParams"] = json!({"speed": "fast"});
        check_request(&with(template, Some(mapped), filled)).unwrap();
        let defaulted = "parameters: {speed: {from: additionalParams.speed, default: slow}}\n";
        let result = filled_template(
            &with(template, Some(defaulted), request()),
            &prepared(),
            "i",
        )
        .unwrap();
        assert_eq!(Value::Object(result.parameters), json!({"speed": "slow"}));
    }

    #[test]
    fn what_only_python_of_the_package_would_compute_is_refused_with_the_command_that_helps() {
        let template = "heat_template_version: 2018-08-31
parameters: {speed: {type: string}}
resources: {r: {type: OS::Heat::Value, properties: {value: {get_param: speed}}}}
";
        let refusal = |class: Option<&str>| {
            let vnfd = vnfd(1, "512 MiB", "1 GiB");
            let files = [
                ("vnfd.yaml", vnfd.as_str()),
                ("BaseHOT/simple/top.yaml", template),
                ("UserData/base.py", "raise SystemExit"),
            ];
            let params = json!({"lcm-operation-user-data": "UserData/base.py", "lcm-operation-user-data-class": class});
            let request = json!({"flavourId": "simple", "additionalParams": params});
            let error = check_request(&new_allocation(package_of(&files), request)).unwrap_err();
            assert_eq!(error.resource(), Some("speed"));
            let hint = error.next().to_owned();
            assert!(hint.contains("`vnfmctl package mapping PACKAGE`"), "{hint}");
            error.to_string()
        };
        let own = refusal(Some("BaseUserData"));
        assert!(own.contains("class `BaseUserData` may compute it"), "{own}");
        let unnamed = refusal(None);
        assert!(
            unnamed.contains("`UserData/base.py` may compute it"),
            "{unnamed}"
        );
        let tackers = refusal(Some("DefaultUserData"));
        assert!(!tackers.contains("compute"), "{tackers}");
    }

    #[test]
    fn a_parameter_with_a_secret_of_the_request_is_hidden() {
        let template = "heat_template_version: 2018-08-31
parameters: {root_password: {type: string}, colour: {type: string}}
resources: {r: {type: OS::Heat::Value, properties: {value: {get_param: root_password}}}}
";
        let mapping = "parameters: {root_password: additionalParams.root_password, colour: additionalParams.colour}\n";
        let request = json!({"flavourId": "simple", "additionalParams": {"root_password": "x", "colour": "red"}});
        let result =
            filled_template(&with(template, Some(mapping), request), &prepared(), "i").unwrap();
        assert_eq!(
            result.template["parameters"]["root_password"]["hidden"],
            true
        );
        assert!(
            result.template["parameters"]["colour"]
                .get("hidden")
                .is_none()
        );
    }
}
