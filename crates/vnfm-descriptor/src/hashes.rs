//! Hashes of files: the algorithms, and the hashes that the manifest, `TOSCA.meta` and the names of image blobs state.

use crate::codes;
use crate::finding::{Finding, Span};
use sha2::digest::DynDigest;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A hash algorithm of manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-224: the hash has 28 bytes.
    Sha224,
    /// SHA-256: the hash has 32 bytes.
    Sha256,
    /// SHA-384: the hash has 48 bytes.
    Sha384,
    /// SHA-512: the hash has 64 bytes.
    Sha512,
}

impl Algorithm {
    /// Finds an algorithm by its name, with or without `-`; case does not matter.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().replace('-', "").as_str() {
            "SHA224" => Some(Algorithm::Sha224),
            "SHA256" => Some(Algorithm::Sha256),
            "SHA384" => Some(Algorithm::Sha384),
            "SHA512" => Some(Algorithm::Sha512),
            _ => None,
        }
    }

    /// The name as SOL004 spells it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sha224 => "SHA-224",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha384 => "SHA-384",
            Algorithm::Sha512 => "SHA-512",
        }
    }

    pub(crate) fn hasher(self) -> Box<dyn DynDigest + Send> {
        match self {
            Algorithm::Sha224 => Box::new(Sha224::new()),
            Algorithm::Sha256 => Box::new(Sha256::new()),
            Algorithm::Sha384 => Box::new(Sha384::new()),
            Algorithm::Sha512 => Box::new(Sha512::new()),
        }
    }
}

/// The hash that a manifest, `TOSCA.meta` or its own name states for a file.
pub(crate) struct Expected {
    pub(crate) algorithm: Algorithm,
    pub(crate) hash: String,
    pub(crate) span: Span,
    pub(crate) stated_by: StatedBy,
}

/// What states a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatedBy {
    Manifest,
    ToscaMeta,
    BlobName,
}

impl StatedBy {
    fn name(self) -> &'static str {
        match self {
            StatedBy::Manifest => "the manifest",
            StatedBy::ToscaMeta => "`TOSCA.meta`",
            StatedBy::BlobName => "its name",
        }
    }

    fn hint(self) -> String {
        match self {
            StatedBy::BlobName => "copy the image into the layout again".to_owned(),
            StatedBy::Manifest | StatedBy::ToscaMeta => {
                let by = self.name();
                format!("the file was changed after {by} was written; update its hash")
            }
        }
    }
}

impl Expected {
    /// Whether `other` states the same hash.
    fn is_same(&self, other: &Expected) -> bool {
        self.algorithm == other.algorithm && self.hash.eq_ignore_ascii_case(&other.hash)
    }

    /// The finding for a file with another hash, if `real` is one.
    pub(crate) fn differs(&self, path: &str, real: &str) -> Option<Finding> {
        if self.hash.eq_ignore_ascii_case(real) {
            return None;
        }
        let by = self.stated_by.name();
        let message = format!("`{path}` does not have the hash that {by} states, but {real}");
        Some(
            Finding::new(codes::MANIFEST_HASH, self.span.clone(), message)
                .hint(self.stated_by.hint()),
        )
    }
}

/// The hashes to verify: those of one pass over all files, and further ones of files that two files state hashes for.
#[derive(Default)]
pub(crate) struct ExpectedHashes {
    pub(crate) by_path: BTreeMap<String, Expected>,
    pub(crate) more: Vec<(String, Expected)>,
}

impl ExpectedHashes {
    pub(crate) fn add(&mut self, path: String, expected: Expected) {
        match self.by_path.entry(path) {
            Entry::Vacant(place) => drop(place.insert(expected)),
            Entry::Occupied(place) if place.get().is_same(&expected) => {}
            Entry::Occupied(place) => self.more.push((place.key().clone(), expected)),
        }
    }
}
