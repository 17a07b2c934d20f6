//! Packages are signed, by either option of SOL004.
//!
//! Option 1 writes the manifest anew: every file with its SHA-256, then the signature. Option 2 leaves the package as
//! it is. What is written is the same for the same files and an RSA key; ECDSA is never the same twice.

use crate::certificate::Certificate;
use crate::fault::Fault;
use crate::sign::{Key, Signing, signature_pem};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use vnfm_descriptor::{Package, manifest_with, repack, wrap};

/// Who signs, and where the certificates go.
#[derive(Debug, Clone, Copy)]
pub struct Seal<'a> {
    /// The private key.
    pub key: &'a Key,
    /// Its certificate, then those that lead towards an authority.
    pub chain: &'a [Certificate],
    /// True: the certificates lie in the signature; false: in a file beside it.
    pub inside: bool,
}

impl Seal<'_> {
    /// Writes the package signed by option 1.
    ///
    /// # Errors
    /// It has no manifest, the key is not the certificate's, or something cannot be read or written.
    pub fn package(&self, package: &Package, to: &mut (impl Write + Seek)) -> Result<(), Fault> {
        let manifest = package.manifest().ok_or_else(|| {
            Fault::File("the package has no manifest; `vnfmctl package init` writes one".to_owned())
        })?;
        let path = manifest.path.as_str();
        let unread = |error: &dyn std::fmt::Display| Fault::Unreadable(error.to_string());
        let text = package.read(path).map_err(|error| unread(&error))?;
        let text = String::from_utf8(text).map_err(|error| unread(&error))?;
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let certificate = package
            .certificate()
            .map_or_else(|| format!("{stem}.cert"), str::to_owned);
        // Signatures of single files sign what the manifest names; they need no hash themselves.
        let named = manifest
            .sources
            .iter()
            .flat_map(|one| [&one.signature, &one.certificate]);
        let mut without: Vec<&str> = named.flatten().map(String::as_str).collect();
        without.extend([path, &certificate]);
        let text = manifest_with(package, &text, &BTreeMap::new(), &without)
            .map_err(|error| unread(&error))?;
        let signature = signature_pem(&self.signature(&mut text.as_bytes())?);
        let mut replaced = BTreeMap::from([(path.to_owned(), (text + &signature).into_bytes())]);
        if !self.inside {
            replaced.insert(certificate, self.certificates().into_bytes());
        }
        repack(package, &replaced, to).map_err(|findings| unread(&findings))
    }

    /// Writes the outer archive of option 2: `name` is what its parts are called, `package` the archive that is signed.
    ///
    /// # Errors
    /// As [`Seal::package`].
    pub fn outer(
        &self,
        (name, package): (&str, &Path),
        to: &mut (impl Write + Seek),
    ) -> Result<(), Fault> {
        let unread = |error: &dyn std::fmt::Display| Fault::Unreadable(error.to_string());
        let mut file = File::open(package).map_err(|error| unread(&error))?;
        let signature = signature_pem(&self.signature(&mut file)?);
        let certificates = (!self.inside).then(|| self.certificates());
        let beside = certificates.as_ref().map(String::as_bytes);
        wrap((name, package), signature.as_bytes(), beside, to)
            .map_err(|findings| unread(&findings))
    }

    fn signature(&self, content: &mut dyn io::Read) -> Result<Vec<u8>, Fault> {
        let mut signing = Signing::new(self.key, self.chain);
        io::copy(content, &mut signing).map_err(|error| Fault::Unreadable(error.to_string()))?;
        signing.finish(self.inside)
    }

    fn certificates(&self) -> String {
        self.chain.iter().map(Certificate::to_pem).collect()
    }
}
