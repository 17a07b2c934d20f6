//! Where a request comes from, for limits per client. IPv6 addresses count by their /64, which belongs to one customer.

use std::net::{IpAddr, Ipv6Addr};

/// The origin of a request: one IPv4 address, or one IPv6 /64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl Source {
    /// The source of an address; requests without an address share one source.
    pub(crate) fn from_address(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V6(address)) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self(Ipv6Addr::from_bits(network).into())
            }
            Some(address) => Self(address),
            None => Self(Ipv6Addr::UNSPECIFIED.into()),
        }
    }
}
