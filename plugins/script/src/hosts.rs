//! The hosts that a script may name: the VNFCs of the request, and how the VNFM logs in to each.

use crate::params::{Jump, Login, Params, over};
use serde_json::{Value, json};
use vnfm_plugin_sdk::prelude::{DriverError, HookRequest, SshTarget, Vnfc};

/// One host.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) vdu: String,
    vnfc: String,
    /// Where to log in, or why that cannot be told.
    pub(crate) target: Result<SshTarget, String>,
}

/// All hosts of a request, in the order of its inventory.
pub(crate) struct Hosts(pub(crate) Vec<Host>);

impl Hosts {
    /// Reads the VNFCs and how to log in to them.
    ///
    /// # Errors
    ///
    /// `bad-login` where a login has the wrong shape.
    pub(crate) fn of(request: &HookRequest<Params>) -> Result<Self, DriverError> {
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
        Ok(Self(hosts))
    }

    /// Where to log in on the host `name`.
    ///
    /// # Errors
    ///
    /// Why that cannot be told, for whoever wrote the script or the request.
    pub(crate) fn target(&self, name: &str) -> Result<&SshTarget, String> {
        let Some(host) = self.0.iter().find(|host| host.name == name) else {
            let known: Vec<_> = self.0.iter().map(|host| host.name.as_str()).collect();
            return Err(format!("there is no host `{name}`; there are {known:?}"));
        };
        host.target.as_ref().map_err(Clone::clone)
    }

    /// As scripts see them, of one VDU or all.
    pub(crate) fn shown(&self, vdu: Option<&str>) -> Value {
        let wanted = self
            .0
            .iter()
            .filter(|host| vdu.is_none_or(|vdu| host.vdu == vdu));
        let shown = wanted.map(|host| {
            let address = host
                .target
                .as_ref()
                .ok()
                .map(|target| target.address.as_str());
            json!({"name": host.name, "vdu": host.vdu, "vnfc": host.vnfc, "address": address})
        });
        shown.collect()
    }
}

/// The login for the hosts of a VDU: the VNFD's, over it the request's, over both what either says of the VDU.
fn login(request: &HookRequest<Params>, vdu: &str) -> Result<Login, DriverError> {
    let said = [
        request.inputs.get("login"),
        request.additional_params.0.get("login"),
    ];
    let mut merged = json!({});
    said.iter().flatten().for_each(|own| over(&mut merged, own));
    if let Some(own) = merged["vdus"].get(vdu).cloned() {
        over(&mut merged, &own);
    }
    serde_json::from_value(merged).map_err(|error| {
        let said =
            format!("`login` of additionalParams, or of the VNFD's inputs, does not fit: {error}");
        DriverError::new("bad-login", said)
    })
}

fn target(vnfc: &Vnfc, login: &Login) -> Result<SshTarget, String> {
    let name = vnfc.name();
    let username = login.username.as_deref().ok_or_else(|| {
        format!("nobody says who logs in to `{name}`: put `login: {{username: …}}` into additionalParams")
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
        Some(jump) => target.jump(through(jump)),
        None => target,
    })
}

fn first_address(vnfc: &Vnfc) -> Option<String> {
    vnfc.vnfc_cp_info
        .iter()
        .find_map(|cp| cp.addresses().next().map(str::to_owned))
}

/// The jump host is none of the VIM's servers: its key is pinned to its address.
fn through(jump: &Jump) -> SshTarget {
    let server = format!("jump-{}", jump.address);
    let mut target = SshTarget::new(server, jump.address.as_str(), jump.username.as_str());
    target.password.clone_from(&jump.password);
    target.private_key.clone_from(&jump.private_key);
    target.port = jump.port.unwrap_or(22);
    target
}
