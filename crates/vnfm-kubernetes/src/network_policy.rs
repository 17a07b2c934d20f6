//! The rule `namespaces` for networks: pods must not reach networks in namespaces that an instance must not use.
//!
//! Multus reads a network from whatever namespace an annotation names, unless the cluster isolates namespaces. So every
//! annotation in every kind of object is checked, and the networks of virtual machines (`multus.networkName`).

use crate::errors::POLICY;
use crate::item::Item;
use crate::manifests::Plan;
use crate::network_annotations::{DEFAULT_NETWORK, NETWORKS, NetworkName, selections};
use crate::pod_security::{is_data, walk};
use serde_json::{Map, Value};
use vnfm_core::ports::PortError;
use vnfm_types::VimPolicy;

/// Checks the networks that links of the request name.
///
/// # Errors
///
/// `Refused`, naming the network.
pub(crate) fn permit_links(plan: &Plan, policy: &VimPolicy) -> Result<(), PortError> {
    let mut networks = plan.attachments.iter();
    let is_refused = |network: &NetworkName| {
        let namespace = network.namespace.as_deref();
        namespace.is_some_and(|name| name != plan.namespace && !policy.allows_namespace(name))
    };
    match networks.find(|one| is_refused(&one.network)) {
        None => Ok(()),
        Some(one) => {
            let action = format!("connect the connection point `{}`", one.cpd);
            let network = &one.network;
            let detail = format!("the rule `namespaces` does not allow the network `{network}`");
            Err(PortError::new(&POLICY, action, detail).on(format!("network `{network}`")))
        }
    }
}

/// The first network of an object that the rule does not allow, as a sentence.
pub(crate) fn foreign_network(item: &Item, plan: &Plan, policy: &VimPolicy) -> Option<String> {
    if policy.namespaces.is_none() || is_data(&item.object) {
        return None;
    }
    let own = item.namespace.as_deref().unwrap_or(&plan.namespace);
    let mut found = None;
    walk(&item.object, "", &mut |path, members| {
        found = found.take().or_else(|| {
            let foreign = names(path, members, own).into_iter().find(|network| {
                let namespace = network.namespace.as_deref().unwrap_or(own);
                namespace != plan.namespace
                    && namespace != own
                    && !policy.allows_namespace(namespace)
            })?;
            Some(format!(
                "the rule `namespaces` does not allow the network `{foreign}` in `{path}`"
            ))
        });
    });
    found
}

/// The networks that the members of an object name. One that cannot be read counts as a network in no allowed namespace.
fn names(path: &str, members: &Map<String, Value>, own: &str) -> Vec<NetworkName> {
    let machine = path.ends_with("multus").then_some("networkName");
    let texts = [NETWORKS, DEFAULT_NETWORK].into_iter().chain(machine);
    let mut found = Vec::new();
    for text in texts.filter_map(|name| members.get(name)?.as_str()) {
        match selections(text, own) {
            Ok(all) => found.extend(all.into_iter().map(|one| one.network)),
            Err(_) => found.push(NetworkName {
                namespace: Some(String::new()),
                name: "unreadable".to_owned(),
            }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::item_for_test;
    use serde_json::json;

    fn foreign(annotation: &str) -> Option<String> {
        let template = json!({"metadata": {"annotations": {NETWORKS: annotation}}, "spec": {"containers": []}});
        foreign_in(&json!({"template": template}))
    }

    fn foreign_in(spec: &Value) -> Option<String> {
        let item = item_for_test(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}),
        );
        let plan = Plan {
            namespace: "mine".to_owned(),
            ..Plan::default()
        };
        let policy = VimPolicy {
            namespaces: Some(vec!["mine".to_owned(), "shared-*".to_owned()]),
            ..VimPolicy::OPEN
        };
        foreign_network(&item, &plan, &policy)
    }

    #[test]
    fn a_network_in_another_namespace_is_refused_in_any_form() {
        for allowed in ["", "oam", "mine/oam@net1, shared-oam/data"] {
            assert_eq!(foreign(allowed), None, "{allowed}");
        }
        for refused in [
            "other/oam",
            "oam,other/oam",
            "[{\"name\": \"oam\", \"namespace\": \"other\"}]",
            "[{\"name\": \"oam\", \"namespace\": \"other\"",
            // Multus ignores the case of members, and so does this.
            "[{\"name\": \"oam\", \"Namespace\": \"other\"}]",
            "[{\"name\": \"oam\", \"name\u{17f}pace\": \"other\"}]",
        ] {
            let found = foreign(refused).unwrap();
            assert!(
                found.contains("`spec.template.metadata.annotations`"),
                "{found}"
            );
        }
        let default = json!({"metadata": {"annotations": {DEFAULT_NETWORK: "other/pods"}}});
        assert!(foreign_in(&json!({"template": default})).is_some());
        let machine = json!({"networks": [{"name": "a", "multus": {"networkName": "other/oam"}}]});
        assert!(foreign_in(&json!({"template": {"spec": machine}})).is_some());
    }
}
