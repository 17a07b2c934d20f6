//! Configuration of LCM operations, monitoring, indicators, security group rules,
//! supported interfaces and package changes.

use super::seconds::seconds;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// `lcm_operations_configuration`, with the standard's defaults for absent values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LcmConfiguration {
    /// Whether an instantiation may set the level of each aspect.
    pub target_scale_levels_supported: bool,
    /// Whether a scale operation may take several steps.
    pub scaling_by_more_than_one_step_supported: bool,
    /// Whether scaling to levels may name levels other than those of an instantiation level.
    pub arbitrary_target_levels_supported: bool,
    /// The causes that a heal request may name; empty allows any.
    pub heal_causes: Vec<String>,
    /// Minimum timeout of a graceful termination.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub min_graceful_termination_timeout: Option<Duration>,
    /// Recommended maximum timeout of a graceful termination.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub max_recommended_graceful_termination_timeout: Option<Duration>,
    /// Minimum timeout of a graceful stop.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub min_graceful_stop_timeout: Option<Duration>,
    /// Recommended maximum timeout of a graceful stop.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub max_recommended_graceful_stop_timeout: Option<Duration>,
}

/// What a monitoring parameter measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Monitored {
    /// The entire VNF, not a part of it.
    Vnf,
    /// Each VNFC of a VDU.
    Vdu(String),
    /// An internal virtual link, by its name.
    VirtualLink(String),
}

/// `monitoring_parameters` of a VNF, VDU or virtual link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MonitoringParameter {
    /// Key of the parameter; its name if parameters are a list.
    pub id: String,
    /// Name of the measurement, for people.
    pub name: String,
    /// The metric, such as `v_cpu_usage_mean_vnf`.
    pub performance_metric: String,
    /// Interval between measurements; absent if the descriptor states none.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub collection_period: Option<Duration>,
    /// What is measured: the VNF, a VDU or a link.
    pub of: Monitored,
}

/// A policy for a VNF indicator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Indicator {
    /// Name of the policy in the descriptor.
    pub name: String,
    /// Who reports the indicator: `vnf`, `em` or `both_vnf_and_em`.
    pub source: String,
    /// Names of the policy's triggers.
    pub triggers: Vec<String>,
}

/// A rule that permits traffic of connection points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SecurityGroupRule {
    /// Name of the policy, which SOL003 calls `securityGroupRuleId`.
    pub name: String,
    /// Direction of the traffic: `ingress` or `egress`.
    pub direction: String,
    /// Version of IP: `ipv4` or `ipv6`.
    pub ether_type: String,
    /// Transport protocol, such as `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// First port; 0 if absent.
    pub port_range_min: u32,
    /// Last port, inclusive; 65535 if absent.
    pub port_range_max: u32,
    /// Connection points and deployable units that it applies to.
    pub targets: Vec<String>,
}

/// An interface that the VNF provides (`SupportedVnfInterface`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SupportedInterface {
    /// Kind of the interface: `vnf_indicator`, `vnf_configuration` or `vnf_lcm_coordination`.
    pub interface: String,
    /// How to reach it, as written.
    pub details: Option<Value>,
    /// The connection points that provide it.
    pub cps: Vec<String>,
}

/// A change to another package that the descriptor supports (`VnfPackageChange`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PackageChange {
    /// Name of the policy in the descriptor.
    pub name: String,
    /// The source and destination descriptors.
    pub selectors: Vec<ChangeSelector>,
    /// `up` to a newer version or `down` to an older one.
    pub modification_qualifier: String,
    /// The flavour of the VNF after the change.
    pub destination_flavour_id: String,
    /// Components that correspond to each other in the two descriptors.
    pub component_mappings: Vec<ComponentMapping>,
}

/// A source descriptor and flavour, and a destination descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeSelector {
    /// Descriptor that the VNF has before the change.
    pub source_descriptor_id: String,
    /// The descriptor after the change.
    pub destination_descriptor_id: String,
    /// Flavour that the VNF has before the change.
    pub source_flavour_id: String,
}

/// A component of the source descriptor and its counterpart in the destination descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentMapping {
    /// Kind of the component, such as `vdu`, `cp` or `virtual_link`.
    pub component_type: String,
    /// Identifier in the source descriptor.
    pub source_id: String,
    /// Identifier in the destination descriptor.
    pub destination_id: String,
}
