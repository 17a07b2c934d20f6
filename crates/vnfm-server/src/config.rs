//! The server's configuration. Precedence: flag > `VNFM_*` > YAML file > default.
//!
//! | file | contents |
//! |---|---|
//! | `config/file.rs` | the members of the file |
//! | `config/flags.rs` | command-line flags and commands |
//! | `config/schema.rs` | the JSON Schema of the file, and the environment variable of each member |
//! | `config/source.rs` | file and environment as one value, each mistake with its position |
//! | `config/limits.rs` | `limits`, with the defaults |
//! | `config/on_failure.rs` | `on_failure` |
//! | `config/plugins.rs` | `plugins` |
//! | `config/check.rs` | `vnfm-server check-config` |
//! | `config/reload.rs` | which changes apply while the server runs |

mod check;
mod file;
mod flags;
mod limits;
mod on_failure;
mod plugins;
mod reload;
mod schema;
mod source;

pub use check::{check, example_mistakes};
pub(crate) use file::{
    Grants, HelmProgram, Hooks, Ipmitool, Monitoring, Notifications, Unplaced, Vims,
};
pub use flags::{Command, Flags};
pub(crate) use limits::Limits;
pub(crate) use on_failure::OnFailure;
pub(crate) use plugins::Plugins;
pub use plugins::RUNNER_MODE;
pub use reload::Differences;
pub use schema::{Member, members, schema};
pub use source::environment;

use crate::access;
use crate::logs::Log;
use crate::maintenance::RetentionDays;
use crate::nfvo::Nfvo;
use crate::secrets::Secrets;
use crate::settings_file;
use crate::signatures::Packages;
use crate::tls::{CertificatePair, Files};
use anyhow::{Context as _, bail};
use file::ConfigFile;
use serde_json::Value;
use source::Source;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use vnfm_outbound::{Destinations, Networks};
use vnfm_types::Secret;

/// The effective configuration: flags, environment, file and defaults combined.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address and port to listen on.
    pub(crate) listen: SocketAddr,
    /// Folder with database, packages, plugins and keys.
    pub data: PathBuf,
    /// Base URL of this server for clients; derived from each request if absent.
    pub(crate) public_url: Option<String>,
    /// The bearer token; the content of `token_file`.
    pub(crate) token: Option<Secret>,
    /// The server's certificate; plain HTTP without it.
    pub(crate) tls: Option<CertificatePair>,
    /// Plugins and how their hooks run.
    pub(crate) plugins: Plugins,
    /// Limits on time, size and concurrency.
    pub(crate) limits: Limits,
    /// What happens to an operation when one of its steps fails.
    pub(crate) on_failure: OnFailure,
    /// How long finished operations, their logs and audit entries are retained.
    pub(crate) retention: RetentionDays,
    /// Delivery of notifications to subscribers.
    pub(crate) notifications: Notifications,
    /// Addresses at which VIMs are allowed.
    pub(crate) vims: Vims,
    /// Addresses that hooks may reach.
    pub(crate) hooks: Hooks,
    /// The helm program that installs the charts of packages.
    pub(crate) helm: HelmProgram,
    /// The program that switches bare hosts by IPMI.
    pub(crate) ipmitool: Ipmitool,
    /// How the decisions of grants are followed.
    pub(crate) grants: Grants,
    /// Requirements on packages at onboarding.
    pub(crate) packages: Packages,
    /// The NFVO that grants operations; without it, a local policy grants.
    pub(crate) nfvo: Option<Nfvo>,
    /// Logins, roles and quotas; without it, the token is the only login, and on loopback none is needed.
    pub(crate) access: Option<access::Settings>,
    /// Location of the key that encrypts secrets.
    pub(crate) secrets: Secrets,
    /// What is logged, and in which format.
    pub log: Log,
    /// A separate address for health and metrics, and the trace collector.
    pub monitoring: Monitoring,
    /// Networks of the proxies whose forwarding headers are trusted; none if empty.
    pub(crate) trusted_proxies: Vec<String>,
    /// File and environment as one JSON value, for detecting changes at a reload.
    source: Value,
}

/// Why tenants or packages cause the server to call an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// VIMs, the services in their catalogs, and their proxies.
    Vims,
    /// Hosts and URLs that hooks use.
    Hooks,
}

/// Not registered for any other service.
const DEFAULT_PORT: u16 = 9890;

