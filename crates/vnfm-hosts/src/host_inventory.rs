//! A connection, parsed: the hosts of an inventory. After [`HostInventory::try_from`] no code checks for missing members.
//!
//! | where | members |
//! |---|---|
//! | `interfaceInfo` | `hosts[]`, `wipeCommand`; `endpoint`: a name for the inventory; `trustedCertificates` (PEM) and `skipCertificateVerification` for Redfish and Ironic |
//! | `interfaceInfo.hosts[]` | `name`, `address`; `sshPort`, `username`, `addresses`, `labels`, `zone`, `hostKey`, `leaseDirectory`; `redfish`, `ipmi` or `ironic` |
//! | `accessInfo` | for all hosts: `username`, `password`, `privateKey`, and `redfishUsername`, `redfishPassword`, `ipmiUsername`, `ipmiPassword`, `ironicUsername`, `ironicPassword`; for one: the same in `hosts.NAME` |

use crate::errors::CONNECTION;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{HostPin, PinnedHost, PinnedTarget, PortError, SshTarget};
use vnfm_outbound::{Certificate, Trust, Url};
use vnfm_types::{KeyValuePairs, Secret, VimConnectionInfo};

/// Most hosts that an inventory may have.
const MAX_HOSTS: usize = 1_000;
/// Longest name of a host, as in DNS.
const MAX_NAME_LEN: usize = 63;
/// Cipher suites with authentication, integrity and encryption (IPMI 2.0 revision 1.1, table 22-20): with SHA-1 and with
/// SHA-256.
const CIPHER_SUITES: [u8; 2] = [3, 17];
/// Longest user name and password of IPMI 2.0 (22.28, 22.30), in bytes.
const MAX_IPMI_LOGIN_LEN: (usize, usize) = (16, 20);
/// Where a lease is unless the inventory says otherwise.
const LEASE_DIRECTORY: &str = "/var/lib/vnfm";

/// The hosts of a VIM, and how they are wiped.
pub(crate) struct HostInventory {
    /// In the order of the connection.
    pub(crate) hosts: Vec<InventoryHost>,
    /// Run by root on a host before it is returned.
    pub(crate) wipe_command: String,
    /// How certificates of Redfish services and Ironic are verified.
    pub(crate) trust: Trust,
}

/// A host of an inventory.
#[derive(Clone)]
pub(crate) struct InventoryHost {
    pub(crate) entry: HostEntry,
    login: Login,
}

/// An element of `interfaceInfo.hosts`.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HostEntry {
    /// Unique in the inventory; `resourceId` of the VNFC.
    pub(crate) name: String,
    /// Where its SSH server listens.
    pub(crate) address: String,
    #[serde(default = "ssh_port")]
    ssh_port: u16,
    username: Option<String>,
    /// Its addresses by network; empty: `address` serves every network.
    #[serde(default)]
    pub(crate) addresses: BTreeMap<String, String>,
    /// What VDUs can require of it.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    /// Such as a rack or a room, for affinity rules and grants.
    pub(crate) zone: Option<String>,
    /// OpenSSH public key; absent: the key of the first login.
    pub(crate) host_key: Option<String>,
    /// URL of the system at the Redfish service of its BMC.
    pub(crate) redfish: Option<String>,
    /// Its BMC, if it is switched by IPMI.
    pub(crate) ipmi: Option<IpmiEntry>,
    /// URL of its node in Ironic, if that switches it.
    pub(crate) ironic: Option<String>,
    #[serde(default = "lease_directory")]
    pub(crate) lease_directory: String,
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

fn ssh_port() -> u16 {
    22
}

