//! Sets what the host keys of a server and its jump hosts are pinned to.

use crate::ports::{HostPin, PinnedHost, PinnedTarget, SshTarget};

/// Who logs in. The engine knows this; no plugin chooses it.
#[derive(Clone, Copy)]
pub(super) struct Login<'a> {
    /// Tenant that owns the instance.
    pub(super) tenant: &'a str,
    /// The instance that logs in.
    pub(super) instance_id: &'a str,
    /// Id of its VIM, if that is registered.
    pub(super) vim_id: Option<&'a str>,
}

impl Login<'_> {
    /// Sets the pins of a server of the VIM and of its jump hosts.
    pub(super) fn pinned(self, target: SshTarget) -> PinnedTarget {
        let host = target.server_id.clone();
        self.on(target, host)
    }

    /// A jump host does not belong to the VIM, and the plugin names it as it likes: it is identified by its address. Other
    /// instances use it too, so its pin is deleted with the VIM.
    fn jump(self, target: SshTarget) -> PinnedTarget {
        let host = format!("{}:{}", target.address, target.port);
        let mut target = self.on(target, host);
        if self.vim_id.is_some() {
            target.pin.instance_id.clear();
        }
        target
    }

    fn on(self, mut target: SshTarget, host: String) -> PinnedTarget {
        let of_instance = || format!("instance/{}", self.instance_id);
        let at = PinnedHost {
            tenant: self.tenant.to_owned(),
            vim_id: self.vim_id.map_or_else(of_instance, ToOwned::to_owned),
            host,
        };
        let pin = HostPin {
            at,
            instance_id: self.instance_id.to_owned(),
            legacy_host: target.server_id.clone(),
        };
        let jump = target.jump.take();
        PinnedTarget {
            host: target,
            pin,
            jump: jump.map(|jump| Box::new(self.jump(*jump))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Login;
    use crate::ports::{PinnedHost, SshTarget};
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
        let login = |instance_id, vim_id| Login {
            tenant: "other",
            instance_id,
            vim_id,
        };
        let at = |tenant: &str, vim: &str, host: &str| PinnedHost {
            tenant: tenant.into(),
            vim_id: vim.into(),
            host: host.into(),
        };
        let mine = login("i1", Some("vim")).pinned(target("jump-a", 22));
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
        let renamed = login("i2", Some("vim")).pinned(target("jump-b", 22));
        assert_eq!(
            renamed.jump.unwrap().pin.at,
            at("other", "vim", "192.0.2.1:22")
        );
        let port = login("i2", Some("vim")).pinned(target("jump-a", 2222));
        assert_eq!(
            port.jump.unwrap().pin.at,
            at("other", "vim", "192.0.2.1:2222")
        );
        // A VIM from a request is identified by its instance, and its pins are deleted with that.
        let inline = login("i3", None).pinned(target("jump-a", 22));
        assert_eq!(inline.pin.at, at("other", "instance/i3", "server"));
        assert_eq!(inline.jump.unwrap().pin.instance_id, "i3");
    }
}
