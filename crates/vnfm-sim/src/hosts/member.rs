//! One member of a cluster's etcd.

use std::net::IpAddr;

/// A member of a cluster's etcd.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) address: IpAddr,
}

impl Member {
    pub(super) fn client(&self) -> String {
        format!("https://{}:2379", self.address)
    }
}
