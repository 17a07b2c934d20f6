//! The inventory of `plugin run`: hosts, how to reach them or what they answer, and where secrets come from.
//!
//! ```yaml
//! hosts:
//!   - name: web-1
//!     vdu: VDU1                            # default
//!     addresses: {CP1: 192.0.2.10}         # by connection point, as the hook finds them
//!     ssh: 127.0.0.1:2201                  # how to reach it [default: as the hook says]
//!   - name: web-2
//!     addresses: {CP1: 192.0.2.11}
//!     simulated:                           # not a real machine: the first matching answer wins
//!       - {holds: systemctl restart, exit: 5, stderr: no such unit}
//! secrets:                                 # members of additionalParams; dots address nested members
//!   password: {env: LAB_PASSWORD}
//!   login.key: {file: id_ed25519}          # relative to this file
//! ```

use crate::client::{Failure, Outcome, local};
use crate::input;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use vnfm::Redactor;
use vnfm::ports::{CommandOutput, PinnedTarget, SshTarget};

/// The inventory file: hosts, and secrets that they refer to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inventory {
    hosts: Vec<Machine>,
    #[serde(default)]
    secrets: BTreeMap<String, SecretSource>,
    /// The inventory's folder, to which secret files are relative.
    #[serde(skip)]
    folder: PathBuf,
}

/// One host, which becomes a VNFC of the request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Machine {
    pub(super) name: String,
    #[serde(default = "default_vdu")]
    vdu: String,
    addresses: BTreeMap<String, IpAddr>,
    server_id: Option<String>,
    ssh: Option<String>,
    simulated: Option<Vec<Answer>>,
}

/// The answer of a simulated host to matching commands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// Substring of the command line that selects this answer.
    holds: String,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    exit: i32,
}

/// Where a secret comes from: exactly one of a file and an environment variable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretSource {
    file: Option<PathBuf>,
    env: Option<String>,
}

fn default_vdu() -> String {
    "VDU1".to_owned()
}

impl Inventory {
    /// Reads and validates an inventory file.
    ///
    /// # Errors
    ///
    /// If it is not a valid inventory.
    pub(super) fn read(path: &Path) -> Outcome<Self> {
        let invalid = |cause: String| Failure::Hinted {
            message: format!("`{}` is not a valid inventory: {cause}", path.display()),
            hint: "see docs/how-to/write-a-plugin.md for an example".to_owned(),
        };
        let mut inventory: Self =
            serde_yaml::from_str(&text(path)?).map_err(|error| invalid(error.to_string()))?;
        inventory.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for host in &inventory.hosts {
            let name = &host.name;
            if !seen.insert(name.clone()) {
                return Err(invalid(format!("two hosts have the name `{name}`")));
            }
            if host.addresses.is_empty() {
                return Err(invalid(format!(
                    "`{name}` has no address on any connection point"
                )));
            }
            if host.ssh.is_some() && host.simulated.is_some() {
                return Err(invalid(format!("`{name}` has both `ssh` and `simulated`")));
            }
            if host
                .ssh
                .as_deref()
                .is_some_and(|ssh| parse_endpoint(ssh).is_none())
            {
                return Err(invalid(format!("`ssh` of `{name}` is not ADDRESS:PORT")));
            }
        }
        Ok(inventory)
    }

    /// The hosts as `vnfcResourceInfo` (SOL003 5.5.3.5).
    pub(super) fn vnfcs(&self) -> Value {
        self.hosts.iter().map(Machine::vnfc).collect()
    }

    /// The VDUs of the hosts.
    pub(super) fn vdus(&self) -> BTreeSet<&str> {
        self.hosts.iter().map(|host| host.vdu.as_str()).collect()
    }

    /// Inserts the secrets into `params`, and registers them with `redactor`.
    ///
    /// # Errors
    ///
    /// If one cannot be read, or a parent member of it is not an object.
    pub(super) fn insert_secrets(
        &self,
        params: &mut Value,
        redactor: &mut Redactor,
    ) -> Outcome<()> {
        for (path, source) in &self.secrets {
            let secret = Value::String(self.secret(path, source)?);
            redactor.add(&secret);
            let mut at = &mut *params;
            for member in path.split('.') {
                if !at.is_object() && !at.is_null() {
                    return Err(local(format!(
                        "secret `{path}`: the parent of `{member}` is not an object"
                    )));
                }
                at = &mut at[member];
            }
            *at = secret;
        }
        Ok(())
    }

    fn secret(&self, member: &str, source: &SecretSource) -> Outcome<String> {
        match (&source.file, &source.env) {
            (Some(path), None) => Ok(text(&self.folder.join(path))?
                .trim_end_matches(['\r', '\n'])
                .to_owned()),
            (None, Some(name)) => std::env::var(name).map_err(|_| Failure::Hinted {
                message: format!("secret `{member}`: the environment variable `{name}` is not set"),
                hint: format!("run `export {name}=…` first"),
            }),
            _ => Err(local(format!(
                "secret `{member}` needs either `file` or `env`"
            ))),
        }
    }

    /// The host with this address, on any connection point.
    pub(super) fn host_at(&self, address: &str) -> Option<&Machine> {
        let address: IpAddr = address.parse().ok()?;
        self.hosts
            .iter()
            .find(|host| host.addresses.values().any(|known| *known == address))
    }

    /// The target with the inventory's `ssh` endpoint instead of its own address and jump host. Applies to jump hosts, too.
    pub(super) fn resolve(&self, target: &SshTarget) -> PinnedTarget {
        self.reachable(target).into()
    }

