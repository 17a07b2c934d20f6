//! Plugins, where their hooks run, and which packages may run scripts.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use vnfm_plugin_host::{PluginConfig, ProcessConfig, ProcessLimits, Runner, Scripts, Users};

/// Plugins and how their hooks run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plugins {
    /// Folder of plugins. Default: `plugins` in the data folder.
    pub dir: Option<PathBuf>,
    /// Maps names in a VNFD's `implementation` to plugins. Default: the names that Tacker's VNFDs use for
    /// functions of the built-in plugins.
    pub implementations: BTreeMap<String, String>,
    /// Configuration of each plugin, by plugin name.
    pub config: BTreeMap<String, Value>,
    /// Where the hooks of each plugin run, by plugin name: `process` or `in-process`. Default: built-in plugins run in
    /// the server's process, all others in their own processes.
    pub runners: BTreeMap<String, Runner>,
    /// How these processes are started.
    pub process: Process,
    /// Hooks that are scripts in their package.
    pub scripts: Scripts,
}

/// How the processes of hooks are started.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Process {
    /// Path of a `vnfm-plugin-runner`. Default: this program.
    #[schemars(extend("format" = "file"))]
    pub program: Option<PathBuf>,
    /// User ids for the processes, if the server runs as root.
    pub users: Option<Users>,
    /// Resource limits of each process.
    pub limits: ProcessLimits,
    /// Files and folders that hooks may read in addition to the system's programs and libraries (`/usr`, `/bin`,
    /// `/lib`, a few files of `/etc`), such as the folder of a Python environment.
    pub readable: Vec<PathBuf>,
}

/// Built-in plugins, trusted like the server itself.
const OURS: &[&str] = &["kubernetes-cluster", "cluster-api"];

impl Plugins {
    /// Settings for the plugin host; `dir` has the libraries, and `hidden` is not accessible to hooks.
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

/// The running program, even if its file has been replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The first argument of this program for running a single hook.
pub const RUNNER_MODE: &str = "plugin-runner";
