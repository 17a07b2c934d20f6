//! VDUs, connection points, virtual links, storages and images of a flavour.

use super::compute::{CpuPinning, HugePages, RequestedCapability};
use super::flavour::LevelError;
use super::seconds::seconds;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How a VDU is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum VduKind {
    /// `tosca.nodes.nfv.Vdu.Compute`: a server, or a workload on a container platform.
    Compute,
    /// `tosca.nodes.nfv.Vdu.OsContainerDeployableUnit`: a workload on a container platform.
    OsContainer,
}

/// A virtualisation deployment unit: one kind of VNFC.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Vdu {
    /// Name of the node template; `vduId` of SOL003.
    pub name: String,
    /// `properties.name`; on a container platform the workload's `metadata.name`.
    pub display_name: String,
    /// `properties.description`: what the VDU does, for people.
    pub description: String,
    /// Whether it is a server or a set of containers.
    pub kind: VduKind,
    /// CPUs, memory, disks; absent if the Base HOT or the manifest defines them.
    pub compute: Option<VirtualCompute>,
    /// A VIM's flavor by name: the `requested_additional_capability_name`, or the template's metadata `flavor`.
    pub requested_flavor: Option<String>,
    /// Accelerators and other requested features.
    pub requested_capabilities: Vec<RequestedCapability>,
    /// `logical_node`: requirements on the host, by key.
    pub logical_node: BTreeMap<String, BTreeMap<String, String>>,
    /// The containers of a deployable unit.
    pub containers: Vec<String>,
    /// The image of the server or container.
    pub image: Option<SwImage>,
    /// Names of its storages' node templates.
    pub storages: Vec<String>,
    /// `vdu_profile.min_number_of_instances`: fewest VNFCs that are allowed.
    pub min_number_of_instances: Option<u32>,
    /// `vdu_profile.max_number_of_instances`: most VNFCs that are allowed.
    pub max_number_of_instances: Option<u32>,
    /// `boot_data` as the descriptor has it.
    pub boot_data: Option<Value>,
    /// `nfvi_constraints` as the descriptor has it.
    pub nfvi_constraints: Option<Value>,
    /// The workload that implements it, if the descriptor states it.
    pub mcio: Option<Mcio>,
    /// The `metadata` of the node template, as written.
    pub metadata: BTreeMap<String, String>,
}

impl Vdu {
    /// The number of VNFCs, if the VDU's profile allows it.
    pub(crate) fn within_profile(&self, count: u32) -> Result<u32, LevelError> {
        let min = self.min_number_of_instances.unwrap_or(0);
        let max = self.max_number_of_instances.unwrap_or(u32::MAX);
        if (min..=max).contains(&count) {
            return Ok(count);
        }
        let vdu = self.name.clone();
        Err(LevelError::Profile {
            vdu,
            count,
            min,
            max,
        })
    }
}

/// `mcio_identification_data`: the workload of a deployable unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mcio {
    /// `metadata.name` of the workload in its manifest.
    pub name: String,
    /// Kind of the workload, such as `Deployment` or `StatefulSet`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The `virtual_compute` capability: CPU, memory and disks of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VirtualCompute {
    /// Number of virtual CPUs, `num_virtual_cpu`.
    pub num_virtual_cpu: u32,
    /// Memory in MiB, rounded up.
    pub virtual_mem_size_mib: u64,
    /// `virtual_local_storage`: sizes in GiB, rounded up; the first is the root disk.
    pub virtual_local_storage_gib: Vec<u64>,
    /// CPU architecture, such as `x86_64`.
    pub cpu_architecture: Option<String>,
    /// Pinning of virtual CPUs to physical ones.
    pub cpu_pinning: Option<CpuPinning>,
    /// Whether memory is allocated on the NUMA node of the CPUs.
    pub numa_enabled: bool,
    /// Requested huge pages, by page size.
    pub huge_pages: Vec<HugePages>,
}

/// A software image of a VDU, container or storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SwImage {
    /// Name; an image of this name on the VIM is used, or created from `artifact`.
    pub name: String,
    /// Version of the image, as written.
    pub version: Option<String>,
    /// The provider, if not the VNF's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Checksum of the image's content.
    pub checksum: Option<Checksum>,
    /// Format of the container, such as `bare` or `docker`.
    pub container_format: Option<String>,
    /// Format of the disk, such as `qcow2` or `raw`.
    pub disk_format: Option<String>,
    /// Minimum disk in GiB, rounded up.
    pub min_disk_gib: Option<u64>,
    /// Minimum memory in MiB, rounded up.
    pub min_ram_mib: Option<u64>,
    /// Size of the image in bytes.
    pub size_bytes: Option<u64>,
    /// Path in the package, if the package contains the image.
    pub artifact: Option<String>,
    /// The artifact's `file` as written: a path, or the reference of a container image.
    pub file: Option<String>,
}

/// `tosca.datatypes.nfv.ChecksumData`: the hash of an image file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checksum {
    /// Name of the hash function, such as `sha-256` or `sha-512`.
    pub algorithm: String,
    /// The hash, in hexadecimal digits.
    pub hash: String,
}

