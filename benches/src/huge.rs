//! A package of 10 GiB takes time, but no more memory than a small one.
//!
//! Its image consists of zeros, stored as holes in the file, so it needs little disk space. The same for the server:
//! `VNFM_LARGE_GIB=10 cargo nextest run -p vnfm-server -E 'test(a_large_package)'`, which needs twice that disk space.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use zip::CompressionMethod;

use crate::figure::Figure;
use crate::packages::{Content, Image, cold, vnfd, write};

const SIZE: u64 = 10 << 30;
/// Size of the package for the comparison of memory.
const SMALL: u64 = 16 << 20;
/// Minimum size of a hole in a file.
const HOLE: usize = 4 << 10;

/// Runs the benchmarks with very large VNFs.
///
/// # Errors
/// If the package cannot be written or is refused.
pub fn figures(_programs: &Path) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut loads = Vec::new();
    for size in [SMALL, SIZE] {
        let file = folder.path().join(format!("{size}.csar"));
        let image = Image {
            size,
            method: CompressionMethod::Stored,
            content: Content::Zeros,
        };
        write(Holes(File::create(&file)?), &vnfd(2, 2), Some(image))?;
        loads.push(cold(&file, false)?);
    }
    let name = "a package of 10 GiB";
    let more = loads[1].peak_mib - loads[0].peak_mib;
    Ok(vec![
        Figure::untargeted(format!("{name}: cold load"), loads[1].seconds, "s"),
        Figure::at_most(
            8.0,
            format!("{name}: more memory than 16 MiB take"),
            more.max(0.0),
            "MiB",
        ),
    ])
}

/// A file writer that stores zeros as holes.
struct Holes(File);

impl Write for Holes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() < HOLE || bytes.iter().any(|byte| *byte != 0) {
            return self.0.write(bytes);
        }
        // An archive ends with its directory, so the file always gets its full length.
        let length = i64::try_from(bytes.len()).map_err(io::Error::other)?;
        self.0.seek(SeekFrom::Current(length)).map(|_| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Holes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}
