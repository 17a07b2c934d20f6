//! The supported resource types: their properties and synchronous checks.

use serde_json::{Map, Value};

use super::functions::NOT_YET_CREATED;
use super::state::State;
use super::template::{DELETION_POLICY, TemplateError, invalid};

type Properties = Map<String, Value>;

pub(crate) struct ResourceType {
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

/// The type of this name, if supported.
pub(crate) fn known(name: &str) -> Option<&'static ResourceType> {
    TYPES.iter().find(|known| known.name == name)
}

impl ResourceType {
    /// Whether it is a group of members.
    pub(crate) fn is_group(&self) -> bool {
        matches!(
            self.name,
            "OS::Heat::ResourceGroup" | "OS::Heat::AutoScalingGroup"
        )
    }

    /// The names of its properties.
    pub(crate) fn properties(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).copied()
    }

    /// An error for an unknown or missing property.
    pub(crate) fn check(
        &self,
        resource: &str,
        properties: &Properties,
    ) -> Result<(), TemplateError> {
        let refuse = |what: String| {
            Err(invalid(format!(
                "Property error: : resources.{resource}.properties: : {what}"
            )))
        };
        let knows = |name: &String| {
            name.starts_with(':')
                || self.required.contains(&name.as_str())
                || self.optional.contains(&name.as_str())
        };
        if let Some(unknown) = properties.keys().find(|name| !knows(name)) {
            return refuse(format!("Unknown Property {unknown}"));
        }
        match self
            .required
            .iter()
            .find(|name| properties.get(**name).is_none_or(Value::is_null))
        {
            Some(missing) => refuse(format!("Property {missing} not assigned")),
            None => Ok(()),
        }
    }
}

const TYPES: [ResourceType; 26] = [
    ResourceType {
        name: "OS::Nova::Server",
        required: &["flavor"],
        optional: &[
            "name",
            "image",
            "networks",
            "key_name",
            "metadata",
            "user_data",
            "user_data_format",
            "security_groups",
            "availability_zone",
            "scheduler_hints",
            "config_drive",
            "block_device_mapping",
            "block_device_mapping_v2",
            "admin_pass",
            "diskConfig",
            "flavor_update_policy",
            "image_update_policy",
            "user_data_update_policy",
            "tags",
            "software_config_transport",
            "reservation_id",
            "personality",
        ],
    },
    ResourceType {
        name: "OS::Neutron::Net",
        required: &[],
        optional: &[
            "name",
            "admin_state_up",
            "shared",
            "port_security_enabled",
            "value_specs",
            "qos_policy",
            "dns_domain",
            "tenant_id",
            "availability_zone_hints",
            "tags",
        ],
    },
    ResourceType {
        name: "OS::Neutron::Subnet",
        required: &[],
        optional: &[
            "network",
            "network_id",
            "cidr",
            "name",
            "gateway_ip",
            "allocation_pools",
            "enable_dhcp",
            "dns_nameservers",
            "ip_version",
            "host_routes",
            "ipv6_address_mode",
            "ipv6_ra_mode",
            "subnetpool",
            "prefixlen",
            "tags",
            "value_specs",
            "tenant_id",
        ],
    },
    ResourceType {
        name: "OS::Neutron::Port",
        required: &[],
        optional: &[
            "network",
            "network_id",
            "name",
            "fixed_ips",
            "security_groups",
            "mac_address",
            "allowed_address_pairs",
            "admin_state_up",
            "port_security_enabled",
            "binding:vnic_type",
            "value_specs",
            "device_id",
            "device_owner",
            "dns_name",
            "qos_policy",
            "tags",
            "replacement_policy",
            "no_fixed_ips",
        ],
    },
    ResourceType {
        name: "OS::Neutron::SecurityGroup",
        required: &[],
        optional: &["name", "description", "rules"],
    },
    ResourceType {
        name: "OS::Neutron::SecurityGroupRule",
        required: &["security_group"],
        optional: &[
            "description",
            "direction",
            "ethertype",
            "protocol",
            "port_range_min",
            "port_range_max",
            "remote_group",
            "remote_ip_prefix",
        ],
    },
    ResourceType {
        name: "OS::Neutron::Router",
        required: &[],
        optional: &[
            "name",
            "external_gateway_info",
            "admin_state_up",
            "distributed",
            "ha",
            "value_specs",
            "tags",
        ],
    },
    ResourceType {
        name: "OS::Neutron::RouterInterface",
        required: &["router"],
        optional: &["router_id", "subnet", "subnet_id", "port"],
    },
    ResourceType {
        name: "OS::Neutron::FloatingIP",
        required: &["floating_network"],
        optional: &[
            "port_id",
            "fixed_ip_address",
            "floating_ip_address",
            "floating_subnet",
            "dns_name",
            "dns_domain",
            "value_specs",
        ],
    },
    ResourceType {
        name: "OS::Neutron::FloatingIPAssociation",
        required: &["floatingip_id"],
        optional: &["port_id", "fixed_ip_address"],
    },
    ResourceType {
        name: "OS::Neutron::Trunk",
        required: &["port"],
        optional: &["name", "description", "admin_state_up", "sub_ports"],
    },
    ResourceType {
        name: "OS::Octavia::LoadBalancer",
        required: &["vip_subnet"],
        optional: &[
            "name",
            "description",
            "vip_address",
            "provider",
            "flavor",
            "tags",
        ],
    },
    ResourceType {
        name: "OS::Octavia::Listener",
        required: &["protocol", "protocol_port"],
        optional: &["loadbalancer", "default_pool", "name", "description"],
    },
    ResourceType {
        name: "OS::Octavia::Pool",
        required: &["protocol", "lb_algorithm"],
        optional: &["listener", "loadbalancer", "name", "description"],
    },
    ResourceType {
        name: "OS::Octavia::HealthMonitor",
        required: &["pool", "type", "delay", "timeout", "max_retries"],
        optional: &["http_method", "url_path", "expected_codes"],
    },
    ResourceType {
        name: "OS::Octavia::PoolMember",
        required: &["pool", "address", "protocol_port"],
        optional: &["name", "subnet", "weight"],
    },
    ResourceType {
        name: "OS::Cinder::Volume",
        required: &[],
        optional: &[
            "size",
            "name",
            "description",
            "volume_type",
            "image",
            "metadata",
            "availability_zone",
            "snapshot_id",
            "source_volid",
            "read_only",
            "scheduler_hints",
        ],
    },
    ResourceType {
        name: "OS::Cinder::VolumeType",
        required: &["name"],
        optional: &["description", "is_public", "metadata", "projects"],
    },
    ResourceType {
        name: "OS::Cinder::VolumeAttachment",
        required: &["instance_uuid", "volume_id"],
        optional: &["mountpoint"],
    },
    ResourceType {
        name: "OS::Nova::KeyPair",
        required: &["name"],
        optional: &["public_key", "save_private_key", "type", "user"],
    },
    ResourceType {
        name: "OS::Nova::ServerGroup",
        required: &[],
        optional: &["name", "policies", "rules"],
    },
    ResourceType {
        name: "OS::Heat::ResourceGroup",
        required: &["resource_def"],
        optional: &[
            "count",
            "index_var",
            "removal_policies",
            "removal_policies_mode",
        ],
    },
    ResourceType {
        name: "OS::Heat::AutoScalingGroup",
        required: &["min_size", "max_size", "resource"],
        optional: &["desired_capacity", "cooldown", "rolling_updates"],
    },
    ResourceType {
        name: "OS::Heat::ScalingPolicy",
        required: &[
            "auto_scaling_group_id",
            "adjustment_type",
            "scaling_adjustment",
        ],
        optional: &["cooldown", "min_adjustment_step"],
    },
    ResourceType {
        name: "OS::Heat::Value",
        required: &["value"],
        optional: &["type"],
    },
    ResourceType {
        name: "OS::Heat::TestResource",
        required: &[],
        optional: &["value", "fail", "wait_secs"],
    },
];

