//! Reads VDUs, connection points, links, storages and images from node templates.

use super::builder::Builder;
use super::kind::Kind;
use super::lifecycle::duration;
use super::topology::{Template, Topology};
use super::units;
use crate::codes;
use crate::finding::Finding;
use crate::model::{
    Checksum, ConnectivityKind, Container, Cp, CpKind, ExternalCp, IpPool, Mcio, Mciop, Qos,
    Storage, StorageKind, SwImage, Vdu, VduKind, VirtualLink,
};
use crate::path::{folder, resolve};
use crate::yaml::Node;
use std::collections::BTreeMap;

const SW_IMAGE: &str = "tosca.artifacts.nfv.SwImage";

/// The resources of a flavour.
#[derive(Default)]
pub(super) struct Resources {
    pub(super) vdus: BTreeMap<String, Vdu>,
    pub(super) cps: BTreeMap<String, Cp>,
    pub(super) external_cps: Vec<ExternalCp>,
    pub(super) virtual_links: BTreeMap<String, VirtualLink>,
    pub(super) storages: BTreeMap<String, Storage>,
    pub(super) containers: BTreeMap<String, Container>,
    pub(super) mciops: BTreeMap<String, Mciop>,
}

const CP_KINDS: [(&str, CpKind); 4] = [
    ("tosca.nodes.nfv.VduCp", CpKind::VduCp),
    ("tosca.nodes.nfv.VnfExtCp", CpKind::VnfExtCp),
    ("tosca.nodes.nfv.VipCp", CpKind::VipCp),
    ("tosca.nodes.nfv.VirtualCp", CpKind::VirtualCp),
];

const STORAGE_KINDS: [(&str, StorageKind); 3] = [
    (
        "tosca.nodes.nfv.Vdu.VirtualBlockStorage",
        StorageKind::Block,
    ),
    (
        "tosca.nodes.nfv.Vdu.VirtualObjectStorage",
        StorageKind::Object,
    ),
    ("tosca.nodes.nfv.Vdu.VirtualFileStorage", StorageKind::File),
];

impl Builder<'_, '_> {
    pub(super) fn resources(&mut self, topology: &Topology<'_>) -> Resources {
        let mut resources = Resources::default();
        let mapped = mapped_requirements(topology);
        for template in &topology.templates {
            let name = template.name.clone();
            let is = |kind: &str| self.types.is_a(Kind::Node, &template.kind, kind);
            if is("tosca.nodes.nfv.Vdu.Compute") {
                resources
                    .vdus
                    .insert(name, self.vdu(topology, template, VduKind::Compute));
            } else if is("tosca.nodes.nfv.Vdu.OsContainerDeployableUnit") {
                resources
                    .vdus
                    .insert(name, self.vdu(topology, template, VduKind::OsContainer));
            } else if is("tosca.nodes.nfv.VnfVirtualLink") {
                resources.virtual_links.insert(name, virtual_link(template));
            } else if is("tosca.nodes.nfv.Vdu.OsContainer") {
                resources
                    .containers
                    .insert(name, self.container(topology, template));
            } else if is("tosca.nodes.nfv.Mciop") {
                resources
                    .mciops
                    .insert(name, self.mciop(topology, template));
            } else if let Some((_, kind)) = STORAGE_KINDS.iter().find(|(kind, _)| is(kind)) {
                resources
                    .storages
                    .insert(name, self.storage(topology, template, *kind));
            } else if let Some((_, kind)) = CP_KINDS.iter().find(|(kind, _)| is(kind)) {
                let requirements = mapped
                    .get(template.name.as_str())
                    .cloned()
                    .unwrap_or_default();
                let cp = cp(topology, template, *kind, !requirements.is_empty());
                if cp.external {
                    resources.external_cps.push(ExternalCp {
                        cpd_id: name.clone(),
                        requirements,
                    });
                }
                resources.cps.insert(name, cp);
            }
        }
        self.check_mapped_templates(topology);
        resources
    }

