//! Writes a bundle: index, signature, then each file, whose hash is checked again while it is copied.

use super::{Hashed, INDEX, Index, SIGNATURE, bytes_bar};
use crate::client::{Outcome, local};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;
use tar::{Builder, Header};
use vnfm_signature::{Certificate, Key, Signing, signature_pem};

/// The mode of every entry in the tar; installation sets the mode that each kind needs.
const MODE: u32 = 0o644;

/// An item's files on this machine, in the order of its index entry.
pub(crate) type Source = Vec<PathBuf>;

/// Writes the bundle; `sources` has the files of each item. RSA keys give the same bytes for the same files.
///
/// # Errors
///
/// A file cannot be read or has changed since it was hashed, the disk is full, or the key cannot sign.
pub(crate) fn write(
    out: &mut File,
    index: &Index,
    sources: &[Source],
    (key, chain): (&Key, &[Certificate]),
) -> Outcome<()> {
    let mut text = serde_json::to_vec_pretty(index).map_err(local)?;
    text.push(b'\n');
    let mut signing = Signing::new(key, chain);
    signing.write_all(&text).map_err(local)?;
    let signature = signing.finish(true).map_err(local)?;
    let total = index.items.iter().map(super::Item::bytes).sum();
    let bar = bytes_bar(total, "writing");
    let mut tar = Builder::new(out);
    let written = |error: io::Error| local(format!("cannot write the bundle: {error}"));
    append(&mut tar, INDEX, (text.len() as u64, &mut text.as_slice())).map_err(written)?;
    let signature = signature_pem(&signature);
    let content = (signature.len() as u64, &mut signature.as_bytes() as _);
    append(&mut tar, SIGNATURE, content).map_err(written)?;
    for (item, source) in index.items.iter().zip(sources) {
        for (file, path) in item.files.iter().zip(source) {
            let failed = |error: &dyn std::fmt::Display| {
                local(format!(
                    "cannot copy `{}` into the bundle: {error}",
                    path.display()
                ))
            };
            let opened = File::open(path).map_err(|error| failed(&error))?;
            let mut hashed = Hashed::new(bar.wrap_read(opened.take(file.size)));
            append(&mut tar, &file.path, (file.size, &mut hashed)).map_err(|e| failed(&e))?;
            if hashed.finish() != (file.size, file.sha256.clone()) {
                return Err(failed(&"it has changed meanwhile"));
            }
        }
    }
    tar.into_inner().map(drop).map_err(written)?;
    bar.finish_and_clear();
    Ok(())
}

fn append(
    tar: &mut Builder<&mut File>,
    path: &str,
    (size, content): (u64, &mut dyn Read),
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(path)?;
    header.set_size(size);
    header.set_mode(MODE);
    header.set_mtime(0);
    header.set_cksum();
    tar.append(&header, content)
}
