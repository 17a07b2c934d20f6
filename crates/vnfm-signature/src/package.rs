//! All signatures of a package, and the files that none of them covers (SOL004 5.1 to 5.3).
//!
//! ```text
//! option 1   CMS at the end of the manifest ─► its hashes ─► the files    (hashes: when the package is opened)
//!            `Signature:` of a file         ─────────────► that file
//! option 2   CMS beside the package         ─────────────► every byte of it
//! ```
//! Everything is looked at, and everything that is wrong is said.

use crate::certificate::{Certificate, is_pem};
use crate::fault::{Fault, Kind};
use crate::signature::{Signature, Signer};
use crate::trust::Trust;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use vnfm_descriptor::{ManifestSource, Outer, Package, ReadError, normalise};

/// Something that was signed, and by whom.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SignedFile {
    /// The manifest, a file of the package, or the package itself.
    pub file: String,
    /// Who signed it.
    pub signer: Signer,
}

/// What the signatures of a package say.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// What fits.
    pub signed: Vec<SignedFile>,
    /// What does not, with the file that it is about.
    pub faults: Vec<(String, Fault)>,
}

impl Report {
    /// Whether the package is signed, every file of it covered, and nothing wrong.
    pub fn is_fine(&self) -> bool {
        self.faults.is_empty() && !self.signed.is_empty()
    }

    /// The least and the gravest fault.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.faults.iter().map(|(_, fault)| fault.kind())
    }

    fn fault(&mut self, file: &str, fault: Fault) {
        self.faults.push((file.to_owned(), fault));
    }

    /// Takes a verdict in, and asks whether the signers are trusted. True where the signature fits.
    fn take(
        &mut self,
        file: &str,
        verdict: Result<Vec<Signer>, Fault>,
        trust: Option<(&Trust, u64)>,
    ) -> bool {
        let signers = match verdict {
            Ok(signers) => signers,
            Err(fault) => {
                self.fault(file, fault);
                return false;
            }
        };
        for signer in signers {
            if let Some((trust, at)) = trust
                && let Err(fault) = trust.check(&signer, at)
            {
                self.fault(file, fault);
            }
            self.signed.push(SignedFile {
                file: file.to_owned(),
                signer,
            });
        }
        true
    }
}

/// What is wrong, a line each.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (file, fault)) in self.faults.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{file}: {fault}")?;
        }
        Ok(())
    }
}

/// Verifies option 1: the manifest's signature, signatures of single files, and that nothing is left out. `trust` is
/// asked about the signers at a time, in seconds since 1970; without it, only what was signed is compared.
pub fn check(package: &Package, trust: Option<(&Trust, u64)>) -> Report {
    let mut report = Report::default();
    let Some(manifest) = package.manifest() else {
        report.fault(package.entry(), Fault::Unsigned);
        return report;
    };
    let beside = match package
        .certificate()
        .map(|path| certificates(package, path))
    {
        Some(Ok(found)) => found,
        Some(Err((path, fault))) => {
            report.fault(&path, fault);
            Vec::new()
        }
        None => Vec::new(),
    };
    let verdict = package
        .read(&manifest.path)
        .map_err(|error| unread(&error))
        .and_then(|bytes| signed_manifest(&bytes, &beside));
    let is_signed = report.take(&manifest.path, verdict, trust);
    let mut covered: BTreeSet<String> = [manifest.path.clone()].into();
    covered.extend(package.certificate().map(str::to_owned));
    for source in &manifest.sources {
        let Ok(path) = normalise(&source.source) else {
            continue;
        };
        if source.signature.is_some() && package.has(&path) {
            let verdict = signed_file(package, &path, source, &beside);
            if report.take(&path, verdict, trust) {
                let named = [&source.signature, &source.certificate];
                covered.extend(
                    named
                        .into_iter()
                        .flatten()
                        .filter_map(|path| normalise(path).ok()),
                );
                covered.insert(path.clone());
            }
        }
        if is_signed && source.hash.is_some() {
            covered.insert(path);
        }
    }
    if is_signed {
        let open = package.paths().filter(|path| !covered.contains(*path));
        report
            .faults
            .extend(open.map(|path| (path.to_owned(), Fault::Uncovered)));
    }
    report
}

