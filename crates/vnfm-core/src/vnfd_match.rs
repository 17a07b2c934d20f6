//! Compares what a VNFD states of its deployable units with what a cluster offers.
//!
//! | stated (SOL001 from V4.2.1) | met if |
//! |---|---|
//! | `extended_resource_requests`, `huge_pages_resources` of a unit's containers | a node has as much as one pod needs |
//! | `requested_additional_capabilities` of a unit | a node has the label, or the cluster has the plugin or extended resource |
//!
//! Without `support_mandatory`, a capability is preferred. `mcio_constraint_params` name affinity rules that an operation may
//! change, which is nothing that a cluster has or lacks.

use crate::cluster_match::{
    RequirementLevel, RequirementOutcome, Verdict, mandatory, on_nodes, plugin_found,
};
use crate::ports::{ClusterCapabilities, NodeCapabilities};
use std::collections::BTreeMap;
use vnfm_descriptor::{Flavour, Package, RequestedCapability, Vdu, VduKind};

const KI: u64 = 1 << 10;
/// Suffixes of Kubernetes quantities, with what they multiply.
const SUFFIXES: &[(&str, u64)] = &[
    ("Ki", KI),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// What a deployable unit of a VNFD requires of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitRequirement {
    flavour: String,
    vdu: String,
    what: Requirement,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    /// So much of a resource on the node of each pod.
    Amount {
        resource: String,
        amount: u64,
    },
    Capability(RequestedCapability),
}

/// What the units of a package's flavours require; empty if the VNFD states nothing.
pub(crate) fn requirements(package: &Package) -> Vec<UnitRequirement> {
    let flavours = package.vnfd().flavours.values();
    flavours.flat_map(of_flavour).collect()
}

fn of_flavour(flavour: &Flavour) -> impl Iterator<Item = UnitRequirement> {
    let units = flavour.vdus.values();
    let units = units.filter(|vdu| vdu.kind == VduKind::OsContainer);
    units.flat_map(move |vdu| {
        let amounts = amounts(flavour, vdu).into_iter();
        let amounts = amounts.map(|(resource, amount)| Requirement::Amount { resource, amount });
        let capabilities = vdu.requested_capabilities.iter().cloned();
        let all = amounts.chain(capabilities.map(Requirement::Capability));
        all.map(|what| UnitRequirement {
            flavour: flavour.id.clone(),
            vdu: vdu.name.clone(),
            what,
        })
    })
}

