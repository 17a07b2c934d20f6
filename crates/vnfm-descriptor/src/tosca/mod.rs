//! From the entry file to the typed descriptor.
//!
//! ```text
//! documents  entry + imports, each once; ETSI's type files are ours       documents.rs
//! namespaces names of types where files have the same                     namespaces.rs
//! version    which SOL001 the package follows, and that version's types   version.rs, builtin.rs
//! types      derivation, declared properties, requirements, operations    types.rs
//! topologies node templates, functions evaluated, filters resolved        topology.rs, functions.rs, filter.rs
//! checks     templates against their types, values against constraints    template.rs, check.rs, constraints.rs
//! model      VNFD ← flavours ← resources, policies, hooks                 vnfd.rs, resources.rs, …
//! rules      what is doubtful all the same, for lint alone                rules/
//! ```
//! A file whose node template is an ASD is read by asd.rs instead.
//! An import brings types. The topology of an imported file is never merged: one that has
//! `substitution_mappings` is a deployment flavour of its own.

mod asd;
mod builtin;
mod check;
mod compute;
mod constraints;
mod data;
mod defaults;
mod documents;
mod filter;
mod functions;
mod hooks;
mod lifecycle;
mod namespaces;
mod policies;
mod resources;
mod rules;
mod scalars;
mod schema;
mod template;
#[cfg(test)]
mod tests;
mod topology;
mod type_check;
mod types;
mod units;
mod version;
mod vnfd;

pub(crate) use rules::rules;

use crate::archive::Archive;
use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use crate::model::{Asd, Vnfd};

/// Reads the descriptor that `entry` begins; `compatible` is what the manifest says about versions.
pub(crate) fn load(
    archive: &Archive,
    entry: &str,
    compatible: Option<&str>,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<(Vnfd, Option<Asd>)> {
    let documents::Loaded { documents, said } = documents::load(archive, entry, limits, sink)?;
    let entry = documents.first()?;
    if let Some(template) = asd::template(entry) {
        let (vnfd, asd) = asd::load(entry, template, archive, limits, sink)?;
        return Some((vnfd, Some(asd)));
    }
    let version = version::choose(&said, compatible, sink);
    let types = types::Types::collect(&documents, version, sink);
    defaults::check(&documents, &types, sink);
    let topologies: Vec<topology::Topology<'_>> = documents
        .iter()
        .filter_map(|document| topology::Topology::read(document, &types, sink))
        .collect();
    for topology in &topologies {
        template::check(topology, &types, sink);
    }
    let vnfd = vnfd::build(&topologies, &types, (archive, limits), sink);
    if types.explode() {
        let message = "the data types describe values that nobody could write down";
        let finding = Finding::new(codes::TYPE_BOMB, Span::file(&entry.path), message);
        sink.add(
            finding.hint("a type that contains others several times, on many levels, multiplies"),
        );
    }
    let mut vnfd = vnfd?;
    vnfd.sol001_version = version.map(|version| version.name().to_owned());
    Some((vnfd, None))
}

/// What the builders of the model share.
struct Builder<'a, 's> {
    types: &'a types::Types<'a>,
    archive: &'a Archive,
    limits: &'a Limits,
    sink: &'s mut Sink,
}
