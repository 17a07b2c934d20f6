//! The inventory of `plugin run`: which hosts there are, how they are reached or what they answer, where secrets are.
//!
//! ```yaml
//! hosts:
//!   - name: web-1
//!     vdu: VDU1                            # this where absent
//!     addresses: {CP1: 192.0.2.10}         # by connection point, as the hook finds them
//!     ssh: 127.0.0.1:2201                  # where it is reached; where absent, as the hook says
//!   - name: web-2
//!     addresses: {CP1: 192.0.2.11}
//!     simulated:                           # no machine: commands are answered so, the first that fits
//!       - {holds: systemctl restart, exit: 5, stderr: no such unit}
//! secrets:                                 # members of additionalParams; dots go deeper
//!   password: {env: LAB_PASSWORD}
//!   login.key: {file: id_ed25519}          # beside this file
//! ```

use super::text;
use crate::client::{Failure, Outcome, local};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use vnfm::Redactor;
use vnfm::ports::{CommandOutput, SshTarget};

/// The inventory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inventory {
    hosts: Vec<Machine>,
    #[serde(default)]
    secrets: BTreeMap<String, Origin>,
    /// Where files of secrets are looked for.
    #[serde(skip)]
    folder: PathBuf,
}

/// One host, a VNFC of the request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Machine {
    pub(super) name: String,
    #[serde(default = "only_vdu")]
    vdu: String,
    addresses: BTreeMap<String, IpAddr>,
    server_id: Option<String>,
    ssh: Option<String>,
    simulated: Option<Vec<Answer>>,
}

/// What a simulated host says to a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// A part of the command line.
    holds: String,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    exit: i32,
}

/// Where a secret is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    file: Option<PathBuf>,
    env: Option<String>,
}

fn only_vdu() -> String {
    "VDU1".to_owned()
}

impl Inventory {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Where it is no inventory; the text says what is wrong, and where.
    pub(super) fn read(path: &Path) -> Outcome<Self> {
        let wrong = |what: String| Failure::Hinted {
            what: format!("`{}` is no inventory: {what}", path.display()),
            hint: "docs/how-to/write-a-plugin.md shows one".to_owned(),
        };
        let mut inventory: Self =
            serde_yaml::from_str(&text(path)?).map_err(|error| wrong(error.to_string()))?;
        inventory.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for host in &inventory.hosts {
            let name = &host.name;
            if !seen.insert(name.clone()) {
                return Err(wrong(format!("two hosts are called `{name}`")));
            }
            if host.addresses.is_empty() {
                return Err(wrong(format!(
                    "`{name}` has no address on any connection point"
                )));
            }
            if host.ssh.is_some() && host.simulated.is_some() {
                return Err(wrong(format!("`{name}` has both `ssh` and `simulated`")));
            }
            if host.ssh.as_deref().is_some_and(|ssh| parted(ssh).is_none()) {
                return Err(wrong(format!("`ssh` of `{name}` is not ADDRESS:PORT")));
            }
        }
        Ok(inventory)
    }

    /// The hosts as `vnfcResourceInfo` (SOL003 5.5.3.5).
    pub(super) fn vnfcs(&self) -> Value {
        self.hosts.iter().map(Machine::vnfc).collect()
    }

    /// Puts the secrets into `params`, and tells them to `known`.
    ///
    /// # Errors
    ///
    /// Where one cannot be read, or its place is taken by something else than an object.
    pub(super) fn fill(&self, params: &mut Value, known: &mut Redactor) -> Outcome<()> {
        for (place, origin) in &self.secrets {
            let secret = Value::String(self.secret(place, origin)?);
            known.add(&secret);
            let mut at = &mut *params;
            for member in place.split('.') {
                if !at.is_object() && !at.is_null() {
                    let what =
                        format!("secret `{place}`: `{member}` would lie in what is no object");
                    return Err(local(what));
                }
                at = &mut at[member];
            }
            *at = secret;
        }
        Ok(())
    }

