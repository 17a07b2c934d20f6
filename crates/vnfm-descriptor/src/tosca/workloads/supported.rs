//! What is translated, as tables. Everything else that a descriptor sets is an error, unless it asks for nothing: no value,
//! an empty one, `false` or 0.

use super::super::builder::Builder;
use super::super::kind::Kind;
use super::super::topology::{Policy, Template, Topology};
use crate::yaml::Node;

/// Node types with the properties that are translated, or describe something that needs no object. The first match decides.
const NODES: &[(&str, &[&str])] = &[
    (
        "tosca.nodes.nfv.Vdu.OsContainerDeployableUnit",
        &[
            "name",
            "description",
            "vdu_profile",
            "mcio_identification_data",
            "configurable_properties",
        ],
    ),
    (
        "tosca.nodes.nfv.Vdu.OsContainer",
        &[
            "name",
            "description",
            "requested_cpu_resources",
            "cpu_resource_limit",
            "requested_memory_resources",
            "memory_resource_limit",
            "requested_ephemeral_storage_resources",
            "ephemeral_storage_resource_limit",
            "extended_resource_requests",
            "huge_pages_resources",
            "sw_image_data",
            "command",
            "args",
        ],
    ),
    (
        "tosca.nodes.nfv.Vdu.VirtualBlockStorage",
        &["virtual_block_storage_data", "per_vnfc_instance"],
    ),
    (
        "tosca.nodes.nfv.Vdu.VirtualFileStorage",
        &["virtual_file_storage_data", "per_vnfc_instance"],
    ),
    (
        "tosca.nodes.nfv.VirtualCp",
        &[
            "layer_protocols",
            "role",
            "description",
            "purpose",
            "protocol",
            "additionalServiceData",
        ],
    ),
    (
        "tosca.nodes.nfv.VnfExtCp",
        &[
            "layer_protocols",
            "role",
            "description",
            "purpose",
            "protocol",
        ],
    ),
    (
        "tosca.nodes.nfv.VnfVirtualLink",
        &[
            "connectivity_type",
            "description",
            "vl_profile",
            "monitoring_parameters",
        ],
    ),
];

/// The interface of pods; its sub-ports have none.
const POD_CP: (&str, &[&str]) = (
    "tosca.nodes.nfv.VduCp",
    &[
        "layer_protocols",
        "role",
        "description",
        "purpose",
        "protocol",
        "order",
    ],
);
const SUB_CP: &str = "tosca.nodes.nfv.VduSubCp";
const VNF: &str = "tosca.nodes.nfv.VNF";

/// Properties with members, and the members that are translated.
const MEMBERS: &[(&str, &[&str])] = &[
    (
        "vdu_profile",
        &[
            "min_number_of_instances",
            "max_number_of_instances",
            "modify_capacity_attributes_op",
        ],
    ),
    (
        "configurable_properties",
        &["additional_vnfc_configurable_properties"],
    ),
    ("virtual_block_storage_data", &["size_of_storage"]),
    // The storage class of the cluster decides the protocol.
    (
        "virtual_file_storage_data",
        &["size_of_storage", "file_system_protocol"],
    ),
    // No VIM receives a bit rate.
    (
        "vl_profile",
        &["max_bitrate_requirements", "min_bitrate_requirements"],
    ),
    ("protocol", &["associated_layer_protocol"]),
];

/// Values that ask for what every pod has.
const USUAL: &[(&str, &str)] = &[("vnic_type", "normal"), ("externally_managed", "allowed")];

/// The end of properties that limit what a later operation may set.
const LIMITS: &str = "_valid_values";

/// Policies that number, describe or rename, and need no object.
const POLICIES: &[&str] = &[
    "InstantiationLevels",
    "VduInstantiationLevels",
    "ScalingAspects",
    "VduScalingAspectDeltas",
    "VduInitialDelta",
    "VirtualLinkInstantiationLevels",
    "VirtualLinkBitrateInitialDelta",
    "VirtualLinkBitrateScalingAspectDeltas",
    "AffinityRule",
    "AntiAffinityRule",
    "SupportedVnfInterface",
    "VnfIndicator",
    "VnfPackageChange",
    "LcmCoordinationAction",
    "LcmCoordinationsForLcmOperation",
];

