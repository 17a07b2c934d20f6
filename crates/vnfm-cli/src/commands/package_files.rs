//! `vnfmctl package init`, `build`, `sign`, `verify`: how a vendor prepares a package.

use crate::args::Sign;
use crate::client::{Failure, Outcome, local};
use crate::input;
use crate::output::{Column, Output, tell};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use vnfm_descriptor::{Finding, Limits, Manifest, Package, PackageFiles, Severity, SignedArchive};
use vnfm_lint::codes;
use vnfm_signature::{Certificate, Fault, Key, Kind, Padding, Report, Seal, Trust};

/// Columns of verified signatures.
pub(super) const SIGNERS: &[Column] = &[
    ("signed", "/file"),
    ("signer", "/signer"),
    ("algorithm", "/algorithm"),
    ("issuer", "/issuer"),
    ("valid until", "/validUntil"),
];
/// The note after a verification without trusted certificates.
pub(super) const UNCHECKED_SIGNERS: &str = "note: the signatures match, but whether the signers are trusted was not checked; \
     pass trusted certificates with --trust";
const META: &str = "TOSCA-Metadata/TOSCA.meta";

/// A package on this machine, unwrapped from its outer archive if it has one.
pub(super) struct Local {
    path: PathBuf,
    /// Verification result of the outer archive's signature.
    outer: Option<Report>,
    _file: Option<NamedTempFile>,
}

impl Local {
    /// The package at `path`; `trust` decides whether the signer of the outer archive is trusted.
    pub(super) fn at(path: &Path, trust: Option<&Trust>) -> Outcome<Self> {
        let Some(outer) = SignedArchive::find(path, &Limits::default()) else {
            return Ok(Self {
                path: path.to_owned(),
                outer: None,
                _file: None,
            });
        };
        let failed = |error: &dyn std::fmt::Display| {
            local(format!(
                "cannot extract the package from `{}`: {error}",
                path.display()
            ))
        };
        let mut file = NamedTempFile::new().map_err(|error| failed(&error))?;
        let max_bytes = Limits::default().total_bytes;
        let mut out = BufWriter::new(file.as_file_mut());
        let trust = trust.map(|trust| (trust, now()));
        let report = vnfm_signature::check_outer(&outer, (max_bytes, &mut out), trust)
            .map_err(|error| failed(&error))?;
        out.flush().map_err(|error| failed(&error))?;
        drop(out);
        Ok(Self {
            path: file.path().to_owned(),
            outer: Some(report),
            _file: Some(file),
        })
    }

    /// The path of the package itself, without its outer archive.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// An open package, with the temporary file that it may be read from.
pub(super) struct Opened {
    pub(super) package: Package,
    pub(super) local: Local,
}

/// Seconds since 1970-01-01, which certificates are checked against.
pub(super) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}

/// Verifies the signatures, whatever else is wrong with the package, and replaces lint's "not verified" with the result.
pub(super) fn check_signatures(package: &Local, findings: &mut Vec<Finding>) {
    let inner = PackageFiles::open(package.path(), &Limits::default()).ok();
    let signed = inner.filter(|(files, _)| is_signed(files));
    let inner = signed.map(|(files, _)| vnfm_signature::check(&files, None));
    if inner.is_some() {
        findings.retain(|finding| finding.code != codes::SIGNATURE);
    }
    for (file, fault) in inner
        .iter()
        .chain(&package.outer)
        .flat_map(|report| &report.faults)
    {
        let code = match fault.kind() {
            Kind::Missing => codes::SIGNATURE_GAP,
            _ => codes::SIGNATURE_WRONG,
        };
        findings.push(Finding::new(
            code,
            vnfm_descriptor::Span::file(file),
            fault.to_string(),
        ));
    }
}

/// Whether the manifest or one of the files that it names is signed.
fn is_signed(files: &PackageFiles) -> bool {
    let signed = |manifest: &Manifest| {
        let mut sources = manifest.sources.iter();
        manifest.signed || sources.any(|source| source.signature.is_some())
    };
    files.manifest().is_some_and(signed)
}

