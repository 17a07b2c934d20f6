//! Bundles: one signed file with everything that a site without internet access installs.
//!
//! ```text
//! tar, not compressed
//!   index.json                 kind, name and version of each item; size and SHA-256 of each of its files
//!   index.cms                  detached CMS signature of index.json
//!   packages/vnf-a.csar        the files, in the order of the index
//!   plugins/…  binaries/…  images/NAME/blobs/sha256/…
//! ```
//! The index is signed, and contains the hash of everything else: whatever differs from it is refused. Files are copied
//! in pieces, so memory does not grow with a bundle.

mod hashed;
mod index;
mod reader;
mod writer;

pub(crate) use hashed::{Hashed, copy_hashed};
pub(crate) use index::{BundledFile, Index, Item, Kind, SCHEMA_VERSION};
pub(crate) use reader::Bundle;
pub(crate) use writer::{Source, write};

use indicatif::{ProgressBar, ProgressStyle};

/// Path of the index in a bundle.
const INDEX: &str = "index.json";
/// Path of the index's signature.
const SIGNATURE: &str = "index.cms";

/// A progress bar for this number of bytes; it is visible on a terminal only.
pub(crate) fn bytes_bar(total: u64, message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total)
        .with_style(style)
        .with_message(message)
}
