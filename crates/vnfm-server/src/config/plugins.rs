//! Which plugins there are, where their hooks run, and which packages may run scripts.

use super::Config;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use vnfm_plugin_host::{PluginConfig, ProcessConfig, ProcessLimits, Runner, Scripts, Users};

/// Which plugins there are, and how they are configured.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Plugins {
    /// Folder of plugins.
    pub dir: Option<PathBuf>,
    /// Names in a VNFD's `implementation`, and the plugin that serves each; where absent, the names that VNFDs
    /// of Tacker use for what our own plugins do.
    pub implementations: BTreeMap<String, String>,
    /// Configuration of a plugin, by its name.
    pub config: BTreeMap<String, Value>,
    /// Where the hooks of a plugin run, by its name: `process`, or `in-process`. Our own plugins run in the
    /// server's process, all others in processes of their own, unless it is said otherwise here.
    pub runners: BTreeMap<String, Runner>,
    /// How those processes are started.
    pub process: Process,
    /// Hooks that are scripts of their package.
    pub scripts: Scripts,
}

/// How the processes of hooks are started.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// A `vnfm-plugin-runner`; this program itself where absent.
    #[schemars(extend("format" = "file"))]
    pub program: Option<PathBuf>,
    /// Numbers of users that they run as, where the server runs as root.
    pub users: Option<Users>,
    /// What each of them may use.
    pub limits: ProcessLimits,
    /// Files and folders that hooks may read beside the system's programs and libraries (`/usr`, `/bin`, `/lib`, a few
    /// files of `/etc`), such as the folder of a Python environment.
    pub readable: Vec<PathBuf>,
}

/// Plugins that come with this server and are trusted as it is.
const OURS: &[&str] = &["kubernetes-cluster"];

impl Plugins {
    /// As the plugin host takes it; libraries lie in `dir`, and hooks see nothing of `hidden`.
    pub(crate) fn for_host(&self, dir: PathBuf, hidden: Vec<PathBuf>) -> vnfm_plugin_host::Config {
        let mut plugins: BTreeMap<String, PluginConfig> = BTreeMap::new();
        for name in OURS {
            plugins.entry((*name).to_owned()).or_default().runner = Runner::InProcess;
        }
        for (name, runner) in &self.runners {
            plugins.entry(name.clone()).or_default().runner = *runner;
        }
        for (name, config) in &self.config {
            plugins.entry(name.clone()).or_default().config = config.clone();
        }
        let own = || (OWN_PROGRAM.into(), vec![RUNNER_MODE.to_owned()]);
        let other = |program| (program, Vec::new());
        let (program, arguments) = self.process.program.clone().map_or_else(own, other);
        let users = self.process.users.unwrap_or_default();
        let limits = self.process.limits;
        let readable = self.process.readable.clone();
        let process = ProcessConfig {
            program,
            arguments,
            users,
            limits,
            readable,
            hidden,
        };
        let process = Some(process);
        let implementations = self.implementations.clone();
        let scripts = self.scripts.clone();
        vnfm_plugin_host::Config {
            dir,
            plugins,
            implementations,
            process,
            scripts,
        }
    }
}

impl Config {
    /// What the plugin host takes: hooks see neither the data folder nor the key of the certificate.
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
}

/// The program that runs, even where its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The first argument of this program where it runs one hook and nothing else.
pub const RUNNER_MODE: &str = "plugin-runner";
