//! Reads compute requirements of VDUs, and the containers and Mciops of deployable units.

use super::builder::Builder;
use super::helm_mapping::{RULE, SCRIPT};
use super::resources::size_of;
use super::topology::{Template, Topology};
use super::units;
use crate::model::{Container, CpuPinning, HugePages, Mciop, RequestedCapability, VirtualCompute};
use crate::yaml::Node;
use std::collections::BTreeMap;

/// Reads the `virtual_compute` capability; `None` without CPUs or memory.
pub(super) fn compute(node: &Node) -> Option<VirtualCompute> {
    let disks = node
        .get("virtual_local_storage")
        .map(Node::items)
        .unwrap_or_default();
    let (cpu, memory) = (node.get("virtual_cpu")?, node.get("virtual_memory")?);
    Some(VirtualCompute {
        num_virtual_cpu: cpu.get("num_virtual_cpu").and_then(Node::as_u32)?,
        virtual_mem_size_mib: memory
            .get("virtual_mem_size")
            .and_then(size_of)
            .map(units::mib)?,
        virtual_local_storage_gib: disks
            .iter()
            .filter_map(|disk| disk.get("size_of_storage").and_then(size_of))
            .map(units::gib)
            .collect(),
        cpu_architecture: cpu
            .get("cpu_architecture")
            .and_then(Node::as_str)
            .map(str::to_owned),
        cpu_pinning: pinning(cpu.get("virtual_cpu_pinning")),
        numa_enabled: memory
            .get("numa_enabled")
            .and_then(Node::as_bool)
            .unwrap_or(false),
        huge_pages: huge_pages(memory.get("huge_pages_requirements")),
    })
}

/// Reads `requested_additional_capabilities`, from a VDU's capability or its properties.
pub(super) fn requested(node: Option<&Node>) -> Vec<RequestedCapability> {
    let one = |(key, node): (&str, &Node)| {
        let text = |name: &str| node.get(name).and_then(Node::as_str).map(str::to_owned);
        Some(RequestedCapability {
            key: key.to_owned(),
            name: text("requested_additional_capability_name")?,
            support_mandatory: node
                .get("support_mandatory")
                .and_then(Node::as_bool)
                .unwrap_or(true),
            min_version: text("min_requested_additional_capability_version"),
            preferred_version: text("preferred_requested_additional_capability_version"),
            target_performance_parameters: table(node.get("target_performance_parameters")),
        })
    };
    node.into_iter()
        .flat_map(Node::named)
        .filter_map(one)
        .collect()
}

/// Reads `logical_node` of a VDU: requirements by key.
pub(super) fn logical_node(node: Option<&Node>) -> BTreeMap<String, BTreeMap<String, String>> {
    node.into_iter()
        .flat_map(Node::named)
        .map(|(key, node)| (key.to_owned(), table(node.get("logical_node_requirements"))))
        .collect()
}

impl Builder<'_, '_> {
    pub(super) fn container(&mut self, topology: &Topology<'_>, template: &Template) -> Container {
        let size = |name: &str| template.property(name).and_then(size_of);
        let number = |name: &str| template.property(name).and_then(Node::as_u32);
        let extended = template
            .property("extended_resource_requests")
            .map(Node::items);
        let extended = extended.unwrap_or_default().iter().flat_map(|one| {
            let amount = one.get("amount").and_then(Node::as_u32).unwrap_or(0);
            let names = one
                .get("extended_resource")
                .into_iter()
                .flat_map(Node::named);
            names.map(move |(kind, name)| (name.as_str().unwrap_or(kind).to_owned(), amount))
        });
        Container {
            name: template.name.clone(),
            display_name: template.text("name").unwrap_or(&template.name).to_owned(),
            image: self.image(topology, template),
            requested_cpu_resources: number("requested_cpu_resources"),
            cpu_resource_limit: number("cpu_resource_limit"),
            requested_memory_bytes: size("requested_memory_resources"),
            memory_limit_bytes: size("memory_resource_limit"),
            requested_ephemeral_storage_bytes: size("requested_ephemeral_storage_resources"),
            ephemeral_storage_limit_bytes: size("ephemeral_storage_resource_limit"),
            extended_resources: extended.collect(),
            huge_pages: huge_pages(template.property("huge_pages_resources")),
            cpu_pinning: pinning(template.property("cpu_pinning_requirements")),
        }
    }

    pub(super) fn mciop(&self, topology: &Topology<'_>, template: &Template) -> Mciop {
        let artifacts = template
            .node
            .get("artifacts")
            .into_iter()
            .flat_map(Node::named);
        let charts = artifacts.filter(|(_, node)| {
            let maps = [RULE, SCRIPT].map(|kind| self.is_artifact(node, kind));
            !maps.contains(&true)
        });
        let files = charts.filter_map(|(name, node)| {
            let file = node.get("file").unwrap_or(node);
            Some((name.to_owned(), self.file(topology, file)?))
        });
        Mciop {
            name: template.name.clone(),
            vdus: template
                .targets("associatedVdu")
                .filter_map(Node::as_str)
                .map(str::to_owned)
                .collect(),
            files: files.collect(),
            parameter_mapping: None,
        }
    }
}

fn pinning(node: Option<&Node>) -> Option<CpuPinning> {
    let node = node?;
    Some(CpuPinning {
        policy: node
            .get("virtual_cpu_pinning_policy")
            .and_then(Node::as_str)
            .map(str::to_owned),
        rules: node
            .get("virtual_cpu_pinning_rule")
            .map(Node::texts)
            .unwrap_or_default(),
    })
}

fn huge_pages(node: Option<&Node>) -> Vec<HugePages> {
    let one = |node: &Node| {
        Some(HugePages {
            page_bytes: node.get("hugepage_size").and_then(size_of)?,
            requested_bytes: node.get("requested_size").and_then(size_of)?,
        })
    };
    node.map(Node::items)
        .unwrap_or_default()
        .iter()
        .filter_map(one)
        .collect()
}

/// Reads a mapping whose values are text.
pub(super) fn table(node: Option<&Node>) -> BTreeMap<String, String> {
    node.into_iter()
        .flat_map(Node::named)
        .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
        .collect()
}
