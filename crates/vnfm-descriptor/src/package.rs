//! A VNF package: its files and its typed descriptor, opened and checked in one go.
//!
//! ```text
//! archive   names, sizes, bytes      (archive.rs)   refused: slips, links, bombs, duplicates
//! meta      TOSCA.meta, manifest     (meta.rs)      refused: wrong hashes
//! tosca     imports, types, VNFD     (tosca/)       refused: what the types do not allow
//! files     order file, Base HOT     (order.rs, hot.rs)
//! ```
//! Each stage reports everything that it sees, and the next one runs as far as it can all the
//! same: all findings come at once ([`examine`]).

use crate::archive::{Algorithm, Archive, ReadError};
use crate::chart::Chart;
use crate::external::{self, External, Kept};
use crate::finding::{Finding, Findings, Sink, Span, codes};
use crate::hot::{BaseHot, HotSource};
use crate::limits::Limits;
use crate::meta::{self, Manifest, Meta};
use crate::model::{Asd, Vnfd};
use crate::order::{self, ORDER_FILE, OrderFile};
use crate::verify::Hashing;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A package that may be used: nothing in it is an error.
#[derive(Debug)]
pub struct Package {
    archive: Archive,
    entry: String,
    vnfd: Vnfd,
    asd: Option<Asd>,
    order: Option<OrderFile>,
    hot: BTreeMap<String, BaseHot>,
    manifest: Option<Manifest>,
    externals: Vec<External>,
    kept: Kept,
    certificate: Option<String>,
    warnings: Vec<Finding>,
    sha256: String,
    limits: Limits,
}

