//! The files of a descriptor and the version of SOL001 that they state: what types and topologies are read from.

use super::asd;
use super::documents::{self, Document, Loaded};
use super::topology::Topology;
use super::types::Types;
use super::unknown_version;
use super::version::{self, Version};
use crate::archive::Archive;
use crate::limits::Limits;
use crate::sink::Sink;
use crate::tosca_meta::Meta;

/// The files of a descriptor.
pub struct Sources {
    /// All files, with the entry first.
    documents: Vec<Document>,
    version: Option<Version>,
}

impl Sources {
    /// Loads the file that `TOSCA.meta` names, and what it imports.
    pub fn load(archive: &Archive, meta: &Meta, limits: &Limits, sink: &mut Sink) -> Option<Self> {
        let Loaded {
            mut documents,
            versions,
        } = documents::load(archive, &meta.entry, limits, sink)?;
        let is_asd = asd::template(documents.first()?).is_some();
        let version = if is_asd {
            None
        } else {
            version::choose(&versions, meta.compatible_versions(), sink)
        };
        unknown_version::extend(&mut documents, version.unwrap_or(Version::NEWEST));
        Some(Self { documents, version })
    }

    /// The files, the entry first.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The version of SOL001 that the files state.
    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    /// Whether the entry is an application service descriptor, which has neither types nor topologies.
    pub fn is_asd(&self) -> bool {
        self.documents.first().and_then(asd::template).is_some()
    }

    /// The built-in types and those of the files.
    pub fn types(&self, sink: &mut Sink) -> Types<'_> {
        Types::collect(&self.documents, self.version, sink)
    }

    /// The topology of each file that has one.
    pub fn topologies<'a>(&'a self, types: &'a Types<'a>, sink: &mut Sink) -> Vec<Topology<'a>> {
        self.documents
            .iter()
            .filter_map(|document| Topology::read(document, types, sink))
            .collect()
    }
}
