//! Signatures of packages: the policy in `packages` in the configuration, and its verdict on a package.
//!
//! ```yaml
//! packages:
//!   signatures: require        # off: not verified; warn: faults become warnings; require: faults refuse the package
//!   trust: /etc/vnfm/vendors.pem   # CA certificates, or vendors' own certificates
//!   crl: /etc/vnfm/revoked.pem     # revocation lists
//! ```
//! Both files are read for each package: a new list needs no restart. Signatures are verified at onboarding; later,
//! the package's hash is sufficient.

use crate::settings_file;
use anyhow::{Context as _, bail};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::Clock;
use vnfm_descriptor::{Limits, Package, SignedArchive, codes};
use vnfm_signature::{Certificate, Report, Trust, check, check_outer};
use vnfm_types::{PackageSecurityOption, VnfPkgInfo};

/// `packages` in the configuration: signatures, and where packages may come from.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Packages {
    /// Whether signatures are verified and required.
    pub signatures: Policy,
    /// PEM file of trusted certificates.
    #[schemars(extend("format" = "file"))]
    pub trust: Option<PathBuf>,
    /// PEM file of certificate revocation lists.
    #[schemars(extend("format" = "file"))]
    pub crl: Option<PathBuf>,
    /// Address prefixes from which external artifacts of packages may be fetched,
    /// such as `https://artifacts.example.com/images/`. Default: none.
    pub external: Vec<String>,
}

/// Whether packages must have a valid signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Signatures are not verified at all.
    #[default]
    Off,
    /// Faults are added to the package's warnings.
    Warn,
    /// A package without a valid signature of a trusted signer is refused.
    Require,
}

/// Verifies the signatures of packages.
pub struct Signatures {
    config: Packages,
    clock: Arc<dyn Clock>,
}

/// A writer that hashes its bytes, and remembers a write error.
struct HashingWriter<W> {
    to: W,
    hash: Sha256,
    error: Option<String>,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes).inspect_err(|error| {
            self.error = Some(error.to_string());
        })?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// Why a package could not be extracted from its outer archive.
#[derive(Debug)]
pub(crate) enum UnwrapError {
    /// The package or its signature is faulty.
    Refused(String),
    /// The server's disk cannot be written.
    NotWritten(String),
}

/// The result of verifying a package's signatures.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    option: Option<PackageSecurityOption>,
    certificate: Option<String>,
    /// One line for each fault that was found.
    faults: Vec<String>,
}

impl Signatures {
    /// Reads the files of `config`, to report errors early.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be used, or `require` has no trusted certificates.
    pub fn new(config: Packages, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        if config.signatures == Policy::Require && config.trust.is_none() {
            bail!("packages.signatures is `require`, but packages.trust is not set");
        }
        let signatures = Self { config, clock };
        signatures
            .trust()
            .map_err(anyhow::Error::msg)
            .context("cannot use `packages`")?;
        Ok(signatures)
    }

    fn is_off(&self) -> bool {
        self.config.signatures == Policy::Off
    }

    fn trust(&self) -> Result<Option<Trust>, String> {
        let read =
            |path: &PathBuf| settings_file::bytes(path).map_err(|error| format!("{error:#}"));
        let Some(path) = &self.config.trust else {
            return Ok(None);
        };
        let (certificates, lists) = (read(path)?, self.config.crl.as_ref().map(read).transpose()?);
        Trust::new(&certificates, lists.as_deref())
            .map(Some)
            .map_err(|fault| format!("packages.trust, packages.crl: {fault}"))
    }

