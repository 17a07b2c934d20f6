//! The outer archive of a signed package: option 2 of SOL004 5.1.
//!
//! ```text
//! web-signed.zip
//!   web.csar    the package itself
//!   web.cms     the signature of that file
//!   web.cert    the certificate, unless the signature contains it
//! ```
//! `vnfm-signature` verifies the signature while the package is extracted; nothing is verified here.

use crate::archive::{Archive, ReadError};
use crate::limits::Limits;
use crate::path::{folder, has_extension};
use crate::sink::Sink;
use std::io::Write;
use std::path::Path;

/// Larger signatures and certificates are refused.
const MAX_SIGNATURE_BYTES: u64 = 1 << 20;

/// An archive that contains a package and its signature.
#[derive(Debug)]
pub struct SignedArchive {
    archive: Archive,
    package: String,
    signature: String,
    certificate: Option<String>,
}

impl SignedArchive {
    /// Opens the outer archive at `path`; `None` if it is something else, such as a package.
    pub fn find(path: &Path, limits: &Limits) -> Option<Self> {
        if !path.is_file() {
            return None;
        }
        let mut sink = Sink::default();
        let archive = Archive::open(path, limits, &mut sink)?;
        let paths: Vec<String> = archive.paths().map(str::to_owned).collect();
        let with_extension = |extensions: &[&str]| -> Vec<String> {
            paths
                .iter()
                .filter(|path| has_extension(path, extensions))
                .cloned()
                .collect()
        };
        let (packages, signatures) = (
            with_extension(&["csar", "zip"]),
            with_extension(&["cms", "p7s"]),
        );
        let certificates = with_extension(&["cert", "crt", "cer", "pem"]);
        let ([package], [signature]) = (packages.as_slice(), signatures.as_slice()) else {
            return None;
        };
        let complete = paths.len() == 2 + certificates.len() && certificates.len() <= 1;
        let flat = paths.iter().all(|path| folder(path).is_empty());
        (complete && flat).then(|| SignedArchive {
            package: package.clone(),
            signature: signature.clone(),
            certificate: certificates.first().cloned(),
            archive,
        })
    }

    /// The name of the package's file.
    pub fn package(&self) -> &str {
        &self.package
    }

    /// The name of the signature file.
    pub fn signature_file(&self) -> &str {
        &self.signature
    }

    /// The name of the certificate file, if there is one.
    pub fn certificate_file(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// Reads the CMS signature that lies next to the package.
    ///
    /// # Errors
    /// It cannot be read, or has more than 1 MiB.
    pub fn signature(&self) -> Result<Vec<u8>, ReadError> {
        self.archive.read(&self.signature, MAX_SIGNATURE_BYTES)
    }

    /// Reads the certificate file, if there is one.
    ///
    /// # Errors
    /// Those of [`SignedArchive::signature`]: it cannot be read, or has more than 1 MiB.
    pub fn certificate(&self) -> Result<Option<Vec<u8>>, ReadError> {
        self.certificate
            .as_ref()
            .map(|path| self.archive.read(path, MAX_SIGNATURE_BYTES))
            .transpose()
    }

    /// Extracts the package with constant memory; returns its size in bytes.
    ///
    /// # Errors
    /// The package has more than `max` bytes, or cannot be read or written.
    pub fn copy_package(&self, max: u64, to: &mut dyn Write) -> Result<u64, ReadError> {
        self.archive.copy_within(&self.package, max, to)
    }
}
