//! Artifacts that lie outside of a package: the manifest names each by its URI and its hash (SOL004 4.3.2).
//!
//! Nothing is fetched here. Who fetches hashes with [`External::arriving`] what arrives, and tells the package where
//! it is kept; then it is read like a file of the package, by its URI.

use crate::archive::{Algorithm, ReadError, hex};
use crate::finding::{Finding, Sink, Span, codes};
use crate::meta::ManifestSource;
use serde::Serialize;
use sha2::digest::DynDigest;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// An external artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct External {
    /// Where it is; `http` or `https`.
    pub uri: String,
    /// `SHA-224`, `SHA-256`, `SHA-384` or `SHA-512`.
    pub algorithm: &'static str,
    /// In hexadecimal, lower case.
    pub hash: String,
}

/// Hashes an external artifact while it arrives.
pub struct Arriving {
    hash: Box<dyn DynDigest + Send>,
    expected: String,
}

impl External {
    /// What a manifest names, if that is outside of the package.
    pub(crate) fn named(source: &ManifestSource, span: &Span, sink: &mut Sink) -> Option<Self> {
        let mut wrong = |message: String, hint: &str| {
            sink.add(Finding::new(codes::MANIFEST, span.clone(), message).hint(hint));
            None
        };
        let uri = &source.source;
        let scheme = uri.split("://").next().unwrap_or_default();
        if !["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
        {
            return wrong(
                format!("`{uri}` cannot be fetched"),
                "http and https can be",
            );
        }
        let (Some(algorithm), Some(hash)) = (&source.algorithm, &source.hash) else {
            let message = format!("`{uri}` is outside of the package, and its hash is not stated");
            return wrong(message, "state `Algorithm` and `Hash`");
        };
        let Some(known) = Algorithm::named(algorithm) else {
            let message = format!("`{algorithm}` is not a hash that is known");
            return wrong(message, "SHA-224, SHA-256, SHA-384 and SHA-512 are");
        };
        if hash.len() != known.hasher().output_size() * 2
            || !hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            let message = format!("the hash of `{uri}` is no {} in hexadecimal", known.name());
            return wrong(message, "`sha256sum` prints one");
        }
        let hash = hash.to_ascii_lowercase();
        Some(External {
            uri: uri.clone(),
            algorithm: known.name(),
            hash,
        })
    }

    /// Begins to hash what arrives.
    pub fn arriving(&self) -> Arriving {
        let algorithm = Algorithm::named(self.algorithm).unwrap_or(Algorithm::Sha256);
        Arriving {
            hash: algorithm.hasher(),
            expected: self.hash.clone(),
        }
    }

    /// Whether this file is the artifact.
    ///
    /// # Errors
    /// It cannot be read, or has another hash.
    pub fn check(&self, file: &Path) -> Result<(), ReadError> {
        let failed = |reason: String| ReadError::Io {
            path: self.uri.clone(),
            reason,
        };
        let told = |error: io::Error| failed(format!("`{}`: {error}", file.display()));
        let mut from = File::open(file).map_err(told)?;
        let mut arriving = self.arriving();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from.read(&mut buffer).map_err(told)? {
                0 => break,
                count => arriving.take(&buffer[..count]),
            }
        }
        arriving
            .end()
            .map_err(|real| failed(format!("its hash is {real}")))
    }
}

impl Arriving {
    /// The next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// All has arrived.
    ///
    /// # Errors
    /// The hash that it has, where that is another one than the manifest states.
    pub fn end(self) -> Result<(), String> {
        let real = hex(&self.hash.finalize());
        if real == self.expected {
            Ok(())
        } else {
            Err(real)
        }
    }
}

/// Where the external artifacts of a package are kept, by URI.
pub(crate) type Kept = BTreeMap<String, PathBuf>;

/// The size of an artifact that is kept.
pub(crate) fn size((uri, file): (&str, &Path)) -> Result<u64, ReadError> {
    let failed = |error: io::Error| ReadError::Io {
        path: uri.to_owned(),
        reason: format!("`{}`: {error}", file.display()),
    };
    Ok(std::fs::metadata(file).map_err(failed)?.len())
}

/// Copies an artifact that is kept, if it has at most `most` bytes.
pub(crate) fn copy(
    (uri, file): (&str, &Path),
    most: u64,
    to: &mut dyn Write,
) -> Result<u64, ReadError> {
    let failed = |error: io::Error| ReadError::Io {
        path: uri.to_owned(),
        reason: format!("`{}`: {error}", file.display()),
    };
    let from = File::open(file).map_err(failed)?;
    let copied = io::copy(&mut from.take(most.saturating_add(1)), to).map_err(failed)?;
    if copied > most {
        return Err(ReadError::TooLarge {
            path: uri.to_owned(),
            limit: most,
        });
    }
    Ok(copied)
}