impl Package {
    /// Opens a folder, or a `.csar` or `.zip` file.
    ///
    /// # Errors
    /// Everything that is wrong with the package.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, Findings> {
        Package::open_known(path, None, limits)
    }

    /// The same for an archive whose SHA-256 is known already, in hexadecimal, such as to who wrote the file a moment
    /// ago: its bytes are read once instead of twice. Nobody looks whether the hash is right.
    ///
    /// # Errors
    /// As [`Package::open`].
    pub fn open_hashed(path: &Path, sha256: String, limits: &Limits) -> Result<Self, Findings> {
        Package::open_known(path, Some(sha256), limits)
    }

    fn open_known(path: &Path, sha256: Option<String>, limits: &Limits) -> Result<Self, Findings> {
        let mut sink = Sink::default();
        let archive = Archive::open(path, limits, &mut sink);
        Package::read_archive(archive, sha256, sink, limits)
    }

    /// Opens the bytes of a zip archive.
    ///
    /// # Errors
    /// Everything that is wrong with the package.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>, limits: &Limits) -> Result<Self, Findings> {
        let mut sink = Sink::default();
        let archive = Archive::bytes(bytes.into(), limits, &mut sink);
        Package::read_archive(archive, None, sink, limits)
    }

    /// Path of the VNFD's main file, `Entry-Definitions`.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The descriptor.
    pub fn vnfd(&self) -> &Vnfd {
        &self.vnfd
    }

    /// The application service descriptor, if that is what the package has in place of a VNFD.
    pub fn asd(&self) -> Option<&Asd> {
        self.asd.as_ref()
    }

    /// What the manifest names outside of the package.
    pub fn externals(&self) -> &[External] {
        &self.externals
    }

    /// Tells where each external artifact is kept; from then on it is read by its URI.
    #[must_use]
    pub fn with_externals(mut self, at: impl Fn(&External) -> PathBuf) -> Self {
        self.kept = self
            .externals
            .iter()
            .map(|one| (one.uri.clone(), at(one)))
            .collect();
        self
    }

    /// Where an external artifact is kept; `None` for a path in the package.
    fn kept(&self, path: &str) -> Result<Option<&Path>, ReadError> {
        match self.kept.get(path) {
            Some(file) => Ok(Some(file)),
            None if self.archive.has_external(path) => Err(ReadError::NotFetched {
                uri: path.to_owned(),
            }),
            None => Ok(None),
        }
    }

    /// A file's bytes; the path is relative to the package's root, or the URI of an external artifact.
    ///
    /// # Errors
    /// There is no such file, or it is larger than [`Limits::file_bytes`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        if let Some(file) = self.kept(path)? {
            let mut bytes = Vec::new();
            external::copy((path, file), self.limits.file_bytes, &mut bytes)?;
            return Ok(bytes);
        }
        self.archive.read(path, self.limits.file_bytes)
    }

    /// Copies a file, however large, such as an image.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read or written.
    pub fn copy(&self, path: &str, to: &mut dyn Write) -> Result<u64, ReadError> {
        if let Some(file) = self.kept(path)? {
            return external::copy((path, file), u64::MAX, to);
        }
        self.archive.copy(path, to)
    }

    /// The SHA-256 of a file, however large, in lower-case hexadecimal.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    pub fn sha256_of(&self, path: &str) -> Result<String, ReadError> {
        let mut hashing = Hashing::new(Algorithm::Sha256);
        self.copy(path, &mut hashing)?;
        Ok(hashing.hash())
    }

    /// The size of a file, as the archive states it; the path is one of [`Package::paths`].
    ///
    /// # Errors
    /// There is no such file.
    pub fn size(&self, path: &str) -> Result<u64, ReadError> {
        if let Some(file) = self.kept(path)? {
            return external::size((path, file));
        }
        self.archive.stated_size(path)
    }

    /// The files, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.archive.paths()
    }

    /// Whether the package has such a file.
    pub fn has(&self, path: &str) -> bool {
        crate::path::normalise(path).is_ok_and(|normal| self.archive.has(&normal))
    }

    /// What a Helm chart of the package says of itself; the path is one of a Mciop or a deployment item.
    ///
    /// # Errors
    /// Why the file cannot be read, or is no Helm chart.
    pub fn chart(&self, path: &str) -> Result<Chart, ReadError> {
        let why = |reason: String| ReadError::Io {
            path: path.to_owned(),
            reason,
        };
        crate::chart::read(&self.read(path)?, &self.limits).map_err(why)
    }

    /// The SHA-256 of the archive in hexadecimal; for a folder, of its [`pack`](crate::pack())ed form.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// What somebody should look at.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// The manifest, if there is one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Path of the certificate of the package's signatures, if it lies in a file of its own.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The order file of a CNF, if there is one; for an ASD of manifests, what its deployment items say.
    pub fn order_file(&self) -> Option<&OrderFile> {
        self.order.as_ref()
    }

    /// The Base HOT of a flavour, if the package brings one.
    pub fn base_hot(&self, flavour: &str) -> Option<&BaseHot> {
        self.hot.get(flavour)
    }

    fn read_archive(
        archive: Option<Archive>,
        sha256: Option<String>,
        mut sink: Sink,
        limits: &Limits,
    ) -> Result<Self, Findings> {
        let Some(archive) = archive else {
            return Err(refused(sink));
        };
        let (read, sha256) = match sha256 {
            Some(known) => (examine(&archive, limits, &mut sink), known),
            None => examine_and_hash(&archive, limits, &mut sink),
        };
        let (Some(meta), Some(vnfd)) = (read.meta, read.vnfd) else {
            return Err(refused(sink));
        };
        let warnings = sink.finish()?;
        Ok(Package {
            archive,
            entry: meta.entry,
            vnfd,
            asd: read.asd,
            order: read.order,
            hot: read.hot,
            manifest: meta.manifest,
            externals: meta.externals,
            kept: Kept::new(),
            certificate: meta.certificate,
            warnings,
            sha256,
            limits: *limits,
        })
    }
}

/// Archives from this size on are hashed in a thread of their own, while their files are verified.
const LARGE: u64 = 4 << 20;

