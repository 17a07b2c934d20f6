//! Makes the pods of a plan request the networks that they are attached to.
//!
//! ```text
//! attach       an entry of the annotation for each connection point; entries of the manifest stay, and come first
//! require      every network exists, or the package brings it
//! add_devices  a network with a resource (`k8s.v1.cni.cncf.io/resourceName`, such as `intel.com/sriov`): one for each entry
//! ```
//! A network that the manifest requests already is not requested again: the connection point has that interface. Names of
//! interfaces are `net` and the position of the CP in its VDU, so that another network never renames an interface.

use crate::attachments::{self, Attachment, Link, OwnNetworks, Pods, cp_error};
use crate::catalog::Catalog;
use crate::client::Session;
use crate::errors::{FORBIDDEN, MANIFEST, NETWORK};
use crate::identifiers::is_qualified;
use crate::item::Item;
use crate::labels::member_mut;
use crate::manifests::Plan;
use crate::network_annotations::{API_VERSION, KIND, NETWORKS, NetworkName, Selection, selections};
use crate::object::find_metadata;
use crate::replicas::{has_replicas, replicas, vdu_of};
use crate::requested;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::Flavour;

/// Annotation of a network: the extended resource of which each of its interfaces needs one.
const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";

/// Attaches the pods of the plan to their networks, and records the attachments in it.
///
/// # Errors
///
/// `Refused`, naming the connection point that no workload can have, one that has no network though the package has no
/// manifests, or the annotation of a manifest that cannot be read.
pub(crate) fn attach(plan: &mut Plan, allocation: &Allocation) -> Result<(), PortError> {
    let mut all = attachments::attachments(allocation, &own_networks(plan))?;
    let flavour = requested::flavour(allocation);
    if let Some(cpd) = flavour
        .as_deref()
        .and_then(|flavour| untranslated(flavour, &all))
    {
        let what = "no network is named for it, and the package has only its VNFD";
        let hint =
            "connect it in `extVirtualLinks`, or its internal link in `extManagedVirtualLinks`";
        return Err(cp_error(cpd, what).hint(hint));
    }
    if all.is_empty() {
        return Ok(());
    }
    let mut attached = BTreeSet::new();
    for item in plan.stages.iter_mut().flatten() {
        if template_mut(item).is_none() {
            continue;
        }
        let namespace = item.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| plan.namespace.clone());
        let mut own = Vec::new();
        for (index, one) in all.iter_mut().enumerate() {
            if !one.by_chart && is_for(&one.pods, item, flavour.as_deref()) {
                one.network = one.network.seen_from(&namespace);
                attached.insert(index);
                own.push(one.clone());
            }
        }
        own.sort_by_key(|one| one.position);
        own.iter().try_for_each(|one| check_addresses(one, item))?;
        request_networks(item, &own, &namespace)?;
    }
    for one in &mut all {
        one.network = one.network.seen_from(&plan.namespace);
    }
    let is_required = |one: &Attachment| !one.by_chart && !matches!(one.link, Link::Internal(_));
    let mut missing = all.iter().enumerate();
    if let Some((_, one)) =
        missing.find(|(index, one)| is_required(one) && !attached.contains(index))
    {
        return Err(no_workload(one));
    }
    plan.attachments = all;
    Ok(())
}

/// A connection point that would have no interface, though nothing but the descriptor says what is deployed.
fn untranslated<'f>(flavour: &'f Flavour, all: &[Attachment]) -> Option<&'f str> {
    flavour.workloads.as_ref()?;
    attachments::unattached(flavour, all).into_iter().next()
}

/// The networks that the package brings.
fn own_networks(plan: &Plan) -> OwnNetworks {
    let networks = plan.items().filter(|item| is_network(item));
    let named = networks.map(|item| (item.name.clone(), item.namespace.clone()));
    named.collect()
}

fn is_network(item: &Item) -> bool {
    item.kind == KIND && item.api_version == API_VERSION
}

