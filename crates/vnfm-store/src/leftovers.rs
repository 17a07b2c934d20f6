//! Files that a killed process leaves behind, which were about to be renamed or removed. They are useless, some hold
//! retired keys or a copy of the database, and no other code would remove them. The next process that opens and locks the
//! folder removes them, in the order of the table [`LEFTOVERS`].

use std::fs;
use std::io;
use std::path::Path;

/// The kind of folder to clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// The data folder: database, keys.
    Data,
    /// The folder of package archives.
    Packages,
    /// The folder of plugin libraries.
    Plugins,
}

/// A kind of leftover, by its name.
struct Leftover {
    folder: Folder,
    begins: &'static str,
    /// What the rest of the name must contain.
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

/// Leftovers with keys come first.
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
        "a backup that was being written",
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

/// Removes the leftovers in `path` and returns their number; 0 for a missing folder. No other process
/// may use the folder meanwhile.
///
/// # Errors
///
/// If the folder cannot be read or a file cannot be removed; the other files are removed all the same.
pub fn remove_leftovers_in(folder: Folder, path: &Path) -> io::Result<usize> {
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
