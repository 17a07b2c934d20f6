//! Writes archives with the files of a package: all of them, some replaced ([`repack`]), or a few ([`excerpt`]).

use crate::finding::Findings;
use crate::pack::{Zip, cannot_pack};
use crate::package::Package;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};
use zip::CompressionMethod;

/// Writes a package with the files in `replaced` added or replaced, by path.
///
/// # Errors
/// A file cannot be read or written.
pub fn repack(
    package: &Package,
    replaced: &BTreeMap<String, Vec<u8>>,
    to: &mut (impl Write + Seek),
) -> Result<(), Findings> {
    let names: BTreeSet<&str> = package
        .paths()
        .chain(replaced.keys().map(String::as_str))
        .collect();
    let mut zip = Zip::new(to);
    for name in names {
        if let Some(bytes) = replaced.get(name) {
            let size = bytes.len() as u64;
            zip.add(name, CompressionMethod::Deflated, size, |to| {
                to.write_all(bytes).map_err(|error| error.to_string())
            })?;
            continue;
        }
        copy(&mut zip, package, name, name)?;
    }
    zip.finish()
}

/// Writes some files of a package to an archive. `files` maps the name in the archive to the path in the package, or
/// to the URI of an external artifact.
///
/// # Errors
/// A file cannot be read or written.
pub fn excerpt(
    package: &Package,
    files: &BTreeMap<String, String>,
    to: &mut (impl Write + Seek),
) -> Result<(), Findings> {
    let mut zip = Zip::new(to);
    for (name, from) in files {
        copy(&mut zip, package, name, from)?;
    }
    zip.finish()
}

/// Adds the file `from` of a package as `name`.
fn copy<W: Write + Seek>(
    zip: &mut Zip<W>,
    package: &Package,
    name: &str,
    from: &str,
) -> Result<(), Findings> {
    let size = package
        .size(from)
        .map_err(|error| cannot_pack(name, &error.to_string()))?;
    zip.add(name, CompressionMethod::Deflated, size, |to| {
        package
            .copy(from, to)
            .map(drop)
            .map_err(|error| error.to_string())
    })
}
