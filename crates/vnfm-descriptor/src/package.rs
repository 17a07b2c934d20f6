//! A VNF package: its files and its typed descriptor, opened and checked in one go.
//!
//! ```text
//! archive   names, sizes, bytes      (archive.rs)   refused: path traversal, links, bombs, duplicates
//! meta      TOSCA.meta, manifest     (tosca_meta.rs) refused: wrong hashes
//! tosca     imports, types, VNFD     (tosca/)       refused: violations of the declared types
//! files     order file, Base HOT     (order.rs, hot.rs)
//! ```
//! Each stage reports everything that it finds, and the next one runs as far as it can, so all
//! findings are reported at once ([`examine`]).

use crate::archive::Archive;
use crate::codes;
use crate::external::External;
use crate::files::PackageFiles;
use crate::finding::{Finding, Findings};
use crate::hot::{BaseHot, HotSource};
use crate::limits::Limits;
use crate::model::{Asd, OciImage, Vnfd};
use crate::oci;
use crate::order::{self, ORDER_FILE, OrderFile};
use crate::package_kind;
use crate::sink::Sink;
use crate::tosca_meta::{self, Meta};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A package that was read without errors.
#[derive(Debug)]
pub struct Package {
    files: PackageFiles,
    vnfd: Vnfd,
    asd: Option<Asd>,
    images: Vec<OciImage>,
    order: Option<OrderFile>,
    hot: BTreeMap<String, BaseHot>,
    warnings: Vec<Finding>,
    sha256: String,
}

/// A package is its files, with a descriptor.
impl Deref for Package {
    type Target = PackageFiles;

    fn deref(&self) -> &PackageFiles {
        &self.files
    }
}

impl Package {
    /// Opens a folder, or a `.csar` or `.zip` file.
    ///
    /// # Errors
    /// All findings, at least one of them an error.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, Findings> {
        Package::open_with_hash(path, None, limits)
    }

    /// Like [`Package::open`], for an archive whose SHA-256 (hexadecimal) the caller already knows, for example because it
    /// has just written the file: saves reading the bytes twice. The hash is not checked.
    ///
    /// # Errors
    /// Those of [`Package::open`], as a list of findings.
    pub fn open_hashed(path: &Path, sha256: String, limits: &Limits) -> Result<Self, Findings> {
        Package::open_with_hash(path, Some(sha256), limits)
    }

    fn open_with_hash(
        path: &Path,
        sha256: Option<String>,
        limits: &Limits,
    ) -> Result<Self, Findings> {
        let mut sink = Sink::default();
        let archive = Archive::open(path, limits, &mut sink);
        Package::read_archive(archive, sha256, sink, limits)
    }

    /// Opens a zip archive in memory.
    ///
    /// # Errors
    /// All findings, at least one of them an error.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>, limits: &Limits) -> Result<Self, Findings> {
        let mut sink = Sink::default();
        let archive = Archive::bytes(bytes.into(), limits, &mut sink);
        Package::read_archive(archive, None, sink, limits)
    }

    /// The VNF descriptor; for an ASD, one derived from it.
    pub fn vnfd(&self) -> &Vnfd {
        &self.vnfd
    }

    /// The application service descriptor, if the package has one instead of a VNFD.
    pub fn asd(&self) -> Option<&Asd> {
        self.asd.as_ref()
    }

    /// Sets the local path of each external artifact, which can then be read by its URI.
    #[must_use]
    pub fn with_externals(mut self, at: impl Fn(&External) -> PathBuf) -> Self {
        self.files.set_externals(at);
        self
    }

    /// The SHA-256 of the archive in hexadecimal; for a folder, of the archive that [`pack`](crate::pack()) creates.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The findings; none of them is an error.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// The container images in the package, each with everything that it consists of.
    pub fn images(&self) -> &[OciImage] {
        self.asd.as_ref().map_or(&self.images, |asd| &asd.images)
    }

    /// The order file of a CNF, if there is one; for an ASD, the manifests among its deployment items.
    pub fn order_file(&self) -> Option<&OrderFile> {
        self.order.as_ref()
    }

    /// The Base HOT of a flavour, if the package has one.
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
        let (parts, sha256) = match sha256 {
            Some(known) => (examine(&archive, limits, &mut sink), known),
            None => examine_and_hash(&archive, limits, &mut sink),
        };
        let (Some(meta), Some(vnfd)) = (parts.meta, parts.vnfd) else {
            return Err(refused(sink));
        };
        let warnings = sink.finish()?;
        Ok(Package {
            files: PackageFiles::new(archive, meta, limits),
            vnfd,
            asd: parts.asd,
            images: parts.images,
            order: parts.order,
            hot: parts.hot,
            warnings,
            sha256,
        })
    }
}

