//! Which tenant, VIM and host an SSH host key is pinned to. Neither a tenant, a vendor's script nor the server behind an
//! address chooses the tenant or the VIM of a pin, so no tenant can pin a key for others or lock them out of a host.

use super::SshTarget;
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
    /// The key is pinned for tenant, VIM and host.
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

impl HostPin {
    /// Sets the pins of a server of a VIM and of its jump hosts. `instance` is the (tenant, instance) that logs in; `vim` is
    /// the VIM's id, if it is registered.
    pub(crate) fn server(
        target: SshTarget,
        instance: (&str, &str),
        vim: Option<&str>,
    ) -> SshTarget {
        let host = target.server_id.clone();
        Self::on(target, host, instance, vim)
    }

    /// A jump host does not belong to the VIM, and the plugin names it as it likes: it is identified by its address. Other
    /// instances use it too, so its pin is deleted with the VIM.
    fn jump(target: SshTarget, instance: (&str, &str), vim: Option<&str>) -> SshTarget {
        let host = format!("{}:{}", target.address, target.port);
        let mut target = Self::on(target, host, instance, vim);
        if vim.is_some() {
            target.pin.instance_id.clear();
        }
        target
    }

    fn on(
        target: SshTarget,
        host: String,
        (tenant, instance_id): (&str, &str),
        vim: Option<&str>,
    ) -> SshTarget {
        let vim_id = vim.map_or_else(|| format!("instance/{instance_id}"), ToOwned::to_owned);
        let at = PinnedHost {
            tenant: tenant.to_owned(),
            vim_id,
            host,
        };
        let formerly = target.server_id.clone();
        let pin = Self {
            at,
            instance_id: instance_id.to_owned(),
            legacy_host: formerly,
        };
        let jump = target
            .jump
            .map(|jump| Box::new(Self::jump(*jump, (tenant, instance_id), vim)));
        SshTarget {
            jump,
            pin,
            ..target
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HostPin, PinnedHost};
    use crate::ports::SshTarget;
    use serde_json::json;

    /// As a plugin sends it, including a `pin` that must be ignored.
    fn target(jump: &str, port: u16) -> SshTarget {
        let jump = json!({"serverId": jump, "address": "192.0.2.1", "port": port, "username": "j"});
        let params = json!({"serverId": "server", "address": "10.0.0.5", "username": "u", "jump": jump,
            "pin": {"at": {"tenant": "acme", "vimId": "theirs", "host": "server"}}});
        serde_json::from_value(params).unwrap()
    }

    #[test]
    fn a_pin_depends_on_tenant_vim_and_address_and_not_on_the_plugin() {
        let at = |tenant: &str, vim: &str, host: &str| PinnedHost {
            tenant: tenant.into(),
            vim_id: vim.into(),
            host: host.into(),
        };
        let mine = HostPin::server(target("jump-a", 22), ("other", "i1"), Some("vim"));
        assert_eq!(
            (mine.pin.at, &*mine.pin.instance_id),
            (at("other", "vim", "server"), "i1")
        );
        let jump = mine.jump.unwrap().pin;
        assert_eq!(
            (jump.at, &*jump.instance_id),
            (at("other", "vim", "192.0.2.1:22"), "")
        );
        // Another name for the same address is the same host; another port is not.
        let renamed = HostPin::server(target("jump-b", 22), ("other", "i2"), Some("vim"));
        assert_eq!(
            renamed.jump.unwrap().pin.at,
            at("other", "vim", "192.0.2.1:22")
        );
        let port = HostPin::server(target("jump-a", 2222), ("other", "i2"), Some("vim"));
        assert_eq!(
            port.jump.unwrap().pin.at,
            at("other", "vim", "192.0.2.1:2222")
        );
        // A VIM from a request is identified by its instance, and its pins are deleted with that.
        let inline = HostPin::server(target("jump-a", 22), ("other", "i3"), None);
        assert_eq!(inline.pin.at, at("other", "instance/i3", "server"));
        assert_eq!(inline.jump.unwrap().pin.instance_id, "i3");
    }
}
