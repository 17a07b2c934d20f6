//! What a descriptor says about the life of a VNF: its operations' configuration, what is
//! monitored, which changes of the package it is prepared for, and its rules for traffic.

use super::flavour::seconds;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// `lcm_operations_configuration`, what is left out at the standard's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LcmConfiguration {
    /// Whether an instantiation may name a level for each aspect.
    pub target_scale_levels_supported: bool,
    /// Whether one scaling may take several steps.
    pub scaling_by_more_than_one_step_supported: bool,
    /// Whether a scaling to levels may name others than those of an instantiation level.
    pub arbitrary_target_levels_supported: bool,
    /// The causes that a heal may name; none: any.
    pub heal_causes: Vec<String>,
    /// The least time that a graceful termination is given.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub min_graceful_termination_timeout: Option<Duration>,
    /// The most time that a graceful termination should be given.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub max_recommended_graceful_termination_timeout: Option<Duration>,
    /// The least time that a graceful stop is given.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub min_graceful_stop_timeout: Option<Duration>,
    /// The most time that a graceful stop should be given.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub max_recommended_graceful_stop_timeout: Option<Duration>,
}

/// What a monitoring parameter is measured at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Monitored {
    /// The VNF.
    Vnf,
    /// Each VNFC of a VDU.
    Vdu(String),
    /// A virtual link.
    VirtualLink(String),
}

/// A monitoring parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MonitoringParameter {
    /// Its key; where parameters are listed, its name.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What is measured, such as `v_cpu_usage_mean_vnf`.
    pub performance_metric: String,
    /// How often.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub collection_period: Option<Duration>,
    /// Where.
    pub of: Monitored,
}

/// A policy about an indicator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Indicator {
    /// The policy's name.
    pub name: String,
    /// `vnf`, `em` or `both_vnf_and_em`.
    pub source: String,
    /// Names of its triggers.
    pub triggers: Vec<String>,
}

/// A rule for the traffic of connection points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SecurityGroupRule {
    /// The policy's name; `securityGroupRuleId`.
    pub name: String,
    /// `ingress` or `egress`.
    pub direction: String,
    /// `ipv4` or `ipv6`.
    pub ether_type: String,
    /// `tcp`, `udp`, …
    pub protocol: String,
    /// First port.
    pub port_range_min: u32,
    /// Last port.
    pub port_range_max: u32,
    /// Connection points and deployable units that it holds for.
    pub targets: Vec<String>,
}

/// An interface that the VNF offers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SupportedInterface {
    /// `vnf_indicator`, `vnf_configuration` or `vnf_lcm_coordination`.
    pub interface: String,
    /// How it is reached, as written.
    pub details: Option<Value>,
    /// The connection points that it is offered at.
    pub cps: Vec<String>,
}

/// A change to another package that the descriptor is prepared for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PackageChange {
    /// The policy's name.
    pub name: String,
    /// Between which descriptors.
    pub selectors: Vec<ChangeSelector>,
    /// `up` to a newer version or `down` to an older one.
    pub modification_qualifier: String,
    /// The flavour that the VNF has afterwards.
    pub destination_flavour_id: String,
    /// What becomes what.
    pub component_mappings: Vec<ComponentMapping>,
}

/// From which descriptor and flavour to which descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeSelector {
    /// The descriptor that the VNF has.
    pub source_descriptor_id: String,
    /// The descriptor that it gets.
    pub destination_descriptor_id: String,
    /// The flavour that it has.
    pub source_flavour_id: String,
}

/// A component of the old descriptor and what it is in the new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentMapping {
    /// `vdu`, `cp`, `virtual_link`, …
    pub component_type: String,
    /// Its identifier in the old descriptor.
    pub source_id: String,
    /// Its identifier in the new one.
    pub destination_id: String,
}
