//! What the server is configured with: flag > `VNFM_*` > YAML file > default.
//!
//! | file | what |
//! |---|---|
//! | `config/schema.rs` | the JSON Schema of the file, and the environment variable of each member |
//! | `config/source.rs` | file and environment as one value, each mistake with its place |
//! | `config/limits.rs` | `limits`, with what is so where nothing is configured |
//! | `config/check.rs` | `vnfm-server check-config` |
//! | `config/reload.rs` | what a changed file changes while the server runs |

mod check;
mod limits;
mod plugins;
mod reload;
mod schema;
mod source;

pub use check::{Checked, check, example_mistakes};
pub use limits::Limits;
pub use plugins::{Plugins, Process, RUNNER_MODE};
pub use reload::{Differences, differences};
pub use schema::{Member, members, schema};
pub use source::{Mistake, Variables, environment};

use crate::access;
use crate::nfvo::Nfvo;
use crate::secrets::Secrets;
use crate::signatures::Packages;
use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use source::Source;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use vnfm_outbound::{Destinations, Networks};
use vnfm_types::Secret;

/// SOL003 VNF Manager: one binary, one folder of data.
#[derive(Debug, Clone, Parser)]
#[command(name = "vnfm-server", version, about, after_help = AFTER_HELP)]
pub struct Flags {
    /// Address and port to listen at; port 0 takes a free one
    #[arg(long, env = "VNFM_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Folder of the database, packages, plugins and the key file
    #[arg(long, global = true, env = "VNFM_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration file, YAML
    #[arg(long, global = true, env = "VNFM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of MgmtDriver plugins; `plugins` in the data folder where absent
    #[arg(long, env = "VNFM_PLUGINS", value_name = "DIR")]
    pub plugins: Option<PathBuf>,
    /// Where clients find this server, for links
    #[arg(long, env = "VNFM_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// File that holds the bearer token that each request needs
    #[arg(long, env = "VNFM_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate chain, PEM
    #[arg(long, env = "VNFM_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, env = "VNFM_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Log lines as JSON
    #[arg(long, env = "VNFM_LOG_JSON")]
    pub log_json: bool,
    /// Instead of serving
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Read a password from standard input and print its hash, for `access.users` of the configuration
    HashPassword,
    /// Say every mistake of a configuration, and whether the files that it names can be read; changes nothing
    CheckConfig {
        /// The file; what --config names where absent
        file: Option<PathBuf>,
    },
    /// Bring a backup into the data folder; the key file that belongs to it has to be there
    Restore {
        /// What `vnfmctl backup` wrote
        file: PathBuf,
    },
    /// Give up what was lost of the data folder, where a start is refused for it: a write-ahead log, or the database
    AcceptLoss,
}

const AFTER_HELP: &str = "\
On loopback the server needs no credential. At any other address it demands TLS (--tls-cert, --tls-key) and a \
bearer token (--token-file) or another way to log in (`access` of the configuration), or it does not start.

VNFM_LOG sets what is logged, such as `info` or `vnfm_core=debug`; logs go to standard error. SIGHUP reads the \
configuration again: what is logged and `limits` change at once, the log names what waits for a restart.";

/// The configuration of `vnfm-server`. Every member may be absent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
#[schemars(title = "vnfm-server configuration")]
struct Written {
    /// Address and port to listen at; others than loopback need `tls`, and `token_file` or a way to log in
    /// under `access`. `127.0.0.1:9890` where absent.
    #[schemars(extend("format" = "socket-address"))]
    listen: Option<SocketAddr>,
    /// Folder of the database, packages, plugins and the key file. `/var/lib/vnfm` for root where absent.
    data: Option<PathBuf>,
    /// Where clients find this server, for links; taken from each request where absent.
    #[schemars(extend("format" = "http-url"))]
    public_url: Option<String>,
    /// Networks of the proxies whose `Forwarded` and `X-Forwarded-*` headers say where clients find this server.
    #[schemars(with = "Vec<schema::Network>")]
    trusted_proxies: Vec<String>,
    /// File that holds the bearer token that each request needs.
    #[schemars(extend("format" = "file"))]
    token_file: Option<PathBuf>,
    /// The server's own certificate.
    tls: Option<Tls>,
    /// What is logged, and how.
    log: Log,
    /// Health and metrics at an address of their own.
    monitoring: Monitoring,
    /// Plugins.
    plugins: Plugins,
    /// Time and size limits.
    limits: Limits,
    /// How long what is over is kept.
    retention: Retention,
    /// How subscribers are told of lifecycle changes.
    notifications: Notifications,
    /// Where VIMs may be.
    vims: Vims,
    /// What hooks may reach.
    hooks: Hooks,
    /// What is asked of packages when they are onboarded.
    packages: Packages,
    /// The NFVO that grants operations, and may be a source of packages; where absent, a local policy grants.
    nfvo: Option<Nfvo>,
    /// Who may do what; where absent, whoever has the token, or anybody on loopback.
    access: Option<access::Settings>,
    /// Where the key lies that seals secrets.
    secrets: Secrets,
}

