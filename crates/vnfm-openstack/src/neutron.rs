//! Neutron: networks by id or name, ports.

use crate::heat::member;
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::PortError;

/// Ids per request: a URL must not grow too long.
const MAX_IDS_PER_CALL: usize = 40;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Network {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Port {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) network_id: String,
    #[serde(default)]
    pub(crate) device_id: String,
    #[serde(default)]
    pub(crate) mac_address: String,
    #[serde(default)]
    pub(crate) fixed_ips: Vec<FixedIp>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct FixedIp {
    #[serde(default)]
    pub(crate) subnet_id: String,
    #[serde(default)]
    pub(crate) ip_address: String,
}

/// Every network with that id, or else with that name.
pub(crate) async fn networks(
    cloud: &Cloud<'_>,
    id_or_name: &str,
) -> Result<Vec<Network>, PortError> {
    for filter in ["id", "name"] {
        let action = format!("look for network `{id_or_name}`");
        let path = format!("/networks?{filter}={}", encoded(id_or_name));
        let reply = cloud
            .send(Service::Network, &Call::get(path, action.as_str()))
            .await?;
        let mut found: Vec<Network> = member(reply, "networks", &action)?;
        found.retain(|one| {
            if filter == "id" {
                one.id == id_or_name
            } else {
                one.name == id_or_name
            }
        });
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

pub(crate) async fn port(cloud: &Cloud<'_>, id: &str) -> Result<Option<Port>, PortError> {
    let found = ports(cloud, "id", &[id], "").await?;
    Ok(found.into_iter().find(|port| port.id == id))
}

/// Which of these ids are ports.
pub(crate) async fn existing(
    cloud: &Cloud<'_>,
    ids: &[&str],
) -> Result<BTreeSet<String>, PortError> {
    let found = ports(cloud, "id", ids, "fields=id&").await?;
    Ok(found.into_iter().map(|port| port.id).collect())
}

/// Which of these ports no device has.
pub(crate) async fn free(cloud: &Cloud<'_>, ids: &[&str]) -> Result<BTreeSet<String>, PortError> {
    let found = ports(cloud, "id", ids, "fields=id&fields=device_id&").await?;
    let free = found.into_iter().filter(|port| port.device_id.is_empty());
    Ok(free.map(|port| port.id).collect())
}

/// The ports of these servers, by the server's id.
pub(crate) async fn ports_of(
    cloud: &Cloud<'_>,
    servers: &[&str],
) -> Result<BTreeMap<String, Vec<Port>>, PortError> {
    let mut found: BTreeMap<String, Vec<Port>> = BTreeMap::new();
    for port in ports(cloud, "device_id", servers, "").await? {
        found.entry(port.device_id.clone()).or_default().push(port);
    }
    Ok(found)
}

/// The ports whose member `filter` has one of these values; `members` limits what is returned of each.
async fn ports(
    cloud: &Cloud<'_>,
    filter: &str,
    values: &[&str],
    members: &str,
) -> Result<Vec<Port>, PortError> {
    let mut found = Vec::new();
    for some in values.chunks(MAX_IDS_PER_CALL) {
        let action = format!("look for ports with {filter} `{}`", some.join("`, `"));
        let query = some.iter().map(|one| format!("{filter}={}", encoded(one)));
        let query: Vec<String> = query.collect();
        let path = format!("/ports?{members}{}", query.join("&"));
        let reply = cloud
            .send(Service::Network, &Call::get(path, action.as_str()))
            .await?;
        let ports: Vec<Port> = member(reply, "ports", &action)?;
        found.extend(ports);
    }
    Ok(found)
}