/// Default of [`Plugins::implementations`], by `implementation` in the VNFD.
const DEFAULT_IMPLEMENTATIONS: &[(&str, &str)] =
    &[("mgmt-drivers-kubernetes", "kubernetes-cluster")];

impl Config {
    /// Combines flags, environment, file and defaults.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has mistakes (all of them, with line and column), or if the server would be open to
    /// others without TLS and a credential.
    pub fn load(flags: Flags) -> anyhow::Result<Self> {
        let mut source = Source::read(flags.config.as_deref(), &environment())?;
        let Some(file) = source.parse()? else {
            let all: Vec<_> = source.mistakes.iter().map(ToString::to_string).collect();
            bail!("invalid configuration:\n  {}", all.join("\n  "));
        };
        let mut config = Self::combine(flags, file)?;
        config.source = source.value;
        config.check_exposure()?;
        config.check_monitoring_exposure()?;
        Ok(config)
    }

    /// Flags override the file; defaults fill the rest.
    fn combine(flags: Flags, file: ConfigFile) -> anyhow::Result<Self> {
        let tls = match (flags.tls_cert, flags.tls_key) {
            (Some(cert), Some(key)) => Some(CertificatePair { cert, key }),
            (None, None) => file.tls,
            _ => bail!("--tls-cert and --tls-key must be given together"),
        };
        let mut plugins = file.plugins;
        plugins.dir = flags.plugins.or(plugins.dir);
        if plugins.implementations.is_empty() {
            let ours = DEFAULT_IMPLEMENTATIONS.iter();
            plugins.implementations = ours
                .map(|(name, plugin)| ((*name).to_owned(), (*plugin).to_owned()))
                .collect();
        }
        let token = flags.token_file.or(file.token_file);
        Ok(Self {
            listen: flags
                .listen
                .or(file.listen)
                .unwrap_or(([127, 0, 0, 1], DEFAULT_PORT).into()),
            data: flags.data.or(file.data).map_or_else(default_data, Ok)?,
            public_url: flags.public_url.or(file.public_url),
            token: token.as_deref().map(read_token).transpose()?,
            tls,
            plugins,
            limits: file.limits,
            on_failure: file.on_failure,
            retention: file.retention,
            notifications: file.notifications,
            vims: file.vims,
            hooks: file.hooks,
            helm: file.helm,
            ipmitool: file.ipmitool,
            grants: file.grants,
            packages: file.packages,
            nfvo: file.nfvo,
            access: file.access,
            secrets: file.secrets,
            log: Log {
                json: flags.log_json || file.log.json,
                ..file.log
            },
            monitoring: file.monitoring,
            trusted_proxies: file.trusted_proxies,
            source: Value::Null,
        })
    }

    /// The helm program and its version, or why it cannot be used; `None` if none is configured.
    ///
    /// # Errors
    ///
    /// The file is missing, is not the pinned one, or is neither Helm 3 nor Helm 4.
    pub async fn helm_version(&self) -> Option<anyhow::Result<String>> {
        let program = self.helm.program()?;
        let path = program.path().display().to_string();
        let version = program.version().await;
        let described = version.map(|version| format!("`{path}` is {version}"));
        Some(described.map_err(anyhow::Error::from))
    }

    /// Configured certificate files, with the names of their members.
    pub(crate) fn certificates(&self) -> Vec<(String, PathBuf)> {
        let (notifications, nfvo) = (&self.notifications, self.nfvo.as_ref());
        let barbican = self.secrets.barbican.as_ref();
        let pairs = [
            ("tls.cert", self.tls.as_ref()),
            (
                "notifications.certificate.cert",
                notifications.certificate.as_ref(),
            ),
            (
                "nfvo.certificate.cert",
                nfvo.and_then(|nfvo| nfvo.certificate.as_ref()),
            ),
        ];
        let files = [
            (
                "notifications.authorities_file",
                notifications.authorities_file.clone(),
            ),
            (
                "nfvo.authorities_file",
                nfvo.and_then(|nfvo| nfvo.authorities_file.clone()),
            ),
            ("packages.trust", self.packages.trust.clone()),
            (
                "secrets.barbican.authorities_file",
                barbican.and_then(|b| b.authorities_file.clone()),
            ),
        ];
        let pairs = pairs
            .into_iter()
            .map(|(name, pair)| (name, pair.map(|it| it.cert.clone())));
        let all = pairs
            .chain(files)
            .filter_map(|(name, file)| Some((name.to_owned(), file?)));
        all.chain(self.access.iter().flat_map(access::Settings::authorities))
            .collect()
    }