    /// Requirements are mapped to node templates that exist. Others have no effect, so they are warnings.
    fn check_mapped_templates(&mut self, topology: &Topology<'_>) {
        let mappings = topology
            .substitution
            .as_ref()
            .and_then(|substitution| substitution.get("requirements"));
        for (key, target) in super::topology::listed(mappings) {
            let requirement = key.as_str().unwrap_or("~");
            let first = target.items().first();
            let named = if target.is_sequence() {
                first
            } else {
                Some(target)
            };
            let Some(named) = named.filter(|named| !named.is_null()) else {
                let message = format!("`{requirement}` is mapped to nothing");
                let finding = Finding::new(codes::EMPTY, target.span.clone(), message);
                self.sink
                    .add(finding.hint("map it to a connection point, or remove it"));
                continue;
            };
            let name = named.as_str().unwrap_or("~");
            if topology.template(name).is_none() {
                let message =
                    format!("`{requirement}` is mapped to `{name}`, which is not a node template");
                self.sink.add(
                    Finding::new(codes::MAPPING, named.span.clone(), message)
                        .about(name)
                        .did_you_mean(name, topology.names()),
                );
            }
        }
    }

    fn vdu(&mut self, topology: &Topology<'_>, template: &Template, kind: VduKind) -> Vdu {
        let metadata = super::compute::table(template.node.get("metadata"));
        let capability = template
            .node
            .at(&["capabilities", "virtual_compute", "properties"]);
        let requested = capability.and_then(|node| node.get("requested_additional_capabilities"));
        let requested = requested.or(template.property("requested_additional_capabilities"));
        let named = requested.and_then(|node| {
            node.named()
                .find_map(|(_, requested)| requested.get("requested_additional_capability_name"))
        });
        let profile = |key: &str| {
            template
                .property("vdu_profile")
                .and_then(|profile| profile.get(key))
                .and_then(Node::as_u32)
        };
        let text = |name: &str| template.text(name).unwrap_or_default().to_owned();
        let targets = |requirement: &str| {
            let names = template.targets(requirement).filter_map(Node::as_str);
            names.map(str::to_owned).collect()
        };
        let container = template
            .targets("container")
            .filter_map(Node::as_str)
            .find_map(|name| topology.template(name));
        let image = self
            .image(topology, template)
            .or_else(|| container.and_then(|container| self.image(topology, container)));
        Vdu {
            name: template.name.clone(),
            display_name: template.text("name").unwrap_or(&template.name).to_owned(),
            description: text("description"),
            kind,
            compute: capability.and_then(super::compute::compute),
            requested_flavor: named
                .and_then(Node::as_str)
                .map(str::to_owned)
                .or_else(|| metadata.get("flavor").cloned()),
            requested_capabilities: super::compute::requested(requested),
            logical_node: super::compute::logical_node(
                capability
                    .and_then(|node| node.get("logical_node"))
                    .or(template.property("logical_node")),
            ),
            containers: targets("container"),
            image,
            storages: targets("virtual_storage"),
            min_number_of_instances: profile("min_number_of_instances"),
            max_number_of_instances: profile("max_number_of_instances"),
            boot_data: template.property("boot_data").map(Node::to_json),
            nfvi_constraints: template.property("nfvi_constraints").map(Node::to_json),
            mcio: mcio(template),
            metadata,
        }
    }

    fn storage(
        &mut self,
        topology: &Topology<'_>,
        template: &Template,
        kind: StorageKind,
    ) -> Storage {
        let size = [
            ("virtual_block_storage_data", "size_of_storage"),
            ("virtual_object_storage_data", "max_size_of_storage"),
            ("virtual_file_storage_data", "size_of_storage"),
        ]
        .iter()
        .find_map(|(data, key)| template.property(data)?.get(key));
        Storage {
            name: template.name.clone(),
            kind,
            size_gib: size.and_then(size_of).map(units::gib),
            per_vnfc_instance: template
                .property("per_vnfc_instance")
                .and_then(Node::as_bool)
                .unwrap_or(true),
            image: self.image(topology, template),
        }
    }

