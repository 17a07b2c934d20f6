//! An independent reader of the write-ahead log: where its frames begin, and which of them end a transaction.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) const HEADER: usize = 32;

/// A copy of a database and its companions, as a crash would leave them.
#[derive(Clone)]
pub(crate) struct Crashed {
    pub(crate) log: Vec<u8>,
    files: Vec<(String, Vec<u8>)>,
}

impl Crashed {
    /// Copies the current files of a database's folder.
    pub(crate) fn now(folder: &Path) -> Self {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let others = ["vnfm.db", "secrets.key", "vnfm.db-acked"];
        let files = others.map(|name| (name.to_owned(), read(name))).into();
        Self {
            log: read("vnfm.db-wal"),
            files,
        }
    }

    /// Without the note of acknowledged frames, as a power loss may leave it.
    pub(crate) fn without_note(mut self) -> Self {
        self.files.retain(|(name, _)| name != "vnfm.db-acked");
        self
    }

    /// With a note that `frames` frames are acknowledged.
    pub(crate) fn noting(mut self, frames: usize) -> Self {
        for (name, bytes) in &mut self.files {
            if name == "vnfm.db-acked" {
                bytes[8..12].copy_from_slice(&u32::try_from(frames).unwrap().to_be_bytes());
            }
        }
        self
    }

    /// Writes the files and this log into a folder; returns the database's path.
    pub(crate) fn write_to(&self, folder: &Path, log: &[u8]) -> PathBuf {
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let path = folder.join("vnfm.db-wal");
        std::fs::write(&path, log).unwrap();
        path
    }

    /// The length of a frame in bytes.
    pub(crate) fn frame(&self) -> usize {
        24 + u32::from_be_bytes(self.log[8..12].try_into().unwrap()) as usize
    }

    /// Where each frame of this generation begins, and whether it ends a transaction.
    pub(crate) fn frames(&self) -> Vec<(usize, bool)> {
        let salts = &self.log[16..24];
        let offsets = (HEADER..).step_by(self.frame());
        offsets
            .take_while(|at| {
                self.log.len() >= at + self.frame() && &self.log[at + 8..at + 16] == salts
            })
            .map(|at| (at, self.log[at + 4..at + 8] != [0; 4]))
            .collect()
    }

    /// The number of complete transactions.
    pub(crate) fn transactions(&self) -> usize {
        self.frames().iter().filter(|(_, ends)| *ends).count()
    }
}