/// The kind of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum StorageKind {
    /// A block device, such as a Cinder volume.
    Block,
    /// An object store, which holds named objects.
    Object,
    /// A shared file system that several VNFCs mount.
    File,
}

/// A virtual storage that VDUs use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Storage {
    /// Name of the node template; `virtualStorageDescId` of SOL003.
    pub name: String,
    /// Volume, object store or file system.
    pub kind: StorageKind,
    /// Size in GiB, rounded up.
    pub size_gib: Option<u64>,
    /// Whether each VNFC instance has its own storage, or all share one.
    pub per_vnfc_instance: bool,
    /// The image that it is initialized from.
    pub image: Option<SwImage>,
}

/// The kind of a connection point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum CpKind {
    /// `VduCp`: an interface of a VDU.
    VduCp,
    /// `VnfExtCp`: exposes an internal link.
    VnfExtCp,
    /// `VipCp`: a virtual IP address shared by interfaces.
    VipCp,
    /// `VirtualCp`: a service provided by containers.
    VirtualCp,
}

/// An internal or external connection point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Cp {
    /// Name of the node template; `cpdId` of SOL003.
    pub name: String,
    /// Kind, from the type of its node template.
    pub kind: CpKind,
    /// The VDU that it is bound to; for a VIP or virtual CP, that of its first target.
    pub vdu: Option<String>,
    /// The internal link that it is on.
    pub virtual_link: Option<String>,
    /// Whether the request connects it to an external link (`extVirtualLinks`).
    pub external: bool,
    /// Order among the VDU's interfaces; gaps and repeats across VDUs are allowed.
    pub order: Option<u32>,
    /// Protocols of the connection point, such as `ipv4` or `ipv6`.
    pub layer_protocols: Vec<String>,
    /// `properties.description`: what the connection point serves, for people.
    pub description: Option<String>,
    /// `vnic_type`, such as `normal` or `direct`.
    pub vnic_type: Option<String>,
    /// `trunk_mode`: whether the port is a trunk, such as for 802.1Q.
    pub trunk_mode: bool,
    /// `protocol` as written: the requested addresses.
    pub protocol: Option<Value>,
}

/// A connection point that the request connects to an external link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalCp {
    /// Name that requests use for it: `cpdId` of SOL003.
    pub cpd_id: String,
    /// The VNF's requirements that are mapped to it; empty if the NSD decides the target.
    pub requirements: Vec<String>,
}

/// Who creates an internal virtual link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectivityKind {
    /// The VNFM, with the VNF.
    Internal,
    /// May come from the request (`extManagedVirtualLinks`).
    Allowed,
    /// Must come from the request.
    Required,
}

/// A virtual link within the VNF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VirtualLink {
    /// Name of the node template; `vnfVirtualLinkDescId` of SOL003.
    pub name: String,
    /// `properties.description`: what the link connects, for people.
    pub description: Option<String>,
    /// `externally_managed`: whether the request may or must supply the network.
    pub externally_managed: ConnectivityKind,
    /// `ipv4` or `ipv6`; absent if no subnet is described.
    pub ip_version: Option<String>,
    /// Address range of the subnet.
    pub cidr: Option<String>,
    /// Gateway address of the subnet.
    pub gateway: Option<String>,
    /// Whether DHCP is enabled; the VIM's default if absent.
    pub dhcp: Option<bool>,
    /// Ranges from which addresses are allocated.
    pub pools: Vec<IpPool>,
    /// `l2_protocol_data.network_type`, such as `flat`, `vlan` or `vxlan`.
    pub network_type: Option<String>,
    /// `l2_protocol_data.mtu`: largest packet of the network, in bytes.
    pub mtu: Option<u32>,
    /// `l2_protocol_data.segmentation_id`: VLAN id or tunnel key, as written.
    pub segmentation_id: Option<String>,
    /// `connectivity_type.layer_protocols`: the protocols that the link carries.
    pub layer_protocols: Vec<String>,
    /// `connectivity_type.flow_pattern`: `line`, `tree` or `mesh`.
    pub flow_pattern: Option<String>,
    /// `vl_profile.qos`: the quality that the link must offer.
    pub qos: Option<Qos>,
    /// `max_bitrate_requirements.root`, in bits per second.
    pub max_bitrate: Option<u64>,
    /// `min_bitrate_requirements.root`, in bits per second.
    pub min_bitrate: Option<u64>,
}

/// `tosca.datatypes.nfv.Qos`: limits on latency, jitter and loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Qos {
    /// Highest latency that is acceptable.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
    /// Maximum variation of the packet delay.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub packet_delay_variation: Option<Duration>,
    /// Maximum packet loss between `0` and `1`, as written.
    pub packet_loss_ratio: Option<String>,
}

/// A range of IP addresses for allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IpPool {
    /// First address of the range.
    pub start: String,
    /// Last address of the range, inclusive.
    pub end: String,
}
