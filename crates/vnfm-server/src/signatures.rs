//! Whose packages are taken: `packages` of the configuration, and what becomes of a package that nobody signed.
//!
//! ```yaml
//! packages:
//!   signatures: require        # off: not looked at; warn: said in the package's warnings; require: else refused
//!   trust: /etc/vnfm/vendors.pem   # certificates of authorities, or of vendors themselves
//!   crl: /etc/vnfm/revoked.pem     # their revocation lists
//! ```
//! Both files are read for each package: a new list needs no restart. Signatures are verified when a package is
//! onboarded; afterwards its hash vouches for it.

use anyhow::{Context as _, bail};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::Clock;
use vnfm_descriptor::{Limits, Outer, Package, codes};
use vnfm_signature::{Certificate, Report, Trust, check, check_outer};
use vnfm_types::{PackageSecurityOption, VnfPkgInfo};

/// `packages` of the configuration.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Packages {
    /// What signatures are good for.
    pub signatures: Policy,
    /// PEM file of the certificates that are trusted.
    #[schemars(extend("format" = "file"))]
    pub trust: Option<PathBuf>,
    /// PEM file of revocation lists.
    #[schemars(extend("format" = "file"))]
    pub crl: Option<PathBuf>,
    /// Addresses below which external artifacts of packages may be fetched, such as
    /// `https://artifacts.example.com/images/`; none where absent.
    pub external: Vec<String>,
}

/// What signatures are good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Nobody looks at them.
    #[default]
    Off,
    /// What is wrong is among the package's warnings.
    Warn,
    /// A package is refused that is not signed by somebody who is trusted.
    Require,
}

/// Looks at the signatures of packages.
pub struct Signatures {
    config: Packages,
    clock: Arc<dyn Clock>,
}

/// Hashes what goes through it, and keeps why it could not be written.
struct Hashed<W> {
    to: W,
    hash: Sha256,
    failed: Option<String>,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes).inspect_err(|error| {
            self.failed = Some(error.to_string());
        })?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// Why a package was not taken out of its outer archive.
#[derive(Debug)]
pub(crate) enum NotUnwrapped {
    /// What is wrong with it.
    Refused(String),
    /// Our disk does not take it.
    NotWritten(String),
}

/// Bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// What is said of a package's signatures.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    option: Option<PackageSecurityOption>,
    certificate: Option<String>,
    /// A line for each thing that is wrong.
    faults: Vec<String>,
}

impl Signatures {
    /// Looks at them as `config` says.
    ///
    /// # Errors
    ///
    /// Where one of its files cannot be used, or `require` has nobody to trust.
    pub fn new(config: Packages, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        if config.signatures == Policy::Require && config.trust.is_none() {
            bail!("packages.signatures is `require`, but packages.trust names nobody to trust");
        }
        let signatures = Self { config, clock };
        signatures
            .trust()
            .map_err(anyhow::Error::msg)
            .context("cannot use `packages`")?;
        Ok(signatures)
    }

    /// Whether anybody looks.
    fn is_off(&self) -> bool {
        self.config.signatures == Policy::Off
    }

