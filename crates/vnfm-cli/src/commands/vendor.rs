//! `vnfmctl package init`, `build`, `sign`, `verify`: what a vendor does with a package before anybody gets it.

use crate::args::Sign;
use crate::client::{Failure, Outcome, local};
use crate::output::{Output, tell};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use vnfm_descriptor::{Finding, Limits, Outer, Package, codes};
use vnfm_signature::{Certificate, Fault, Key, Kind, Padding, Report, Seal, Trust};

const META: &str = "TOSCA-Metadata/TOSCA.meta";

/// A package on this machine, out of its outer archive where it lies in one.
pub(super) struct Local {
    path: PathBuf,
    /// What the signature of the outer archive says.
    outer: Option<Report>,
    _file: Option<NamedTempFile>,
}

impl Local {
    /// The package at `path`; `trust` is asked about who signed the outer archive.
    pub(super) fn at(path: &Path, trust: Option<&Trust>) -> Outcome<Self> {
        let Some(outer) = Outer::find(path, &Limits::default()) else {
            return Ok(Self {
                path: path.to_owned(),
                outer: None,
                _file: None,
            });
        };
        let wrong = |error: &dyn std::fmt::Display| {
            local(format!(
                "cannot take the package out of `{}`: {error}",
                path.display()
            ))
        };
        let mut file = NamedTempFile::new().map_err(|error| wrong(&error))?;
        let most = Limits::default().total_bytes;
        let mut out = BufWriter::new(file.as_file_mut());
        let trust = trust.map(|trust| (trust, now()));
        let report = vnfm_signature::check_outer(&outer, (most, &mut out), trust)
            .map_err(|error| wrong(&error))?;
        out.flush().map_err(|error| wrong(&error))?;
        drop(out);
        Ok(Self {
            path: file.path().to_owned(),
            outer: Some(report),
            _file: Some(file),
        })
    }

    /// Where the package itself is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// A package that was opened; the file that it is read from stays as long.
pub(super) struct Opened {
    pub(super) package: Package,
    pub(super) local: Local,
}

/// Seconds since 1970.
fn now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}