    fn reachable(&self, target: &SshTarget) -> SshTarget {
        let mut resolved = target.clone();
        let endpoint = self
            .host_at(&target.address)
            .and_then(|host| host.ssh.as_deref());
        match endpoint.and_then(parse_endpoint) {
            Some((address, port)) => {
                (resolved.address, resolved.port, resolved.jump) = (address, port, None);
            }
            None => {
                resolved.jump = target
                    .jump
                    .as_ref()
                    .map(|jump| Box::new(self.reachable(jump)));
            }
        }
        resolved
    }
}

/// Splits `ADDRESS:PORT`; brackets of an IPv6 address are removed.
fn parse_endpoint(text: &str) -> Option<(String, u16)> {
    let (address, port) = text.rsplit_once(':')?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    Some((address.to_owned(), port.parse().ok()?)).filter(|(address, _)| !address.is_empty())
}

impl Machine {
    fn vnfc(&self) -> Value {
        let name = &self.name;
        let server_id = self
            .server_id
            .clone()
            .unwrap_or_else(|| format!("server-{name}"));
        let cps: Vec<_> = self
            .addresses
            .iter()
            .map(|(cp, address)| self.cp(cp, *address))
            .collect();
        json!({
            "id": format!("vnfc-{name}"),
            "vduId": self.vdu,
            "computeResource": {"vimConnectionId": "vim", "resourceId": server_id},
            "vnfcCpInfo": cps,
            "metadata": {"name": name},
        })
    }

    fn cp(&self, cp: &str, address: IpAddr) -> Value {
        let kind = if address.is_ipv4() { "IPV4" } else { "IPV6" };
        json!({
            "id": format!("{}-{cp}", self.name),
            "cpdId": cp,
            "cpProtocolInfo": [{
                "layerProtocol": "IP_OVER_ETHERNET",
                "ipOverEthernet": {"ipAddresses": [{"type": kind, "addresses": [address]}]},
            }],
        })
    }

    /// Whether commands are answered by the inventory instead of a machine.
    pub(super) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// The answer of a simulated host to `command`, if the inventory has one.
    pub(super) fn answer(&self, command: &str) -> Option<CommandOutput> {
        let mut answers = self.simulated.iter().flatten();
        let answer = answers.find(|answer| command.contains(&answer.holds))?;
        Some(CommandOutput::new(
            answer.exit,
            &answer.stdout,
            &answer.stderr,
        ))
    }
}

/// Reads a text file named on the command line.
pub(super) fn text(path: &Path) -> Outcome<String> {
    input::text(path).map_err(|error| local(format!("cannot read `{}`: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::{Inventory, parse_endpoint};
    use serde_json::json;
    use std::io::Write as _;
    use vnfm::Redactor;
    use vnfm::ports::SshTarget;

    fn read(text: &str) -> Result<Inventory, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Inventory::read(file.path()).map_err(|failure| failure.to_string())
    }

    fn target(address: &str) -> SshTarget {
        let target = json!({"serverId": "s", "address": address, "username": "u"});
        serde_json::from_value(target).unwrap()
    }

    #[test]
    fn the_inventory_overrides_the_ssh_endpoint_also_of_a_jump_host() {
        let inventory =
            read("hosts: [{name: a, addresses: {CP1: 192.0.2.1}, ssh: '127.0.0.1:2201'}]").unwrap();
        let direct = inventory.resolve(&target("192.0.2.1"));
        assert_eq!(
            (direct.host.address.as_str(), direct.host.port),
            ("127.0.0.1", 2201)
        );
        let mut behind = target("192.0.2.9");
        behind.jump = Some(Box::new(target("192.0.2.1")));
        let behind = inventory.resolve(&behind);
        assert_eq!(
            (behind.host.address.as_str(), behind.host.port),
            ("192.0.2.9", 22)
        );
        assert_eq!(behind.jump.unwrap().host.port, 2201);
        assert_eq!(parse_endpoint("[::1]:22"), Some(("::1".into(), 22)));
    }

    #[test]
    fn an_invalid_inventory_is_rejected_with_the_cause() {
        for (text, word) in [
            ("hosts: [{name: a, addresses: {}}]", "`a` has no address"),
            ("hosts: [{name: a, adresses: {}}]", "adresses"),
            ("hosts: [{name: a, addresses: {C: web-1}}]", "IP address"),
            (
                "hosts: [{name: a, addresses: {C: 10.0.0.1}, ssh: here}]",
                "not ADDRESS:PORT",
            ),
            (
                "hosts: [{name: a, addresses: {C: 10.0.0.1}}, {name: a, addresses: {C: 10.0.0.2}}]",
                "two hosts have the name `a`",
            ),
            ("{hosts: [], secrets: {p: {argv: x}}}", "argv"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn secrets_are_read_from_files_and_redacted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "planted-key\n").unwrap();
        let path = folder.path().join("hosts.yaml");
        std::fs::write(&path, "{hosts: [], secrets: {login.key: {file: key}}}").unwrap();
        let (mut params, mut redactor) = (json!({"login": {"user": "u"}}), Redactor::default());
        let inventory = Inventory::read(&path).unwrap();
        inventory
            .insert_secrets(&mut params, &mut redactor)
            .unwrap();
        assert_eq!(
            params,
            json!({"login": {"user": "u", "key": "planted-key"}})
        );
        assert_eq!(redactor.clean("a planted-key"), "a [hidden]");
        let error = inventory
            .insert_secrets(&mut json!({"login": "me"}), &mut redactor)
            .unwrap_err();
        assert!(error.to_string().contains("login.key"), "{error}");
        std::fs::write(&path, "{hosts: [], secrets: {k: {}}}").unwrap();
        let neither = Inventory::read(&path)
            .unwrap()
            .insert_secrets(&mut params, &mut redactor)
            .unwrap_err();
        assert!(
            neither.to_string().contains("either `file` or `env`"),
            "{neither}"
        );
    }
}