    /// Settings for the plugin host: hooks can access neither the data folder nor the certificate's key.
    pub fn plugin_host(&self) -> vnfm_plugin_host::Config {
        let dir = self
            .plugins
            .dir
            .clone()
            .unwrap_or_else(|| self.data.join("plugins"));
        let key = self.tls.as_ref().map(|tls| tls.key.clone());
        self.plugins
            .for_host(dir, [self.data.clone()].into_iter().chain(key).collect())
    }

    /// Files of the server's certificate, and of the CA for client certificates if those are used.
    pub(crate) fn tls_files(&self) -> Option<Files> {
        let tls = self.tls.as_ref()?;
        let clients = self.access.as_ref().and_then(|a| a.certificates.as_ref());
        Some(Files {
            cert: tls.cert.clone(),
            key: tls.key.clone(),
            clients: clients.map(|clients| (clients.authorities_file.clone(), clients.required)),
        })
    }

    /// `https` if the server has a certificate.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The members in which `new` differs.
    pub(crate) fn differences(&self, new: &Self) -> Differences {
        reload::differences(&self.source, &new.source)
    }

    /// Applies the settings of `new` that can change while the server runs.
    pub(crate) fn apply_live(&mut self, new: Self) {
        self.limits = new.limits;
        self.on_failure = new.on_failure;
        self.log.level = new.log.level;
        reload::apply_live(&mut self.source, &new.source);
    }

    /// Requires TLS and a login if metrics are served on an address other than loopback.
    pub(super) fn check_monitoring_exposure(&self) -> anyhow::Result<()> {
        match self.monitoring.listen {
            Some(address) if !address.ip().is_loopback() && !self.is_guarded() => bail!(
                "{address} is not a loopback address: metrics are served there only over TLS and with a login; \
                 configure `tls`, and `token_file` or a login method under `access`, or listen on 127.0.0.1"
            ),
            _ => Ok(()),
        }
    }

    /// The destinations that `purpose` may call. Without configured networks, a server on loopback without a login may call
    /// every address: it trusts its only user.
    ///
    /// # Errors
    ///
    /// Names the entry that is not a network.
    pub(crate) fn destinations(&self, purpose: Purpose) -> anyhow::Result<Destinations> {
        let (member, networks) = match purpose {
            Purpose::Vims => ("vims", &self.vims.networks),
            Purpose::Hooks => ("hooks", &self.hooks.networks),
        };
        if networks.is_empty() && self.listen.ip().is_loopback() && !self.has_login() {
            return Ok(Destinations::anywhere());
        }
        let networks = Networks::parse(networks);
        let networks = networks.map_err(|error| {
            anyhow::anyhow!("invalid configuration: {member}.networks: {error}")
        })?;
        Ok(Destinations::within(networks))
    }

    fn is_guarded(&self) -> bool {
        self.tls.is_some() && self.has_login()
    }

    fn has_login(&self) -> bool {
        let access = self.access.as_ref();
        self.token.is_some() || access.is_some_and(access::Settings::has_login_method)
    }

    /// Requires TLS and a login if the server listens on an address other than loopback.
    pub(super) fn check_exposure(&self) -> anyhow::Result<()> {
        let certificates = self
            .access
            .as_ref()
            .is_some_and(|access| access.certificates.is_some());
        if self.tls.is_none() && certificates {
            bail!("access.certificates needs `tls`: client certificates exist only with TLS");
        }
        if self.listen.ip().is_loopback() || self.is_guarded() {
            return Ok(());
        }
        let missing = match (&self.tls, self.has_login()) {
            (None, false) => "--tls-cert, --tls-key and --token-file",
            (None, true) => "--tls-cert and --tls-key",
            _ => "--token-file, or a login method under `access` in the configuration",
        };
        bail!(
            "{} is not a loopback address: others could use this server without a login; give {missing}, or \
             listen on 127.0.0.1",
            self.listen
        )
    }
}

