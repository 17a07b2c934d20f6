//! The hosts that a script may name: the VNFCs of the request, with the login of each.

use crate::params::{Jump, Login, Params, merge};
use serde_json::{Value, json};
use vnfm_plugin_sdk::Instance;
use vnfm_plugin_sdk::prelude::{DriverError, HookRequest, SshTarget, Vnfc};

/// A VNFC as a host.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) vdu: String,
    vnfc: String,
    /// Address and login, or why they are unknown.
    pub(crate) target: Result<SshTarget, String>,
}

/// All hosts of a request, in the order of its inventory, and the instance that has them.
pub(crate) struct Hosts {
    pub(crate) list: Vec<Host>,
    instance: Instance,
}

impl Hosts {
    /// Finds the hosts and their logins.
    ///
    /// # Errors
    ///
    /// `bad-login` if a login is malformed.
    pub(crate) fn from_request(request: &HookRequest<Params>) -> Result<Self, DriverError> {
        let mut hosts: Vec<Host> = Vec::new();
        for vnfc in request.vnfcs() {
            let login = login(request, &vnfc.vdu_id)?;
            let taken = hosts.iter().any(|host| host.name == vnfc.name());
            let name = if taken {
                vnfc.id.clone()
            } else {
                vnfc.name().to_owned()
            };
            let target = target(vnfc, &login).map(|target| target.named(name.as_str()));
            hosts.push(Host {
                name,
                vdu: vnfc.vdu_id.clone(),
                vnfc: vnfc.id.clone(),
                target,
            });
        }
        Ok(Self {
            list: hosts,
            instance: request.instance.clone(),
        })
    }

    /// The address and login of the host `name`.
    ///
    /// # Errors
    ///
    /// Why they are unknown, for the author of the script or of the request.
    pub(crate) fn target(&self, name: &str) -> Result<&SshTarget, String> {
        let Some(host) = self.list.iter().find(|host| host.name == name) else {
            let known: Vec<_> = self.list.iter().map(|host| host.name.as_str()).collect();
            return Err(format!("no host `{name}`; the hosts are {known:?}"));
        };
        host.target.as_ref().map_err(Clone::clone)
    }

    /// The hosts of one VDU or all, as scripts see them.
    ///
    /// # Errors
    ///
    /// `no-such-vdu` if the deployment flavour has no such VDU.
    pub(crate) fn to_json(&self, vdu: Option<&str>) -> Result<Value, DriverError> {
        if let Some(vdu) = vdu {
            self.instance.check_vdu(vdu)?;
        }
        let selected = self
            .list
            .iter()
            .filter(|host| vdu.is_none_or(|vdu| host.vdu == vdu));
        let hosts = selected.map(|host| {
            let address = host
                .target
                .as_ref()
                .ok()
                .map(|target| target.address.as_str());
            json!({"name": host.name, "vdu": host.vdu, "vnfc": host.vnfc, "address": address})
        });
        Ok(hosts.collect())
    }
}

/// The login for the hosts of a VDU: the VNFD's, overridden by the request's, then by the overrides for the VDU.
fn login(request: &HookRequest<Params>, vdu: &str) -> Result<Login, DriverError> {
    let logins = [
        request.inputs.get("login"),
        request.additional_params.0.get("login"),
    ];
    let mut merged = json!({});
    logins
        .iter()
        .flatten()
        .for_each(|own| merge(&mut merged, own));
    if let Some(own) = merged["vdus"].get(vdu).cloned() {
        merge(&mut merged, &own);
    }
    serde_json::from_value(merged).map_err(|error| {
        let detail =
            format!("`login` in additionalParams or in the VNFD's inputs is malformed: {error}");
        DriverError::new("bad-login", detail)
    })
}

fn target(vnfc: &Vnfc, login: &Login) -> Result<SshTarget, String> {
    let name = vnfc.name();
    let username = login.username.as_deref().ok_or_else(|| {
        format!(
            "no user name to log in to `{name}`: add `login: {{username: …}}` to additionalParams"
        )
    })?;
    let address = match &login.connection_point {
        Some(cp) => vnfc
            .address(cp)
            .map_err(|error| error.detail.clone())?
            .to_owned(),
        None => first_address(vnfc)
            .ok_or_else(|| format!("VNFC `{}` has no address on any connection point", vnfc.id))?,
    };
    let mut target = SshTarget::new(vnfc.server_id(), address, username);
    target.password.clone_from(&login.password);
    target.private_key.clone_from(&login.private_key);
    target.port = login.port.unwrap_or(22);
    Ok(match &login.jump {
        Some(jump) => target.jump(jump_target(jump)),
        None => target,
    })
}

fn first_address(vnfc: &Vnfc) -> Option<String> {
    vnfc.vnfc_cp_info
        .iter()
        .find_map(|cp| cp.addresses().next().map(str::to_owned))
}

/// The jump host's target. It is not a server of the VIM, so its host key is pinned to its address.
fn jump_target(jump: &Jump) -> SshTarget {
    let server = format!("jump-{}", jump.address);
    let mut target = SshTarget::new(server, jump.address.as_str(), jump.username.as_str());
    target.password.clone_from(&jump.password);
    target.private_key.clone_from(&jump.private_key);
    target.port = jump.port.unwrap_or(22);
    target
}
