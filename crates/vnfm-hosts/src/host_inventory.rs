//! A connection, parsed: the hosts of an inventory. After [`HostInventory::try_from`] no code checks for missing members.
//!
//! | where | members |
//! |---|---|
//! | `interfaceInfo` | `hosts[]`, `wipeCommand`; `endpoint`: a name for the inventory; `trustedCertificates` (PEM) and `skipCertificateVerification` for Redfish and Ironic |
//! | `interfaceInfo.hosts[]` | `name`, `address`; `sshPort`, `username`, `addresses`, `labels`, `zone`, `hostKey`, `leaseDirectory`; `redfish`, `ipmi` or `ironic` |
//! | `accessInfo` | for all hosts: `username`, `password`, `privateKey`, and `redfishUsername`, `redfishPassword`, `ipmiUsername`, `ipmiPassword`, `ironicUsername`, `ironicPassword`; for one: the same in `hosts.NAME` |

use crate::errors::CONNECTION;
use crate::power_switch::{IpmiEntry, PowerSwitch};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{HostPin, PinnedHost, PinnedTarget, PortError, SshTarget};
use vnfm_outbound::{Certificate, Trust};
use vnfm_types::{KeyValuePairs, Secret, VimConnectionInfo};

/// Most hosts that an inventory may have.
const MAX_HOSTS: usize = 1_000;
/// Longest name of a host, as in DNS.
const MAX_NAME_LEN: usize = 63;
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
    /// Absent: it cannot be switched on and off.
    pub(crate) switch: Option<PowerSwitch>,
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
pub(crate) struct Login {
    username: Option<String>,
    password: Option<Secret>,
    private_key: Option<Secret>,
    pub(crate) redfish_username: Option<String>,
    pub(crate) redfish_password: Option<Secret>,
    pub(crate) ipmi_username: Option<String>,
    pub(crate) ipmi_password: Option<Secret>,
    pub(crate) ironic_username: Option<String>,
    pub(crate) ironic_password: Option<Secret>,
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

pub(crate) fn invalid(what: String) -> PortError {
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
        let switch = PowerSwitch::for_host(&entry, &login)?;
        Ok(Self {
            entry,
            login,
            switch,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.name
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
}