/// What is logged, and how.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// What is logged, such as `info` or `vnfm_core=debug`; `VNFM_LOG` is said before it. `info` where absent.
    #[schemars(extend("format" = "log-filter"))]
    pub level: Option<String>,
    /// Lines as JSON.
    pub json: bool,
}

/// Health and metrics at an address of their own, and where traces go.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Monitoring {
    /// Address and port where `/healthz`, `/readyz` and `/metrics` are served, and nothing else; without a login on
    /// loopback, else over TLS and with one. They are served with the rest as well.
    #[schemars(extend("format" = "socket-address"))]
    pub listen: Option<SocketAddr>,
    /// URL of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; it is sent a span
    /// for each request, operation, step and call. None where absent.
    #[schemars(extend("format" = "http-url"))]
    pub traces: Option<String>,
}

/// Where the certificate is.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain, PEM.
    #[schemars(extend("format" = "file"))]
    pub cert: PathBuf,
    /// Its private key, PEM.
    #[schemars(extend("format" = "file"))]
    pub key: PathBuf,
}

/// How long what is over is kept.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Days for operation occurrences that are ended; the last of an instance stays. 365 where absent.
    pub op_occ_days: Option<u32>,
    /// Days for journals of ended operations; 90 where absent.
    pub journal_days: Option<u32>,
    /// Days for logs of ended operations; 30 where absent.
    pub log_days: Option<u32>,
    /// Days for notifications; 30 where absent.
    pub outbox_days: Option<u32>,
    /// Days for entries of the audit; 365 where absent.
    pub audit_days: Option<u32>,
    /// Hours between two prunings; 0 for none, 24 where absent.
    pub every_hours: Option<u32>,
}

/// How subscribers are told of lifecycle changes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Notifications {
    /// Networks that callbacks and token endpoints of subscribers may lie in, such as `10.0.0.0/8`; `default` among them adds
    /// what counts where none is named: every address but this machine's own, link-local ones and those of metadata services.
    #[schemars(with = "Vec<schema::Destination>")]
    pub networks: Vec<String>,
    /// Seconds that a subscriber may take to answer; 10 where absent.
    pub answer_seconds: Option<u64>,
    /// Hours after which a notification that is not taken is given up; 24 where absent.
    pub give_up_hours: Option<u64>,
    /// Minutes after which a notification that is refused (4xx but 408, 425, 429) is given up; 10 where absent.
    pub refused_minutes: Option<u64>,
    /// Our certificate, for subscribers that want one (`TLS_CERT`).
    pub certificate: Option<Tls>,
    /// PEM file of the authorities that a subscriber's certificate may be of; those of the machine where absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
}

/// Where VIMs may be.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Vims {
    /// Networks that VIMs, the services of their catalogs and their proxies may lie in, such as `10.0.0.0/8`; `default` among
    /// them adds what counts where none is named: every address but this machine's own, link-local ones and those of metadata
    /// services. A server at loopback without a login, and without networks here, reaches every address.
    #[schemars(with = "Vec<schema::Destination>")]
    pub networks: Vec<String>,
}

/// What hooks may reach.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hooks {
    /// Networks that hooks reach over SSH and HTTP, jump hosts included; written, and meant where absent, as `vims.networks`.
    #[schemars(with = "Vec<schema::Destination>")]
    pub networks: Vec<String>,
}

