//! The files of a package, with the manifest that names them. They can be read, and their signatures verified, even if the
//! descriptor has errors.

use crate::archive::{Archive, ReadError};
#[cfg(feature = "charts")]
use crate::chart::{self, CHART_FILE, Chart, ChartError};
use crate::external::{self, External, LocalCopies};
use crate::file_check::Hashing;
use crate::finding::{Finding, Findings};
use crate::hashes::Algorithm;
#[cfg(feature = "charts")]
use crate::helmignore::IgnoreRules;
use crate::limits::Limits;
#[cfg(feature = "charts")]
use crate::pack::HELMIGNORE;
use crate::sink::Sink;
use crate::tosca_meta::{self, Manifest, Meta};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The files of a package; nothing is reported about its descriptor.
#[derive(Debug)]
pub struct PackageFiles {
    pub(crate) archive: Archive,
    entry: String,
    manifest: Option<Manifest>,
    externals: Vec<External>,
    local_copies: LocalCopies,
    certificate: Option<String>,
    listed: BTreeSet<String>,
    limits: Limits,
}

impl PackageFiles {
    /// Opens a folder, or a `.csar` or `.zip` file; returns the files and what is wrong with them, such as a hash that
    /// does not match. The descriptor is not read: [`Package::open`](crate::Package::open) does that.
    ///
    /// # Errors
    /// The archive or `TOSCA.meta` cannot be read.
    pub fn open(path: &Path, limits: &Limits) -> Result<(Self, Vec<Finding>), Findings> {
        let mut sink = Sink::default();
        let read = Archive::open_files(path, limits, &mut sink).and_then(|archive| {
            let (meta, expected) = tosca_meta::read(&archive, limits.file_bytes, &mut sink)?;
            archive.verify(&expected, limits, &mut sink);
            Some(Self::new(archive, meta, limits))
        });
        let findings = sink.all();
        match read {
            Some(files) => Ok((files, findings)),
            None => Err(Findings::from(findings)),
        }
    }

    pub(crate) fn new(archive: Archive, meta: Meta, limits: &Limits) -> Self {
        Self {
            archive,
            entry: meta.entry,
            manifest: meta.manifest,
            externals: meta.externals,
            local_copies: LocalCopies::new(),
            certificate: meta.certificate,
            listed: meta.listed,
            limits: *limits,
        }
    }

    pub(crate) fn set_externals(&mut self, at: impl Fn(&External) -> PathBuf) {
        let copies = self.externals.iter().map(|one| (one.uri.clone(), at(one)));
        self.local_copies = copies.collect();
    }

    /// Path of the descriptor's main file, `Entry-Definitions`.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The external artifacts that the manifest names.
    pub fn externals(&self) -> &[External] {
        &self.externals
    }

    /// Local path of an external artifact; `None` for a path in the package.
    fn local_copy(&self, path: &str) -> Result<Option<&Path>, ReadError> {
        match self.local_copies.get(path) {
            Some(file) => Ok(Some(file)),
            None if self.archive.has_external(path) => Err(ReadError::NotFetched {
                uri: path.to_owned(),
            }),
            None => Ok(None),
        }
    }

    /// Reads a file; `path` is relative to the package's root, or the URI of an external artifact.
    ///
    /// # Errors
    /// There is no such file, or it is larger than [`Limits::file_bytes`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        if let Some(file) = self.local_copy(path)? {
            let mut bytes = Vec::new();
            external::copy((path, file), self.limits.file_bytes, &mut bytes)?;
            return Ok(bytes);
        }
        self.archive.read(path, self.limits.file_bytes)
    }

    /// Copies a file of any size, such as an image; returns its size in bytes.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read or written.
    pub fn copy(&self, path: &str, to: &mut dyn Write) -> Result<u64, ReadError> {
        if let Some(file) = self.local_copy(path)? {
            return external::copy((path, file), u64::MAX, to);
        }
        self.archive.copy(path, to)
    }

    /// The SHA-256 of a file of any size, in lower-case hexadecimal.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    pub fn sha256_of(&self, path: &str) -> Result<String, ReadError> {
        let mut hashing = Hashing::new(Algorithm::Sha256);
        self.copy(path, &mut hashing)?;
        Ok(hashing.hash())
    }

    /// The size of a file in bytes, as the archive states it; `path` is one of [`Self::paths`] or the
    /// URI of an external artifact.
    ///
    /// # Errors
    /// There is no such file.
    pub fn size(&self, path: &str) -> Result<u64, ReadError> {
        if let Some(file) = self.local_copy(path)? {
            return external::size((path, file));
        }
        self.archive.stated_size(path)
    }

    /// The paths of all files, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.archive.paths()
    }

    /// Whether the package has such a file.
    pub fn has(&self, path: &str) -> bool {
        crate::path::normalise(path).is_ok_and(|normal| self.archive.has(&normal))
    }

    /// Whether the manifest or `TOSCA.meta` names this file or URI, or neither of them names any.
    pub fn is_listed(&self, path: &str) -> bool {
        self.listed.is_empty() || self.listed.contains(path)
    }

    /// Reads the metadata of a Helm chart; `path` is that of a Mciop's artifact or a deployment item.
    ///
    /// # Errors
    /// The file cannot be read, or is not a Helm chart.
    #[cfg(feature = "charts")]
    pub fn chart(&self, path: &str) -> Result<Chart, ReadError> {
        let failed = |error: ChartError| ReadError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        Chart::read(&self.read(path)?, &self.limits).map_err(failed)
    }

    /// A Helm chart as helm packs it: the file at `path`, or the folder without what its `.helmignore` leaves out.
    ///
    /// # Errors
    /// There is no such file, and no such folder with a `Chart.yaml`; the chart is too large; or its `.helmignore` is invalid.
    #[cfg(feature = "charts")]
    pub fn packed_chart(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        if !self.is_chart_folder(path) {
            return self.read(path);
        }
        let rules = self.ignore_rules(path)?;
        let files = self.paths().filter_map(|file| {
            let below = file.strip_prefix(path)?.strip_prefix('/')?;
            let is_kept = !rules.leaves_out(below);
            is_kept.then(|| self.read(file).map(|bytes| (below.to_owned(), bytes)))
        });
        chart::pack(crate::path::base(path), files)
    }

    /// The rules of the `.helmignore` in the folder of a chart.
    #[cfg(feature = "charts")]
    fn ignore_rules(&self, path: &str) -> Result<IgnoreRules, ReadError> {
        let path = format!("{path}/{HELMIGNORE}");
        let text = if self.archive.has(&path) {
            self.read(&path)?
        } else {
            Vec::new()
        };
        IgnoreRules::read(&String::from_utf8_lossy(&text))
            .map_err(|reason| ReadError::Io { path, reason })
    }

    /// Whether a normalised path is a folder with a `Chart.yaml`.
    #[cfg(feature = "charts")]
    pub fn is_chart_folder(&self, path: &str) -> bool {
        self.archive.has(&format!("{path}/{CHART_FILE}"))
    }

    /// The SOL004 manifest, if there is one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Path of the signer's certificate, if it is a separate file.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }
}
