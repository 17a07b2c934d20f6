//! Which tenant, VIM and host an SSH host key is pinned to. Neither a tenant, a vendor's script nor the server behind an
//! address chooses the tenant or the VIM of a pin, so no tenant can pin a key for others or lock them out of a host.

use uuid::Uuid;

/// A host whose key is pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinnedHost {
    /// Owner of the instance that logs in there; empty for a pin of an older version, which did not record it.
    pub tenant: String,
    /// The registered VIM, or `instance/ID` for a connection from an instance's request; empty for a pin of an older version.
    pub vim_id: String,
    /// The VIM's id of the server; for a jump host, its address and port.
    pub host: String,
}

impl PinnedHost {
    /// Id for listing and deleting the pin.
    pub fn id(&self) -> String {
        let name = format!("{}\n{}\n{}", self.tenant, self.vim_id, self.host);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
    }
}

/// What a host key is pinned to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostPin {
    /// Tenant, VIM and host.
    pub at: PinnedHost,
    /// The pin is deleted with this instance; empty: with the VIM.
    pub instance_id: String,
    /// What older versions pinned the key to, regardless of tenant and VIM.
    pub legacy_host: String,
}

/// A pinned host key, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedKey {
    /// The host. If it is a pin of an older version, it must be pinned again.
    pub at: PinnedHost,
    /// The pin is deleted with this instance; empty: with the VIM.
    pub instance_id: String,
    /// OpenSSH public keys, one per line.
    pub key: String,
}