/// The whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Folder of data.
    pub data: PathBuf,
    /// Where clients find this server.
    pub public_url: Option<String>,
    /// The bearer token.
    pub token: Option<Secret>,
    /// The certificate.
    pub tls: Option<Tls>,
    /// Plugins.
    pub plugins: Plugins,
    /// Limits.
    pub limits: Limits,
    /// Retention.
    pub retention: Retention,
    /// Notifications.
    pub notifications: Notifications,
    /// Where VIMs may be.
    pub vims: Vims,
    /// What hooks may reach.
    pub hooks: Hooks,
    /// Whose packages are taken.
    pub packages: Packages,
    /// The NFVO that grants operations; a local policy grants where absent.
    pub nfvo: Option<Nfvo>,
    /// Who may do what; whoever has the token, or anybody on loopback, where absent.
    pub access: Option<access::Settings>,
    /// Where the key lies that seals secrets.
    pub secrets: Secrets,
    /// What is logged, and how.
    pub log: Log,
    /// Health and metrics at an address of their own.
    pub monitoring: Monitoring,
    /// The proxies whose word about where this server is counts; none where empty.
    pub trusted_proxies: Vec<String>,
    /// What file and environment say, member by member; to see what has changed.
    said: Value,
}

/// What calls are for that tenants and packages cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// VIMs, the services of their catalogs, and their proxies.
    Vims,
    /// Hosts and URLs that hooks name.
    Hooks,
}

/// The port that nobody else has registered.
const PORT: u16 = 9890;

/// What [`Plugins::implementations`] holds where the configuration names none.
const IMPLEMENTATIONS: &[(&str, &str)] = &[("mgmt-drivers-kubernetes", "kubernetes-cluster")];

impl Config {
    /// Puts flags, environment and file together.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read or has a member that is not known, with line and column; where the server
    /// would be open to others without TLS and a credential.
    pub fn load(flags: Flags) -> anyhow::Result<Self> {
        let mut source = Source::read(flags.config.as_deref(), &environment())?;
        let Some(written) = source.written()? else {
            let all: Vec<_> = source.mistakes.iter().map(ToString::to_string).collect();
            bail!("the configuration is wrong:\n  {}", all.join("\n  "));
        };
        let mut config = Self::together(flags, written)?;
        config.said = source.value;
        config.guarded()?;
        config.guarded_monitoring()?;
        Ok(config)
    }

    /// Flags over what is written, and defaults below.
    fn together(flags: Flags, file: Written) -> anyhow::Result<Self> {
        let tls = match (flags.tls_cert, flags.tls_key) {
            (Some(cert), Some(key)) => Some(Tls { cert, key }),
            (None, None) => file.tls,
            _ => bail!("--tls-cert and --tls-key go together"),
        };
        let mut plugins = file.plugins;
        plugins.dir = flags.plugins.or(plugins.dir);
        if plugins.implementations.is_empty() {
            let ours = IMPLEMENTATIONS.iter();
            plugins.implementations = ours
                .map(|(name, plugin)| ((*name).to_owned(), (*plugin).to_owned()))
                .collect();
        }
        let token = flags.token_file.or(file.token_file);
        Ok(Self {
            listen: flags
                .listen
                .or(file.listen)
                .unwrap_or(([127, 0, 0, 1], PORT).into()),
            data: flags.data.or(file.data).map_or_else(default_data, Ok)?,
            public_url: flags.public_url.or(file.public_url),
            token: token.as_deref().map(read_token).transpose()?,
            tls,
            plugins,
            limits: file.limits,
            retention: file.retention,
            notifications: file.notifications,
            vims: file.vims,
            hooks: file.hooks,
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
            said: Value::Null,
        })
    }

