//! Networks that may be reached for a purpose, from the configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The keyword for all addresses except this machine's and its cloud's metadata service.
const DEFAULT: &str = "default";

/// Allowed networks. If none is configured, the default rule applies: all addresses except this machine's, link-local and
/// multicast ones, and metadata services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    named: Vec<Network>,
    /// Whether the keyword `default` is among them.
    with_default: bool,
}

/// A network such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Networks {
    /// Parses networks such as `10.0.0.0/8` and `2001:db8::/32`, single addresses, and the keyword `default`.
    ///
    /// # Errors
    ///
    /// Names the text that is not a network.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let with_default = texts.iter().any(|text| text == DEFAULT);
        let named = texts
            .iter()
            .filter(|text| *text != DEFAULT)
            .map(|text| text.parse());
        Ok(Self {
            named: named.collect::<Result<_, _>>()?,
            with_default,
        })
    }

    /// Like [`Networks::parse`], but without the keyword `default`: for lists of trusted peers instead of destinations.
    ///
    /// # Errors
    ///
    /// Names the text that is not a network.
    pub fn listed(texts: &[String]) -> Result<Self, String> {
        let named = texts
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, _>>()?;
        Ok(Self {
            named,
            with_default: false,
        })
    }

    /// Whether an address is allowed; `own` are the addresses of this machine's interfaces.
    pub fn allow(&self, address: IpAddr, own: &[IpAddr]) -> bool {
        let address = address.to_canonical();
        if self.named.iter().any(|network| network.has(address)) {
            return true;
        }
        let by_default = self.with_default || self.named.is_empty();
        by_default && !is_special(address) && !own.iter().any(|own| own.to_canonical() == address)
    }
}

/// Whether an address is this machine's loopback, whichever form it is written in.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    let address = embedded(address.to_canonical());
    address.is_loopback() || address.is_unspecified()
}

/// Loopback, link-local, multicast and broadcast addresses, and those of metadata services of clouds.
fn is_special(address: IpAddr) -> bool {
    let address = embedded(address);
    let special = address.is_loopback() || address.is_unspecified() || address.is_multicast();
    special
        || is_metadata(address)
        || match address {
            IpAddr::V4(v4) => {
                v4.is_link_local() || v4 == Ipv4Addr::BROADCAST || v4.octets()[0] == 0
            }
            // `fec0::/10`: the link-local addresses of old sites.
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.segments()[0] & 0xffc0 == 0xfec0,
        }
}

/// Metadata services of clouds, which hand out credentials, in addition to 169.254.0.0/16.
fn is_metadata(address: IpAddr) -> bool {
    const V4: [Ipv4Addr; 3] = [
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(168, 63, 129, 16),
        Ipv4Addr::new(192, 0, 0, 192),
    ];
    const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    match address {
        IpAddr::V4(v4) => V4.contains(&v4),
        IpAddr::V6(v6) => v6 == V6,
    }
}

/// The IPv4 address embedded in an IPv6 address: IPv4-compatible, NAT64 (`64:ff9b::/96`) or 6to4 (`2002::/16`).
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let segments = v6.segments();
    let [first, second, third, .., high, low] = segments;
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    let only_ends = segments[2..6] == [0; 4];
    match (first, second) {
        (0, 0) if only_ends && (high, low) > (0, 1) => v4(high, low),
        (0x64, 0xff9b) if only_ends => v4(high, low),
        (0x2002, _) => v4(second, third),
        _ => address,
    }
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.checked_shr(32 - self.bits).unwrap_or_default() == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.checked_shr(128 - self.bits).unwrap_or_default() == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a network such as `10.0.0.0/8`");
        let (address, bits) = text
            .split_once('/')
            .map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::Networks;
    use std::net::IpAddr;

    fn allowed(networks: &[&str], address: &str) -> bool {
        let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
        let own: [IpAddr; 2] = [
            "192.0.2.2".parse().unwrap(),
            "2001:db8:1::2".parse().unwrap(),
        ];
        Networks::parse(&networks)
            .unwrap()
            .allow(address.parse().unwrap(), &own)
    }

    #[test]
    fn the_machine_itself_is_forbidden_unless_configured() {
        let own = [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
        ];
        let more = [
            "fe80::1",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            "::ffff:127.0.0.1",
        ];
        let interfaces = ["192.0.2.2", "::ffff:192.0.2.2", "2001:db8:1::2"];
        let metadata = [
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
        ];
        let wrapped = [
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "fec0::1",
        ];
        for address in own
            .into_iter()
            .chain(more)
            .chain(interfaces)
            .chain(metadata)
            .chain(wrapped)
        {
            assert!(!allowed(&[], address), "{address}");
            assert!(
                !allowed(&["default", "198.51.100.0/24"], address),
                "{address}"
            );
        }
        for address in [
            "10.0.0.1",
            "192.0.2.1",
            "2001:db8::1",
            "fd00::1",
            "64:ff9b::c000:201",
        ] {
            assert!(allowed(&[], address), "{address}");
            assert!(allowed(&["default", "127.0.0.1"], address), "{address}");
        }
        assert!(allowed(&["127.0.0.0/8"], "127.0.0.1"));
        assert!(allowed(&["default", "127.0.0.1"], "127.0.0.1"));
        assert!(allowed(&["192.0.2.2"], "192.0.2.2"));
        assert!(allowed(&["127.0.0.0/8"], "::ffff:127.0.0.1"));
    }

    #[test]
    fn only_configured_networks_are_allowed() {
        for (network, address, is_allowed) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
        ] {
            assert_eq!(
                allowed(&[network], address),
                is_allowed,
                "{network} {address}"
            );
        }
        for wrong in ["10.0.0.0/33", "10.0.0/8", "::/129", "x", "10.0.0.0/x", ""] {
            assert!(Networks::parse(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
