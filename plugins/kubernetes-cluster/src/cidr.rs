//! Address ranges in CIDR notation, and whether they overlap.

use std::net::IpAddr;

/// An address range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    prefix: u32,
}

impl Cidr {
    /// Parses `ADDRESS/PREFIX`; `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.trim().split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix = prefix.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= longest).then_some(Self { address, prefix })
    }

    /// The range of one address; `None` if it is malformed.
    pub(crate) fn host(address: &str) -> Option<Self> {
        let address: IpAddr = address.parse().ok()?;
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        Some(Self { address, prefix })
    }

    /// Whether an address is in both ranges.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let common = self.prefix.min(other.prefix);
        match (self.address, other.address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let differ = u128::from(a.to_bits() ^ b.to_bits());
                differ >> (32 - common) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let differ = a.to_bits() ^ b.to_bits();
                differ.checked_shr(128 - common).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cidr;

    #[test]
    fn ranges_overlap_if_they_share_an_address() {
        let table = [
            ("10.244.0.0/16", "10.96.0.0/12", false),
            ("10.0.0.0/8", "10.96.0.0/12", true),
            ("10.96.0.0/12", "10.111.255.255/32", true),
            ("10.96.0.0/12", "10.112.0.0/32", false),
            ("0.0.0.0/0", "192.0.2.1/32", true),
            ("fd00::/64", "fd00::1:0:0:0:1/128", false),
            ("fd00::/56", "fd00:0:0:ff::/64", true),
            ("::/0", "fd00::/8", true),
            ("10.0.0.0/8", "fd00::/8", false),
        ];
        for (a, b, expected) in table {
            let [first, second] = [a, b].map(|text| Cidr::parse(text).unwrap());
            assert_eq!(first.overlaps(second), expected, "{a} and {b}");
            assert_eq!(second.overlaps(first), expected, "{b} and {a}");
        }
    }

    #[test]
    fn malformed_ranges_are_not_parsed() {
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0/8",
            "fd00::/129",
            "/8",
            "a/8",
            "",
        ] {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
        assert_eq!(Cidr::host("10.0.0.1"), Cidr::parse("10.0.0.1/32"));
        assert_eq!(Cidr::host("node-1"), None);
    }
}