/// Whether this property can change without replacing the resource.
pub(crate) fn changes_in_place(kind: &str, property: &str) -> bool {
    match kind {
        _ if property == DELETION_POLICY => true,
        "OS::Nova::Server" => {
            matches!(
                property,
                "name" | "metadata" | "flavor" | "image" | "tags" | "security_groups" | "networks"
            )
        }
        "OS::Neutron::Net"
        | "OS::Neutron::Subnet"
        | "OS::Neutron::SecurityGroup"
        | "OS::Neutron::Router"
        | "OS::Heat::ScalingPolicy"
        | "OS::Heat::Value" => true,
        "OS::Neutron::Port" => !matches!(property, "network" | "network_id"),
        "OS::Cinder::Volume" => matches!(property, "name" | "description" | "metadata" | "size"),
        _ => false,
    }
}

/// An error for a flavor, image or network that does not exist.
pub(crate) fn check_references(
    state: &State,
    resource: &str,
    kind: &str,
    properties: &Properties,
) -> Result<(), TemplateError> {
    let named = |property: &str| {
        properties
            .get(property)
            .and_then(Value::as_str)
            .filter(|name| !name.contains(NOT_YET_CREATED))
    };
    let refuse = |path: &str, name: &str, why: &str| {
        Err(invalid(format!(
            "Property error: : resources.{resource}.properties.{path}: : Error validating value '{name}': {why}"
        )))
    };
    let missing = |kind: &str, name: &str| state.find(kind, name).is_none();
    let no_network = |name: &str| format!("Unable to find network with name or id '{name}'");
    if let Some(flavor) = named("flavor").filter(|name| missing("flavor", name)) {
        return refuse(
            "flavor",
            flavor,
            &format!("No Flavor matching {{'name': '{flavor}'}}. (HTTP 404)"),
        );
    }
    if let Some(image) = named("image").filter(|name| missing("image", name)) {
        return refuse(
            "image",
            image,
            &format!("No images matching {{'name': '{image}'}}."),
        );
    }
    for property in ["network", "floating_network"] {
        if let Some(network) = named(property).filter(|name| missing("network", name)) {
            return refuse(property, network, &no_network(network));
        }
    }
    if kind != "OS::Nova::Server" {
        return Ok(());
    }
    if let Some(key) = named("key_name").filter(|name| missing("keypair", name)) {
        return refuse(
            "key_name",
            key,
            &format!("The Key ({key}) could not be found."),
        );
    }
    for (n, network) in properties
        .get("networks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        if let Some(name) = network
            .get("network")
            .and_then(Value::as_str)
            .filter(|name| !name.contains(NOT_YET_CREATED) && missing("network", name))
        {
            return refuse(&format!("networks[{n}].network"), name, &no_network(name));
        }
    }
    Ok(())
}
