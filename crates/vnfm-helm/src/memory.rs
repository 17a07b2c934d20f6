//! Files in memory for what helm reads: sealed, of this user alone, and gone when dropped or when this process ends.
//!
//! Helm opens them as `/proc/<our process>/fd/N`. So no child inherits them, and none is left on a disk.

use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;

/// Attempts to seal a file: the kernel answers `EBUSY` while it holds a page of it.
const MAX_SEAL_ATTEMPTS: usize = 100;

/// A sealed file in memory.
#[derive(Debug)]
pub(crate) struct MemoryFile(File);

impl MemoryFile {
    /// # Errors
    ///
    /// There is no memory, or no descriptor left.
    pub(crate) fn new(bytes: &[u8]) -> io::Result<Self> {
        let created = memfd_create("vnfm-helm", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut file = File::from(created);
        fchmod(&file, Mode::RUSR)?;
        file.write_all(bytes)?;
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let sealed = (0..MAX_SEAL_ATTEMPTS)
            .map(|_| fcntl_add_seals(&file, seals))
            .find(|sealed| *sealed != Err(Errno::BUSY));
        sealed.unwrap_or(Err(Errno::BUSY))?;
        Ok(Self(file))
    }

    /// The path by which a process of the same user opens it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryFile;

    #[test]
    fn a_file_is_read_by_its_path_more_than_once_and_never_written() {
        let file = MemoryFile::new(b"apiVersion: v1").unwrap();
        for _ in 0..2 {
            assert_eq!(std::fs::read(file.path()).unwrap(), b"apiVersion: v1");
        }
        std::fs::write(file.path(), b"other").unwrap_err();
        let path = file.path();
        drop(file);
        std::fs::read(path).unwrap_err();
    }
}
