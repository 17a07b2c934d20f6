//! Verification of a downloaded archive's checksum.

use sha2::digest::DynDigest;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Checks that a file has this hash; the error names both hashes.
pub(super) async fn verify(
    file: &Path,
    (algorithm, stated): (String, String),
) -> Result<(), String> {
    let path = file.to_owned();
    let hashing = tokio::task::spawn_blocking(move || hash(&path, &algorithm));
    let actual = hashing
        .await
        .map_err(|error| format!("the archive cannot be hashed: {error}"))?;
    let actual = actual.map_err(|error| format!("the archive cannot be read: {error}"))?;
    if actual == stated {
        Ok(())
    } else {
        Err(format!(
            "the archive's hash is {actual}, the stated one {stated}"
        ))
    }
}

fn hash(file: &Path, algorithm: &str) -> std::io::Result<String> {
    let mut hasher: Box<dyn DynDigest> = match algorithm {
        "SHA224" => Box::new(Sha224::default()),
        "SHA384" => Box::new(Sha384::default()),
        "SHA512" => Box::new(Sha512::default()),
        _ => Box::new(Sha256::default()),
    };
    let (mut file, mut buffer) = (File::open(file)?, vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hex::encode(hasher.finalize()))
}
