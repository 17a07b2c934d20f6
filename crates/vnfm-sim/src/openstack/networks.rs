//! Networks, subnets and ports, and the addresses on them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::state::{Server, State, new_id, text};
use crate::time::now;

impl State {
    /// Creates a network; returns its id.
    pub(crate) fn add_network(
        &mut self,
        name: &str,
        project: &str,
        more: &Map<String, Value>,
    ) -> String {
        let port_security = more
            .get("port_security_enabled")
            .cloned()
            .unwrap_or(json!(true));
        self.put(
            "network",
            json!({ "id": new_id(), "name": name, "status": "ACTIVE", "admin_state_up": true, "shared": false,
                "router:external": false, "subnets": [], "mtu": 1500, "project_id": project, "tenant_id": project,
                "port_security_enabled": port_security, "description": "", "tags": [],
                "availability_zones": ["nova"], "availability_zone_hints": [], "created_at": now() }),
        )
    }

    /// Creates a subnet of an existing network; returns its id.
    pub(crate) fn add_subnet(&mut self, wanted: &Value, project: &str) -> String {
        let cidr = wanted
            .get("cidr")
            .and_then(Value::as_str)
            .unwrap_or("192.168.0.0/24");
        let (first, size) = range(cidr);
        let at = |n: u32| Ipv4Addr::from(first + n).to_string();
        let pools = match wanted.get("allocation_pools") {
            Some(pools) if pools.as_array().is_some_and(|p| !p.is_empty()) => pools.clone(),
            _ => json!([{ "start": at(2), "end": at(size.saturating_sub(2).max(2)) }]),
        };
        let member = |name: &str, otherwise: Value| {
            wanted
                .get(name)
                .filter(|v| !v.is_null())
                .cloned()
                .unwrap_or(otherwise)
        };
        let network = text(wanted, "network_id").to_owned();
        let id = self.put(
            "subnet",
            json!({ "id": new_id(), "name": member("name", json!("")), "network_id": network, "cidr": cidr,
                "gateway_ip": member("gateway_ip", json!(at(1))), "enable_dhcp": member("enable_dhcp", json!(true)),
                "ip_version": 4, "allocation_pools": pools, "dns_nameservers": member("dns_nameservers", json!([])),
                "host_routes": [], "project_id": project, "tenant_id": project, "created_at": now() }),
        );
        let mut subnets = self
            .object("network", &network)
            .map_or(json!([]), |n| n["subnets"].clone());
        if let Some(list) = subnets.as_array_mut() {
            list.push(json!(id));
        }
        self.change("network", &network, &json!({ "subnets": subnets }));
        id
    }

    /// The requested address of a subnet, or any free one; an error if there is none.
    pub(crate) fn free_address(
        &self,
        subnet: &str,
        wanted: Option<&str>,
    ) -> Result<String, String> {
        let used: BTreeSet<&str> = (self
            .all("port")
            .flat_map(|port| port["fixed_ips"].as_array().into_iter().flatten()))
        .filter(|ip| text(ip, "subnet_id") == subnet)
        .map(|ip| text(ip, "ip_address"))
        .chain(
            self.all("floatingip")
                .map(|ip| text(ip, "floating_ip_address")),
        )
        .collect();
        let body = self
            .object("subnet", subnet)
            .ok_or_else(|| format!("Subnet {subnet} could not be found."))?;
        if let Some(wanted) = wanted {
            if used.contains(wanted) {
                let network = text(body, "network_id");
                return Err(format!(
                    "IP address {wanted} already allocated in subnet {subnet} of network {network}"
                ));
            }
            return Ok(wanted.to_owned());
        }
        let bound = |name: &str| {
            body["allocation_pools"][0][name]
                .as_str()?
                .parse::<Ipv4Addr>()
                .ok()
                .map(u32::from)
        };
        let (start, end) = (
            bound("start").unwrap_or_default(),
            bound("end").unwrap_or_default(),
        );
        (start..=end)
            .map(|n| Ipv4Addr::from(n).to_string())
            .find(|address| !used.contains(address.as_str()))
            .ok_or_else(|| {
                format!(
                    "No more IP addresses available on network {}.",
                    text(body, "network_id")
                )
            })
    }

    /// Creates a port of an existing network with its addresses; returns its id.
    pub(crate) fn add_port(
        &mut self,
        network: &str,
        wanted: &Value,
        project: &str,
    ) -> Result<String, String> {
        let fixed_ips = self.fixed_ips(network, wanted)?;
        self.macs += 1;
        let [_, a, b, c] = self.macs.to_be_bytes();
        let mac = wanted
            .get("mac_address")
            .and_then(Value::as_str)
            .map_or_else(
                || format!("fa:16:3e:{a:02x}:{b:02x}:{c:02x}"),
                str::to_owned,
            );
        let member = |name: &str, otherwise: Value| {
            wanted
                .get(name)
                .filter(|v| !v.is_null())
                .cloned()
                .unwrap_or(otherwise)
        };
        Ok(self.put(
            "port",
            json!({ "id": new_id(), "name": member("name", json!("")), "network_id": network, "status": "DOWN",
                "admin_state_up": true, "mac_address": mac, "fixed_ips": fixed_ips, "device_id": "", "device_owner": "",
                "security_groups": member("security_groups", json!([])),
                "allowed_address_pairs": member("allowed_address_pairs", json!([])),
                "binding:vnic_type": member("binding:vnic_type", json!("normal")),
                "port_security_enabled": member("port_security_enabled", json!(true)),
                "project_id": project, "tenant_id": project, "tags": [], "created_at": now() }),
        ))
    }