pub(super) fn init(output: Output, folder: &Path, entry: Option<&str>) -> Outcome<()> {
    if !folder.is_dir() {
        return Err(local(format!("`{}` is not a folder", folder.display())));
    }
    let mut written = Vec::new();
    let meta = folder.join(META);
    if !meta.exists() {
        let entry = entry.map_or_else(|| find_descriptor(folder), |entry| Ok(entry.to_owned()))?;
        let stem = Path::new(&entry)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or("vnfd");
        write(
            &meta,
            &vnfm_descriptor::new_meta(&entry, &format!("{stem}.mf")),
        )?;
        written.push(META.to_owned());
    }
    let manifest = manifest_path(folder)?;
    let path = folder.join(&manifest);
    let old = match input::text(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        text => Some(text.map_err(|error| unreadable(&path, &error))?),
    };
    // Drop the old hashes, which no longer match edited files.
    write(
        &path,
        &vnfm_descriptor::without_files(old.as_deref().unwrap_or("metadata:\n")),
    )?;
    let renewed = super::package::open(folder).and_then(|Opened { package, .. }| {
        let new = || vnfm_descriptor::new_manifest(package.vnfd(), &release_date());
        let text = old.clone().unwrap_or_else(new);
        let without = [manifest.as_str(), package.certificate().unwrap_or_default()];
        vnfm_descriptor::manifest_with(&package, &text, &BTreeMap::new(), &without).map_err(local)
    });
    match renewed {
        Ok(text) => write(&path, &text)?,
        Err(failure) => {
            match old {
                Some(old) => write(&path, &old)?,
                None => fs::remove_file(&path).map_err(local)?,
            }
            return Err(failure);
        }
    }
    written.push(manifest);
    let sentence = format!("wrote {} in `{}`", written.join(" and "), folder.display());
    output.done(&sentence, &json!({"path": folder, "written": written}))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    local(format!("cannot read `{}`: {error}", path.display()))
}

/// The only YAML file at the root or in `Definitions` that has a topology.
fn find_descriptor(folder: &Path) -> Outcome<String> {
    let mut found = Vec::new();
    for (directory, prefix) in [
        (folder.to_owned(), ""),
        (folder.join("Definitions"), "Definitions/"),
    ] {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_yaml = Path::new(&name)
                .extension()
                .is_some_and(|end| end == "yaml" || end == "yml");
            let text = if is_yaml {
                input::text(&entry.path()).unwrap_or_default()
            } else {
                String::new()
            };
            if text
                .lines()
                .any(|line| line.starts_with("topology_template:"))
            {
                found.push(format!("{prefix}{name}"));
            }
        }
    }
    if let [only] = found.as_slice() {
        return Ok(only.clone());
    }
    found.sort();
    Err(Failure::Hinted {
        message: if found.is_empty() {
            "no YAML file at the root or in Definitions has a topology_template".to_owned()
        } else {
            format!(
                "several files could be the descriptor: {}",
                found.join(", ")
            )
        },
        hint: "choose it with --entry, such as --entry Definitions/vnfd.yaml".to_owned(),
    })
}

/// The manifest's path as in `TOSCA.meta`, or else derived from the descriptor's name.
fn manifest_path(folder: &Path) -> Outcome<String> {
    let meta = folder.join(META);
    let text = input::text(&meta).map_err(|error| unreadable(&meta, &error))?;
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(name, _)| name.trim().eq_ignore_ascii_case(key))
            .map(|(_, value)| value.trim())
    };
    let manifest = value("ETSI-Entry-Manifest").or_else(|| value("Entry-Manifest"));
    if let Some(manifest) = manifest {
        return Ok(manifest.to_owned());
    }
    let entry = value("Entry-Definitions").unwrap_or("vnfd.yaml");
    let stem = Path::new(entry)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("vnfd");
    Ok(format!("{stem}.mf"))
}