fn is_for(pods: &Pods, item: &Item, flavour: Option<&Flavour>) -> bool {
    match pods {
        Pods::Any => false,
        Pods::Workload(name) => *name == item.name,
        Pods::Vdu(vdu) => {
            let own = flavour.and_then(|flavour| vdu_of(flavour, &item.kind, &item.name));
            own.is_some_and(|own| own.name == *vdu)
        }
    }
}

fn no_workload(one: &Attachment) -> PortError {
    let what = match &one.pods {
        Pods::Workload(name) => {
            format!(
                "its `resourceMapping` is `{name}`, and no workload of the application has this name"
            )
        }
        _ => "no workload runs its VDU".to_owned(),
    };
    let hint = "networks can be attached to the pods of a Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob";
    cp_error(&one.cpd, what).hint(hint)
}

/// A fixed address is for one pod.
fn check_addresses(one: &Attachment, item: &Item) -> Result<(), PortError> {
    let is_fixed = !one.ips.is_empty() || one.mac.is_some();
    let is_single = has_replicas(&item.kind) && replicas(&item.object) <= 1;
    if !is_fixed || is_single {
        return Ok(());
    }
    let (kind, name) = (&item.kind, &item.name);
    let what = format!(
        "it has a fixed address, and all pods of {kind} `{name}` would get it: it must have one replica"
    );
    Err(cp_error(&one.cpd, what))
}

/// The pod template of a workload. A Pod has none: its networks can never change.
fn template_mut(item: &mut Item) -> Option<&mut Value> {
    let path = match item.kind.as_str() {
        "CronJob" => "/spec/jobTemplate/spec/template",
        _ => "/spec/template",
    };
    let template = item.object.pointer_mut(path)?;
    template
        .pointer("/spec/containers")?
        .is_array()
        .then_some(template)
}

fn template(item: &Item) -> Option<&Value> {
    let path = match item.kind.as_str() {
        "CronJob" => "/spec/jobTemplate/spec/template",
        _ => "/spec/template",
    };
    item.object.pointer(path)
}

fn requested_networks(item: &Item, namespace: &str) -> Result<Vec<Selection>, PortError> {
    let text =
        template(item).and_then(|template| template["metadata"]["annotations"].get(NETWORKS));
    let text = text.and_then(Value::as_str).unwrap_or_default();
    selections(text, namespace).map_err(|reason| {
        let action = format!("use `{}` of the package", item.location);
        PortError::new(
            &MANIFEST,
            action,
            format!("annotation `{NETWORKS}`: {reason}"),
        )
        .on(format!("{} `{}`", item.kind, item.name))
    })
}

/// Adds the entries that the manifest does not have.
fn request_networks(item: &mut Item, own: &[Attachment], namespace: &str) -> Result<(), PortError> {
    if own.is_empty() {
        return Ok(());
    }
    let stated = requested_networks(item, namespace)?;
    let mut interfaces: BTreeSet<String> = stated.iter().map(|one| one.interface.clone()).collect();
    let mut entries: Vec<Value> = stated.iter().map(|one| one.entry.clone().into()).collect();
    let mut taken = BTreeSet::new();
    for one in own {
        let is_plain = one.ips.is_empty() && one.mac.is_none();
        let same = |(index, stated): &(usize, &Selection)| {
            is_plain && stated.network == one.network && !taken.contains(index)
        };
        if let Some((index, _)) = stated.iter().enumerate().find(same) {
            taken.insert(index);
            continue;
        }
        let mut numbers = one.position + stated.len()..;
        let names = numbers.by_ref().map(|number| format!("net{number}"));
        let interface = names.into_iter().find(|name| !interfaces.contains(name));
        let interface = interface.unwrap_or_default();
        interfaces.insert(interface.clone());
        entries.push(entry(one, &interface));
    }
    if entries.len() == stated.len() {
        return Ok(());
    }
    let list = Value::from(entries).to_string();
    let annotations = template_mut(item)
        .and_then(|template| member_mut(template, "metadata"))
        .and_then(|metadata| member_mut(metadata, "annotations"));
    if let Some(annotations) = annotations {
        annotations[NETWORKS] = list.into();
    }
    Ok(())
}

