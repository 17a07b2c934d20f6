//! Shared virtual links: networks with subnets that no stack contains.
//!
//! ```text
//! create   network ─ tags ─ the subnets that it lacks        delete   the network, with its subnets
//! ```
//! Neutron tags a network only after it exists; so its description, which is there from the start, names the link, and an
//! interrupted creation finds it by that.

use crate::driver::OpenStack;
use crate::errors::LINK;
use crate::heat::{installation_tag, member};
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use crate::snapshots::path;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;
use vnfm_core::ports::{Links, OwnedResource, PortError, VimCall};
use vnfm_types::{LinkSpec, LinkSubnet, SharedLink};

const KIND: &str = "OS::Neutron::Net";
/// Begins the tag and the description that name the link.
const LINK_TAG: &str = "vnfm-link-";

#[derive(Debug, Deserialize)]
struct Network {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Subnet {
    network_id: String,
    cidr: String,
}

#[async_trait]
impl Links for OpenStack {
    fn validate_link(&self, link: &LinkSpec) -> Result<(), PortError> {
        let refused = |member: &str, what: &str| {
            let text = format!("`{member}` {what}");
            Err(PortError::new(&LINK, "use the shared virtual link", text).on(member))
        };
        if link.namespace.is_some() {
            return refused("namespace", "is for Kubernetes clusters");
        }
        if link.cni_config.is_some() {
            return refused("cniConfig", "is for Kubernetes clusters");
        }
        if link.subnets.is_empty() {
            return refused("subnets", "names no subnet, and servers need an address");
        }
        for (at, subnet) in link.subnets.iter().enumerate() {
            let Some(range) = Range::read(&subnet.cidr) else {
                return refused(
                    &format!("subnets[{at}].cidr"),
                    "is no address range, such as `10.10.0.0/24`",
                );
            };
            let gateway = subnet.gateway_ip.as_deref().map(str::parse::<IpAddr>);
            if gateway.is_some_and(|ip| !ip.is_ok_and(|ip| range.contains(ip))) {
                return refused(
                    &format!("subnets[{at}].gatewayIp"),
                    "is no address in its range",
                );
            }
            let mut before = link.subnets[..at].iter();
            if before.any(|one| Range::read(&one.cidr) == Some(range)) {
                return refused(&format!("subnets[{at}].cidr"), "is there twice");
            }
        }
        Ok(())
    }

    async fn create_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<String, PortError> {
        let cloud = &self.cloud(cx);
        let network = match find(cloud, link).await?.into_iter().next() {
            Some(network) => network,
            None => create_network(cloud, link).await?,
        };
        let wanted = [installation_tag(&cx.ownership.installation_id), tag(link)];
        if !wanted.iter().all(|tag| network.tags.contains(tag)) {
            let action = format!("tag network `{}`", link.spec.name);
            let tags = format!("{}/tags", path("networks", &network.id));
            let call = Call::put_json(tags, json!({"tags": wanted}), action);
            cloud.send(Service::Network, &call).await?;
        }
        let existing = subnets(cloud, &network.id).await?;
        for (number, subnet) in link.spec.subnets.iter().enumerate() {
            let is_it = |one: &Subnet| Range::read(&one.cidr) == Range::read(&subnet.cidr);
            if !existing.iter().any(is_it) {
                create_subnet(cloud, (link, &network.id), (number + 1, subnet)).await?;
            }
        }
        Ok(network.id)
    }

