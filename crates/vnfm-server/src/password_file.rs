//! Passwords of the server's own logins: one per file, so that none is in the configuration.

use anyhow::{Context as _, bail};
use std::path::Path;
use vnfm_types::Secret;

/// Reads the password in a file, without the end of its line.
///
/// # Errors
///
/// If the file cannot be read or is empty.
pub(crate) fn read(path: &Path) -> anyhow::Result<Secret> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the password file `{}`", path.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        bail!("the password file `{}` is empty", path.display());
    }
    Ok(Secret::new(text))
}
