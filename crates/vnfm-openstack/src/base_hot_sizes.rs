//! Which numbers of VNFCs a package's own template can have.
//!
//! The number at the instantiation level may be written in the template. Any other needs a parameter that carries it:
//! `vdu.<vdu>.count` of the mapping, or `desired_capacity` in the layout of Tacker's user data. A template with a resource
//! for each VNFC is not checked: it can have any number.

use crate::blueprint::Blueprint;
use crate::errors::PARAMETER;
use crate::get_param::{is_path, reads};
use serde_json::Value;
use vnfm_core::ports::PortError;
use vnfm_descriptor::{BaseHot, HotExpression, PARAMETERS_FILE};

/// Refuses a number of VNFCs that no parameter carries, by VDU.
///
/// # Errors
///
/// `Refused`, with the line to add to the mapping.
pub(crate) fn check(
    blueprint: &Blueprint<'_>,
    hot: &BaseHot,
    top: &Value,
) -> Result<(), PortError> {
    let (flavour, deployment) = (blueprint.flavour, blueprint.deployment);
    let level = deployment.instantiation_level_id.as_deref();
    for vdu in flavour.vdus.keys() {
        let desired = deployment.instances_of(vdu);
        let at_level = flavour.instances_of(vdu, level);
        if at_level.is_ok_and(|count| count == desired) || carries(hot, top, vdu) {
            continue;
        }
        let action = format!("change the number of VNFCs of VDU `{vdu}`");
        let detail = format!(
            "no parameter of `{}` carries it, so it cannot be {desired}",
            hot.template
        );
        let hint = format!(
            "add a parameter for the size of the group, and its line `NAME: vdu.{vdu}.count` to `{PARAMETERS_FILE}`"
        );
        return Err(PortError::new(&PARAMETER, action, detail)
            .on(vdu)
            .hint(hint));
    }
    Ok(())
}

/// Whether a parameter of the top-level template carries the VDU's number of VNFCs.
pub(crate) fn carries(hot: &BaseHot, top: &Value, vdu: &str) -> bool {
    let expressions = || hot.parameters.0.values().map(|binding| &binding.from);
    if expressions().any(|from| matches!(from, HotExpression::VduCount(of) if of == vdu)) {
        return true;
    }
    let is_match = |path: &[Value]| {
        path.first()
            .is_some_and(|_| is_path(&path[1..], &["VDU", vdu, "desired_capacity"]))
    };
    expressions().any(|from| matches!(from, HotExpression::Nfv)) && reads(top, &is_match)
}

#[cfg(test)]
mod tests {
    use crate::blueprint::Blueprint;
    use crate::hot_text::yaml;
    use crate::testing::{new_allocation, package_of, vnfd};
    use serde_json::json;
    use std::sync::Arc;
    use vnfm_core::ports::PortError;

    const FIXED: &str = "heat_template_version: 2018-08-31
parameters: {nfv: {type: json, default: {}}, size: {type: number, default: 1}}
resources:
  group:
    type: OS::Heat::ResourceGroup
    properties: {count: 1, resource_def: {type: OS::Heat::None}}
";

    /// Checks an instance of a package with this template and mapping, which has `count` servers.
    fn check(template: &str, mapping: Option<&str>, count: u32) -> Result<(), PortError> {
        let vnfd = vnfd(1, "512 MiB", "1 GiB");
        let mut files = vec![
            ("vnfd.yaml", vnfd.as_str()),
            ("BaseHOT/simple/top.yaml", template),
        ];
        files.extend(mapping.map(|mapping| ("Files/openstack/parameters.yaml", mapping)));
        let request = json!({"flavourId": "simple"});
        let mut allocation = new_allocation(package_of(&files), request);
        let deployment = Arc::make_mut(&mut allocation.deployment);
        deployment.vdu_instances.insert("server".into(), count);
        let blueprint = Blueprint::read(&allocation, "instance").unwrap();
        let hot = blueprint.base_hot.unwrap();
        super::check(&blueprint, hot, &yaml(&blueprint, &hot.template)?)
    }

    #[test]
    fn another_size_needs_a_parameter_that_carries_it() {
        check(FIXED, None, 1).unwrap();
        let error = check(FIXED, None, 2).unwrap_err();
        assert_eq!(error.name(), "base-hot.parameter-missing");
        assert_eq!(error.resource(), Some("server"));
        assert!(error.to_string().contains("cannot be 2"), "{error}");
        assert!(error.next().contains("NAME: vdu.server.count"), "{error}");
        let mapping = "parameters: {size: vdu.server.count}\n";
        check(FIXED, Some(mapping), 2).unwrap();
        let read = "{get_param: [nfv, VDU, server, desired_capacity]}";
        check(
            &FIXED.replace("count: 1", &format!("count: {read}")),
            None,
            2,
        )
        .unwrap();
        let other = read.replace("desired_capacity", "flavor");
        check(
            &FIXED.replace("count: 1", &format!("count: {other}")),
            None,
            2,
        )
        .unwrap_err();
    }
}