    fn trust(&self) -> Result<Option<Trust>, String> {
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .map_err(|error| format!("cannot read `{}`: {error}", path.display()))
        };
        let Some(path) = &self.config.trust else {
            return Ok(None);
        };
        let (certificates, lists) = (read(path)?, self.config.crl.as_ref().map(read).transpose()?);
        Trust::new(&certificates, lists.as_deref())
            .map(Some)
            .map_err(|fault| format!("packages.trust, packages.crl: {fault}"))
    }

    /// Takes a package out of the outer archive that it was uploaded in (SOL004 option 2), into `to`, and tells its
    /// SHA-256; `None` where there is none. Blocks.
    ///
    /// # Errors
    ///
    /// Where it has more than `largest` bytes, or cannot be read, or written.
    pub(crate) fn unwrap(
        &self,
        upload: &Path,
        (to, largest): (&Path, u64),
        limits: &Limits,
    ) -> Result<Option<(Verdict, String)>, NotUnwrapped> {
        let Some(outer) = Outer::find(upload, limits) else {
            return Ok(None);
        };
        let failed = |error: &dyn std::fmt::Display| {
            NotUnwrapped::NotWritten(format!("cannot write `{}`: {error}", to.display()))
        };
        let file = BufWriter::new(File::create(to).map_err(|error| failed(&error))?);
        let mut file = Hashed {
            to: file,
            hash: Sha256::new(),
            failed: None,
        };
        let (trust, at) = (self.trust().map_err(NotUnwrapped::Refused)?, self.now());
        let trust = trust.as_ref().map(|trust| (trust, at));
        let report = check_outer(&outer, (largest, &mut file), trust).map_err(|error| {
            let refused = || NotUnwrapped::Refused(error.to_string());
            file.failed.as_ref().map_or_else(refused, |why| failed(why))
        })?;
        file.flush().map_err(|error| failed(&error))?;
        let beside = outer.certificate().ok().flatten();
        let verdict = self.verdict(&report, PackageSecurityOption::Option2, beside);
        Ok(Some((verdict, hexadecimal(&file.hash.finalize()))))
    }

    /// What the package says of itself (option 1). Blocks.
    ///
    /// # Errors
    ///
    /// Where the files of the configuration cannot be read any more.
    pub(crate) fn inside(&self, package: &Package) -> Result<Verdict, String> {
        let beside = package
            .certificate()
            .and_then(|path| package.read(path).ok());
        if self.is_off() {
            let is_signed = package.manifest().is_some_and(|manifest| manifest.signed);
            return Ok(unverified(
                is_signed.then_some(PackageSecurityOption::Option1),
                beside,
            ));
        }
        let (trust, at) = (self.trust()?, self.now());
        let report = check(package, trust.as_ref().map(|trust| (trust, at)));
        Ok(self.verdict(&report, PackageSecurityOption::Option1, beside))
    }

    fn verdict(
        &self,
        report: &Report,
        option: PackageSecurityOption,
        beside: Option<Vec<u8>>,
    ) -> Verdict {
        if self.is_off() {
            return unverified(Some(option), beside);
        }
        let option = Some(option).filter(|_| !report.signed.is_empty());
        let fault =
            |(file, fault): &(String, vnfm_signature::Fault)| format!("signature: {file}: {fault}");
        let faults = report.faults.iter().map(fault).collect();
        Verdict {
            faults,
            ..unverified(option, beside)
        }
    }

    /// Notes the verdict in the package's record.
    ///
    /// # Errors
    ///
    /// Why the package is refused.
    pub(crate) fn note(&self, verdict: Verdict, info: &mut VnfPkgInfo) -> Result<(), String> {
        if !verdict.faults.is_empty() && self.config.signatures == Policy::Require {
            return Err(verdict.faults.join("\n"));
        }
        if !self.is_off() {
            // It was verified, or what is wrong with it is said.
            let unverified = format!("[{}]", codes::SIGNATURE);
            info.warnings
                .retain(|warning| !warning.contains(&unverified));
        }
        info.warnings.extend(verdict.faults);
        info.package_security_option = verdict.option;
        info.signing_certificate = verdict.certificate;
        Ok(())
    }

    /// When it is now.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Seconds since 1970.
    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_second()).unwrap_or_default()
    }
}

/// How a package is signed, whatever that is worth: with which certificate, where that came as a file.
fn unverified(option: Option<PackageSecurityOption>, beside: Option<Vec<u8>>) -> Verdict {
    let certificate = beside.filter(|_| option.is_some());
    let certificate = certificate.and_then(|bytes| Certificate::read(&bytes).ok());
    let certificate = certificate.and_then(|all| all.first().map(Certificate::to_pem));
    Verdict {
        option,
        certificate,
        faults: Vec::new(),
    }
}
