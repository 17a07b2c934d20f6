//! Signs packages by either option of SOL004.
//!
//! Option 1 rewrites the manifest: every file with its SHA-256, then the signature. Option 2 leaves the package
//! unchanged. The output is reproducible with an RSA key; ECDSA signatures always differ.

use crate::certificate::Certificate;
use crate::fault::Fault;
use crate::sign::{Key, Signing, signature_pem};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use vnfm_descriptor::{Package, manifest_with, repack, wrap};

/// The signer, and where the certificates are written.
#[derive(Debug, Clone, Copy)]
pub struct Seal<'a> {
    /// The private key that signs.
    pub key: &'a Key,
    /// The signer's certificate first, then the chain to an authority.
    pub chain: &'a [Certificate],
    /// True: the certificates are in the signature; false: in a separate file.
    pub inside: bool,
}

impl Seal<'_> {
    /// Writes the package signed by option 1.
    ///
    /// # Errors
    /// The package has no manifest, the key does not belong to the certificate, or a file cannot be read or written.
    pub fn package(&self, package: &Package, to: &mut (impl Write + Seek)) -> Result<(), Fault> {
        let manifest = package.manifest().ok_or_else(|| {
            Fault::File("the package has no manifest; `vnfmctl package init` writes one".to_owned())
        })?;
        let path = manifest.path.as_str();
        let unreadable = |error: &dyn std::fmt::Display| Fault::Unreadable(error.to_string());
        let text = package.read(path).map_err(|error| unreadable(&error))?;
        let text = String::from_utf8(text).map_err(|error| unreadable(&error))?;
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let certificate = package
            .certificate()
            .map_or_else(|| format!("{stem}.cert"), str::to_owned);
        // Files with the signatures of single files need no hash themselves.
        let named = manifest
            .sources
            .iter()
            .flat_map(|one| [&one.signature, &one.certificate]);
        let mut without: Vec<&str> = named.flatten().map(String::as_str).collect();
        without.extend([path, &certificate]);
        let text = manifest_with(package, &text, &BTreeMap::new(), &without)
            .map_err(|error| unreadable(&error))?;
        let signature = signature_pem(&self.signature(&mut text.as_bytes())?);
        let mut replaced = BTreeMap::from([(path.to_owned(), (text + &signature).into_bytes())]);
        if !self.inside {
            replaced.insert(certificate, self.certificates().into_bytes());
        }
        repack(package, &replaced, to).map_err(|findings| unreadable(&findings))
    }

    /// Writes the outer archive of option 2: `name` is the base name of its files, `package` the archive to sign.
    ///
    /// # Errors
    /// A file cannot be read or written, or the key does not belong to the certificate.
    pub fn outer(
        &self,
        (name, package): (&str, &Path),
        to: &mut (impl Write + Seek),
    ) -> Result<(), Fault> {
        let unreadable = |error: &dyn std::fmt::Display| Fault::Unreadable(error.to_string());
        let mut file = File::open(package).map_err(|error| unreadable(&error))?;
        let signature = signature_pem(&self.signature(&mut file)?);
        let certificates = (!self.inside).then(|| self.certificates());
        let certificate = certificates.as_ref().map(String::as_bytes);
        wrap((name, package), signature.as_bytes(), certificate, to)
            .map_err(|findings| unreadable(&findings))
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
