//! The state that `plugin run` saves between runs: checkpoints by hook, host keys, files on simulated hosts.
//!
//! One file, `state.json`, readable only by its owner: checkpoints may contain secrets. Without a folder the
//! state lasts for one run.

use crate::client::{Outcome, local};
use crate::input;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vnfm::HostKeys;
use vnfm::ports::{Code, ErrorKind, PinnedTarget, PortError};

const FILE: &str = "state.json";

/// The contents of `state.json`; unknown members are an error.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct State {
    hooks: BTreeMap<String, Hook>,
    /// Pinned public keys by server id.
    host_keys: BTreeMap<String, String>,
    /// By host, then path, in base64.
    files: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Default, Serialize, Deserialize)]
struct Hook {
    attempt: u32,
    checkpoints: BTreeMap<String, Value>,
}

/// The state of the runs that share a folder, as seen by one hook.
pub(super) struct RunState {
    folder: Option<PathBuf>,
    hook: String,
    state: Mutex<State>,
}

impl RunState {
    /// Loads the state of earlier runs, if any.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created, or `state.json` in it is not valid.
    pub(super) fn open(folder: Option<&Path>, hook: &str) -> Outcome<Self> {
        let mut state = State::default();
        if let Some(folder) = folder {
            let failed =
                |cause: String| local(format!("cannot use `{}`: {cause}", folder.display()));
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|error| failed(error.to_string()))?;
            match input::file(&folder.join(FILE)) {
                Ok(bytes) => {
                    state = serde_json::from_slice(&bytes).map_err(|error| {
                        failed(format!("`{FILE}` is not a state of `plugin run`: {error}"))
                    })?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let folder = folder.map(Path::to_owned);
        Ok(Self {
            folder,
            hook: hook.to_owned(),
            state: Mutex::new(state),
        })
    }

    /// Starts the next attempt and returns its number, from 1.
    ///
    /// # Errors
    ///
    /// If the state cannot be saved.
    pub(super) fn begin(&self) -> Outcome<u32> {
        let mut attempt = 0;
        let begun = self.change(|state| {
            let hook = state.hooks.entry(self.hook.clone()).or_default();
            hook.attempt += 1;
            attempt = hook.attempt;
        });
        begun.map(|()| attempt).map_err(local)
    }

    /// A checkpoint of this hook.
    pub(super) fn checkpoint(&self, key: &str) -> Option<Value> {
        self.state()
            .hooks
            .get(&self.hook)?
            .checkpoints
            .get(key)
            .cloned()
    }

    /// Saves a checkpoint of this hook.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the state cannot be saved.
    pub(super) fn save_checkpoint(&self, key: String, value: Value) -> Result<(), PortError> {
        self.change(|state| {
            let hook = state.hooks.entry(self.hook.clone()).or_default();
            hook.checkpoints.insert(key, value);
        })
    }

    /// The content of a file on a simulated host, in base64.
    pub(super) fn file(&self, host: &str, path: &str) -> Option<String> {
        self.state().files.get(host)?.get(path).cloned()
    }

    /// Puts a file on a simulated host.
    ///
    /// # Errors
    ///
    /// Those of [`RunState::save_checkpoint`]: the file cannot be written.
    pub(super) fn put(&self, host: &str, path: String, content: String) -> Result<(), PortError> {
        self.change(|state| {
            state
                .files
                .entry(host.to_owned())
                .or_default()
                .insert(path, content);
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and saves it atomically.
    fn change(&self, change: impl FnOnce(&mut State)) -> Result<(), PortError> {
        let mut state = self.state();
        change(&mut state);
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, &*state)?;
            file.persist(folder.join(FILE))?;
            Ok(())
        };
        write().map_err(|error| {
            let action = format!("write `{}`", folder.join(FILE).display());
            PortError::new(&UNWRITTEN, action, error.to_string())
        })
    }
}

#[async_trait::async_trait]
impl HostKeys for RunState {
    async fn known(&self, host: &PinnedTarget) -> Result<Option<String>, PortError> {
        Ok(self.state().host_keys.get(&host.host.server_id).cloned())
    }

    async fn learn(&self, host: &PinnedTarget, key: &str) -> Result<(), PortError> {
        self.change(|state| {
            state
                .host_keys
                .insert(host.host.server_id.clone(), key.to_owned());
        })
    }
}

/// The folder of `--checkpoints` cannot be written.
const UNWRITTEN: Code = Code {
    name: "plugin-run.unwritten",
    kind: ErrorKind::Unavailable,
    means: "the state of `plugin run` cannot be saved",
    next: "check free space and permissions of the --checkpoints folder",
};