    async fn delete_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<(), PortError> {
        let cloud = &self.cloud(cx);
        for network in find(cloud, link).await? {
            let action = format!("delete network `{}`", network.name);
            let call = Call::delete(path("networks", &network.id), action).accepting(&[404]);
            let deleted = cloud.send(Service::Network, &call).await;
            deleted.map_err(|error| error.on(&network.id))?;
        }
        Ok(())
    }
}

fn tag(link: &SharedLink) -> String {
    format!("{LINK_TAG}{}", link.id)
}

/// The networks of a link: one, unless two servers created it at once.
async fn find(cloud: &Cloud<'_>, link: &SharedLink) -> Result<Vec<Network>, PortError> {
    let action = format!("look for network `{}`", link.spec.name);
    let description = tag(link);
    let path = format!("/networks?description={}", encoded(&description));
    let call = Call::get(path, action.as_str());
    let reply = cloud.send(Service::Network, &call).await?;
    let mut found: Vec<Network> = member(reply, "networks", &action)?;
    found.retain(|network| network.description == description);
    Ok(found)
}

async fn create_network(cloud: &Cloud<'_>, link: &SharedLink) -> Result<Network, PortError> {
    let name = &link.spec.name;
    let action = format!("create network `{name}`");
    let body = json!({"network": {"name": name, "description": tag(link)}});
    let call = Call::post("/networks", body, action.as_str());
    member(
        cloud.send(Service::Network, &call).await?,
        "network",
        &action,
    )
}

async fn subnets(cloud: &Cloud<'_>, network: &str) -> Result<Vec<Subnet>, PortError> {
    let action = "look for the subnets of the network";
    let path = format!("/subnets?network_id={}", encoded(network));
    let reply = cloud
        .send(Service::Network, &Call::get(path, action))
        .await?;
    let mut found: Vec<Subnet> = member(reply, "subnets", action)?;
    found.retain(|subnet| subnet.network_id == network);
    Ok(found)
}

async fn create_subnet(
    cloud: &Cloud<'_>,
    (link, network): (&SharedLink, &str),
    (number, wanted): (usize, &LinkSubnet),
) -> Result<(), PortError> {
    let is_v6 = wanted.cidr.contains(':');
    let mut subnet = json!({
        "network_id": network,
        "name": format!("{}-{number}", link.spec.name),
        "description": tag(link),
        "cidr": wanted.cidr,
        "ip_version": if is_v6 { 6 } else { 4 },
        "enable_dhcp": wanted.dhcp_enabled.unwrap_or(true),
    });
    if let Some(gateway) = &wanted.gateway_ip {
        subnet["gateway_ip"] = Value::from(gateway.as_str());
    }
    let action = format!("create subnet `{}`", wanted.cidr);
    let call = Call::post("/subnets", json!({"subnet": subnet}), action);
    cloud.send(Service::Network, &call).await.map(drop)
}

/// The networks of this installation that are shared virtual links.
pub(crate) async fn owned(
    cloud: &Cloud<'_>,
    installation: &str,
) -> Result<Vec<OwnedResource>, PortError> {
    let (session, _) = cloud.session().await?;
    if !Service::Network.is_among(&session.services()) {
        return Ok(Vec::new());
    }
    let action = "list the networks of this installation";
    let ours = installation_tag(installation);
    let path = format!("/networks?tags={}", encoded(&ours));
    let reply = cloud
        .send(Service::Network, &Call::get(path, action))
        .await?;
    let mut found: Vec<Network> = member(reply, "networks", action)?;
    found.retain(|network| network.tags.contains(&ours));
    let resource = |network: Network| OwnedResource {
        kind: KIND.to_owned(),
        link_id: network
            .tags
            .iter()
            .find_map(|tag| tag.strip_prefix(LINK_TAG))
            .map(str::to_owned),
        id: network.id,
        name: network.name,
        instance_id: None,
        snapshot_id: None,
        volume_id: None,
    };
    Ok(found.into_iter().map(resource).collect())
}

/// An address range without host bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: IpAddr,
    prefix: u32,
}

impl Range {
    /// `None` if `text` is no range, or its address has host bits.
    fn read(text: &str) -> Option<Self> {
        let (first, prefix) = text.split_once('/')?;
        let range = Self {
            first: first.parse().ok()?,
            prefix: prefix.parse().ok()?,
        };
        let is_whole = range.prefix <= range.bits() && bits_of(range.first) & !range.mask() == 0;
        is_whole.then_some(range)
    }

    fn bits(self) -> u32 {
        if self.first.is_ipv4() { 32 } else { 128 }
    }

    /// The network part of an address, in the lowest bits.
    fn mask(self) -> u128 {
        let host = self.bits() - self.prefix;
        u128::MAX.checked_shl(host).unwrap_or_default()
    }

    fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.first.is_ipv4() && bits_of(ip) & self.mask() == bits_of(self.first)
    }
}

fn bits_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn a_range_is_read_only_without_host_bits() {
        for text in ["10.10.0.0/24", "0.0.0.0/0", "fd00:10::/64", "192.0.2.7/32"] {
            assert!(Range::read(text).is_some(), "{text}");
        }
        for text in [
            "10.10.0.1/24",
            "10.10.0.0",
            "10.10.0.0/33",
            "fd00::1/64",
            "a/24",
            "10.0.0.0/-1",
        ] {
            assert_eq!(Range::read(text), None, "{text}");
        }
        assert_eq!(Range::read("fd00:10:0::/64"), Range::read("fd00:10::/64"));
    }

    #[test]
    fn a_range_contains_its_addresses() {
        let range = Range::read("10.10.0.0/24").unwrap();
        for (ip, is_in) in [
            ("10.10.0.9", true),
            ("10.10.1.9", false),
            ("::ffff:10.10.0.9", false),
        ] {
            assert_eq!(range.contains(ip.parse().unwrap()), is_in, "{ip}");
        }
    }
}
