//! Which addresses a callback may have. Whoever may subscribe could else have this server send requests to what only
//! this server reaches: itself, its host, the metadata service of its cloud.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// Networks that callbacks may lie in; where none is named, all but those of the machine itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

/// Such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Networks {
    /// Reads networks such as `10.0.0.0/8`, `2001:db8::/32` or a single address.
    ///
    /// # Errors
    ///
    /// The one that is none.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a callback may have this address.
    pub fn allow(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.0.is_empty() {
            return !is_of_this_machine(address);
        }
        self.0.iter().any(|network| network.has(address))
    }
}

/// Loopback, link-local (where clouds keep their metadata), and what is no single other machine.
fn is_of_this_machine(address: IpAddr) -> bool {
    let special = address.is_loopback() || address.is_unspecified() || address.is_multicast();
    special
        || match address {
            IpAddr::V4(v4) => {
                v4.is_link_local() || v4 == Ipv4Addr::BROADCAST || v4.octets()[0] == 0
            }
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
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
        let wrong = || format!("`{text}` is no network such as `10.0.0.0/8`");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
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

    fn allowed(networks: &[&str], address: &str) -> bool {
        let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
        Networks::parse(&networks).unwrap().allow(address.parse().unwrap())
    }

    #[test]
    fn the_machine_itself_is_out_of_reach_unless_it_is_named() {
        let own = ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254"];
        let more = ["fe80::1", "224.0.0.1", "255.255.255.255", "ff02::1", "::ffff:127.0.0.1"];
        for address in own.into_iter().chain(more) {
            assert!(!allowed(&[], address), "{address}");
        }
        for address in ["10.0.0.1", "192.0.2.1", "2001:db8::1", "fd00::1"] {
            assert!(allowed(&[], address), "{address}");
        }
        assert!(allowed(&["127.0.0.0/8"], "127.0.0.1"));
        assert!(allowed(&["127.0.0.0/8"], "::ffff:127.0.0.1"));
    }

    #[test]
    fn where_networks_are_named_only_those_are_allowed() {
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
            assert_eq!(allowed(&[network], address), is_allowed, "{network} {address}");
        }
        for wrong in ["10.0.0.0/33", "10.0.0/8", "::/129", "x", "10.0.0.0/x", ""] {
            assert!(Networks::parse(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
