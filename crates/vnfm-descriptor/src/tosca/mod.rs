//! From the entry file to the typed descriptor.
//!
//! ```text
//! sources    the files and their version                                  sources.rs
//! documents  entry + imports, each once; ETSI's types are built in        documents.rs
//! namespaces types of the same name in several files                      namespaces.rs
//! version    the SOL001 version of the package, and its types             version.rs, builtin.rs, tagged.rs
//!            those of a version that is not built in                      unknown_version.rs
//! types      derivation, declared properties, requirements, operations    types.rs, type_check.rs
//! topologies node templates, functions evaluated, filters resolved        topology.rs, functions.rs, filter.rs
//! checks     templates against their types, values against constraints    template.rs, check.rs, constraints.rs
//! model      VNFD ← flavours ← resources, policies, hooks                 vnfd.rs, resources.rs, …
//! workloads  what a flavour of containers deploys without manifests       workloads/
//! ```
//! A file whose node template is an ASD is read by `asd` instead.
//! An import adds types. The topology of an imported file is never merged: one with
//! `substitution_mappings` is a separate deployment flavour.

mod asd;
mod builder;
mod builtin;
mod check;
mod compute;
mod constraints;
mod data;
mod defaults;
mod documents;
mod filter;
mod functions;
mod helm_mapping;
mod hooks;
mod kind;
mod lifecycle;
mod namespaces;
mod other_kinds;
mod policies;
mod resources;
mod scalars;
mod schema;
mod sources;
mod tagged;
mod template;
#[cfg(test)]
mod tests;
mod topology;
mod type_check;
mod types;
pub mod units;
mod unknown_version;
mod version;
mod vnfd;
mod workloads;

pub use documents::{Document, Origin};
pub use kind::Kind;
pub use sources::Sources;
pub use template::VNF;
pub use topology::{Group, Policy, Template, Topology, listed};
pub use types::{Types, operations_in};

use crate::archive::Archive;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::limits::Limits;
use crate::model::{Asd, Vnfd};
use crate::sink::Sink;
use crate::tosca_meta::Meta;

/// Reads the descriptor that `TOSCA.meta` names.
pub(crate) fn load(
    archive: &Archive,
    meta: &Meta,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<(Vnfd, Option<Asd>)> {
    let sources = Sources::load(archive, meta, limits, sink)?;
    let documents = sources.documents();
    let entry = documents.first()?;
    if let Some(finding) = other_kinds::find(documents, meta.manifest.as_ref()) {
        sink.add(finding);
        return None;
    }
    if let Some(template) = asd::template(entry) {
        let (vnfd, asd) = asd::load(entry, template, archive, limits, sink)?;
        return Some((vnfd, Some(asd)));
    }
    let types = sources.types(sink);
    defaults::check(documents, &types, sink);
    let topologies = sources.topologies(&types, sink);
    for topology in &topologies {
        template::check(topology, &types, sink);
    }
    let vnfd = vnfd::build(&topologies, &types, (archive, limits), sink);
    if types.too_many_parts() {
        let message = "the data types nest so deeply that their values have too many parts";
        let finding = Finding::new(codes::TYPE_BOMB, Span::file(&entry.path), message);
        sink.add(
            finding
                .hint("types that contain other types several times, on several levels, multiply"),
        );
    }
    let mut vnfd = vnfd?;
    vnfd.sol001_version = sources.version().map(|version| version.name().to_owned());
    Some((vnfd, None))
}
