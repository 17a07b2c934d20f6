//! The index of a bundle, and the rules that it must satisfy.
//!
//! Paths follow from kind and name: an index that names any other path is refused, so that nothing can be written
//! outside the folder of its kind.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Version of the index's format.
pub(crate) const SCHEMA_VERSION: u64 = 1;
/// Largest number of files of a bundle, those of images included.
const MAX_FILES: usize = 10_000;
/// Longest path in bytes; the header of a tar entry has room for 255, split at a `/`.
const MAX_PATH_BYTES: usize = 200;

/// What an item of a bundle is; the order is that of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An executable file, such as vnfm-server or helm
    Binary,
    /// A MgmtDriver plugin
    Plugin,
    /// A container image, as an OCI image layout
    Image,
    /// A VNF package
    Package,
}

impl Kind {
    /// The kind as users write it, such as `plugin`.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Plugin => "plugin",
            Self::Image => "image",
            Self::Package => "package",
        }
    }

    /// The folder in the bundle that contains items of this kind.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Binary => "binaries",
            Self::Plugin => "plugins",
            Self::Image => "images",
            Self::Package => "packages",
        }
    }
}

/// What a bundle contains, in the order of the files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Index {
    /// [`SCHEMA_VERSION`]; another version is refused.
    pub(crate) schema_version: u64,
    pub(crate) items: Vec<Item>,
}

/// One thing that is installed completely or not at all.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    /// File name of a binary or package without its extension, name of a plugin, folder name of an image.
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Id of the VNFD; packages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vnfd_id: Option<String>,
    /// SHA-256 of the package that the server stores: without the outer archive of its signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) package_sha256: Option<String>,
    pub(crate) files: Vec<BundledFile>,
}

/// A file of a bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BundledFile {
    /// Path in the bundle, such as `plugins/kubernetes-cluster-0.1.0.so`.
    pub(crate) path: String,
    /// Size in bytes.
    pub(crate) size: u64,
    /// In hexadecimal, lowercase.
    pub(crate) sha256: String,
}

impl BundledFile {
    /// The file's name, without folders.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl Item {
    /// Size of all files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// A label for messages, such as "plugin `kubernetes-cluster` 0.1.0".
    pub(crate) fn label(&self) -> String {
        let version = self.version.as_deref().unwrap_or_default();
        let label = format!("{} `{}` {version}", self.kind.noun(), self.name);
        label.trim_end().to_owned()
    }

    /// The file's path below the folder of its image, or below the folder of its kind.
    pub(crate) fn path_in_item<'a>(&self, file: &'a BundledFile) -> Option<&'a str> {
        let path = file.path.strip_prefix(self.kind.folder())?;
        let path = path.strip_prefix('/')?;
        if self.kind == Kind::Image {
            path.strip_prefix(&self.name)?.strip_prefix('/')
        } else {
            Some(path)
        }
    }

    fn violation(&self) -> Option<String> {
        if !is_safe_name(&self.name) {
            return Some(format!(
                "`{}` is not a valid name: use letters, digits and `-_.+`, and begin with a letter or digit",
                self.name
            ));
        }
        if self.files.is_empty() || (self.kind != Kind::Image && self.files.len() > 1) {
            return Some(format!("{} has {} files", self.label(), self.files.len()));
        }
        self.files.iter().find_map(|file| self.file_violation(file))
    }

    fn file_violation(&self, file: &BundledFile) -> Option<String> {
        let inner = self.path_in_item(file);
        let is_plain = inner.is_some_and(|inner| inner.split('/').all(is_safe_name));
        let has_folder = inner.is_some_and(|inner| inner.contains('/'));
        let is_named = self.kind != Kind::Binary || inner == Some(&self.name);
        let is_allowed = is_plain && is_named && (self.kind == Kind::Image || !has_folder);
        if !is_allowed || file.path.len() > MAX_PATH_BYTES {
            return Some(format!(
                "{} must not have a file at the path `{}`",
                self.label(),
                file.path
            ));
        }
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_hash = file.sha256.len() == 64 && file.sha256.bytes().all(is_hex);
        (!is_hash).then(|| format!("the SHA-256 of `{}` is not one", file.path))
    }
}

impl Index {
    /// Why the index is refused, regardless of its signer; `available` is the size of the bundle in bytes.
    pub(crate) fn violation(&self, available: u64) -> Option<String> {
        let files = || self.items.iter().flat_map(|item| &item.files);
        if self.items.is_empty() {
            return Some("it contains nothing".to_owned());
        }
        if files().count() > MAX_FILES {
            let count = files().count();
            return Some(format!(
                "it has {count} files; at most {MAX_FILES} are allowed"
            ));
        }
        if let Some(violation) = self.items.iter().find_map(Item::violation) {
            return Some(violation);
        }
        let mut paths = BTreeSet::new();
        if let Some(file) = files().find(|file| !paths.insert(&file.path)) {
            return Some(format!("two files have the path `{}`", file.path));
        }
        let mut images = BTreeSet::new();
        let mut names = self.items.iter().filter(|item| item.kind == Kind::Image);
        if let Some(item) = names.find(|item| !images.insert(&item.name)) {
            return Some(format!("two images have the name `{}`", item.name));
        }
        let total = files().try_fold(0u64, |sum, file| sum.checked_add(file.size));
        let is_larger = total.is_none_or(|total| total > available);
        is_larger
            .then(|| "its files are larger than the bundle itself; is it truncated?".to_owned())
    }
}

/// Whether the text can be one component of a path: no separator, not hidden, not `..`.
fn is_safe_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed)
}
