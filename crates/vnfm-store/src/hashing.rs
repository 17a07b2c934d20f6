//! SHA-256 of files, in constant memory.

use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io;
use std::path::Path;

/// The SHA-256 of a file in lowercase hexadecimal.
pub(crate) fn hash_of(path: &Path) -> io::Result<String> {
    copy(&mut File::open(path)?, &mut io::sink())
}

/// Copies all bytes; returns their SHA-256 in lowercase hexadecimal.
pub(crate) fn copy(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
    Ok(hex::encode(hash.finalize()))
}
