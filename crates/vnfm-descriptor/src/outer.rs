//! The outer archive of a signed package: SOL004's option 2 (5.1).
//!
//! ```text
//! web-signed.zip
//!   web.csar    the package, as it would be without a signature
//!   web.cms     the signature of that file
//!   web.cert    its certificate, unless the signature holds it
//! ```
//! Nothing is verified here: `vnfm-signature` does, while the package is copied out.

use crate::archive::{Archive, ReadError};
use crate::finding::Sink;
use crate::limits::Limits;
use crate::path::{folder, has_extension};
use std::io::Write;
use std::path::Path;

/// Bytes of a signature or certificate that are read.
const LARGEST: u64 = 1 << 20;

/// An outer archive.
#[derive(Debug)]
pub struct Outer {
    archive: Archive,
    package: String,
    signature: String,
    certificate: Option<String>,
}

impl Outer {
    /// The outer archive at `path`; `None` where it is something else, such as a package.
    pub fn find(path: &Path, limits: &Limits) -> Option<Self> {
        if !path.is_file() {
            return None;
        }
        let mut sink = Sink::default();
        let archive = Archive::open(path, limits, &mut sink)?;
        let paths: Vec<String> = archive.paths().map(str::to_owned).collect();
        let of = |extensions: &[&str]| -> Vec<String> {
            paths
                .iter()
                .filter(|path| has_extension(path, extensions))
                .cloned()
                .collect()
        };
        let (packages, signatures) = (of(&["csar", "zip"]), of(&["cms", "p7s"]));
        let certificates = of(&["cert", "crt", "cer", "pem"]);
        let ([package], [signature]) = (packages.as_slice(), signatures.as_slice()) else {
            return None;
        };
        let whole = paths.len() == 2 + certificates.len() && certificates.len() <= 1;
        let flat = paths.iter().all(|path| folder(path).is_empty());
        (whole && flat).then(|| Outer {
            package: package.clone(),
            signature: signature.clone(),
            certificate: certificates.first().cloned(),
            archive,
        })
    }

    /// The package's name.
    pub fn package(&self) -> &str {
        &self.package
    }

    /// The name of the signature's file.
    pub fn signature_file(&self) -> &str {
        &self.signature
    }

    /// The name of the certificate's file, if there is one.
    pub fn certificate_file(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The signature.
    ///
    /// # Errors
    /// It cannot be read, or is larger than any that is meant well.
    pub fn signature(&self) -> Result<Vec<u8>, ReadError> {
        self.archive.read(&self.signature, LARGEST)
    }

    /// The certificate beside the signature, if there is one.
    ///
    /// # Errors
    /// As [`Outer::signature`].
    pub fn certificate(&self) -> Result<Option<Vec<u8>>, ReadError> {
        self.certificate
            .as_ref()
            .map(|path| self.archive.read(path, LARGEST))
            .transpose()
    }

    /// Copies the package out, if it has at most `most` bytes; constant memory.
    ///
    /// # Errors
    /// It is larger, or cannot be read or written.
    pub fn copy_package(&self, most: u64, to: &mut dyn Write) -> Result<u64, ReadError> {
        self.archive.copy_within(&self.package, most, to)
    }
}
