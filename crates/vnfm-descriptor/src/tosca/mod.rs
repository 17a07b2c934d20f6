//! From the entry file to the typed descriptor.
//!
//! ```text
//! documents  entry + imports, each once; ETSI's type files are ours       documents.rs
//! types      derivation, declared properties, requirements, operations    types.rs
//! topologies node templates with their functions evaluated                topology.rs, functions.rs
//! checks     templates against their types, values against constraints    template.rs, check.rs
//! model      VNFD ← flavours ← resources, policies, hooks                 vnfd.rs, resources.rs, …
//! ```
//! An import brings types. The topology of an imported file is never merged: one that has
//! `substitution_mappings` is a deployment flavour of its own.

mod check;
mod documents;
mod functions;
mod hooks;
mod policies;
mod resources;
mod schema;
mod template;
mod topology;
mod types;
mod units;
mod vnfd;

use crate::archive::Archive;
use crate::finding::Sink;
use crate::limits::Limits;
use crate::model::Vnfd;

/// Reads the descriptor that `entry` begins.
pub(crate) fn load(
    archive: &Archive,
    entry: &str,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<Vnfd> {
    let documents = documents::load(archive, entry, limits, sink)?;
    let types = types::Types::collect(&documents, sink);
    let topologies: Vec<topology::Topology<'_>> =
        documents.iter().filter_map(|document| topology::Topology::read(document, sink)).collect();
    for topology in &topologies {
        template::check(topology, &types, sink);
    }
    vnfd::build(&topologies, &types, archive, sink)
}

/// What the builders of the model share.
struct Builder<'a, 's> {
    types: &'a types::Types<'a>,
    archive: &'a Archive,
    sink: &'s mut Sink,
}
