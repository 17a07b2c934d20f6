//! A reader that computes size and SHA-256 of what passes through it.

use sha2::{Digest as _, Sha256};
use std::io::{self, Read, Write};

pub(crate) struct Hashed<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    /// Size in bytes, and SHA-256 in hexadecimal, of what was read.
    pub(crate) fn finish(self) -> (u64, String) {
        (self.bytes, format!("{:x}", self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Copies everything; size in bytes and SHA-256 of it.
///
/// # Errors
///
/// If reading or writing fails.
pub(crate) fn copy_hashed(from: impl Read, to: &mut dyn Write) -> io::Result<(u64, String)> {
    let mut hashed = Hashed::new(from);
    io::copy(&mut hashed, to)?;
    Ok(hashed.finish())
}
