//! From the entry file to the typed descriptor.

use crate::archive::Archive;
use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use crate::model::Vnfd;

/// Reads the descriptor that `entry` begins.
pub(crate) fn load(
    archive: &Archive,
    entry: &str,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<Vnfd> {
    let text = crate::package::text(archive, entry, limits, sink)?;
    let _node = crate::yaml::parse(&text, entry, limits, sink)?;
    sink.add(Finding::new(codes::VNF_MISSING, Span::file(entry), "no node template is a VNF"));
    None
}