/// The current time to the second, RFC 3339.
fn release_date() -> String {
    Timestamp::from_second(Timestamp::now().as_second())
        .unwrap_or_default()
        .to_string()
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    let failed = |error| local(format!("cannot write `{}`: {error}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

pub(super) fn build(output: Output, folder: &Path, out: Option<&Path>) -> Outcome<()> {
    let Opened { package, .. } = super::package::open(folder)?;
    let out = output_path(folder, out, ".csar")?;
    let mut replaced = BTreeMap::new();
    if let Some(manifest) = package.manifest() {
        let text = package.read(&manifest.path).map_err(local)?;
        let text = String::from_utf8(text).map_err(local)?;
        let without = [
            manifest.path.as_str(),
            package.certificate().unwrap_or_default(),
        ];
        let text = vnfm_descriptor::manifest_with(&package, &text, &BTreeMap::new(), &without)
            .map_err(local)?;
        replaced.insert(manifest.path.clone(), text.into_bytes());
    }
    write_atomically(&out, |file| {
        vnfm_descriptor::repack(&package, &replaced, file).map_err(local)
    })?;
    let Opened { package: built, .. } = super::package::open(&out)?;
    built
        .warnings()
        .iter()
        .for_each(|warning| tell(&warning.to_string()));
    let path = out.display().to_string();
    output.done(
        &format!("built `{path}`"),
        &json!({"path": path, "sha256": built.sha256()}),
    )
}

pub(super) fn sign(output: Output, args: &Sign) -> Outcome<()> {
    let (key, chain) = read_key(&args.key, &args.cert, args.pss)?;
    let seal = Seal {
        key: &key,
        chain: &chain,
        inside: !args.separate_cert,
    };
    let packed = pack(&args.package)?;
    let Opened {
        package,
        local: inner,
    } = super::package::open(packed.path())?;
    let failed = |fault: Fault| local(format!("cannot sign `{}`: {fault}", args.package.display()));
    let out = if args.option == 1 {
        let out = output_path(&args.package, args.out.as_deref(), "-signed.csar")?;
        write_atomically(&out, |file| seal.package(&package, file).map_err(failed))?;
        out
    } else {
        let out = output_path(&args.package, args.out.as_deref(), "-signed.zip")?;
        let (name, inner) = (stem(&args.package), inner.path());
        write_atomically(&out, |file| {
            seal.outer((&name, inner), file).map_err(failed)
        })?;
        out
    };
    let path = out.display().to_string();
    let signer = chain.first().map(Certificate::subject).unwrap_or_default();
    let sentence = format!("signed `{path}` as {signer}, with {}", key.algorithm());
    output.done(
        &sentence,
        &json!({"path": path, "signer": signer, "algorithm": key.algorithm()}),
    )
}

/// A package as an archive.
pub(super) enum Packed {
    /// It was an archive already.
    Archive(PathBuf),
    /// A folder, packed into a temporary file.
    Folder(NamedTempFile),
}

impl Packed {
    pub(super) fn path(&self) -> &Path {
        match self {
            Packed::Archive(path) => path,
            Packed::Folder(file) => file.path(),
        }
    }
}

pub(super) fn pack(package: &Path) -> Outcome<Packed> {
    if !package.is_dir() {
        return Ok(Packed::Archive(package.to_owned()));
    }
    let mut file = NamedTempFile::new().map_err(local)?;
    vnfm_descriptor::pack_to(package, &Limits::default(), file.as_file_mut()).map_err(local)?;
    Ok(Packed::Folder(file))
}

/// The package's name without its extension.
pub(super) fn stem(package: &Path) -> String {
    let path = package
        .canonicalize()
        .unwrap_or_else(|_| package.to_owned());
    let name = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    name.and_then(|name| name.to_str())
        .unwrap_or("package")
        .to_owned()
}

/// The file to write; an existing one is never overwritten.
fn output_path(package: &Path, out: Option<&Path>, suffix: &str) -> Outcome<PathBuf> {
    let out = out.map_or_else(|| PathBuf::from(stem(package) + suffix), Path::to_owned);
    if out.exists() {
        return Err(Failure::Hinted {
            message: format!("`{}` already exists", out.display()),
            hint: "choose another file with --out, or remove this one".to_owned(),
        });
    }
    Ok(out)
}

/// Writes a file completely or not at all.
pub(super) fn write_atomically(
    out: &Path,
    fill: impl FnOnce(&mut File) -> Outcome<()>,
) -> Outcome<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let failed =
        |error: &dyn std::fmt::Display| local(format!("cannot write `{}`: {error}", out.display()));
    let mut file = NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    fill(file.as_file_mut())?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))
        .map_err(|error| failed(&error))?;
    file.persist_noclobber(out)
        .map(drop)
        .map_err(|error| failed(&error))
}