fn lease_directory() -> String {
    LEASE_DIRECTORY.to_owned()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InterfaceInfo {
    #[serde(rename = "endpoint")]
    _endpoint: Option<String>,
    hosts: Vec<HostEntry>,
    wipe_command: String,
    trusted_certificates: Option<String>,
    #[serde(default)]
    skip_certificate_verification: bool,
}

/// Logins for SSH and for the power switch.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Login {
    username: Option<String>,
    password: Option<Secret>,
    private_key: Option<Secret>,
    redfish_username: Option<String>,
    redfish_password: Option<Secret>,
    ipmi_username: Option<String>,
    ipmi_password: Option<Secret>,
    ironic_username: Option<String>,
    ironic_password: Option<Secret>,
    /// Logins of single hosts; empty in these.
    #[serde(default)]
    hosts: BTreeMap<String, Login>,
}

impl TryFrom<&VimConnectionInfo> for HostInventory {
    type Error = PortError;

    fn try_from(info: &VimConnectionInfo) -> Result<Self, PortError> {
        let interface: InterfaceInfo = parse(&info.interface_info)
            .map_err(|error| invalid(format!("`interfaceInfo`: {error}")))?;
        // The parser's message may quote a secret.
        let common: Login = parse(&info.access_info).map_err(|_| {
            invalid("`accessInfo` has an unknown member, or one that is not a text".to_owned())
        })?;
        check_hosts(&interface.hosts, &common)?;
        if interface.wipe_command.trim().is_empty() {
            let what = "`interfaceInfo.wipeCommand` is empty; `true` if nothing is to be removed";
            return Err(invalid(what.to_owned()));
        }
        let hosts = interface.hosts.into_iter();
        let hosts = hosts.map(|entry| InventoryHost::new(entry, &common));
        Ok(Self {
            hosts: hosts.collect::<Result<_, _>>()?,
            wipe_command: interface.wipe_command,
            trust: Trust {
                authorities: certificates(interface.trusted_certificates.as_deref())?,
                skip_verification: interface.skip_certificate_verification,
                skip_hostname: false,
            },
        })
    }
}

fn parse<T: DeserializeOwned>(members: &KeyValuePairs) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::Object(members.clone()))
}

fn invalid(what: String) -> PortError {
    PortError::new(&CONNECTION, "read the inventory of hosts", what)
}

/// Names are unique and plain, and every login belongs to a host.
fn check_hosts(hosts: &[HostEntry], common: &Login) -> Result<(), PortError> {
    if hosts.is_empty() || hosts.len() > MAX_HOSTS {
        let count = hosts.len();
        return Err(invalid(format!(
            "`interfaceInfo.hosts` has {count} hosts; 1 to {MAX_HOSTS} are possible"
        )));
    }
    let mut names = BTreeSet::new();
    for host in hosts {
        let name = &host.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_LEN || !name.bytes().all(is_plain) {
            return Err(invalid(format!(
                "the name {name:?} of a host is not 1 to {MAX_NAME_LEN} letters, digits, `-` and `.`"
            )));
        }
        if !names.insert(name.as_str()) {
            return Err(invalid(format!("two hosts have the name `{name}`")));
        }
    }
    let strangers = common.hosts.keys();
    match strangers
        .map(String::as_str)
        .find(|name| !names.contains(name))
    {
        Some(name) => Err(invalid(format!(
            "`accessInfo.hosts` has a login for `{name}`, which is not in `interfaceInfo.hosts`"
        ))),
        None => Ok(()),
    }
}

fn certificates(pem: Option<&str>) -> Result<Vec<Certificate>, PortError> {
    let Some(pem) = pem else {
        return Ok(Vec::new());
    };
    let read = Certificate::from_pem_bundle(pem.as_bytes()).ok();
    read.filter(|bundle| !bundle.is_empty())
        .ok_or_else(|| invalid("`interfaceInfo.trustedCertificates` is not PEM".to_owned()))
}