/// Verifies option 2 while the package is copied out of its outer archive, if it has at most `most` bytes.
///
/// # Errors
/// The package cannot be copied; what is wrong with the signature is in the report.
pub fn check_outer(
    outer: &Outer,
    (most, to): (u64, &mut dyn Write),
    trust: Option<(&Trust, u64)>,
) -> Result<Report, ReadError> {
    let mut report = Report::default();
    let signature = outer.signature().map_err(|error| unread(&error));
    let signature = signature.and_then(|bytes| Signature::read(&bytes));
    let certificates = outer.certificate().map_err(|error| unread(&error));
    let beside =
        certificates.and_then(|found| found.map_or(Ok(Vec::new()), |b| Certificate::read(&b)));
    let parts = signature.and_then(|signature| Ok((signature, beside?)));
    let verdict = match &parts {
        Ok((signature, beside)) => match signature.verifier() {
            Ok(mut verifier) => {
                outer.copy_package(most, &mut Both(to, &mut verifier))?;
                verifier.finish(beside)
            }
            Err(fault) => {
                outer.copy_package(most, to)?;
                Err(fault)
            }
        },
        Err(fault) => {
            outer.copy_package(most, to)?;
            Err(fault.clone())
        }
    };
    report.take(outer.package(), verdict, trust);
    Ok(report)
}

/// Writes twice.
struct Both<'a>(&'a mut dyn Write, &'a mut dyn Write);

impl Write for Both<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        self.1.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Where the manifest ends and its signature begins: all bytes before it are signed.
fn signature_at(manifest: &[u8]) -> Option<usize> {
    const MARKS: [&[u8]; 2] = [b"-----BEGIN CMS-----", b"-----BEGIN PKCS7-----"];
    let begins = |at: &usize| {
        let line = *at == 0 || manifest[at - 1] == b'\n';
        line && MARKS.iter().any(|mark| manifest[*at..].starts_with(mark))
    };
    (0..manifest.len()).find(begins)
}

fn signed_manifest(bytes: &[u8], beside: &[Certificate]) -> Result<Vec<Signer>, Fault> {
    let at = signature_at(bytes).ok_or(Fault::Unsigned)?;
    let (content, signature) = bytes.split_at(at);
    if !ends(signature) {
        return Err(Fault::NotCms("something follows its end".to_owned()));
    }
    Signature::read(signature)?.verify(content, beside)
}

/// Nothing but blanks may follow the signature: nobody would have signed it.
fn ends(signature: &[u8]) -> bool {
    is_pem(signature) && signature.trim_ascii_end().ends_with(b"-----") && {
        const MARK: &[u8] = b"-----END ";
        signature
            .windows(MARK.len())
            .filter(|window| *window == MARK)
            .count()
            == 1
    }
}

fn signed_file(
    package: &Package,
    path: &str,
    source: &ManifestSource,
    beside: &[Certificate],
) -> Result<Vec<Signer>, Fault> {
    let Some(named) = &source.signature else {
        return Err(Fault::Unsigned);
    };
    let unreadable =
        |error: ReadError| Fault::Unreadable(format!("its signature `{named}`: {error}"));
    let signature = Signature::read(&package.read(named).map_err(unreadable)?)?;
    let mut known = beside.to_vec();
    if let Some(named) = &source.certificate {
        known.extend(certificates(package, named).map_err(|(_, fault)| fault)?);
    }
    let mut verifier = signature.verifier()?;
    package
        .copy(path, &mut verifier)
        .map_err(|error| unread(&error))?;
    verifier.finish(&known)
}

fn certificates(package: &Package, path: &str) -> Result<Vec<Certificate>, (String, Fault)> {
    let read = package.read(path).map_err(|error| unread(&error));
    read.and_then(|bytes| Certificate::read(&bytes))
        .map_err(|fault| (path.to_owned(), fault))
}

fn unread(error: &ReadError) -> Fault {
    Fault::Unreadable(error.to_string())
}