/// Examines an archive and tells its hash.
fn examine_and_hash(archive: &Archive, limits: &Limits, sink: &mut Sink) -> (Read, String) {
    let hash = || archive.whole().sha256();
    let large = archive.whole().len().is_ok_and(|length| length >= LARGE);
    let (read, hashed) = std::thread::scope(|scope| {
        let aside = large.then(|| std::thread::Builder::new().spawn_scoped(scope, hash));
        let read = examine(archive, limits, sink);
        let hashed = match aside {
            Some(Ok(aside)) => aside.join().unwrap_or_else(|_| hash()),
            // Small, or the system has no thread for it.
            Some(Err(_)) | None => hash(),
        };
        (read, hashed)
    });
    let unread = |error: std::io::Error| {
        let message = format!("the archive cannot be read to its end: {error}");
        sink.add(Finding::new(codes::IO, None, message));
    };
    (read, hashed.map_err(unread).unwrap_or_default())
}

/// What could be read of a package, whatever is wrong with it.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) meta: Option<Meta>,
    pub(crate) vnfd: Option<Vnfd>,
    pub(crate) asd: Option<Asd>,
    pub(crate) order: Option<OrderFile>,
    pub(crate) hot: BTreeMap<String, BaseHot>,
}

/// Runs every stage as far as it can run: one mistake does not hide the next.
///
/// Where the bytes themselves mean harm or are damaged, nothing of them is used.
pub(crate) fn examine(archive: &Archive, limits: &Limits, sink: &mut Sink) -> Read {
    let (meta, expected) = meta::read(archive, limits.file_bytes, sink).unzip();
    archive.verify(&expected.unwrap_or_default(), limits, sink);
    if sink.has(&[codes::ZIP, codes::ZIP_BOMB]) {
        return Read::default();
    }
    let compatible = meta.as_ref().and_then(compatible);
    let loaded = meta
        .as_ref()
        .and_then(|meta| crate::tosca::load(archive, &meta.entry, compatible, limits, sink));
    let (vnfd, asd) = loaded.unzip();
    let asd = asd.flatten();
    let paths: Vec<String> = archive.paths().map(str::to_owned).collect();
    let order = read_order(archive, &paths, limits, sink)
        .or_else(|| OrderFile::of_asd(asd.as_ref()?, &meta.as_ref()?.entry));
    let source = HotSource {
        text: &|path, sink| text(archive, path, limits, sink),
        paths: &paths,
        limits,
    };
    let hot = vnfd
        .as_ref()
        .map(|vnfd| source.read(vnfd, sink))
        .unwrap_or_default();
    Read {
        meta,
        vnfd,
        asd,
        order,
        hot,
    }
}

/// What the manifest says about versions of the standard.
pub(crate) fn compatible(meta: &Meta) -> Option<&str> {
    let metadata = &meta.manifest.as_ref()?.metadata;
    metadata
        .get("compatible_specification_versions")
        .map(String::as_str)
}

/// A stage that gives nothing has said why.
fn refused(sink: Sink) -> Findings {
    match sink.finish() {
        Err(findings) => findings,
        Ok(warnings) => Findings::from(warnings),
    }
}

fn read_order(
    archive: &Archive,
    paths: &[String],
    limits: &Limits,
    sink: &mut Sink,
) -> Option<OrderFile> {
    if !archive.has(ORDER_FILE) {
        return None;
    }
    let node = crate::yaml::parse(
        &text(archive, ORDER_FILE, limits, sink)?,
        ORDER_FILE,
        limits,
        sink,
    )?;
    Some(order::read(&node, &|path| archive.has(path), paths, sink))
}

/// A YAML file's text.
pub(crate) fn text(
    archive: &Archive,
    path: &str,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<String> {
    let read = archive
        .read(path, limits.yaml_bytes as u64)
        .map_err(|error| error.to_string());
    match read
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned()))
    {
        Ok(text) => Some(text),
        Err(reason) => {
            sink.add(Finding::new(codes::YAML, Span::file(path), reason));
            None
        }
    }
}
