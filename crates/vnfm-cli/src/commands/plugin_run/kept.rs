//! What `plugin run` keeps from one run to the next: checkpoints by hook, host keys, files on simulated hosts.
//!
//! One file, `state.json`, readable by its owner alone: checkpoints may hold secrets. Without a folder all of it lives as
//! long as the run.

use crate::client::{Outcome, local};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vnfm::HostKeys;
use vnfm::ports::{Code, ErrorKind, PortError, SshTarget};

const FILE: &str = "state.json";

/// What is kept.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct State {
    hooks: BTreeMap<String, Hook>,
    /// By the server's id.
    host_keys: BTreeMap<String, String>,
    /// By host, then path, in base64.
    files: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Default, Serialize, Deserialize)]
struct Hook {
    attempt: u32,
    checkpoints: BTreeMap<String, Value>,
}

/// The state of the runs in one folder.
pub(super) struct Kept {
    folder: Option<PathBuf>,
    hook: String,
    state: Mutex<State>,
}

impl Kept {
    /// What is there already, if anything is.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be made, or holds what is no state of ours.
    pub(super) fn open(folder: Option<&Path>, hook: &str) -> Outcome<Self> {
        let mut state = State::default();
        if let Some(folder) = folder {
            let wrong = |what: String| local(format!("cannot use `{}`: {what}", folder.display()));
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|error| wrong(error.to_string()))?;
            match std::fs::read(folder.join(FILE)) {
                Ok(bytes) => {
                    state = serde_json::from_slice(&bytes).map_err(|error| {
                        wrong(format!("`{FILE}` is not of this command: {error}"))
                    })?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(wrong(error.to_string())),
            }
        }
        let folder = folder.map(Path::to_owned);
        Ok(Self {
            folder,
            hook: hook.to_owned(),
            state: Mutex::new(state),
        })
    }

    /// Begins another attempt, and says which it is.
    ///
    /// # Errors
    ///
    /// Where it cannot be written down.
    pub(super) fn begin(&self) -> Outcome<u32> {
        let mut attempt = 0;
        let begun = self.change(|state| {
            let hook = state.hooks.entry(self.hook.clone()).or_default();
            hook.attempt += 1;
            attempt = hook.attempt;
        });
        begun.map(|()| attempt).map_err(local)
    }

    /// A checkpoint of the hook.
    pub(super) fn checkpoint(&self, key: &str) -> Option<Value> {
        self.state()
            .hooks
            .get(&self.hook)?
            .checkpoints
            .get(key)
            .cloned()
    }

    /// Keeps a checkpoint of the hook.
    ///
    /// # Errors
    ///
    /// `Unavailable` where it cannot be written down.
    pub(super) fn keep(&self, key: String, value: Value) -> Result<(), PortError> {
        self.change(|state| {
            let hook = state.hooks.entry(self.hook.clone()).or_default();
            hook.checkpoints.insert(key, value);
        })
    }

    /// A file of a simulated host, in base64.
    pub(super) fn file(&self, host: &str, path: &str) -> Option<String> {
        self.state().files.get(host)?.get(path).cloned()
    }

    /// Puts a file on a simulated host.
    ///
    /// # Errors
    ///
    /// As [`Kept::keep`].
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

    /// Changes the state, and writes it down whole or not at all.
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
            let doing = format!("write `{}`", folder.join(FILE).display());
            PortError::new(&UNWRITTEN, doing, error.to_string())
        })
    }
}

#[async_trait::async_trait]
impl HostKeys for Kept {
    async fn known(&self, host: &SshTarget) -> Result<Option<String>, PortError> {
        Ok(self.state().host_keys.get(&host.server_id).cloned())
    }

    async fn learn(&self, host: &SshTarget, key: &str) -> Result<(), PortError> {
        self.change(|state| {
            state
                .host_keys
                .insert(host.server_id.clone(), key.to_owned());
        })
    }
}

/// The folder of checkpoints cannot be written.
const UNWRITTEN: Code = Code {
    name: "plugin-run.unwritten",
    kind: ErrorKind::Unavailable,
    means: "what is kept from one run to the next cannot be written",
    next: "make room in the folder of --checkpoints, and see that it may be written",
};
