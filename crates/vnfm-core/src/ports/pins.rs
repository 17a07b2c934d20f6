//! Whose host keys are pinned to what. A tenant, a vendor's script or the server behind an address chooses neither the
//! tenant nor the VIM of a pin, so nobody pins a key for, or denies a host to, somebody else.

use super::SshTarget;
use uuid::Uuid;

/// A host whose key is pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinnedHost {
    /// Whose instance logs in there; empty where an older version pinned it and did not know.
    pub tenant: String,
    /// The VIM in the registry, or `instance/ID` where the VIM came with an instance's request; empty where an older
    /// version pinned it.
    pub vim_id: String,
    /// The VIM's id of the server; of a host that one goes through, its address and port.
    pub host: String,
}

impl PinnedHost {
    /// What it is called where it is listed and forgotten.
    pub fn id(&self) -> String {
        let name = format!("{}\n{}\n{}", self.tenant, self.vim_id, self.host);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
    }
}

/// What is known of a host whose key is, or is to be, pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostPin {
    /// Which.
    pub at: PinnedHost,
    /// The instance that it goes with; empty where it goes with the VIM.
    pub instance_id: String,
    /// What older versions pinned it to, whatever the tenant or the VIM.
    pub formerly: String,
}

/// A key that is pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedKey {
    /// To which host. Where that is one of an older version, it is to be pinned anew.
    pub at: PinnedHost,
    /// The instance that it goes with; empty where it goes with the VIM.
    pub instance_id: String,
    /// OpenSSH public keys, one a line.
    pub key: String,
}

impl HostPin {
    /// A server of a VIM, with what its key and those of the hosts on the way there are pinned to. `instance` is the one
    /// that logs in, with its tenant; `vim` the VIM's id, if it is in the registry.
    pub(crate) fn server(
        target: SshTarget,
        instance: (&str, &str),
        vim: Option<&str>,
    ) -> SshTarget {
        let host = target.server_id.clone();
        Self::on(target, host, instance, vim)
    }

    /// A host that one goes through is none of the VIM's, and the plugin names it as it likes: it is known by its address.
    /// Other instances go through it as well, so its key goes with the VIM.
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
            formerly,
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

    /// As a plugin says it, `pin` of its own included.
    fn target(jump: &str, port: u16) -> SshTarget {
        let jump = json!({"serverId": jump, "address": "192.0.2.1", "port": port, "username": "j"});
        let said = json!({"serverId": "server", "address": "10.0.0.5", "username": "u", "jump": jump,
            "pin": {"at": {"tenant": "acme", "vimId": "theirs", "host": "server"}}});
        serde_json::from_value(said).unwrap()
    }

    #[test]
    fn tenant_vim_and_address_decide_and_nothing_that_a_plugin_says() {
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
        // Another name of the same host is no other host, another port is.
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
        // A VIM that came with a request is known by its instance, and its pins go with that.
        let inline = HostPin::server(target("jump-a", 22), ("other", "i3"), None);
        assert_eq!(inline.pin.at, at("other", "instance/i3", "server"));
        assert_eq!(inline.jump.unwrap().pin.instance_id, "i3");
    }
}
