//! What the operator configures about plugins.

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
}

/// What the operator configures about one plugin.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginConfig {
    /// Checked by the schema that the plugin declares.
    pub config: Value,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Configurations may hold secrets.
        let names: Vec<_> = self.plugins.keys().collect();
        f.debug_struct("Config")
            .field("dir", &self.dir)
            .field("plugins", &names)
            .field("implementations", &self.implementations)
            .finish()
    }
}

impl std::fmt::Debug for PluginConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PluginConfig([hidden])")
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
}
