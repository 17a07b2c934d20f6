//! Subnets, gateways, ranges and fixed addresses.

use super::rules::Rules;
use crate::explain::codes;
use std::net::IpAddr;
use vnfm_descriptor::raw::Node;

/// A subnet: its address and the length of its prefix.
#[derive(Clone, Copy)]
struct Subnet {
    address: IpAddr,
    length: u8,
}

impl Subnet {
    fn read(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
        let max = if address.is_ipv4() { 32 } else { 128 };
        (length <= max).then_some(Subnet { address, length })
    }

    fn contains(self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(four) => (u128::from(four.to_bits()) << 96, true),
            IpAddr::V6(six) => (six.to_bits(), false),
        };
        let ((own, four), (other, other_four)) = (bits(self.address), bits(address));
        let shift = 128 - u32::from(self.length);
        four == other_four && (own.checked_shr(shift) == other.checked_shr(shift))
    }
}

impl Rules<'_, '_> {
    pub(super) fn addresses(&mut self) {
        for link in self.templates_of("VnfVirtualLink") {
            let protocols = link
                .property("vl_profile")
                .and_then(|profile| profile.get("virtual_link_protocol_data"))
                .map(Node::items)
                .unwrap_or_default();
            for l3 in protocols
                .iter()
                .filter_map(|protocol| protocol.get("l3_protocol_data"))
            {
                self.subnet(&link.name, l3);
            }
        }
        for cp in self.templates_of("Cp") {
            let protocols = cp.property("protocol").map(Node::items).unwrap_or_default();
            let data = protocols
                .iter()
                .filter_map(|one| one.get("address_data"))
                .flat_map(Node::items);
            let fixed = data.filter_map(|data| data.at(&["l3_address_data", "fixed_ip_address"]));
            for address in fixed.flat_map(Node::items) {
                self.address(address, &format!("a fixed address of `{}`", cp.name));
            }
        }
    }

    fn subnet(&mut self, link: &str, l3: &Node) {
        let Some(cidr) = l3.get("cidr") else { return };
        let text = cidr.as_str().unwrap_or("~");
        let Some(subnet) = Subnet::read(text) else {
            let message = format!("`{text}` is not a subnet such as `10.0.0.0/24`");
            return self.report(codes::ADDRESS, cidr, message);
        };
        let version = if subnet.address.is_ipv4() {
            "ipv4"
        } else {
            "ipv6"
        };
        if let Some(stated) = l3
            .get("ip_version")
            .filter(|stated| stated.as_str() != Some(version))
        {
            let message = format!("the subnet `{text}` of link `{link}` is {version}");
            self.report(codes::ADDRESS, stated, message);
        }
        self.within(
            subnet,
            l3.get("gateway_ip"),
            &format!("the gateway of link `{link}`"),
        );
        for pool in l3
            .get("ip_allocation_pools")
            .map(Node::items)
            .unwrap_or_default()
        {
            let what = format!("the range of link `{link}`");
            let first = self.within(subnet, pool.get("start_ip_address"), &what);
            let last = self.within(subnet, pool.get("end_ip_address"), &what);
            if let (Some(first), Some(last)) = (first, last)
                && first > last
            {
                self.report(codes::ADDRESS, pool, format!("{what} starts above its end"));
            }
        }
    }

    fn within(&mut self, subnet: Subnet, node: Option<&Node>, what: &str) -> Option<IpAddr> {
        let node = node?;
        let address = self.address(node, what)?;
        if !subnet.contains(address) {
            let message = format!(
                "{what} is `{address}`, outside {}/{}",
                subnet.address, subnet.length
            );
            self.report(codes::ADDRESS, node, message);
        }
        Some(address)
    }

    fn address(&mut self, node: &Node, what: &str) -> Option<IpAddr> {
        let text = node.as_str()?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.report(
                codes::ADDRESS,
                node,
                format!("{what} is `{text}`, which is not an IP address"),
            );
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_contain_their_addresses() {
        for (subnet, address, contains) in [
            ("10.0.0.0/24", "10.0.0.254", true),
            ("10.0.0.0/24", "10.0.1.1", false),
            ("0.0.0.0/0", "10.0.1.1", true),
            ("fd00::/64", "fd00::1", true),
            ("fd00::/64", "fd01::1", false),
            ("fd00::/64", "10.0.0.1", false),
        ] {
            let subnet = Subnet::read(subnet).unwrap();
            assert_eq!(
                subnet.contains(address.parse().unwrap()),
                contains,
                "{address}"
            );
        }
        assert!(Subnet::read("10.0.0.0/33").is_none() && Subnet::read("10.0.0/8").is_none());
    }
}
