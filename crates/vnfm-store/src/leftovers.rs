//! What a process that was killed leaves behind: files that were to be renamed or removed a moment later. Nobody needs
//! them, some hold retired keys or a copy of the database, and no other code would ever remove them. They are removed when
//! the folder is opened again, by whoever has its lock, in the order of this table.

use std::fs;
use std::io;
use std::path::Path;

/// Whose folder a file lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// The data folder: database, keys.
    Data,
    /// The archives of packages.
    Packages,
    /// The libraries of plugins.
    Plugins,
}

/// Files that only a killed process leaves.
struct Leftover {
    folder: Folder,
    begins: &'static str,
    /// Somewhere behind that.
    has: &'static str,
    what: &'static str,
}

const fn left(
    folder: Folder,
    begins: &'static str,
    has: &'static str,
    what: &'static str,
) -> Leftover {
    Leftover {
        folder,
        begins,
        has,
        what,
    }
}

/// Keys first.
const LEFTOVERS: &[Leftover] = &[
    left(
        Folder::Data,
        "secrets.new-",
        "",
        "a key file that was being written",
    ),
    left(
        Folder::Data,
        "backup-",
        ".part",
        "a backup that was being made",
    ),
    left(
        Folder::Data,
        "vnfm.db.restoring",
        "",
        "a database that was being restored",
    ),
    left(
        Folder::Packages,
        ".incoming-",
        "",
        "a package that was being uploaded",
    ),
    left(
        Folder::Packages,
        "",
        ".part",
        "a package that was being restored",
    ),
    left(
        Folder::Plugins,
        ".tmp",
        ".so",
        "a plugin that was being installed",
    ),
];

/// Removes what killed processes left in `path`, and says how many files that were. Nobody else may be at work there. A
/// folder that is not there has nothing.
///
/// # Errors
///
/// Where the folder cannot be read or a file not removed; the others are removed nevertheless.
pub fn sweep(folder: Folder, path: &Path) -> io::Result<usize> {
    let (mut removed, mut failed) = (0, None);
    for leftover in LEFTOVERS
        .iter()
        .filter(|leftover| leftover.folder == folder)
    {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if !leftover.is(&entry.file_name().to_string_lossy()) || !entry.file_type()?.is_file() {
                continue;
            }
            match fs::remove_file(entry.path()) {
                Ok(()) => {
                    removed += 1;
                    tracing::info!(file = %entry.path().display(), "removed {}", leftover.what);
                }
                Err(error) => failed = Some(error),
            }
        }
    }
    failed.map_or(Ok(removed), Err)
}

impl Leftover {
    fn is(&self, name: &str) -> bool {
        name.strip_prefix(self.begins)
            .is_some_and(|rest| rest.contains(self.has))
    }
}