    /// Extracts a package from the outer archive it was uploaded in (SOL004 option 2) into `to`, and returns its
    /// SHA-256; `None` if there is no outer archive. Blocks.
    ///
    /// # Errors
    ///
    /// If it has more than `max_bytes`, or cannot be read or written.
    pub(crate) fn unwrap(
        &self,
        upload: &Path,
        (to, max_bytes): (&Path, u64),
        limits: &Limits,
    ) -> Result<Option<(Verdict, String)>, UnwrapError> {
        let Some(outer) = SignedArchive::find(upload, limits) else {
            return Ok(None);
        };
        let failed = |error: &dyn std::fmt::Display| {
            UnwrapError::NotWritten(format!("cannot write `{}`: {error}", to.display()))
        };
        let file = BufWriter::new(File::create(to).map_err(|error| failed(&error))?);
        let mut file = HashingWriter {
            to: file,
            hash: Sha256::new(),
            error: None,
        };
        let (trust, at) = (self.trust().map_err(UnwrapError::Refused)?, self.now());
        let trust = trust.as_ref().map(|trust| (trust, at));
        let report = check_outer(&outer, (max_bytes, &mut file), trust).map_err(|error| {
            let refused = || UnwrapError::Refused(error.to_string());
            file.error
                .as_ref()
                .map_or_else(refused, |error| failed(error))
        })?;
        file.flush().map_err(|error| failed(&error))?;
        let certificate = outer.certificate().ok().flatten();
        let verdict = self.verdict(&report, PackageSecurityOption::Option2, certificate);
        Ok(Some((verdict, hex::encode(file.hash.finalize()))))
    }

    /// Verifies signatures in the package itself (option 1). Blocks.
    ///
    /// # Errors
    ///
    /// If the configured files can no longer be read.
    pub(crate) fn verify(&self, package: &Package) -> Result<Verdict, String> {
        let certificate = package
            .certificate()
            .and_then(|path| package.read(path).ok());
        if self.is_off() {
            let is_signed = package.manifest().is_some_and(|manifest| manifest.signed);
            return Ok(unverified(
                is_signed.then_some(PackageSecurityOption::Option1),
                certificate,
            ));
        }
        let (trust, at) = (self.trust()?, self.now());
        let report = check(package, trust.as_ref().map(|trust| (trust, at)));
        Ok(self.verdict(&report, PackageSecurityOption::Option1, certificate))
    }

    fn verdict(
        &self,
        report: &Report,
        option: PackageSecurityOption,
        certificate: Option<Vec<u8>>,
    ) -> Verdict {
        if self.is_off() {
            return unverified(Some(option), certificate);
        }
        let option = Some(option).filter(|_| !report.signed.is_empty());
        let fault =
            |(file, fault): &(String, vnfm_signature::Fault)| format!("signature: {file}: {fault}");
        let faults = report.faults.iter().map(fault).collect();
        Verdict {
            faults,
            ..unverified(option, certificate)
        }
    }

    /// Writes the verdict into the package's record.
    ///
    /// # Errors
    ///
    /// If the policy refuses the package.
    pub(crate) fn apply(&self, verdict: Verdict, info: &mut VnfPkgInfo) -> Result<(), String> {
        if !verdict.faults.is_empty() && self.config.signatures == Policy::Require {
            return Err(verdict.faults.join("\n"));
        }
        if !self.is_off() {
            // Remove the warning that the signature was not verified.
            let unverified = format!("[{}]", codes::SIGNATURE);
            info.warnings
                .retain(|warning| !warning.contains(&unverified));
        }
        info.warnings.extend(verdict.faults);
        info.package_security_option = verdict.option;
        info.signing_certificate = verdict.certificate;
        Ok(())
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Seconds since 1970, for comparing with certificates' validity.
    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_second()).unwrap_or_default()
    }
}

/// A verdict without verification: the kind of signature, and the certificate if it came as a file.
fn unverified(option: Option<PackageSecurityOption>, certificate: Option<Vec<u8>>) -> Verdict {
    let certificate = certificate.filter(|_| option.is_some());
    let certificate = certificate.and_then(|bytes| Certificate::read(&bytes).ok());
    let certificate = certificate.and_then(|all| all.first().map(Certificate::to_pem));
    Verdict {
        option,
        certificate,
        faults: Vec::new(),
    }
}