    /// Gives a port the addresses in its properties; without any, it keeps those that it has.
    pub(crate) fn readdress(&mut self, id: &str, properties: &Map<String, Value>) {
        let given = properties.get("fixed_ips").and_then(Value::as_array);
        let Some(port) = self.object("port", id).cloned() else {
            return;
        };
        if let Some(mac) = properties.get("mac_address").filter(|mac| mac.is_string()) {
            self.change("port", id, &json!({ "mac_address": mac }));
        }
        let has = |ip: &Value| {
            let address = ip.get("ip_address").and_then(Value::as_str);
            let mut own = port["fixed_ips"].as_array().into_iter().flatten();
            address.is_none_or(|address| own.any(|own| text(own, "ip_address") == address))
        };
        if given.is_none_or(|given| given.is_empty() || given.iter().all(has)) {
            return;
        }
        self.change("port", id, &json!({ "fixed_ips": [] }));
        let wanted = Value::Object(properties.clone());
        let addresses = self.fixed_ips(text(&port, "network_id"), &wanted);
        let addresses = addresses.map_or(port["fixed_ips"].clone(), Value::Array);
        self.change("port", id, &json!({ "fixed_ips": addresses }));
    }

    /// The addresses of a new port: the requested ones, or a free one of the network's first subnet.
    fn fixed_ips(&self, network: &str, wanted: &Value) -> Result<Vec<Value>, String> {
        let subnets: Vec<String> = self
            .object("network", network)
            .into_iter()
            .flat_map(|n| n["subnets"].as_array().cloned().unwrap_or_default())
            .filter_map(|s| s.as_str().map(str::to_owned))
            .collect();
        let requested = wanted
            .get("fixed_ips")
            .and_then(Value::as_array)
            .filter(|list| !list.is_empty())
            .cloned();
        let requested = requested.unwrap_or_else(|| {
            subnets
                .first()
                .map(|s| json!({ "subnet": s }))
                .into_iter()
                .collect()
        });
        let mut fixed_ips = Vec::new();
        for ip in &requested {
            let named = ip
                .get("subnet")
                .or_else(|| ip.get("subnet_id"))
                .and_then(Value::as_str);
            let address = ip.get("ip_address").and_then(Value::as_str);
            let subnet = match named {
                Some(named) => self.find("subnet", named).map(|s| text(s, "id").to_owned()),
                None => self.subnet_of(&subnets, address),
            };
            let subnet =
                subnet.ok_or_else(|| format!("Network {network} has no subnet for the port"))?;
            fixed_ips.push(
                json!({ "subnet_id": subnet, "ip_address": self.free_address(&subnet, address)? }),
            );
        }
        Ok(fixed_ips)
    }

    fn subnet_of(&self, subnets: &[String], address: Option<&str>) -> Option<String> {
        let Some(address) = address
            .and_then(|a| a.parse::<Ipv4Addr>().ok())
            .map(u32::from)
        else {
            return subnets.first().cloned();
        };
        let holds = |id: &&String| {
            let (first, size) = self
                .object("subnet", id)
                .map_or((0, 0), |s| range(text(s, "cidr")));
            (first..first.saturating_add(size)).contains(&address)
        };
        subnets.iter().find(holds).cloned()
    }

    /// A server's addresses by network name, in Nova's format.
    pub(crate) fn addresses(&self, server: &Server) -> Value {
        let mut networks = Map::new();
        for port in server.ports.iter().filter_map(|id| self.object("port", id)) {
            let network = self
                .object("network", text(port, "network_id"))
                .map_or("", |n| text(n, "name"));
            let mac = text(port, "mac_address");
            let entry = networks
                .entry(network.to_owned())
                .or_insert_with(|| json!([]));
            let mut add = |address: &str, kind: &str| {
                if let Some(list) = entry.as_array_mut() {
                    list.push(json!({ "version": 4, "addr": address, "OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": mac }));
                }
            };
            for ip in port["fixed_ips"].as_array().into_iter().flatten() {
                add(text(ip, "ip_address"), "fixed");
            }
            for ip in self
                .all("floatingip")
                .filter(|ip| text(ip, "port_id") == text(port, "id"))
            {
                add(text(ip, "floating_ip_address"), "floating");
            }
        }
        Value::Object(networks)
    }
}

/// The first address of a CIDR and the number of its addresses.
fn range(cidr: &str) -> (u32, u32) {
    let (address, bits) = cidr.split_once('/').unwrap_or((cidr, "24"));
    let bits: u32 = bits.parse().unwrap_or(24).min(32);
    let size = 1_u32.checked_shl(32 - bits).unwrap_or(u32::MAX);
    let address = address.parse::<Ipv4Addr>().map_or(0, u32::from);
    (address & !(size.wrapping_sub(1)), size)
}