fn read_token(path: &Path) -> anyhow::Result<Secret> {
    let text = settings_file::text(path).context("token_file")?;
    let token = text.trim();
    if token.len() < 16 {
        bail!(
            "the token in `{}` is shorter than 16 characters",
            path.display()
        );
    }
    Ok(Secret::new(token))
}

fn default_data() -> anyhow::Result<PathBuf> {
    let root = is_root();
    if root {
        return Ok("/var/lib/vnfm".into());
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = state
        .or_else(home)
        .context("neither XDG_STATE_HOME nor HOME is set; give --data")?;
    Ok(base.join("vnfm"))
}

/// Whether the process runs as root, judged by the owner of `/proc/self`.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::{Config, Flags};
    use clap::Parser as _;
    use std::io::Write as _;

    fn load(arguments: &[&str]) -> anyhow::Result<Config> {
        Config::load(Flags::parse_from([&["vnfm-server"], arguments].concat()))
    }

    #[test]
    fn a_server_on_a_public_address_needs_tls_and_a_token() {
        let error = load(&["--listen", "0.0.0.0:0", "--data", "d"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--tls-cert, --tls-key and --token-file"),
            "{error}"
        );
        assert!(load(&["--listen", "127.0.0.1:0", "--data", "d"]).is_ok());
    }

    #[test]
    fn tacker_driver_names_are_the_default_implementations() {
        let known = load(&["--data", "d"]).unwrap().plugins.implementations;
        assert_eq!(known["mgmt-drivers-kubernetes"], "kubernetes-cluster");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "plugins: {{implementations: {{a: b}}}}").unwrap();
        let path = file.path().to_str().unwrap();
        let given = load(&["--config", path, "--data", "d"])
            .unwrap()
            .plugins
            .implementations;
        assert_eq!(
            given.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), "b".to_owned())]
        );
    }

    #[test]
    fn third_party_plugins_run_in_processes_unless_configured_otherwise() {
        use vnfm_plugin_host::Runner::{InProcess, Process};
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "plugins: {runners: {acme: in-process, kubernetes-cluster: process}, config: {other: {a: 1}}, \
                    process: {limits: {memory_mib: 100}}}";
        writeln!(file, "{text}").unwrap();
        let path = file.path().to_str().unwrap();
        let host_config = |arguments: &[&str]| {
            load(&[arguments, &["--data", "d"]].concat())
                .unwrap()
                .plugin_host()
        };
        let runner = |config: &vnfm_plugin_host::Config, name: &str| {
            config
                .plugins
                .get(name)
                .map(|plugin| plugin.runner)
                .unwrap_or_default()
        };
        let default = host_config(&[]);
        assert_eq!(runner(&default, "kubernetes-cluster"), InProcess);
        assert_eq!(runner(&default, "acme"), Process);
        let given = host_config(&["--config", path]);
        assert_eq!(runner(&given, "kubernetes-cluster"), Process);
        assert_eq!(
            (runner(&given, "acme"), runner(&given, "other")),
            (InProcess, Process)
        );
        assert_eq!(given.plugins["other"].config["a"], 1);
        let process = given.process.unwrap();
        assert_eq!(
            (process.limits.memory_mib, process.limits.processes),
            (100, 128)
        );
        assert_eq!(process.arguments, ["plugin-runner"]);
    }

    #[test]
    fn page_entries_are_at_most_1000() {
        let page = |entries: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            writeln!(file, "limits: {{page_entries: {entries}}}").unwrap();
            load(&["--config", file.path().to_str().unwrap(), "--data", "d"])
        };
        assert_eq!(page("1000").unwrap().limits.page_size(), 1000);
        assert_eq!(page("0").unwrap().limits.page_size(), 0);
        assert!(
            page("1001")
                .unwrap_err()
                .to_string()
                .contains("at most 1000")
        );
        assert_eq!(load(&["--data", "d"]).unwrap().limits.page_size(), 100);
    }

    #[test]
    fn an_unknown_member_is_reported_with_its_position() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "listen: 127.0.0.1:1\nplugin: {{}}").unwrap();
        let path = file.path().to_str().unwrap();
        let error = format!(
            "{:#}",
            load(&["--config", path, "--data", "d"]).unwrap_err()
        );
        assert!(
            error.contains(&format!("{path}:2:1: unknown member `plugin`")),
            "{error}"
        );
        assert!(error.contains("did you mean `plugins`?"), "{error}");
    }
}
