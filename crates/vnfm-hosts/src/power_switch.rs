//! What switches a host of an inventory: the Redfish service of its BMC, its BMC by IPMI, or Ironic.

use crate::host_inventory::{HostEntry, Login, invalid};
use serde::Deserialize;
use vnfm_core::ports::PortError;
use vnfm_outbound::Url;
use vnfm_types::Secret;

/// Cipher suites with authentication, integrity and encryption (IPMI 2.0 revision 1.1, table 22-20): with SHA-1 and with
/// SHA-256.
const CIPHER_SUITES: [u8; 2] = [3, 17];
/// Longest user name and password of IPMI 2.0 (22.28, 22.30), in bytes.
const MAX_IPMI_LOGIN_LEN: (usize, usize) = (16, 20);

/// A power switch, with all that is needed to use it.
#[derive(Clone)]
pub(crate) enum PowerSwitch {
    /// URL of the system at the Redfish service, and the login there.
    Redfish(String, Option<PowerLogin>),
    Ipmi(IpmiEntry, PowerLogin),
    /// URL of the node, and the login for HTTP basic.
    Ironic(String, Option<PowerLogin>),
}

/// A login for a power switch.
#[derive(Clone)]
pub(crate) struct PowerLogin {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

/// Where a BMC answers to IPMI 2.0 over LAN.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct IpmiEntry {
    pub(crate) address: String,
    #[serde(default = "ipmi_port")]
    pub(crate) port: u16,
    /// One of [`CIPHER_SUITES`].
    #[serde(default = "cipher_suite")]
    pub(crate) cipher_suite: u8,
}

fn ipmi_port() -> u16 {
    623
}

fn cipher_suite() -> u8 {
    17
}

impl PowerSwitch {
    /// The switch that a host has, if any.
    pub(crate) fn for_host(host: &HostEntry, login: &Login) -> Result<Option<Self>, PortError> {
        let name = &host.name;
        let found = match (&host.redfish, &host.ipmi, &host.ironic) {
            (None, None, None) => return Ok(None),
            (Some(url), None, None) => redfish(url, login),
            (None, Some(bmc), None) => ipmi(bmc, login),
            (None, None, Some(url)) => ironic(url, login),
            _ => Err("more than one of `redfish`, `ipmi` and `ironic`"),
        };
        found
            .map(Some)
            .map_err(|what| invalid(format!("the host `{name}` has {what}")))
    }

    /// Its protocol or service.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Redfish(..) => "Redfish",
            Self::Ipmi(..) => "IPMI",
            Self::Ironic(..) => "Ironic",
        }
    }
}

fn login(user: Option<&String>, password: Option<&Secret>) -> Option<PowerLogin> {
    let (user, password) = (user?.clone(), password?.clone());
    Some(PowerLogin { user, password })
}

fn redfish(url: &str, access: &Login) -> Result<PowerSwitch, &'static str> {
    if !is_web(url) {
        return Err("a `redfish` that is not an HTTP URL without a login");
    }
    let login = login(
        access.redfish_username.as_ref(),
        access.redfish_password.as_ref(),
    );
    Ok(PowerSwitch::Redfish(url.to_owned(), login))
}

fn ironic(url: &str, access: &Login) -> Result<PowerSwitch, &'static str> {
    if !is_web(url) {
        return Err("an `ironic` that is not an HTTP URL without a login");
    }
    if !is_node(url) {
        return Err("an `ironic` that is not the URL of a node, which ends with `/v1/nodes/NODE`");
    }
    let login = login(
        access.ironic_username.as_ref(),
        access.ironic_password.as_ref(),
    );
    Ok(PowerSwitch::Ironic(url.to_owned(), login))
}

fn ipmi(bmc: &IpmiEntry, access: &Login) -> Result<PowerSwitch, &'static str> {
    let plain = |one: char| !one.is_whitespace() && !one.is_control() && one != '/';
    if bmc.address.is_empty() || !bmc.address.chars().all(plain) || bmc.port == 0 {
        return Err("an `ipmi` without a usable `address` or `port`");
    }
    if !CIPHER_SUITES.contains(&bmc.cipher_suite) {
        return Err("a `cipherSuite` that is neither 3 nor 17");
    }
    let login = login(access.ipmi_username.as_ref(), access.ipmi_password.as_ref());
    let login = login.ok_or("`ipmi`, and no `ipmiUsername` or `ipmiPassword` in `accessInfo`")?;
    let (user, password) = (login.user.as_str(), login.password.reveal());
    let fits = (1..=MAX_IPMI_LOGIN_LEN.0).contains(&user.len())
        && (1..=MAX_IPMI_LOGIN_LEN.1).contains(&password.len());
    let invisible = |text: &str| text.chars().any(char::is_control);
    if !fits || invisible(user) || invisible(password) {
        return Err(
            "an IPMI login that no BMC can have: 1 to 16 bytes of user name, 1 to 20 of password",
        );
    }
    Ok(PowerSwitch::Ipmi(bmc.clone(), login))
}