    fn secret(&self, place: &str, origin: &Origin) -> Outcome<String> {
        match (&origin.file, &origin.env) {
            (Some(path), None) => Ok(text(&self.folder.join(path))?
                .trim_end_matches(['\r', '\n'])
                .to_owned()),
            (None, Some(name)) => std::env::var(name).map_err(|_| Failure::Hinted {
                what: format!("secret `{place}`: the environment has no `{name}`"),
                hint: format!("`export {name}=…` first"),
            }),
            _ => Err(local(format!(
                "secret `{place}` needs one of `file` and `env`"
            ))),
        }
    }

    /// The host that has this address.
    pub(super) fn at(&self, address: &str) -> Option<&Machine> {
        let address: IpAddr = address.parse().ok()?;
        self.hosts
            .iter()
            .find(|host| host.addresses.values().any(|known| *known == address))
    }

    /// The target as it is reached: a host with `ssh` directly there, also as a jump host.
    pub(super) fn reached(&self, target: &SshTarget) -> SshTarget {
        let mut reached = target.clone();
        let known = self
            .at(&target.address)
            .and_then(|host| host.ssh.as_deref());
        match known.and_then(parted) {
            Some((address, port)) => {
                (reached.address, reached.port, reached.jump) = (address, port, None);
            }
            None => {
                reached.jump = target
                    .jump
                    .as_ref()
                    .map(|jump| Box::new(self.reached(jump)));
            }
        }
        reached
    }
}

/// `ADDRESS:PORT` in its parts.
fn parted(text: &str) -> Option<(String, u16)> {
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

    /// True where it is no machine.
    pub(super) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// What a simulated host answers to `command`; nothing where the inventory does not say.
    pub(super) fn answer(&self, command: &str) -> Option<CommandOutput> {
        let mut answers = self.simulated.iter().flatten();
        let answer = answers.find(|answer| command.contains(&answer.holds))?;
        Some(CommandOutput {
            exit_code: answer.exit,
            stdout: answer.stdout.clone(),
            stderr: answer.stderr.clone(),
            truncated: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Inventory, parted};
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
        let said = json!({"serverId": "s", "address": address, "username": "u"});
        serde_json::from_value(said).unwrap()
    }

    #[test]
    fn a_host_is_reached_where_the_inventory_says_also_as_a_jump_host() {
        let inventory =
            read("hosts: [{name: a, addresses: {CP1: 192.0.2.1}, ssh: '127.0.0.1:2201'}]").unwrap();
        let direct = inventory.reached(&target("192.0.2.1"));
        assert_eq!((direct.address.as_str(), direct.port), ("127.0.0.1", 2201));
        let mut behind = target("192.0.2.9");
        behind.jump = Some(Box::new(target("192.0.2.1")));
        let behind = inventory.reached(&behind);
        assert_eq!((behind.address.as_str(), behind.port), ("192.0.2.9", 22));
        assert_eq!(behind.jump.unwrap().port, 2201);
        assert_eq!(parted("[::1]:22"), Some(("::1".into(), 22)));
    }

    #[test]
    fn what_is_wrong_is_named() {
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
                "two hosts are called `a`",
            ),
            ("{hosts: [], secrets: {p: {argv: x}}}", "argv"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn secrets_come_from_files_and_are_known_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "planted-key\n").unwrap();
        let path = folder.path().join("hosts.yaml");
        std::fs::write(&path, "{hosts: [], secrets: {login.key: {file: key}}}").unwrap();
        let (mut params, mut known) = (json!({"login": {"user": "u"}}), Redactor::default());
        let inventory = Inventory::read(&path).unwrap();
        inventory.fill(&mut params, &mut known).unwrap();
        assert_eq!(
            params,
            json!({"login": {"user": "u", "key": "planted-key"}})
        );
        assert_eq!(known.clean("a planted-key"), "a [hidden]");
        let error = inventory
            .fill(&mut json!({"login": "me"}), &mut known)
            .unwrap_err();
        assert!(error.to_string().contains("login.key"), "{error}");
        std::fs::write(&path, "{hosts: [], secrets: {k: {}}}").unwrap();
        let neither = Inventory::read(&path)
            .unwrap()
            .fill(&mut params, &mut known)
            .unwrap_err();
        assert!(
            neither.to_string().contains("one of `file` and `env`"),
            "{neither}"
        );
    }
}