/// The entry of an attachment, as Multus reads it.
fn entry(one: &Attachment, interface: &str) -> Value {
    let mut entry = json!({"name": one.network.name, "interface": interface});
    if let Some(namespace) = &one.network.namespace {
        entry["namespace"] = namespace.as_str().into();
    }
    if !one.ips.is_empty() {
        entry["ips"] = json!(one.ips);
    }
    if let Some(mac) = &one.mac {
        entry["mac"] = mac.as_str().into();
    }
    entry
}

/// Refuses a plan whose pods would wait for a network that does not exist.
///
/// # Errors
///
/// `Refused`, naming the network, or the permission that is missing to look for it.
pub(crate) async fn require(session: &Session<'_>, plan: &Plan) -> Result<(), PortError> {
    let wanted: BTreeMap<&NetworkName, &Attachment> = plan
        .attachments
        .iter()
        .map(|one| (&one.network, one))
        .collect();
    let wanted = wanted
        .into_iter()
        .filter(|(network, _)| find_item(plan, network).is_none());
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let catalog = Catalog::new(session, plan.items().map(|item| &item.object));
    let is_served = catalog.find(API_VERSION, KIND).await?.is_some();
    for (network, one) in wanted {
        let missing = if !is_served {
            format!("the cluster serves no {KIND}: it has no Multus")
        } else if find_metadata(session, &network.target()).await?.is_none() {
            format!("the cluster has no {KIND} `{network}`")
        } else {
            continue;
        };
        let action = format!("connect the connection point `{}`", one.cpd);
        return Err(PortError::new(&NETWORK, action, missing).on(format!("{KIND} `{network}`")));
    }
    Ok(())
}

/// The network as an object of the package.
fn find_item<'p>(plan: &'p Plan, network: &NetworkName) -> Option<&'p Item> {
    let is_it = |item: &&Item| {
        let namespace = item.namespace.as_ref().unwrap_or(&plan.namespace);
        is_network(item)
            && item.name == network.name
            && Some(namespace) == network.namespace.as_ref()
    };
    plan.items().find(is_it)
}

/// Gives the pods of the plan the devices that their networks need: requests and limits of the first container, unless a
/// container states them.
///
/// # Errors
///
/// The API server's error; a network that does not exist, or cannot be read, needs no device.
pub(crate) async fn add_devices(session: &Session<'_>, plan: &mut Plan) -> Result<(), PortError> {
    let networks = plan.attachments.iter().filter(|one| !one.by_chart);
    let networks: BTreeSet<NetworkName> = networks.map(|one| one.network.clone()).collect();
    let mut resources = BTreeMap::new();
    for network in networks {
        if let Some(resource) = resource_name(session, plan, &network).await? {
            resources.insert(network, resource);
        }
    }
    if resources.is_empty() {
        return Ok(());
    }
    let default = plan.namespace.clone();
    for item in plan.stages.iter_mut().flatten() {
        let namespace = item.namespace.clone().unwrap_or_else(|| default.clone());
        let mut needed: BTreeMap<&String, u32> = BTreeMap::new();
        for one in requested_networks(item, &namespace).unwrap_or_default() {
            if let Some(resource) = resources.get(&one.network) {
                *needed.entry(resource).or_default() += 1;
            }
        }
        if let Some(template) = template_mut(item) {
            for (resource, number) in needed {
                add_device(template, resource, number);
            }
        }
    }
    Ok(())
}

/// The extended resource that a network needs.
async fn resource_name(
    session: &Session<'_>,
    plan: &Plan,
    network: &NetworkName,
) -> Result<Option<String>, PortError> {
    let name = match find_item(plan, network) {
        Some(item) => item.object["metadata"]["annotations"][RESOURCE_NAME]
            .as_str()
            .map(str::to_owned),
        None => match find_metadata(session, &network.target()).await {
            Err(error) if error.code() == &FORBIDDEN => None,
            found => found?
                .and_then(|metadata| metadata.annotations)
                .and_then(|mut annotations| annotations.remove(RESOURCE_NAME)),
        },
    };
    Ok(name.filter(|name| name.contains('/') && is_qualified(name)))
}