/// What lint says of signatures, in place of that nobody verified them.
pub(super) fn linted(package: &Local, findings: &mut Vec<Finding>) {
    let signed = findings
        .iter()
        .any(|finding| finding.code == codes::SIGNATURE);
    let opened = signed
        .then(|| Package::open(package.path(), &Limits::default()).ok())
        .flatten();
    let inner = opened.map(|opened| vnfm_signature::check(&opened, None));
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

pub(super) fn init(output: Output, folder: &Path, entry: Option<&str>) -> Outcome<()> {
    if !folder.is_dir() {
        return Err(local(format!("`{}` is no folder", folder.display())));
    }
    let mut written = Vec::new();
    let meta = folder.join(META);
    if !meta.exists() {
        let entry = entry.map_or_else(|| descriptor(folder), |entry| Ok(entry.to_owned()))?;
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
    let manifest = manifest_of(folder)?;
    let path = folder.join(&manifest);
    let old = fs::read_to_string(&path).ok();
    // Old hashes may be those of files that were edited since.
    write(
        &path,
        &vnfm_descriptor::without_files(old.as_deref().unwrap_or("metadata:\n")),
    )?;
    let renewed = super::package::opened(folder).and_then(|Opened { package, .. }| {
        let fresh = || vnfm_descriptor::new_manifest(package.vnfd(), &released());
        let text = old.clone().unwrap_or_else(fresh);
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

/// The only YAML file at the root or in `Definitions` that has a topology.
fn descriptor(folder: &Path) -> Outcome<String> {
    let mut found = Vec::new();
    for (place, prefix) in [
        (folder.to_owned(), ""),
        (folder.join("Definitions"), "Definitions/"),
    ] {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let yaml = Path::new(&name)
                .extension()
                .is_some_and(|end| end == "yaml" || end == "yml");
            let text = if yaml {
                fs::read_to_string(entry.path()).unwrap_or_default()
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
        what: if found.is_empty() {
            "no YAML file at the root or in Definitions has a topology_template".to_owned()
        } else {
            format!(
                "several files could be the descriptor: {}",
                found.join(", ")
            )
        },
        hint: "name it with --entry, such as --entry Definitions/vnfd.yaml".to_owned(),
    })
}

/// The manifest's path, as `TOSCA.meta` names it, or beside the descriptor.
fn manifest_of(folder: &Path) -> Outcome<String> {
    let text = fs::read_to_string(folder.join(META)).map_err(local)?;
    let of = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(name, _)| name.trim().eq_ignore_ascii_case(key))
            .map(|(_, value)| value.trim())
    };
    let named = of("ETSI-Entry-Manifest").or_else(|| of("Entry-Manifest"));
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let entry = of("Entry-Definitions").unwrap_or("vnfd.yaml");
    let stem = Path::new(entry)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("vnfd");
    Ok(format!("{stem}.mf"))
}

/// Now, to the second, as RFC 3339 has it.
fn released() -> String {
    Timestamp::from_second(Timestamp::now().as_second())
        .unwrap_or_default()
        .to_string()
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    let wrong = |error| local(format!("cannot write `{}`: {error}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    fs::write(path, text).map_err(wrong)
}

pub(super) fn build(output: Output, folder: &Path, out: Option<&Path>) -> Outcome<()> {
    let Opened { package, .. } = super::package::opened(folder)?;
    let out = target(folder, out, ".csar")?;
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
    made(&out, |file| {
        vnfm_descriptor::repack(&package, &replaced, file).map_err(local)
    })?;
    let Opened { package: whole, .. } = super::package::opened(&out)?;
    whole
        .warnings()
        .iter()
        .for_each(|warning| tell(&warning.to_string()));
    let shown = out.display().to_string();
    output.done(
        &format!("built `{shown}`"),
        &json!({"path": shown, "sha256": whole.sha256()}),
    )
}

pub(super) fn sign(output: Output, wanted: &Sign) -> Outcome<()> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| local(format!("cannot read `{}`: {error}", path.display())))
    };
    let named = |path: &Path, fault: &Fault| local(format!("`{}`: {fault}", path.display()));
    let padding = if wanted.pss {
        Padding::Pss
    } else {
        Padding::Pkcs1
    };
    let key =
        Key::read(&read(&wanted.key)?, padding).map_err(|fault| named(&wanted.key, &fault))?;
    let chain =
        Certificate::read(&read(&wanted.cert)?).map_err(|fault| named(&wanted.cert, &fault))?;
    let seal = Seal {
        key: &key,
        chain: &chain,
        inside: !wanted.cert_beside,
    };
    let packed = packed(&wanted.package)?;
    let Opened {
        package,
        local: inner,
    } = super::package::opened(packed.path())?;
    let failed = |fault: Fault| {
        local(format!(
            "cannot sign `{}`: {fault}",
            wanted.package.display()
        ))
    };
    let out = if wanted.option == 1 {
        let out = target(&wanted.package, wanted.out.as_deref(), "-signed.csar")?;
        made(&out, |file| seal.package(&package, file).map_err(failed))?;
        out
    } else {
        let out = target(&wanted.package, wanted.out.as_deref(), "-signed.zip")?;
        let (name, inner) = (stem(&wanted.package), inner.path());
        made(&out, |file| {
            seal.outer((&name, inner), file).map_err(failed)
        })?;
        out
    };
    let shown = out.display().to_string();
    let who = chain.first().map(Certificate::subject).unwrap_or_default();
    let sentence = format!("signed `{shown}` as {who}, by {}", key.algorithm());
    output.done(
        &sentence,
        &json!({"path": shown, "signer": who, "algorithm": key.algorithm()}),
    )
}

/// The archive of a folder, or the archive itself.
enum Packed {
    There(PathBuf),
    Made(NamedTempFile),
}

impl Packed {
    fn path(&self) -> &Path {
        match self {
            Packed::There(path) => path,
            Packed::Made(file) => file.path(),
        }
    }
}

fn packed(package: &Path) -> Outcome<Packed> {
    if !package.is_dir() {
        return Ok(Packed::There(package.to_owned()));
    }
    let mut file = NamedTempFile::new().map_err(local)?;
    vnfm_descriptor::pack_to(package, &Limits::default(), file.as_file_mut()).map_err(local)?;
    Ok(Packed::Made(file))
}

/// The package's name without its ending.
fn stem(package: &Path) -> String {
    let whole = package
        .canonicalize()
        .unwrap_or_else(|_| package.to_owned());
    let name = if whole.is_dir() {
        whole.file_name()
    } else {
        whole.file_stem()
    };
    name.and_then(|name| name.to_str())
        .unwrap_or("package")
        .to_owned()
}

/// Where to write; nothing that is there is overwritten.
fn target(package: &Path, out: Option<&Path>, ending: &str) -> Outcome<PathBuf> {
    let out = out.map_or_else(|| PathBuf::from(stem(package) + ending), Path::to_owned);
    if out.exists() {
        return Err(Failure::Hinted {
            what: format!("`{}` is already there", out.display()),
            hint: "name another file with --out, or remove it".to_owned(),
        });
    }
    Ok(out)
}

/// Writes a file as a whole, or not at all.
fn made(out: &Path, fill: impl FnOnce(&mut File) -> Outcome<()>) -> Outcome<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let wrong =
        |error: &dyn std::fmt::Display| local(format!("cannot write `{}`: {error}", out.display()));
    let mut file = NamedTempFile::new_in(folder).map_err(|error| wrong(&error))?;
    fill(file.as_file_mut())?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))
        .map_err(|error| wrong(&error))?;
    file.persist_noclobber(out)
        .map(drop)
        .map_err(|error| wrong(&error))
}