/// The extended resources and huge pages of a pod, in all its containers.
fn amounts(flavour: &Flavour, vdu: &Vdu) -> BTreeMap<String, u64> {
    let mut amounts: BTreeMap<String, u64> = BTreeMap::new();
    let containers = vdu.containers.iter();
    for container in containers.filter_map(|name| flavour.containers.get(name)) {
        let extended = container.extended_resources.iter();
        let extended = extended.map(|(name, count)| (name.clone(), u64::from(*count)));
        let pages = container.huge_pages.iter();
        let pages =
            pages.map(|pages| (huge_page_resource(pages.page_bytes), pages.requested_bytes));
        for (resource, amount) in extended.chain(pages) {
            let sum = amounts.entry(resource).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    amounts
}

/// The resource of pages of this size, such as `hugepages-2Mi`.
fn huge_page_resource(page_bytes: u64) -> String {
    let units = SUFFIXES[..4].iter().rev();
    let mut dividing = units.filter(|(_, unit)| page_bytes.is_multiple_of(*unit) && page_bytes > 0);
    match dividing.next() {
        Some((suffix, unit)) => format!("hugepages-{}{suffix}", page_bytes / unit),
        None => format!("hugepages-{page_bytes}"),
    }
}

/// The outcome of each requirement.
pub(crate) fn match_units(
    required: &[UnitRequirement],
    offered: &ClusterCapabilities,
) -> Vec<RequirementOutcome> {
    let outcome = |one: &UnitRequirement| {
        let place = format!("VDU `{}` of flavour `{}`", one.vdu, one.flavour);
        match &one.what {
            Requirement::Amount { resource, amount } => {
                let text = format!("{amount} of `{resource}` for a pod of {place}");
                amount_on_node(text, (resource, *amount), offered)
            }
            Requirement::Capability(wanted) => capability(wanted, &place, offered),
        }
    };
    required.iter().map(outcome).collect()
}

fn amount_on_node(
    requirement: String,
    (resource, amount): (&str, u64),
    offered: &ClusterCapabilities,
) -> RequirementOutcome {
    let has = |node: &NodeCapabilities| match node.allocatable.get(resource) {
        Some(text) => quantity(text),
        None => Some(0),
    };
    let meets = |node: &NodeCapabilities| Some(has(node)? >= amount);
    on_nodes(requirement, offered, meets, |node| {
        match node.allocatable.get(resource) {
            Some(text) => format!("a node with {text}"),
            None => "nodes without it".to_owned(),
        }
    })
}

/// A whole number of a Kubernetes quantity; `None`: it has another form.
fn quantity(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let number: u64 = number.parse().ok()?;
    if suffix.is_empty() {
        return Some(number);
    }
    let (_, factor) = SUFFIXES.iter().find(|(known, _)| *known == suffix)?;
    number.checked_mul(*factor)
}

fn capability(
    wanted: &RequestedCapability,
    place: &str,
    offered: &ClusterCapabilities,
) -> RequirementOutcome {
    let name = wanted.name.trim();
    let requirement = format!("capability `{name}` for {place}");
    let has_label = |node: &NodeCapabilities| {
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        let found = node.labels.get(key);
        Some(found.is_some_and(|found| match value {
            "" => found != "false",
            value => found == value,
        }))
    };
    let labelled = on_nodes(requirement.clone(), offered, has_label, |_| String::new());
    let outcome = if labelled.verdict == Verdict::Met {
        labelled
    } else {
        mandatory(requirement, plugin_found(name, offered))
    };
    let outcome = match (outcome.verdict, &wanted.min_version) {
        (Verdict::Met, Some(version)) => RequirementOutcome {
            verdict: Verdict::Unknown,
            found: format!(
                "{}; whether its version is {version} or newer cannot be read",
                outcome.found
            ),
            ..outcome
        },
        _ => outcome,
    };
    let level = if wanted.support_mandatory {
        RequirementLevel::Mandatory
    } else {
        RequirementLevel::Preferred
    };
    RequirementOutcome { level, ..outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Observed;
    use vnfm_descriptor::Limits;

    const VNFD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
topology_template:
  substitution_mappings: {node_type: tosca.nodes.nfv.VNF, properties: {flavour_id: simple}}
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties: {descriptor_id: b1bb0ce7, descriptor_version: '1.0', provider: Us, product_name: Web, software_version: '1.0',
        vnfm_info: [vnfm], flavour_id: simple, flavour_description: one}
    web:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties:
        name: web
        description: pods
        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 5}
        requested_additional_capabilities:
          driver: {requested_additional_capability_name: disk.csi.example.com, support_mandatory: true, target_performance_parameters: {}}
          crypto: {requested_additional_capability_name: example.com/crypto, support_mandatory: false, target_performance_parameters: {}}
          meshes: {requested_additional_capability_name: multus, support_mandatory: true, target_performance_parameters: {}}
      requirements: [container: one, container: two]
    one: &container
      type: tosca.nodes.nfv.Vdu.OsContainer
      properties:
        name: one
        description: server
        extended_resource_requests: [{extended_resource: {device: example.com/gpu}, amount: 2}]
        huge_pages_resources: [{hugepage_size: 2 MiB, requested_size: 64 MiB}]
      artifacts:
        image: {type: tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {name: busybox, version: '1', container_format: docker}}
    two: *container
";

    const ORDER: &str = "manifests: [{path: Files/kubernetes/web.yaml, order: 1}]";

    fn outcomes(allocatable: &[(&str, &str)], labels: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let kubernetes = folder.path().join("Files/kubernetes");
        std::fs::create_dir_all(&kubernetes).unwrap();
        std::fs::write(folder.path().join("vnfd.yaml"), VNFD).unwrap();
        std::fs::write(kubernetes.join("order.yaml"), ORDER).unwrap();
        std::fs::write(
            kubernetes.join("web.yaml"),
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
        )
        .unwrap();
        let package = Package::open(folder.path(), &Limits::default());
        let package = package.unwrap_or_else(|all| panic!("{all}"));
        let own = |all: &[(&str, &str)]| {
            let all = all.iter();
            all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let node = NodeCapabilities {
            name: "a".to_owned(),
            schedulable: true,
            labels: own(labels),
            allocatable: own(allocatable),
            ..NodeCapabilities::default()
        };
        let offered = ClusterCapabilities {
            kubernetes_version: "v1.36.2".to_owned(),
            helm_version: Observed::unknown("none is configured"),
            nodes: Observed::Known(vec![node]),
            apis: Observed::Known(std::collections::BTreeSet::new()),
            csi_drivers: Observed::Known(["disk.csi.example.com".to_owned()].into()),
            storage_classes: Observed::unknown("403"),
        };
        let all = match_units(&requirements(&package), &offered);
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_node_needs_what_all_containers_of_a_pod_request() {
        let enough = outcomes(&[("example.com/gpu", "4"), ("hugepages-2Mi", "128Mi")], &[]);
        let unit = "VDU `web` of flavour `simple`";
        assert_eq!(
            enough[..2],
            [
                format!(
                    "required 4 of `example.com/gpu` for a pod of {unit}: met: on 1 of 1 nodes: a"
                ),
                format!(
                    "required 134217728 of `hugepages-2Mi` for a pod of {unit}: met: on 1 of 1 nodes: a"
                ),
            ]
        );
        let less = outcomes(&[("example.com/gpu", "3")], &[]);
        assert!(less[0].ends_with("not met: a node with 3"), "{less:?}");
        assert!(less[1].ends_with("not met: nodes without it"), "{less:?}");
        let odd = outcomes(&[("example.com/gpu", "1500m")], &[]);
        assert!(odd[0].contains(": unknown: "), "{odd:?}");
    }

    #[test]
    fn capabilities_are_labels_plugins_or_unknown_and_may_be_preferred() {
        let without = outcomes(&[], &[]);
        let found: Vec<&str> = without[2..]
            .iter()
            .map(|text| &text[..text.find(" for").unwrap()])
            .collect();
        assert_eq!(
            found,
            [
                "required capability `disk.csi.example.com`",
                "preferred capability `example.com/crypto`",
                "required capability `multus`"
            ]
        );
        assert!(without[2].contains(": met: the CSI driver"), "{without:?}");
        assert!(without[3].contains(": unknown: "), "{without:?}");
        assert!(without[4].contains(": not met: "), "{without:?}");
        let labelled = outcomes(&[], &[("example.com/crypto", "true")]);
        assert!(
            labelled[3].contains(": met: on 1 of 1 nodes"),
            "{labelled:?}"
        );
    }
}
