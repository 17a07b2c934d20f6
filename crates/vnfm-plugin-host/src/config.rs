//! What the operator configures about plugins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the operator configures about plugins.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// The folder that holds the libraries and their `plugins.lock`; nothing else is ever loaded.
    pub dir: PathBuf,
    /// By name of the plugin.
    pub plugins: BTreeMap<String, PluginConfig>,
    /// Spellings of a VNFD's `implementation` that mean a plugin, such as
    /// `mgmt-drivers-kubernetes: kubernetes-cluster`.
    pub implementations: BTreeMap<String, String>,
    /// How processes of plugins are started; without it no plugin runs in one.
    pub process: Option<ProcessConfig>,
    /// Hooks that are scripts of their package.
    pub scripts: Scripts,
}

/// What the operator says of hooks that are scripts of their package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scripts {
    /// Which packages may run theirs.
    pub allow: AllowedScripts,
    /// The plugin that runs them.
    pub plugin: String,
    /// Whether they have the server's network. Without it they reach the hosts of their VNF, by the VNFM, and nothing
    /// else.
    pub network: bool,
    /// Where each gets its private folder; so do the hooks of plugins.
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
    /// None.
    None,
    /// Those whose SHA-256 an administrator has pinned: `vnfmctl plugin allow --package`.
    #[default]
    Pinned,
    /// All that are onboarded.
    All,
}

/// What the operator configures about one plugin.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginConfig {
    /// Checked by the schema that the plugin declares.
    pub config: Value,
    /// Where its hooks run.
    pub runner: Runner,
}

/// Where the hooks of a plugin run. A driver that is linked into the program runs in it, whatever is configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Runner {
    /// Each in a process of its own: what aborts, segfaults or takes too much ends one hook.
    #[default]
    Process,
    /// In the engine's process: for plugins that are trusted as the engine itself is.
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
    /// A program that calls [`crate::plugin_runner`]: `vnfm-plugin-runner`, or one's own.
    pub program: PathBuf,
    /// What it is started with, such as `plugin-runner` where one's own program has other modes.
    pub arguments: Vec<String>,
    /// Who it runs as, where root starts it.
    pub users: Users,
    /// What it may use.
    pub limits: ProcessLimits,
    /// Files and folders that it may read beside the system's programs and libraries.
    pub readable: Vec<PathBuf>,
    /// What no hook may see, such as the data folder: hooks are refused where it lies in what they may read.
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
    /// The default with another program.
    pub fn by(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            ..Self::default()
        }
    }
}

/// Numbers of users, of which each process that runs gets one of its own; they need no entry anywhere.
///
/// A number is taken only when nothing runs under it, also by another server. Alone under its number, a hook cannot signal
/// another one, and the limit on processes counts only its own. With one number, all hooks share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// The first.
    pub first: u32,
    /// How many; 0: all run as whoever starts them.
    pub count: u32,
}

impl Default for Users {
    fn default() -> Self {
        // Below the numbers that are negative to some programs, above all that distributions and containers use.
        Self {
            first: 2_000_000_000,
            count: 10_000,
        }
    }
}

/// What the process of one hook may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessLimits {
    /// MiB of address space.
    pub memory_mib: u64,
    /// Seconds on a processor, all threads together.
    pub cpu_seconds: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Open files.
    pub open_files: u64,
    /// MiB of one file.
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

/// What a process is kept from.
#[derive(Debug, Clone)]
pub(crate) struct Seclusion {
    /// It has the engine's network.
    pub(crate) network: bool,
    /// Where it gets a folder of its own, which goes with it.
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
    /// The configuration of the plugin `name`, as it crosses the boundary: `{}` where there is none.
    pub(crate) fn of(&self, name: &str) -> Value {
        match self.plugins.get(name).map(|plugin| &plugin.config) {
            None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
            Some(config) => config.clone(),
        }
    }

    /// What the processes of the plugin `name` are kept from: only scripts are kept from the network.
    pub(crate) fn seclusion(&self, name: &str) -> Seclusion {
        let network = name != self.scripts.plugin || self.scripts.network;
        Seclusion {
            network,
            folder: self.scripts.folder.clone(),
        }
    }

    /// Where hooks of the plugin `name` run.
    pub(crate) fn runner(&self, name: &str) -> Runner {
        self.plugins
            .get(name)
            .map(|plugin| plugin.runner)
            .unwrap_or_default()
    }
}