const LAYERS: [&str; 3] = ["ethernet", "ipv4", "ipv6"];
const WRITE_MANIFESTS: &str = "remove it, or deploy the flavour by manifests (`Files/kubernetes/order.yaml`) or a chart (`Mciop`)";

impl Builder<'_, '_> {
    /// Reports node types, properties and policies that have no translation.
    pub(super) fn refuse_unsupported(&mut self, topology: &Topology<'_>) {
        for template in &topology.templates {
            let is = |kind: &str| self.types.is_a(Kind::Node, &template.kind, kind);
            if is(VNF) {
                continue;
            }
            let pod_cp = (is(POD_CP.0) && !is(SUB_CP)).then_some(&POD_CP);
            let known = pod_cp.or_else(|| NODES.iter().find(|(kind, _)| is(kind)));
            if let Some((_, supported)) = known {
                self.properties(template, supported);
                continue;
            }
            let message = format!(
                "`{}` is a `{}`, which has no translation to Kubernetes",
                template.name, template.kind
            );
            self.untranslatable(&template.span, message, WRITE_MANIFESTS);
        }
        for policy in &topology.policies {
            if self.has_translation(policy) {
                continue;
            }
            let message = format!(
                "policy `{}` is a `{}`, which has no translation to Kubernetes",
                policy.name, policy.kind
            );
            self.untranslatable(&policy.span, message, WRITE_MANIFESTS);
        }
    }

    fn has_translation(&self, policy: &Policy<'_>) -> bool {
        let is = |kind: &str| self.types.is_a(Kind::Policy, &policy.kind, kind);
        is(super::policies::SCALING)
            || POLICIES
                .iter()
                .any(|kind| is(&format!("tosca.policies.nfv.{kind}")))
    }

    fn properties(&mut self, template: &Template<'_>, supported: &[&str]) {
        let properties = template.node.get("properties").map(Node::entries);
        for (key, value) in properties.unwrap_or_default() {
            let name = key.as_str().unwrap_or_default();
            if !supported.contains(&name) {
                self.refuse_member(template, name, (key, value));
                continue;
            }
            if name == "layer_protocols" {
                self.layers(template, value);
            }
            let Some((_, members)) = MEMBERS.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            let parts = if value.is_sequence() {
                value.items()
            } else {
                std::slice::from_ref(value)
            };
            for (key, value) in parts.iter().flat_map(Node::entries) {
                let member = key.as_str().unwrap_or_default();
                if !members.contains(&member) {
                    self.refuse_member(template, &format!("{name}.{member}"), (key, value));
                }
            }
        }
    }

    fn refuse_member(&mut self, template: &Template<'_>, name: &str, (key, value): (&Node, &Node)) {
        let is_usual = USUAL
            .iter()
            .any(|(known, usual)| *known == name && value.as_str() == Some(usual));
        if is_usual || name.ends_with(LIMITS) || asks_nothing(value) {
            return;
        }
        let message = format!(
            "`{name}` of `{}` has no translation to Kubernetes",
            template.name
        );
        self.untranslatable(&key.span, message, WRITE_MANIFESTS);
    }

    fn layers(&mut self, template: &Template<'_>, protocols: &Node) {
        for layer in protocols.items() {
            let name = layer.as_str().unwrap_or_default();
            if !LAYERS.contains(&name) {
                let message = format!(
                    "layer protocol `{name}` of `{}` does not exist on the network of pods",
                    template.name
                );
                self.untranslatable(
                    &layer.span,
                    message,
                    "pods have `ipv4` and `ipv6`, over `ethernet`",
                );
            }
        }
    }
}

/// Whether a value, or everything in it, is nothing, `false` or 0.
fn asks_nothing(node: &Node) -> bool {
    let inner = || {
        node.items()
            .iter()
            .chain(node.entries().iter().map(|(_, value)| value))
    };
    match node.as_str() {
        Some(text) => matches!(text, "0" | "") || node.as_bool() == Some(false),
        None => inner().all(asks_nothing),
    }
}