impl InventoryHost {
    fn new(entry: HostEntry, common: &Login) -> Result<Self, PortError> {
        let name = &entry.name;
        let own = common.hosts.get(name).cloned().unwrap_or_default();
        if !own.hosts.is_empty() {
            let what = format!("`accessInfo.hosts.{name}` has a member `hosts`");
            return Err(invalid(what));
        }
        let has_own = own.password.is_some() || own.private_key.is_some();
        let shared = |secret: &Option<Secret>| secret.clone().filter(|_| !has_own);
        let login = Login {
            username: own
                .username
                .or(entry.username.clone())
                .or(common.username.clone()),
            password: own.password.or(shared(&common.password)),
            private_key: own.private_key.or(shared(&common.private_key)),
            redfish_username: own.redfish_username.or(common.redfish_username.clone()),
            redfish_password: own.redfish_password.or(common.redfish_password.clone()),
            ipmi_username: own.ipmi_username.or(common.ipmi_username.clone()),
            ipmi_password: own.ipmi_password.or(common.ipmi_password.clone()),
            ironic_username: own.ironic_username.or(common.ironic_username.clone()),
            ironic_password: own.ironic_password.or(common.ironic_password.clone()),
            hosts: BTreeMap::new(),
        };
        if login.username.is_none() || login.password.is_none() && login.private_key.is_none() {
            return Err(invalid(format!(
                "the host `{name}` has no `username`, or neither `password` nor `privateKey`"
            )));
        }
        if entry.address.trim().is_empty() {
            return Err(invalid(format!("the host `{name}` has no `address`")));
        }
        let folder = &entry.lease_directory;
        if !folder.starts_with('/') || folder.chars().any(char::is_control) {
            return Err(invalid(format!(
                "`leaseDirectory` of the host `{name}` is not an absolute path"
            )));
        }
        let host = Self { entry, login };
        host.check_switch()?;
        Ok(host)
    }

    /// A host has one power switch at most, with what is needed to use it.
    fn check_switch(&self) -> Result<(), PortError> {
        let (entry, name) = (&self.entry, self.name());
        let switches = [
            ("redfish", entry.redfish.is_some()),
            ("ipmi", entry.ipmi.is_some()),
            ("ironic", entry.ironic.is_some()),
        ];
        let mut present = switches.iter().filter(|(_, present)| *present);
        if let (Some((first, _)), Some((second, _))) = (present.next(), present.next()) {
            return Err(invalid(format!(
                "the host `{name}` has both `{first}` and `{second}`"
            )));
        }
        for (member, url) in [("redfish", &entry.redfish), ("ironic", &entry.ironic)] {
            if url.as_deref().is_some_and(|url| !is_web(url)) {
                return Err(invalid(format!(
                    "`{member}` of the host `{name}` is not an HTTP URL without a login"
                )));
            }
        }
        if entry.ironic.as_deref().is_some_and(|url| !is_node(url)) {
            return Err(invalid(format!(
                "`ironic` of the host `{name}` is not the URL of a node, which ends with `/v1/nodes/NODE`"
            )));
        }
        entry
            .ipmi
            .as_ref()
            .map_or(Ok(()), |bmc| self.check_ipmi(bmc))
    }

    fn check_ipmi(&self, bmc: &IpmiEntry) -> Result<(), PortError> {
        let name = self.name();
        let wrong = |what: &str| Err(invalid(format!("the host `{name}` has {what}")));
        let plain = |one: char| !one.is_whitespace() && !one.is_control() && one != '/';
        if bmc.address.is_empty() || !bmc.address.chars().all(plain) || bmc.port == 0 {
            return wrong("an `ipmi` without a usable `address` or `port`");
        }
        if !CIPHER_SUITES.contains(&bmc.cipher_suite) {
            return wrong("a `cipherSuite` that is neither 3 nor 17");
        }
        let Some((user, password)) = self.ipmi_login() else {
            return wrong("`ipmi`, and no `ipmiUsername` or `ipmiPassword` in `accessInfo`");
        };
        let lengths = (user.len(), password.reveal().len());
        let fits = (1..=MAX_IPMI_LOGIN_LEN.0).contains(&lengths.0)
            && (1..=MAX_IPMI_LOGIN_LEN.1).contains(&lengths.1);
        let invisible = |text: &str| text.chars().any(char::is_control);
        if !fits || invisible(user) || invisible(password.reveal()) {
            return wrong(
                "an IPMI login that no BMC can have: 1 to 16 bytes of user name, 1 to 20 of password",
            );
        }
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.name
    }