fn add_device(template: &mut Value, resource: &str, number: u32) {
    let lists = ["requests", "limits"];
    let Some(containers) = template
        .pointer_mut("/spec/containers")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let states_it = |container: &Value| {
        let mut lists = lists.iter();
        lists.any(|list| container["resources"][list].get(resource).is_some())
    };
    if containers.iter().any(states_it) {
        return;
    }
    let Some(first) = containers.first_mut() else {
        return;
    };
    for list in lists {
        let amounts = member_mut(first, "resources").and_then(|all| member_mut(all, list));
        if let Some(amounts) = amounts {
            amounts[resource] = number.to_string().into();
        }
    }
}

/// Copies networks and devices of the plan to what helm renders again.
pub(crate) fn copy_networks(rendered: &mut Item, planned: &Item) {
    let Some(networks) =
        template(planned).and_then(|template| template["metadata"]["annotations"].get(NETWORKS))
    else {
        return;
    };
    let amounts = |list: &str| {
        let path = format!("/spec/containers/0/resources/{list}");
        let amounts = template(planned).and_then(|template| template.pointer(&path)?.as_object());
        let extended = amounts
            .into_iter()
            .flatten()
            .filter(|(name, _)| name.contains('/'));
        let extended = extended.map(|(name, amount)| (name.clone(), amount.clone()));
        extended.collect::<Map<_, _>>()
    };
    let Some(template) = template_mut(rendered) else {
        return;
    };
    if let Some(annotations) =
        member_mut(template, "metadata").and_then(|metadata| member_mut(metadata, "annotations"))
    {
        annotations[NETWORKS] = networks.clone();
    }
    let Some(first) = template.pointer_mut("/spec/containers/0") else {
        return;
    };
    for list in ["requests", "limits"] {
        let devices = amounts(list);
        if devices.is_empty() {
            continue;
        }
        let own = member_mut(first, "resources").and_then(|all| member_mut(all, list));
        if let Some(own) = own.and_then(Value::as_object_mut) {
            own.extend(devices);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::item_for_test;

    fn attachment(cpd: &str, network: &str, position: usize) -> Attachment {
        Attachment {
            cpd: cpd.to_owned(),
            pods: Pods::Vdu("web".to_owned()),
            network: NetworkName::parse(network).unwrap(),
            link: Link::Managed("link".to_owned()),
            position,
            ips: Vec::new(),
            mac: None,
            by_chart: false,
        }
    }

    fn workload(kind: &str, networks: &str, resources: &Value) -> Item {
        let pod = json!({"metadata": {"annotations": {NETWORKS: networks}},
            "spec": {"containers": [{"name": "a", "resources": resources}, {"name": "b"}]}});
        let spec = if kind == "CronJob" {
            json!({"jobTemplate": {"spec": {"template": pod}}})
        } else {
            json!({"template": pod})
        };
        item_for_test(
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}),
        )
    }

    /// The annotation of a workload after these attachments.
    fn annotation(stated: &str, own: &[Attachment]) -> String {
        let mut item = workload("Deployment", stated, &json!({}));
        request_networks(&mut item, own, "mine").unwrap();
        let annotations = &template(&item).unwrap()["metadata"]["annotations"];
        annotations[NETWORKS].as_str().unwrap().to_owned()
    }

    #[test]
    fn entries_of_the_manifest_stay_and_come_first() {
        let own = [attachment("data", "other/data", 1)];
        let list: Value = serde_json::from_str(&annotation("oam@eth1, net", &own)).unwrap();
        let expected = json!([
            {"name": "oam", "interface": "eth1"},
            {"name": "net"},
            {"name": "data", "namespace": "other", "interface": "net3"},
        ]);
        assert_eq!(list, expected);
        let stated = json!([{"name": "oam", "interface": "net2", "cni-args": {"a": 1}}]);
        let list: Value = serde_json::from_str(&annotation(&stated.to_string(), &own)).unwrap();
        assert_eq!(list[0], stated[0]);
        assert_eq!(list[1]["interface"], "net3", "`net2` is taken");
    }

    #[test]
    fn a_network_that_the_manifest_requests_is_not_requested_again() {
        let own = [attachment("data", "mine/data", 1)];
        assert_eq!(annotation("data", &own), "data");
        let twice = [own[0].clone(), attachment("more", "mine/data", 2)];
        let list: Vec<Value> = serde_json::from_str(&annotation("data", &twice)).unwrap();
        assert_eq!(list.len(), 2);
        let fixed = [Attachment {
            ips: vec!["10.0.0.1/24".to_owned()],
            ..own[0].clone()
        }];
        let list: Vec<Value> = serde_json::from_str(&annotation("data", &fixed)).unwrap();
        assert_eq!(list[1]["ips"], json!(["10.0.0.1/24"]));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_an_error_of_the_package() {
        let mut item = workload("Deployment", "a/b/c", &json!({}));
        let own = [attachment("data", "mine/data", 1)];
        let error = request_networks(&mut item, &own, "mine").unwrap_err();
        assert_eq!(
            (error.name(), error.resource()),
            ("kubernetes.manifest-invalid", Some("Deployment `web`"))
        );
    }

    #[test]
    fn a_fixed_address_needs_a_workload_of_one_pod() {
        let fixed = Attachment {
            mac: Some("02:00:00:00:00:01".to_owned()),
            ..attachment("data", "data", 1)
        };
        for (kind, count, fits) in [
            ("Deployment", 1, true),
            ("Deployment", 2, false),
            ("DaemonSet", 1, false),
        ] {
            let mut item = workload(kind, "", &json!({}));
            item.object["spec"]["replicas"] = count.into();
            assert_eq!(
                check_addresses(&fixed, &item).is_ok(),
                fits,
                "{kind} {count}"
            );
            check_addresses(&attachment("data", "data", 1), &item).unwrap();
        }
    }

    #[test]
    fn devices_are_added_unless_a_container_states_them() {
        for (stated, expected) in [
            (
                json!({"requests": {"cpu": "1"}}),
                json!({"requests": {"cpu": "1", "intel.com/sriov": "2"}, "limits": {"intel.com/sriov": "2"}}),
            ),
            (
                json!({"limits": {"intel.com/sriov": 4}}),
                json!({"limits": {"intel.com/sriov": 4}}),
            ),
        ] {
            let mut item = workload("CronJob", "", &stated);
            add_device(template_mut(&mut item).unwrap(), "intel.com/sriov", 2);
            let found = template(&item).unwrap()["spec"]["containers"][0]["resources"].clone();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_helm_renders_again_gets_networks_and_devices_of_the_plan() {
        let mut planned = workload("Deployment", "data", &json!({"requests": {"cpu": "1"}}));
        add_device(template_mut(&mut planned).unwrap(), "intel.com/sriov", 1);
        let mut rendered = workload("Deployment", "", &json!({"requests": {"cpu": "2"}}));
        copy_networks(&mut rendered, &planned);
        let template = template(&rendered).unwrap();
        assert_eq!(template["metadata"]["annotations"][NETWORKS], "data");
        let resources = &template["spec"]["containers"][0]["resources"];
        let expected = json!({"requests": {"cpu": "2", "intel.com/sriov": "1"}, "limits": {"intel.com/sriov": "1"}});
        assert_eq!(*resources, expected);
        let mut plain = workload("Deployment", "", &json!({}));
        let before = plain.clone();
        copy_networks(
            &mut plain,
            &item_for_test(
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}),
            ),
        );
        assert_eq!(plain, before);
    }
}