/// Reads the trusted certificates, and the revocation lists.
pub(super) fn read_trust(path: &Path, crl: Option<&Path>) -> Outcome<Trust> {
    let read = |path: &Path| input::file(path).map_err(|error| unreadable(path, &error));
    let lists = crl.map(read).transpose()?;
    Trust::new(&read(path)?, lists.as_deref()).map_err(local)
}

/// Reads a private key, and the chain of certificates that starts with its own.
pub(super) fn read_key(key: &Path, cert: &Path, pss: bool) -> Outcome<(Key, Vec<Certificate>)> {
    let read = |path: &Path| input::file(path).map_err(|error| unreadable(path, &error));
    let invalid = |path: &Path, fault: &Fault| local(format!("`{}`: {fault}", path.display()));
    let padding = if pss { Padding::Pss } else { Padding::Pkcs1 };
    let read_key = Key::read(&read(key)?, padding).map_err(|fault| invalid(key, &fault))?;
    let chain = Certificate::read(&read(cert)?).map_err(|fault| invalid(cert, &fault))?;
    Ok((read_key, chain))
}

pub(super) fn verify(
    output: Output,
    path: &Path,
    trust: Option<&Path>,
    crl: Option<&Path>,
) -> Outcome<()> {
    let trust = trust.map(|path| read_trust(path, crl)).transpose()?;
    let found = Local::at(path, trust.as_ref())?;
    let (files, findings) = open_files(path, found.path())?;
    let inner = (found.outer.is_none() || is_signed(&files))
        .then(|| vnfm_signature::check(&files, trust.as_ref().map(|trust| (trust, now()))));
    let reports: Vec<&Report> = found.outer.iter().chain(&inner).collect();
    let rows: Vec<Value> = reports
        .iter()
        .flat_map(|report| &report.signed)
        .map(row)
        .collect();
    let wrong_hashes = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let wrong_hashes = wrong_hashes.map(ToString::to_string);
    let faults: Vec<String> = reports
        .iter()
        .flat_map(|report| lines(report))
        .chain(wrong_hashes)
        .collect();
    output.list(&rows, SIGNERS)?;
    if faults.is_empty() {
        if trust.is_none() {
            tell(UNCHECKED_SIGNERS);
        }
        return Ok(());
    }
    Err(Failure::Hinted {
        message: format!(
            "the signatures of `{}` are not valid:\n{}",
            path.display(),
            faults.join("\n")
        ),
        hint: "see docs/how-to/sign-a-package.md".to_owned(),
    })
}

/// The files of a package, and what is wrong with them, such as hashes that do not match. Its descriptor is not read.
fn open_files(named: &Path, path: &Path) -> Outcome<(PackageFiles, Vec<Finding>)> {
    PackageFiles::open(path, &Limits::default()).map_err(|findings| Failure::Hinted {
        message: format!(
            "the files of `{}` cannot be read:\n{findings}",
            named.display()
        ),
        hint: format!("see `vnfmctl lint {}`", named.display()),
    })
}

fn lines(report: &Report) -> Vec<String> {
    report
        .faults
        .iter()
        .map(|(file, fault)| format!("{file}: {fault}"))
        .collect()
}

fn row(signed: &vnfm_signature::SignedFile) -> Value {
    signer_row(&signed.file, &signed.signer)
}

/// A row of the table with [`SIGNERS`].
pub(super) fn signer_row(file: &str, signer: &vnfm_signature::Signer) -> Value {
    let certificate = &signer.certificate;
    let until = i64::try_from(certificate.not_after()).ok();
    let until = until.and_then(|until| Timestamp::from_second(until).ok());
    json!({"file": file, "signer": certificate.subject(), "algorithm": signer.algorithm,
        "issuer": certificate.issuer(), "validUntil": until.map(|until| until.to_string())})
}