    /// Reads the image of a VDU, container or storage: `sw_image_data`, an artifact, or both.
    pub(super) fn image(
        &mut self,
        topology: &Topology<'_>,
        template: &Template,
    ) -> Option<SwImage> {
        let artifact = self.image_artifact(template);
        let own = artifact.and_then(|(_, node)| node.get("properties"));
        let data = template.property("sw_image_data").or(own);
        let (key, file) = match (artifact, data) {
            (None, None) => return None,
            (Some((key, node)), _) => (
                key,
                node.get("file").or_else(|| node.as_str().map(|_| node)),
            ),
            (None, Some(_)) => (template.name.as_str(), None),
        };
        let field = |name: &str| data.or(own).and_then(|data| data.get(name));
        let text = |name: &str| field(name).and_then(Node::as_str).map(str::to_owned);
        let size = |name: &str| field(name).and_then(size_of);
        let checksum = field("checksum").and_then(|node| {
            Some(Checksum {
                algorithm: node.get("algorithm")?.as_str()?.to_owned(),
                hash: node.get("hash")?.as_str()?.to_owned(),
            })
        });
        let docker = text("container_format").as_deref() == Some("docker");
        let path = file.and_then(|file| self.file(topology, file));
        if let (Some(file), None, false) = (file, &path, docker) {
            let message = format!(
                "the image `{}` is not in the package",
                file.as_str().unwrap_or("~")
            );
            let hint = "the VIM must have an image of this name";
            self.sink
                .add(Finding::new(codes::ARTIFACT_ABSENT, file.span.clone(), message).hint(hint));
        }
        Some(SwImage {
            name: text("name").unwrap_or_else(|| key.to_owned()),
            version: text("version"),
            provider: text("provider"),
            checksum,
            container_format: text("container_format"),
            disk_format: text("disk_format"),
            min_disk_gib: size("min_disk").map(units::gib),
            min_ram_mib: size("min_ram").map(units::mib),
            size_bytes: size("size"),
            artifact: path,
            file: file.and_then(Node::as_str).map(str::to_owned),
        })
    }

    /// The artifact of a node template that is an image; a second one is an error (SOL001 6.8.3.7, 6.8.4.7, 6.8.12.7).
    fn image_artifact<'t>(&mut self, template: &'t Template) -> Option<(&'t str, &'t Node)> {
        let is_image = |(_, artifact): &(&str, &Node)| {
            let kind = artifact.get("type").and_then(Node::as_str);
            self.types
                .is_a(Kind::Artifact, kind.unwrap_or_default(), SW_IMAGE)
        };
        let artifacts = template.node.get("artifacts").into_iter();
        let mut images = artifacts.flat_map(Node::named).filter(is_image);
        let first = images.next();
        if let (Some((first, _)), Some((second, node))) = (first, images.next()) {
            let message = format!(
                "`{}` has the images `{first}` and `{second}`",
                template.name
            );
            let finding = Finding::new(codes::IMAGE_TWICE, node.span.clone(), message);
            self.sink
                .add(finding.hint("a VDU, container or storage has one image; remove the others"));
        }
        first
    }

    /// The file in the package that an artifact names, relative to the descriptor's file or to the root.
    pub(super) fn file(&self, topology: &Topology<'_>, file: &Node) -> Option<String> {
        let text = file.as_str()?;
        if self.archive.has_external(text) {
            return Some(text.to_owned());
        }
        let candidates = [resolve(folder(topology.path), text), resolve("", text)];
        candidates
            .into_iter()
            .flatten()
            .find(|path| self.archive.has(path))
    }
}

fn mcio(template: &Template) -> Option<Mcio> {
    let node = template.property("mcio_identification_data")?;
    let field = |key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    Some(Mcio {
        name: field("name")?,
        kind: field("type")?,
    })
}

/// The VNF's requirements by the connection point that they are mapped to.
fn mapped_requirements<'t>(topology: &'t Topology<'_>) -> BTreeMap<&'t str, Vec<String>> {
    let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mappings = topology
        .substitution
        .as_ref()
        .and_then(|substitution| substitution.get("requirements"));
    for (key, target) in super::topology::listed(mappings) {
        let target = target.items().first().unwrap_or(target);
        if let (Some(requirement), Some(cp)) = (key.as_str(), target.as_str()) {
            all.entry(cp).or_default().push(requirement.to_owned());
        }
    }
    all
}

