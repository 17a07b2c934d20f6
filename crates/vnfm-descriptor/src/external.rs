//! External artifacts: the manifest names each by its URI and its hash (SOL004 4.3.2).
//!
//! Nothing is downloaded here. The caller downloads, hashes the bytes with [`External::hasher`], and passes the local
//! path to the package; the artifact can then be read like a file of the package, by its URI.

use crate::archive::ReadError;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::hashes::Algorithm;
use crate::hexadecimal::hexadecimal;
use crate::sink::Sink;
use crate::tosca_meta::ManifestSource;
use serde::Serialize;
use sha2::digest::DynDigest;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// An artifact outside the package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct External {
    /// An `http` or `https` URI.
    pub uri: String,
    /// `SHA-224`, `SHA-256`, `SHA-384` or `SHA-512`.
    pub algorithm: &'static str,
    /// The hash, in lower-case hexadecimal digits.
    pub hash: String,
}

/// Hashes an external artifact while it is downloaded.
pub struct DownloadHasher {
    hash: Box<dyn DynDigest + Send>,
    expected: String,
}

impl External {
    /// Reads a manifest entry with a URI; incomplete or unsupported ones become a finding.
    pub(crate) fn from_source(
        source: &ManifestSource,
        span: &Span,
        sink: &mut Sink,
    ) -> Option<Self> {
        let mut refuse = |message: String, hint: &str| {
            sink.add(Finding::new(codes::MANIFEST, span.clone(), message).hint(hint));
            None
        };
        let uri = &source.source;
        let scheme = uri.split("://").next().unwrap_or_default();
        if !["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
        {
            return refuse(
                format!("`{uri}` cannot be downloaded"),
                "use an http or https URI",
            );
        }
        let (Some(algorithm), Some(hash)) = (&source.algorithm, &source.hash) else {
            let message = format!("the external artifact `{uri}` has no hash");
            return refuse(message, "state `Algorithm` and `Hash`");
        };
        let Some(known) = Algorithm::from_name(algorithm) else {
            let message = format!("unknown hash algorithm `{algorithm}`");
            return refuse(message, "use SHA-224, SHA-256, SHA-384 or SHA-512");
        };
        if hash.len() != known.hasher().output_size() * 2
            || !hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            let message = format!("the hash of `{uri}` is not a hexadecimal {}", known.name());
            return refuse(message, "`sha256sum` prints one");
        }
        let hash = hash.to_ascii_lowercase();
        Some(External {
            uri: uri.clone(),
            algorithm: known.name(),
            hash,
        })
    }

    /// Starts hashing a download of this artifact.
    pub fn hasher(&self) -> DownloadHasher {
        let algorithm = Algorithm::from_name(self.algorithm).unwrap_or(Algorithm::Sha256);
        DownloadHasher {
            hash: algorithm.hasher(),
            expected: self.hash.clone(),
        }
    }

    /// Checks that a local file is this artifact.
    ///
    /// # Errors
    /// The file cannot be read, or has another hash.
    pub fn check(&self, file: &Path) -> Result<(), ReadError> {
        let failed = |reason: String| ReadError::Io {
            path: self.uri.clone(),
            reason,
        };
        let io_failed = |error: io::Error| failed(format!("`{}`: {error}", file.display()));
        let mut from = File::open(file).map_err(io_failed)?;
        let mut arriving = self.hasher();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from.read(&mut buffer).map_err(io_failed)? {
                0 => break,
                count => arriving.update(&buffer[..count]),
            }
        }
        arriving
            .finish()
            .map_err(|real| failed(format!("its hash is {real}")))
    }
}

impl DownloadHasher {
    /// Adds the next bytes of the file to the hash.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// Checks the hash of the complete download.
    ///
    /// # Errors
    /// The actual hash, if the manifest states another one.
    pub fn finish(self) -> Result<(), String> {
        let real = hexadecimal(&self.hash.finalize());
        if real == self.expected {
            Ok(())
        } else {
            Err(real)
        }
    }
}

/// Local copies of a package's external artifacts, by URI.
pub(crate) type LocalCopies = BTreeMap<String, PathBuf>;

/// Size in bytes of an artifact's local copy.
pub(crate) fn size((uri, file): (&str, &Path)) -> Result<u64, ReadError> {
    let failed = |error: io::Error| ReadError::Io {
        path: uri.to_owned(),
        reason: format!("`{}`: {error}", file.display()),
    };
    Ok(std::fs::metadata(file).map_err(failed)?.len())
}

/// Copies an artifact's local copy, if it has at most `max` bytes.
pub(crate) fn copy(
    (uri, file): (&str, &Path),
    max: u64,
    to: &mut dyn Write,
) -> Result<u64, ReadError> {
    let failed = |error: io::Error| ReadError::Io {
        path: uri.to_owned(),
        reason: format!("`{}`: {error}", file.display()),
    };
    let from = File::open(file).map_err(failed)?;
    let copied = io::copy(&mut from.take(max.saturating_add(1)), to).map_err(failed)?;
    if copied > max {
        return Err(ReadError::TooLarge {
            path: uri.to_owned(),
            limit: max,
        });
    }
    Ok(copied)
}