/// Whether this is the URL of something that HTTP can call, without a login in it.
fn is_web(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let has_login = !url.username().is_empty() || url.password().is_some();
    matches!(url.scheme(), "http" | "https") && !has_login
}

/// Whether this is the URL of a node of Ironic, of which the paths of other resources are derived.
fn is_node(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let path = url.path().trim_end_matches('/');
    let node = path.rsplit_once("/v1/nodes/").map(|(_, node)| node);
    let is_one = node.is_some_and(|node| !node.is_empty() && !node.contains('/'));
    is_one && url.query().is_none() && url.fragment().is_none()
}

#[cfg(test)]
mod tests {
    use super::{IpmiEntry, PowerSwitch};
    use crate::host_inventory::HostInventory;
    use serde_json::{Value, json};
    use vnfm_core::ports::{ErrorKind, PortError};
    use vnfm_types::{HOSTS, VimConnectionInfo};

    /// The switch of a host with these members.
    fn switch_of(members: &Value, ipmi_password: &str) -> Result<Option<PowerSwitch>, PortError> {
        let mut host = json!({"name": "a", "address": "192.0.2.1"});
        let members = members.as_object().unwrap().clone();
        host.as_object_mut().unwrap().extend(members);
        let mut info = VimConnectionInfo::new(HOSTS)
            .access("username", "root")
            .access("password", "p")
            .access("ipmiUsername", "admin")
            .access("ipmiPassword", ipmi_password);
        info.interface_info.extend([
            ("wipeCommand".into(), json!("true")),
            ("hosts".into(), json!([host])),
        ]);
        HostInventory::try_from(&info).map(|mut inventory| inventory.hosts.remove(0).switch)
    }

    fn is_refused(members: &Value, password: &str, words: &str) {
        let error = switch_of(members, password).err().unwrap();
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_url_that_does_not_fit_is_refused_without_a_login_in_the_error() {
        let node = "http://x/v1/nodes/a";
        let login = "http://root:hunter2@x/v1/nodes/a";
        let exclusive = "more than one of `redfish`, `ipmi` and `ironic`";
        for (members, words) in [
            (json!({"redfish": "ftp://x"}), "`redfish`"),
            (json!({"redfish": "http://:hunter2@x"}), "`redfish`"),
            (json!({"ironic": login}), "`ironic`"),
            (
                json!({"ironic": format!("{node}/states")}),
                "/v1/nodes/NODE",
            ),
            (json!({"ironic": node, "redfish": "http://x"}), exclusive),
            (
                json!({"redfish": "http://b", "ipmi": {"address": "b"}}),
                exclusive,
            ),
        ] {
            is_refused(&members, "hunter2", words);
        }
    }

    #[test]
    fn a_bmc_without_what_ipmi_needs_is_refused() {
        for (entry, password, words) in [
            (json!({"address": "b"}), "", "20 of password"),
            (json!({"address": "b c"}), "hunter2", "`address`"),
            (json!({"address": "b", "port": 0}), "hunter2", "`port`"),
            (
                json!({"address": "b", "cipherSuite": 0}),
                "hunter2",
                "cipherSuite",
            ),
            (
                json!({"address": "b"}),
                "hunter2-is-longer-than-20",
                "20 of password",
            ),
        ] {
            is_refused(&json!({ "ipmi": entry }), password, words);
        }
    }

    #[test]
    fn ipmi_has_its_registered_port_and_the_stronger_cipher_suite_unless_stated() {
        let found = switch_of(&json!({"ipmi": {"address": "b"}}), "hunter2");
        let Some(PowerSwitch::Ipmi(
            IpmiEntry {
                port, cipher_suite, ..
            },
            _,
        )) = found.ok().flatten()
        else {
            panic!("not a switch by IPMI");
        };
        assert_eq!((port, cipher_suite), (623, 17));
    }

    #[test]
    fn ipmi_without_a_login_is_refused() {
        let mut info = VimConnectionInfo::new(HOSTS)
            .access("username", "root")
            .access("password", "p")
            .access("ipmiUsername", "admin");
        let hosts = json!([{"name": "a", "address": "192.0.2.1", "ipmi": {"address": "b"}}]);
        info.interface_info.extend([
            ("wipeCommand".into(), json!("true")),
            ("hosts".into(), hosts),
        ]);
        let error = HostInventory::try_from(&info).err().unwrap();
        assert!(error.to_string().contains("ipmiPassword"), "{error}");
    }
}