pub(super) fn verify(
    output: Output,
    path: &Path,
    (trust, crl): (Option<&Path>, Option<&Path>),
) -> Outcome<()> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| local(format!("cannot read `{}`: {error}", path.display())))
    };
    let trust = match trust {
        None => None,
        Some(path) => {
            let lists = crl.map(read).transpose()?;
            Some(Trust::new(&read(path)?, lists.as_deref()).map_err(local)?)
        }
    };
    let found = Local::at(path, trust.as_ref())?;
    let Opened { package, .. } = super::package::opened(found.path())?;
    let signed = package.manifest().is_some_and(|manifest| manifest.signed);
    let inner = (found.outer.is_none() || signed)
        .then(|| vnfm_signature::check(&package, trust.as_ref().map(|trust| (trust, now()))));
    let reports: Vec<&Report> = found.outer.iter().chain(&inner).collect();
    let rows: Vec<Value> = reports
        .iter()
        .flat_map(|report| &report.signed)
        .map(row)
        .collect();
    let faults: Vec<String> = reports.iter().flat_map(|report| lines(report)).collect();
    let columns = [
        ("signed", "/file"),
        ("by", "/signer"),
        ("how", "/algorithm"),
        ("certificate of", "/issuer"),
        ("until", "/validUntil"),
    ];
    output.list(&rows, &columns)?;
    if faults.is_empty() {
        if trust.is_none() {
            tell("nobody was asked whether the signers are trusted; --trust names who is");
        }
        return Ok(());
    }
    Err(Failure::Hinted {
        what: format!(
            "`{}` does not stand:\n{}",
            path.display(),
            faults.join("\n")
        ),
        hint: "docs/how-to/sign-a-package.md tells how packages are signed".to_owned(),
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
    let certificate = &signed.signer.certificate;
    let until = i64::try_from(certificate.not_after()).ok();
    let until = until.and_then(|until| Timestamp::from_second(until).ok());
    json!({"file": signed.file, "signer": certificate.subject(), "algorithm": signed.signer.algorithm,
        "issuer": certificate.issuer(), "validUntil": until.map(|until| until.to_string())})
}
