//! Reads a library from the plugin folder: it must be the allowed file, and no other user may be able to change it.

use crate::errors::{HASH, NOT_ALLOWED, UNREADABLE, UNSAFE_FOLDER};
use crate::lock::Pin;
use sha2::{Digest, Sha256};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use vnfm_core::ports::PortError;

/// A library that was read and hashed.
pub(crate) struct Checked {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sha256: String,
}

/// Reads `file` of the folder `dir`.
///
/// # Errors
///
/// `Refused` if it is not directly in the folder, or another user may write to the file or the folder.
pub(crate) fn read(dir: &Path, file: &str) -> Result<Checked, PortError> {
    let action = format!("load plugin library `{file}`");
    let mut parts = Path::new(file).components();
    if !matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    ) {
        let detail = "its name is a path, which could lead out of the plugin folder";
        return Err(PortError::new(&NOT_ALLOWED, action, detail));
    }
    let unreadable = |path: &Path, error: std::io::Error| {
        let detail = format!("`{}`: {error}", path.display());
        PortError::new(&UNREADABLE, action.clone(), detail)
    };
    let dir = dir.canonicalize().map_err(|error| unreadable(dir, error))?;
    let path = dir.join(file);
    let folder = dir.metadata().map_err(|error| unreadable(&dir, error))?;
    let library = path
        .symlink_metadata()
        .map_err(|error| unreadable(&path, error))?;
    if !library.is_file() {
        let detail = format!("`{}` is not a regular file", path.display());
        return Err(PortError::new(&NOT_ALLOWED, action, detail));
    }
    for (path, metadata) in [(&dir, &folder), (&path, &library)] {
        if let Some(reason) = writable_by_others(metadata) {
            let detail = format!("`{}` {reason}", path.display());
            return Err(PortError::new(&UNSAFE_FOLDER, action, detail));
        }
    }
    let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, error))?;
    let sha256 = format!("{:x}", Sha256::digest(&bytes));
    Ok(Checked {
        path,
        bytes,
        sha256,
    })
}

/// Reads the library of `pin` in the folder `dir`.
///
/// # Errors
///
/// As [`read`]; `Refused` if its SHA-256 differs from the pin's.
pub(crate) fn read_pinned(dir: &Path, pin: &Pin) -> Result<Checked, PortError> {
    let checked = read(dir, &pin.file)?;
    if checked.sha256.eq_ignore_ascii_case(&pin.sha256) {
        return Ok(checked);
    }
    let detail = format!("its SHA-256 is {}, expected {}", checked.sha256, pin.sha256);
    Err(PortError::new(
        &HASH,
        format!("load plugin `{pin}` from `{}`", pin.file),
        detail,
    ))
}

const GROUP_OR_OTHERS: u32 = 0o022;

fn writable_by_others(metadata: &Metadata) -> Option<String> {
    if metadata.mode() & GROUP_OR_OTHERS != 0 {
        return Some(format!("has mode {:03o}", metadata.mode() & 0o777));
    }
    let me = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    (owner != 0 && owner != me).then(|| format!("belongs to user {owner}"))
}
