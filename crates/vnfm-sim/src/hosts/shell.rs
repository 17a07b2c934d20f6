//! The host, user and variables of a session; `run.rs` runs its commands.

use super::host::Host;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The host, user and variables that commands run with.
#[derive(Clone)]
pub(crate) struct Shell {
    pub(crate) host: Arc<Host>,
    pub(crate) user: String,
    pub(crate) variables: BTreeMap<String, String>,
}

impl Shell {
    pub(crate) fn new(host: Arc<Host>, user: impl Into<String>) -> Self {
        Self {
            host,
            user: user.into(),
            variables: BTreeMap::new(),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.user == "root"
    }

    /// Whether the user may write to a path.
    pub(crate) fn may_write(&self, path: &str) -> bool {
        self.is_root()
            || path.starts_with("/tmp/")
            || path.starts_with(&format!("/home/{}/", self.user))
    }
}
