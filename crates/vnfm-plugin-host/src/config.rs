//! The configuration of plugins: which may run, how, and with what limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Which plugins run, how they are isolated, and their own configurations.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// The folder with the libraries and `plugins.lock`. Libraries are loaded only from here.
    pub dir: PathBuf,
    /// Settings of individual plugins, by plugin name.
    pub plugins: BTreeMap<String, PluginConfig>,
    /// Maps a VNFD's `implementation` to a plugin of another name, such as
    /// `mgmt-drivers-kubernetes: kubernetes-cluster`.
    pub implementations: BTreeMap<String, String>,
    /// How hook processes are started. If absent, only [`Runner::InProcess`] plugins can run.
    pub process: Option<ProcessConfig>,
    /// Hooks that are scripts in the VNF package.
    pub scripts: Scripts,
}

/// Hooks that are scripts in the VNF package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scripts {
    /// Which packages may run scripts.
    pub allow: AllowedScripts,
    /// Name of the plugin that runs scripts.
    pub plugin: String,
    /// Gives scripts the server's network. Without it they reach only the hosts of their VNF, through the VNFM.
    pub network: bool,
    /// Where each hook process gets its private temporary folder; also used for plugins that are not scripts.
    pub folder: PathBuf,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            allow: AllowedScripts::default(),
            plugin: "mgmt-script".into(),
            network: false,
            folder: "/tmp".into(),
        }
    }
}

/// Which packages may run scripts as hooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AllowedScripts {
    /// No package may run scripts.
    None,
    /// Packages whose SHA-256 an administrator pinned with `vnfmctl plugin allow --package`.
    #[default]
    Pinned,
    /// Every onboarded package may run scripts.
    All,
}

/// The settings of one plugin.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginConfig {
    /// Passed to the plugin; must match the schema that the plugin declares.
    pub config: Value,
    /// Whether its hooks run in separate processes.
    pub runner: Runner,
}

/// Where the hooks of a plugin run. A driver that is linked into the program always runs in the program's process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Runner {
    /// Each hook in its own process: an abort, a segfault or an exceeded limit ends only that hook.
    #[default]
    Process,
    /// In the engine's process, for plugins that are trusted like the engine itself.
    InProcess,
}

impl std::fmt::Display for AllowedScripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Pinned => "pinned",
            Self::All => "all",
        })
    }
}

/// How the process of a hook is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessConfig {
    /// A program that calls [`crate::plugin_runner`]: `vnfm-plugin-runner`, or the embedder's own.
    pub program: PathBuf,
    /// Command-line arguments, such as `plugin-runner` for a program that also has other modes.
    pub arguments: Vec<String>,
    /// The user IDs that hook processes run as, if the server runs as root.
    pub users: Users,
    /// Resource limits of one hook process.
    pub limits: ProcessLimits,
    /// Files and folders that hooks may read in addition to the system's programs and libraries.
    pub readable: Vec<PathBuf>,
    /// Paths that no hook may see, such as the data folder. No hook runs if one of them is inside a readable path.
    pub hidden: Vec<PathBuf>,
}

impl Default for ProcessConfig {
    fn default() -> Self {
        Self {
            program: "vnfm-plugin-runner".into(),
            arguments: Vec::new(),
            users: Users::default(),
            limits: ProcessLimits::default(),
            readable: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

impl ProcessConfig {
    /// The default configuration with this program.
    pub fn with_program(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            ..Self::default()
        }
    }
}

/// A range of user IDs, one for each running hook process; they need no entry in `/etc/passwd`.
///
/// An ID is used only if no process runs under it, not even one of another server. With its own ID, a hook cannot signal
/// another hook, and the process limit counts only its own processes. With a range of one, all hooks share that ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// The first user ID of the range.
    pub first: u32,
    /// Number of IDs; 0: hooks run as the server's user.
    pub count: u32,
}

impl Default for Users {
    fn default() -> Self {
        // Below the IDs that are negative in a signed 32-bit integer, above all that distributions and containers use.
        Self {
            first: 2_000_000_000,
            count: 10_000,
        }
    }
}

/// Resource limits of one hook process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessLimits {
    /// Limit of the process's address space, in MiB.
    pub memory_mib: u64,
    /// CPU time of all threads, in seconds.
    pub cpu_seconds: u64,
    /// Number of processes and threads.
    pub processes: u64,
    /// Limit of open files per process.
    pub open_files: u64,
    /// Size of a single file, in MiB.
    pub file_mib: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            memory_mib: 4096,
            cpu_seconds: 600,
            processes: 128,
            open_files: 512,
            file_mib: 1024,
        }
    }
}

/// What a hook process is denied.
#[derive(Debug, Clone)]
pub(crate) struct Confinement {
    /// True if it has the engine's network.
    pub(crate) network: bool,
    /// Where its private folder is created, which is deleted with it.
    pub(crate) folder: PathBuf,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Configurations may hold secrets.
        let names: Vec<_> = self.plugins.keys().collect();
        f.debug_struct("Config")
            .field("dir", &self.dir)
            .field("plugins", &names)
            .field("implementations", &self.implementations)
            .field("process", &self.process)
            .field("scripts", &self.scripts)
            .finish()
    }
}

impl std::fmt::Debug for PluginConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PluginConfig({:?}, [hidden])", self.runner)
    }
}

impl Config {
    /// The configuration that the plugin `name` receives; `{}` if none is set.
    pub(crate) fn plugin_config(&self, name: &str) -> Value {
        match self.plugins.get(name).map(|plugin| &plugin.config) {
            None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
            Some(config) => config.clone(),
        }
    }

    /// What processes of the plugin `name` are denied. Only scripts are denied the network.
    pub(crate) fn confinement(&self, name: &str) -> Confinement {
        let network = name != self.scripts.plugin || self.scripts.network;
        Confinement {
            network,
            folder: self.scripts.folder.clone(),
        }
    }

    pub(crate) fn runner(&self, name: &str) -> Runner {
        self.plugins
            .get(name)
            .map(|plugin| plugin.runner)
            .unwrap_or_default()
    }
}
