//! Verifies all signatures of a package, and finds files that none covers (SOL004 5.1 to 5.3).
//!
//! ```text
//! option 1   CMS at the end of the manifest ─► its hashes ─► the files    (hashes: when the package is opened)
//!            `Signature:` of a file         ─────────────► that file
//! option 2   CMS next to the package        ─────────────► every byte of it
//! ```
//! Everything is checked, and every fault is reported.

use crate::certificate::{Certificate, is_pem};
use crate::fault::{Fault, Kind};
use crate::signature::{Signature, Signer};
use crate::trust::Trust;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use vnfm_descriptor::{ManifestSource, PackageFiles, ReadError, SignedArchive, normalise};

/// A file with a valid signature, and who signed it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SignedFile {
    /// The manifest, a file of the package, or the package itself.
    pub file: String,
    /// Its signer; not necessarily trusted.
    pub signer: Signer,
}

/// The result of verifying a package.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The files whose signatures are valid.
    pub signed: Vec<SignedFile>,
    /// The faults, each with its file.
    pub faults: Vec<(String, Fault)>,
}

impl Report {
    /// Whether the package is signed, all its files are covered, and there is no fault.
    pub fn is_fine(&self) -> bool {
        self.faults.is_empty() && !self.signed.is_empty()
    }

    /// The kinds of all faults, to find the gravest.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.faults.iter().map(|(_, fault)| fault.kind())
    }

    fn add_fault(&mut self, file: &str, fault: Fault) {
        self.faults.push((file.to_owned(), fault));
    }

    /// Adds the result of one verification, and checks whether the signers are trusted. True if the signature is valid.
    fn add_result(
        &mut self,
        file: &str,
        verdict: Result<Vec<Signer>, Fault>,
        trust: Option<(&Trust, u64)>,
    ) -> bool {
        let signers = match verdict {
            Ok(signers) => signers,
            Err(fault) => {
                self.add_fault(file, fault);
                return false;
            }
        };
        for signer in signers {
            if let Some((trust, at)) = trust
                && let Err(fault) = trust.check(&signer, at)
            {
                self.add_fault(file, fault);
            }
            self.signed.push(SignedFile {
                file: file.to_owned(),
                signer,
            });
        }
        true
    }
}

/// Prints one line for each fault.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (file, fault)) in self.faults.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{file}: {fault}")?;
        }
        Ok(())
    }
}

/// Verifies option 1: the manifest's signature, signatures of single files, and that every file is covered. `trust` checks
/// the signers at a time in seconds since 1970; without it only the signatures are verified. The descriptor may have errors.
pub fn check(package: &PackageFiles, trust: Option<(&Trust, u64)>) -> Report {
    let mut report = Report::default();
    let Some(manifest) = package.manifest() else {
        report.add_fault(package.entry(), Fault::Unsigned);
        return report;
    };
    let extra = match package
        .certificate()
        .map(|path| certificates(package, path))
    {
        Some(Ok(found)) => found,
        Some(Err((path, fault))) => {
            report.add_fault(&path, fault);
            Vec::new()
        }
        None => Vec::new(),
    };
    let verdict = package
        .read(&manifest.path)
        .map_err(|error| unreadable(&error))
        .and_then(|bytes| signed_manifest(&bytes, &extra));
    let is_signed = report.add_result(&manifest.path, verdict, trust);
    let mut covered: BTreeSet<String> = [manifest.path.clone()].into();
    covered.extend(package.certificate().map(str::to_owned));
    for source in &manifest.sources {
        let Ok(path) = normalise(&source.source) else {
            continue;
        };
        if source.signature.is_some() && package.has(&path) {
            let verdict = signed_file(package, &path, source, &extra);
            if report.add_result(&path, verdict, trust) {
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

/// Verifies option 2 while copying the package out of its outer archive; it may have at most `max_bytes`.
///
/// # Errors
/// The package cannot be copied. Faults of the signature are in the report.
pub fn check_outer(
    outer: &SignedArchive,
    (max_bytes, to): (u64, &mut dyn Write),
    trust: Option<(&Trust, u64)>,
) -> Result<Report, ReadError> {
    let mut report = Report::default();
    let signature = outer.signature().map_err(|error| unreadable(&error));
    let signature = signature.and_then(|bytes| Signature::read(&bytes));
    let certificates = outer.certificate().map_err(|error| unreadable(&error));
    let extra =
        certificates.and_then(|found| found.map_or(Ok(Vec::new()), |b| Certificate::read(&b)));
    let parts = signature.and_then(|signature| Ok((signature, extra?)));
    let verdict = match &parts {
        Ok((signature, extra)) => match signature.verifier() {
            Ok(mut verifier) => {
                outer.copy_package(max_bytes, &mut Tee(to, &mut verifier))?;
                verifier.finish(extra)
            }
            Err(fault) => {
                outer.copy_package(max_bytes, to)?;
                Err(fault)
            }
        },
        Err(fault) => {
            outer.copy_package(max_bytes, to)?;
            Err(fault.clone())
        }
    };
    report.add_result(outer.package(), verdict, trust);
    Ok(report)
}

/// Writes everything to both writers.
struct Tee<'a>(&'a mut dyn Write, &'a mut dyn Write);

impl Write for Tee<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        self.1.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The offset at which the signature begins; all bytes before it are signed.
fn signature_at(manifest: &[u8]) -> Option<usize> {
    const MARKS: [&[u8]; 2] = [b"-----BEGIN CMS-----", b"-----BEGIN PKCS7-----"];
    let begins = |at: &usize| {
        let line = *at == 0 || manifest[at - 1] == b'\n';
        line && MARKS.iter().any(|mark| manifest[*at..].starts_with(mark))
    };
    (0..manifest.len()).find(begins)
}

fn signed_manifest(bytes: &[u8], extra: &[Certificate]) -> Result<Vec<Signer>, Fault> {
    let at = signature_at(bytes).ok_or(Fault::Unsigned)?;
    let (content, signature) = bytes.split_at(at);
    if !is_last(signature) {
        return Err(Fault::NotCms("data follows its end".to_owned()));
    }
    Signature::read(signature)?.verify(content, extra)
}

/// Only white space may follow the signature, as anything else would be unsigned.
fn is_last(signature: &[u8]) -> bool {
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
    package: &PackageFiles,
    path: &str,
    source: &ManifestSource,
    extra: &[Certificate],
) -> Result<Vec<Signer>, Fault> {
    let Some(named) = &source.signature else {
        return Err(Fault::Unsigned);
    };
    let unreadable_signature =
        |error: ReadError| Fault::Unreadable(format!("its signature `{named}`: {error}"));
    let signature = Signature::read(&package.read(named).map_err(unreadable_signature)?)?;
    let mut known = extra.to_vec();
    if let Some(named) = &source.certificate {
        known.extend(certificates(package, named).map_err(|(_, fault)| fault)?);
    }
    let mut verifier = signature.verifier()?;
    package
        .copy(path, &mut verifier)
        .map_err(|error| unreadable(&error))?;
    verifier.finish(&known)
}

fn certificates(package: &PackageFiles, path: &str) -> Result<Vec<Certificate>, (String, Fault)> {
    let read = package.read(path).map_err(|error| unreadable(&error));
    read.and_then(|bytes| Certificate::read(&bytes))
        .map_err(|fault| (path.to_owned(), fault))
}

fn unreadable(error: &ReadError) -> Fault {
    Fault::Unreadable(error.to_string())
}