    /// Whether it can be switched on and off.
    pub(crate) fn has_switch(&self) -> bool {
        let entry = &self.entry;
        entry.redfish.is_some() || entry.ipmi.is_some() || entry.ironic.is_some()
    }

    /// User name and password of its BMC for IPMI, if both are known.
    pub(crate) fn ipmi_login(&self) -> Option<(&str, &Secret)> {
        let user = self.login.ipmi_username.as_deref()?;
        Some((user, self.login.ipmi_password.as_ref()?))
    }

    /// Login and password for its Redfish service, if both are known.
    pub(crate) fn redfish_login(&self) -> Option<(&str, &Secret)> {
        let user = self.login.redfish_username.as_deref()?;
        Some((user, self.login.redfish_password.as_ref()?))
    }

    /// Login and password for Ironic (HTTP basic), if both are known.
    pub(crate) fn ironic_login(&self) -> Option<(&str, &Secret)> {
        let user = self.login.ironic_username.as_deref()?;
        Some((user, self.login.ironic_password.as_ref()?))
    }

    /// Its SSH server, pinned to the key of the inventory; see [`crate::session::InventoryKeys`].
    pub(crate) fn target(&self, vim: &str) -> PinnedTarget {
        let entry = &self.entry;
        let user = self.login.username.as_deref().unwrap_or_default();
        let server_id = format!("{vim}/{}", entry.name);
        let mut host = SshTarget::new(server_id, &entry.address, user).port(entry.ssh_port);
        if let Some(password) = &self.login.password {
            host = host.password(password.reveal());
        }
        if let Some(key) = &self.login.private_key {
            host = host.private_key(key.reveal());
        }
        let at = PinnedHost {
            host: format!("{vim} {} {}:{}", entry.name, entry.address, entry.ssh_port),
            ..PinnedHost::default()
        };
        PinnedTarget {
            host,
            pin: HostPin {
                at,
                instance_id: String::new(),
                legacy_host: entry.host_key.clone().unwrap_or_default(),
            },
            jump: None,
        }
    }

    /// Its address on a network; a host without addresses by network has one for all.
    pub(crate) fn address_on(&self, network: &str) -> Option<&str> {
        if self.entry.addresses.is_empty() {
            return Some(&self.entry.address);
        }
        self.entry.addresses.get(network).map(String::as_str)
    }
}