    /// The certificates that are configured, by the name of their member.
    pub fn certificates(&self) -> Vec<(String, PathBuf)> {
        let (told, nfvo) = (&self.notifications, self.nfvo.as_ref());
        let barbican = self.secrets.barbican.as_ref();
        let pairs = [
            ("tls.cert", self.tls.as_ref()),
            ("notifications.certificate.cert", told.certificate.as_ref()),
            (
                "nfvo.certificate.cert",
                nfvo.and_then(|nfvo| nfvo.certificate.as_ref()),
            ),
        ];
        let files = [
            (
                "notifications.authorities_file",
                told.authorities_file.clone(),
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

    /// From now on what changes while the server runs is as in `new`.
    pub(crate) fn take_over(&mut self, new: Self) {
        self.limits = new.limits;
        self.log.level = new.log.level;
        reload::note(&mut self.said, &new.said);
    }

    /// Refuses to show figures to others.
    fn guarded_monitoring(&self) -> anyhow::Result<()> {
        match self.monitoring.listen {
            Some(address) if !address.ip().is_loopback() && !self.is_guarded() => bail!(
                "{address} is not a loopback address: figures are shown to others only over TLS and with a login; \
                 give `tls` and `token_file`, or a way to log in under `access`, or listen at 127.0.0.1"
            ),
            _ => Ok(()),
        }
    }

    /// Where a purpose may call: what its networks allow; without any, a server that trusts its one user calls anywhere.
    ///
    /// # Errors
    ///
    /// Names the text that is no network.
    pub fn destinations(&self, purpose: Purpose) -> anyhow::Result<Destinations> {
        let (member, networks) = match purpose {
            Purpose::Vims => ("vims", &self.vims.networks),
            Purpose::Hooks => ("hooks", &self.hooks.networks),
        };
        if networks.is_empty() && self.listen.ip().is_loopback() && !self.has_login() {
            return Ok(Destinations::anywhere());
        }
        let networks = Networks::parse(networks);
        let networks = networks.map_err(|why| {
            anyhow::anyhow!("the configuration is wrong: {member}.networks: {why}")
        })?;
        Ok(Destinations::within(networks))
    }

    fn is_guarded(&self) -> bool {
        self.tls.is_some() && self.has_login()
    }

    fn has_login(&self) -> bool {
        let access = self.access.as_ref();
        self.token.is_some() || access.is_some_and(access::Settings::has_a_way)
    }

    /// Refuses to be open to others.
    fn guarded(&self) -> anyhow::Result<()> {
        let certificates = self
            .access
            .as_ref()
            .is_some_and(|access| access.certificates.is_some());
        if self.tls.is_none() && certificates {
            bail!("access.certificates needs `tls`: there are no client certificates without it");
        }
        if self.listen.ip().is_loopback() || self.is_guarded() {
            return Ok(());
        }
        let missing = match (&self.tls, self.has_login()) {
            (None, false) => "--tls-cert, --tls-key and --token-file",
            (None, true) => "--tls-cert and --tls-key",
            _ => "--token-file, or a way to log in under `access` of the configuration",
        };
        bail!(
            "{} is not a loopback address: others could use this server without a login; give {missing}, or \
             listen at 127.0.0.1",
            self.listen
        )
    }
}

fn read_token(path: &Path) -> anyhow::Result<Secret> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token file `{}`", path.display()))?;
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

/// True where the process belongs to root: `/proc/self` does.
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
    fn a_server_that_others_reach_needs_tls_and_a_token() {
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
    fn names_of_other_vnfms_drivers_are_known_unless_others_are_given() {
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
    fn plugins_of_others_run_in_processes_unless_it_is_said_otherwise() {
        use vnfm_plugin_host::Runner::{InProcess, Process};
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "plugins: {runners: {acme: in-process, kubernetes-cluster: process}, config: {other: {a: 1}}, \
                    process: {limits: {memory_mib: 100}}}";
        writeln!(file, "{text}").unwrap();
        let path = file.path().to_str().unwrap();
        let of = |arguments: &[&str]| {
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
        let default = of(&[]);
        assert_eq!(runner(&default, "kubernetes-cluster"), InProcess);
        assert_eq!(runner(&default, "acme"), Process);
        let given = of(&["--config", path]);
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
    fn a_page_has_an_end() {
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
    fn an_unknown_member_is_named_with_its_place() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "listen: 127.0.0.1:1\nplugin: {{}}").unwrap();
        let path = file.path().to_str().unwrap();
        let error = format!(
            "{:#}",
            load(&["--config", path, "--data", "d"]).unwrap_err()
        );
        assert!(
            error.contains(&format!("{path}:2:1: there is no member `plugin`")),
            "{error}"
        );
        assert!(error.contains("did you mean `plugins`?"), "{error}");
    }
}