fn cp(topology: &Topology<'_>, template: &Template, kind: CpKind, mapped: bool) -> Cp {
    let first = |requirement: &str| {
        template
            .targets(requirement)
            .find_map(Node::as_str)
            .map(str::to_owned)
    };
    let link = first(if kind == CpKind::VnfExtCp {
        "internal_virtual_link"
    } else {
        "virtual_link"
    });
    let target = first("target");
    let vdu = match kind {
        CpKind::VduCp => first("virtual_binding"),
        CpKind::VnfExtCp => None,
        CpKind::VirtualCp => target,
        CpKind::VipCp => target
            .and_then(|target| topology.template(&target))
            .and_then(|cp| cp.targets("virtual_binding").find_map(Node::as_str))
            .map(str::to_owned),
    };
    let text = |name: &str| template.text(name).map(str::to_owned);
    Cp {
        name: template.name.clone(),
        kind,
        vdu,
        external: mapped || kind == CpKind::VnfExtCp || link.is_none(),
        virtual_link: link,
        order: template.property("order").and_then(Node::as_u32),
        layer_protocols: template
            .property("layer_protocols")
            .map(Node::texts)
            .unwrap_or_default(),
        description: text("description"),
        vnic_type: text("vnic_type"),
        trunk_mode: template
            .property("trunk_mode")
            .and_then(Node::as_bool)
            .unwrap_or(false),
        protocol: template.property("protocol").map(Node::to_json),
    }
}

fn virtual_link(template: &Template) -> VirtualLink {
    let protocols = template
        .node
        .at(&["properties", "vl_profile", "virtual_link_protocol_data"])
        .map(Node::items)
        .unwrap_or_default();
    let layer = |name: &str, key: &str| {
        protocols
            .iter()
            .find_map(|protocol| protocol.get(name)?.get(key))
    };
    let l2 = |key: &str| layer("l2_protocol_data", key);
    let l3 = |key: &str| layer("l3_protocol_data", key);
    let text = |node: Option<&Node>| node.and_then(Node::as_str).map(str::to_owned);
    let at = |path: &[&str]| {
        template
            .node
            .get("properties")
            .and_then(|node| node.at(path))
    };
    let bitrate = |requirement: &str| {
        let root = at(&["vl_profile", requirement, "root"]).and_then(Node::as_i64);
        root.and_then(|root| u64::try_from(root).ok())
    };
    VirtualLink {
        name: template.name.clone(),
        description: template.text("description").map(str::to_owned),
        externally_managed: match template.text("externally_managed") {
            Some("required") => ConnectivityKind::Required,
            Some("allowed") => ConnectivityKind::Allowed,
            _ => ConnectivityKind::Internal,
        },
        ip_version: text(l3("ip_version")),
        cidr: text(l3("cidr")),
        gateway: text(l3("gateway_ip")),
        dhcp: l3("dhcp_enabled").and_then(Node::as_bool),
        pools: l3("ip_allocation_pools")
            .map(Node::items)
            .unwrap_or_default()
            .iter()
            .filter_map(ip_pool)
            .collect(),
        network_type: text(l2("network_type")),
        mtu: l2("mtu").and_then(Node::as_u32),
        segmentation_id: text(l2("segmentation_id")),
        layer_protocols: at(&["connectivity_type", "layer_protocols"])
            .map(Node::texts)
            .unwrap_or_default(),
        flow_pattern: text(at(&["connectivity_type", "flow_pattern"])),
        qos: at(&["vl_profile", "qos"]).map(|qos| Qos {
            latency: qos.get("latency").and_then(duration),
            packet_delay_variation: qos.get("packet_delay_variation").and_then(duration),
            packet_loss_ratio: text(qos.get("packet_loss_ratio")),
        }),
        max_bitrate: bitrate("max_bitrate_requirements"),
        min_bitrate: bitrate("min_bitrate_requirements"),
    }
}

fn ip_pool(node: &Node) -> Option<IpPool> {
    let address = |key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    Some(IpPool {
        start: address("start_ip_address")?,
        end: address("end_ip_address")?,
    })
}

pub(super) fn size_of(node: &Node) -> Option<u64> {
    units::bytes(node.as_str()?)
}
