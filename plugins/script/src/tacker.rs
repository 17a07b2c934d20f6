//! Python scripts that were written for OpenStack Tacker, which exchange pickled dictionaries with their VNFM.
//!
//! A launcher in the script's sandbox makes and reads the pickles (`python/tacker_launcher.py`). This process writes the
//! request as JSON and reads effects as JSON, as for any script.

use crate::folder::Folder;
use crate::kind::Kind;
use std::io;
use std::path::PathBuf;
use vnfm_plugin_sdk::ScriptProtocol;

const LAUNCHER: &str = include_str!("python/tacker_launcher.py");
/// What Python's `pickle` reports for a request in JSON.
const NOT_A_PICKLE: &str = "invalid load key, '{'";
const PICKLED: &str = ": it reads a pickled request, as scripts for OpenStack Tacker do, and got JSON; allow its package with \
                       `vnfmctl plugin allow --package ID --protocol tacker`, or port it (docs/how-to/scripts-for-tacker.md)";
/// What Python reports for a module that is not installed.
const NO_MODULE: &str = "No module named '";
const NO_TACKER: &str = "No module named 'tacker";
const MISSING: &str = ": it imports a module that is not installed here; port that part (docs/how-to/scripts-for-tacker.md)";

/// Whether a script is run by the launcher; only an administrator decides that.
pub(crate) fn is_used(kind: Kind, protocol: Option<ScriptProtocol>) -> bool {
    kind == Kind::Python && protocol == Some(ScriptProtocol::Tacker)
}

/// Writes the launcher into the folder; its path.
pub(crate) fn launcher(folder: &Folder) -> io::Result<PathBuf> {
    // Not called `tacker`: the script could import it.
    let path = folder.modules().join("tacker_launcher.py");
    Folder::write(&path, LAUNCHER.as_bytes())?;
    Ok(path)
}

/// Why a script that was written for Tacker failed: the code of the error, and what to do.
pub(crate) fn cause(
    kind: Kind,
    launched: bool,
    last_lines: &str,
) -> Option<(&'static str, &'static str)> {
    if kind != Kind::Python {
        None
    } else if !launched && last_lines.contains(NOT_A_PICKLE) {
        Some(("pickled-request", PICKLED))
    } else if last_lines.contains(if launched { NO_MODULE } else { NO_TACKER }) {
        Some(("script-failed", MISSING))
    } else {
        None
    }
}