/// Whether this is the URL of something that HTTP can call, without a login in it.
fn is_web(url: &str) -> bool {
    let url = Url::parse(url);
    url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.username().is_empty())
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
    use super::HostInventory;
    use serde_json::{Value, json};
    use vnfm_core::ports::{ErrorKind, PortError};
    use vnfm_types::{HOSTS, VimConnectionInfo};

    fn read(interface: &Value, access: &Value) -> Result<HostInventory, PortError> {
        let mut info = VimConnectionInfo::new(HOSTS);
        info.interface_info = interface.as_object().unwrap().clone();
        info.access_info = access.as_object().unwrap().clone();
        HostInventory::try_from(&info)
    }

    fn interface(hosts: &Value) -> Value {
        json!({"wipeCommand": "true", "hosts": hosts})
    }

    #[test]
    fn a_host_uses_its_own_login_and_no_secret_of_all_hosts() {
        let hosts = json!([{"name": "a", "address": "192.0.2.1"}, {"name": "b", "address": "192.0.2.2", "username": "core"}]);
        let access =
            json!({"username": "root", "password": "all", "hosts": {"a": {"privateKey": "KEY"}}});
        let inventory = read(&interface(&hosts), &access).unwrap();
        let targets: Vec<_> = inventory
            .hosts
            .iter()
            .map(|host| host.target("edge").host)
            .collect();
        assert!(targets[0].password.is_none() && targets[0].private_key.is_some());
        assert_eq!(
            (targets[0].username.as_str(), targets[1].username.as_str()),
            ("root", "core")
        );
        assert_eq!(targets[1].password.as_ref().unwrap().reveal(), "all");
    }

    #[test]
    fn what_is_invalid_is_named_and_secrets_are_not() {
        let one = || json!([{"name": "a", "address": "192.0.2.1"}]);
        let login = || json!({"username": "root", "password": "hunter2"});
        for (hosts, access, words) in [
            (json!([]), login(), "0 hosts"),
            (json!([{"name": "a b", "address": "x"}]), login(), "a b"),
            (
                json!([{"name": "a", "address": "x"}, {"name": "a", "address": "y"}]),
                login(),
                "two hosts",
            ),
            (
                json!([{"name": "a", "address": "x", "adress": "y"}]),
                login(),
                "adress",
            ),
            (
                json!([{"name": "a", "address": "x", "redfish": "ftp://x"}]),
                login(),
                "`redfish`",
            ),
            (
                json!([{"name": "a", "address": "x", "ironic": "http://root:hunter2@x/v1/nodes/a"}]),
                login(),
                "`ironic`",
            ),
            (
                json!([{"name": "a", "address": "x", "ironic": "http://x/v1/nodes/a/states"}]),
                login(),
                "/v1/nodes/NODE",
            ),
            (
                json!([{"name": "a", "address": "x", "ironic": "http://x/v1/nodes/a", "redfish": "http://x"}]),
                login(),
                "both `redfish` and `ironic`",
            ),
            (
                json!([{"name": "a", "address": "x", "leaseDirectory": "tmp"}]),
                login(),
                "leaseDirectory",
            ),
            (one(), json!({"username": "root"}), "neither"),
            (
                one(),
                json!({"username": "root", "password": ["hunter2"]}),
                "accessInfo",
            ),
            (
                one(),
                json!({"username": "u", "password": "hunter2", "hosts": {"z": {}}}),
                "`z`",
            ),
        ] {
            let error = read(&interface(&hosts), &access).err().unwrap();
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
        }
        let error = read(&json!({"hosts": one()}), &login()).err().unwrap();
        assert!(error.to_string().contains("wipeCommand"), "{error}");
    }

    #[test]
    fn a_bmc_without_what_ipmi_needs_is_refused() {
        let bmc = |entry: Value| json!([{"name": "a", "address": "x", "ipmi": entry}]);
        let login = |password: &str| json!({"username": "root", "password": "p", "ipmiUsername": "admin", "ipmiPassword": password});
        let both =
            json!([{"name": "a", "address": "x", "redfish": "http://b", "ipmi": {"address": "b"}}]);
        let other = json!({"username": "root", "password": "p", "ipmiUsername": "admin"});
        for (hosts, access, words) in [
            (bmc(json!({"address": "b"})), other, "ipmiPassword"),
            (
                bmc(json!({"address": "b c"})),
                login("hunter2"),
                "`address`",
            ),
            (
                bmc(json!({"address": "b", "port": 0})),
                login("hunter2"),
                "`port`",
            ),
            (
                bmc(json!({"address": "b", "cipherSuite": 0})),
                login("hunter2"),
                "cipherSuite",
            ),
            (
                bmc(json!({"address": "b"})),
                login("hunter2-is-longer-than-20"),
                "20 of password",
            ),
            (both, login("hunter2"), "both"),
        ] {
            let error = read(&interface(&hosts), &access).err().unwrap();
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
        }
        let hosts = bmc(json!({"address": "b"}));
        let inventory = read(&interface(&hosts), &login("hunter2")).ok().unwrap();
        let bmc = inventory.hosts[0].entry.ipmi.as_ref().unwrap();
        assert_eq!((bmc.port, bmc.cipher_suite), (623, 17));
    }
}