/// Archives of at least this size (bytes) are hashed in a separate thread while their files are verified.
const PARALLEL_HASH_MIN: u64 = 4 << 20;

/// Examines an archive and computes its SHA-256.
fn examine_and_hash(archive: &Archive, limits: &Limits, sink: &mut Sink) -> (Parts, String) {
    let hash = || archive.raw().sha256();
    let large = archive
        .raw()
        .len()
        .is_ok_and(|length| length >= PARALLEL_HASH_MIN);
    let (parts, hashed) = std::thread::scope(|scope| {
        let hasher = large.then(|| std::thread::Builder::new().spawn_scoped(scope, hash));
        let parts = examine(archive, limits, sink);
        let hashed = match hasher {
            Some(Ok(hasher)) => hasher.join().unwrap_or_else(|_| hash()),
            // The archive is small, or no thread could be started.
            Some(Err(_)) | None => hash(),
        };
        (parts, hashed)
    });
    let unreadable = |error: std::io::Error| {
        let message = format!("the archive cannot be read completely: {error}");
        sink.add(Finding::new(codes::IO, None, message));
    };
    (parts, hashed.map_err(unreadable).unwrap_or_default())
}

/// The parts of a package that could be read, despite errors in it.
#[derive(Default)]
pub struct Parts {
    /// The package's own files: `TOSCA.meta` and manifest.
    pub meta: Option<Meta>,
    /// The descriptor; for an ASD, one derived from it.
    pub vnfd: Option<Vnfd>,
    /// The application service descriptor, if the package has one instead of a VNFD.
    pub asd: Option<Asd>,
    /// The order file of a CNF.
    pub order: Option<OrderFile>,
    /// Container images of a package without an ASD.
    pub(crate) images: Vec<OciImage>,
    pub(crate) hot: BTreeMap<String, BaseHot>,
}

impl Parts {
    /// The paths of all top-level Heat templates.
    pub fn templates(&self) -> impl Iterator<Item = &str> {
        self.hot.values().map(|hot| hot.template.as_str())
    }

    /// Whether a flavour has a Base HOT.
    pub fn has_base_hot(&self, flavour: &str) -> bool {
        self.hot.contains_key(flavour)
    }
}

/// Runs every stage as far as possible, so that one error does not hide the next.
///
/// If the archive itself is hostile or damaged, nothing of it is used.
pub fn examine(archive: &Archive, limits: &Limits, sink: &mut Sink) -> Parts {
    if let Some(finding) = package_kind::of_archive(archive, limits) {
        sink.add(finding);
        return Parts::default();
    }
    let (meta, expected) = tosca_meta::read(archive, limits.file_bytes, sink).unzip();
    archive.verify(&expected.unwrap_or_default(), limits, sink);
    if sink.has(&[codes::ZIP, codes::ZIP_BOMB]) {
        return Parts::default();
    }
    let loaded = meta
        .as_ref()
        .and_then(|meta| crate::tosca::load(archive, meta, limits, sink));
    if sink.has(&[codes::PACKAGE_KIND]) {
        return Parts::default();
    }
    let (vnfd, asd) = loaded.unzip();
    let asd = asd.flatten();
    let images = match asd {
        None => oci::images(archive, limits, sink),
        Some(_) => Vec::new(),
    };
    let paths: Vec<String> = archive.paths().map(str::to_owned).collect();
    let order = read_order(archive, &paths, limits, sink)
        .or_else(|| OrderFile::from_asd(asd.as_ref()?, &meta.as_ref()?.entry));
    let source = HotSource {
        text: &|path, sink| archive.text(path, limits, sink),
        paths: &paths,
        limits,
    };
    let hot = vnfd
        .as_ref()
        .map(|vnfd| source.read(vnfd, sink))
        .unwrap_or_default();
    Parts {
        meta,
        vnfd,
        asd,
        order,
        images,
        hot,
    }
}

/// The findings of a stage without a result; at least one of them says why.
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
        &archive.text(ORDER_FILE, limits, sink)?,
        ORDER_FILE,
        limits,
        sink,
    )?;
    Some(order::read(&node, &|path| archive.has(path), paths, sink))
}
